"""The fifth attack, on the wiring: whole settlements of invented reports, interrupted, resumed and repeated.

A settlement that is interrupted after its draw must be finished with that draw: a second one would spend twice the
privacy. And noise must come from the operating system: whoever can repeat it can subtract it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from truthful.auditor.product import Product, public_queries
from truthful.auditor.record import Finding
from truthful.plan import Plan
from truthful.settlement.draw import Draw, read_draw
from truthful.settlement.once import open_target
from truthful.study import Study
from truthful.study.designs import sample_uniform

# Of fewer players a random half may be empty, which a settlement refuses; more of them show nothing new.
FEWEST_PLAYERS, MOST_PLAYERS = 64, 2_000


class Interrupted(Exception):
    """Stands for a crash in the middle of the payments."""


def restart_finding(product: Product, plan: Plan, seed: int) -> Finding:
    """Whether a settlement that is interrupted twice releases what it first drew."""
    reports = _reports(plan, seed)
    with _place(plan) as (there, out):
        drawn = [_interrupted(product, there, reports, out) for _ in range(2)]
        settlement = product.settle(there, reports, out=out, seed=None, progress=None)
    first = drawn[0]
    mechanism, beliefs = there.mechanism, there.study.beliefs
    estimator = mechanism.public_estimator(beliefs)
    queries = public_queries(product, mechanism, beliefs)
    theta = estimator.estimate(
        first.answers[:queries], settlement.release.players, mechanism.epsilon_public
    ).theta
    same = drawn[1] == first and settlement.release.theta == tuple(theta.tolist())
    return Finding(
        name="restart",
        claim="a settlement that is interrupted and resumed releases the same draw, bit for bit",
        found="the same draw after two interruptions" if same else "another draw after an interruption",
        confidence="certain, for these two",
        passed=same,
    )


def randomness_finding(product: Product, plan: Plan, seed: int) -> Finding:
    """Whether two settlements that start from the same state of every generator in this process differ."""
    reports = _reports(plan, seed)
    real = [_fresh(product, plan, reports, None) for _ in range(2)]
    rehearsed = [_fresh(product, plan, reports, seed) for _ in range(2)]
    faults = [
        *(["noise that a restarted program repeats"] if _repeated(*real) else []),
        *(
            ["a rehearsal that its seed does not repeat"]
            if rehearsed[0].answers != rehearsed[1].answers
            else []
        ),
        *(["a real draw marked as a rehearsal"] if any(draw.seed is not None for draw in real) else []),
        *(["a rehearsal not marked as one"] if any(draw.seed != seed for draw in rehearsed) else []),
    ]
    return Finding(
        name="randomness",
        claim="noise and halves come from the operating system; only a rehearsal repeats itself",
        found=", ".join(faults) or "two real draws differ, two rehearsals agree and are marked",
        confidence="certain, for these four",
        passed=not faults,
    )


def _repeated(one: Draw, other: Draw) -> bool:
    """Whether any part of two draws is the same; by chance that has a probability below 1e-5 at the smallest scale."""
    return one.key == other.key or any(a == b for a, b in zip(one.answers, other.answers, strict=True))


def _fresh(product: Product, plan: Plan, reports: Any, seed: int | None) -> Draw:
    """The draw of a first settlement, every generator of this process being as it always is."""
    state, numpy_state = random.getstate(), np.random.get_state()
    random.seed(0)
    np.random.seed(0)
    try:
        with _place(plan) as (there, out):
            return _interrupted(product, there, reports, out, seed)
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)


def _interrupted(product: Product, plan: Plan, reports: Any, out: Path, seed: int | None = None) -> Draw:
    """The draw that a settlement leaves when it is interrupted while it pays."""

    def interrupt(stage: str, done: int, rows: int | None) -> None:
        if stage == "payments":
            raise Interrupted

    with suppress(Interrupted):
        product.settle(plan, reports, out=out, seed=seed, progress=interrupt)
    draw = read_draw(open_target(out).unfinished)
    assert draw is not None, "an interrupted settlement keeps its draw"
    return draw


@contextmanager
def _place(plan: Plan) -> Iterator[tuple[Plan, Path]]:
    """A place of its own for a settlement and its ledger, so that the study's own ledger is left alone."""
    with TemporaryDirectory() as directory:
        study = plan.study.at(Path(directory) / "study.toml")
        mechanism = plan.mechanism
        if mechanism.payments == "expected":  # which no real settlement accepts; its noise is the same
            least = mechanism.score_weight * mechanism.scoring.loss(study.beliefs.radius)
            mechanism = replace(mechanism, payments="never-negative", base_payment=least)
        players = max(plan.players, FEWEST_PLAYERS)
        yield replace(plan, study=study, players=players, mechanism=mechanism), Path(directory) / "out"


def _reports(plan: Plan, seed: int) -> Any:
    """Invented reports within the declared ranges."""
    rng, study = np.random.default_rng(seed), plan.study
    n = min(max(plan.players, FEWEST_PLAYERS), MOST_PLAYERS)
    names = [f"p-{i}" for i in range(n)]
    answers = rng.uniform(study.response.low, study.response.high, n)
    return pa.table({"player": names, **_features(study, rng, n), study.response.name: answers})


def _features(study: Study, rng: np.random.Generator, n: int) -> dict[str, Any]:
    if study.declared.design.kind == "unit-ball":
        return study.sample_features(rng, n)
    return sample_uniform(rng, n, study.declared.encoding.features)
