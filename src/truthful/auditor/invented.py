"""Settlements of invented reports: what the attacks on whole settlements have in common.

A settlement is made in a place of its own, with a ledger of its own, so that nothing of the study is touched. It is
overheard: its draw lies in its unfinished directory while it pays. And its statistics are added up a second time, by
the group key in that draw, from the reports as they should have been used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from truthful.auditor.product import Halves, Product
from truthful.files import sha256
from truthful.groups import groups_of, player_hashes
from truthful.plan import Plan
from truthful.settlement.draw import Draw, read_draw
from truthful.settlement.once import open_target
from truthful.study import Study
from truthful.study.designs import sample_uniform

# Of fewer players a random half may be empty, which a settlement refuses; more of them show nothing new.
PLAYERS = 64
ABSURD = 1e9  # a report, or a feature, that only clipping keeps harmless
LONGEST = 1 + 1e-9  # vectors up to here are in the ball but for rounding


class Interrupted(Exception):
    """Stands for a crash in the middle of the payments."""


def invented_reports(plan: Plan, seed: int) -> Any:
    """Reports within the declared ranges."""
    rng, study = np.random.default_rng(seed), plan.study
    names = [f"p-{i}" for i in range(PLAYERS)]
    answers = rng.uniform(study.response.low, study.response.high, PLAYERS)
    return pa.table({"player": names, **_features(study, rng, PLAYERS), study.response.name: answers})


def with_absurd_ones(study: Study, reports: Any) -> Any:
    """The reports, but the first two players shout: numbers of 1e9, one of them downward."""
    shouted = {name: np.array(reports[name].to_pylist()) for name in reports.column_names}
    numbers = [feature.name for feature in study.features if feature.levels is None]
    for name in (*numbers, study.response.name):
        shouted[name][:2] = 0.0
    for name in (*numbers[:1], study.response.name):
        shouted[name][:2] = ABSURD, -ABSURD
    return pa.table(shouted)


def exact_halves(product: Product, study: Study, reports: Any, key: bytes) -> Halves:
    """The exact statistics of the two halves that a group key makes, numbers being moved into their ranges."""
    values = in_range(study, reports)
    response = values.pop(study.response.name)
    X = study.normalise(values, len(response))
    y = study.normalise_response(response, X)
    groups = groups_of(player_hashes(reports["player"], key))
    one, other = (product.statistics(X[groups == g], y[groups == g], study.beliefs) for g in (0, 1))
    return one, other


def in_range(study: Study, reports: Any) -> dict[str, Any]:
    """Features and responses as a settlement is to use them: every number moved to the nearest end of its range."""
    ranges = {feature.name: (feature.low, feature.high) for feature in study.features}
    ranges[study.response.name] = study.response.low, study.response.high
    values = {name: np.array(reports[name].to_pylist()) for name in ranges}
    for name, (low, high) in ranges.items():
        if low is not None:
            values[name] = np.clip(values[name], low, high)
    ball = [feature.name for feature in study.features if feature.low is None and feature.levels is None]
    lengths = np.linalg.norm([values[name] for name in ball], axis=0)
    return values | {name: np.where(lengths > LONGEST, values[name] / lengths, values[name]) for name in ball}


def statistics_digest(halves: Halves) -> str:
    """The name by which a draw knows the statistics that it was made for."""
    return sha256([half.digest() for half in halves])


def interrupted(
    product: Product, plan: Plan, reports: Any, out: Path, seed: int | None = None, on_bad: str = "error"
) -> Draw:
    """The draw that a settlement leaves when it is interrupted while it pays."""

    def interrupt(stage: str, done: int, rows: int | None) -> None:
        if stage == "payments":
            raise Interrupted

    with suppress(Interrupted):
        product.settle(plan, reports, out=out, on_bad=on_bad, seed=seed, progress=interrupt)
    draw = read_draw(open_target(out).unfinished)
    assert draw is not None, "an interrupted settlement keeps its draw"
    return draw


@contextmanager
def place(plan: Plan) -> Iterator[tuple[Plan, Path]]:
    """A place of its own for a settlement and its ledger, so that the study's own ledger is left alone."""
    with TemporaryDirectory() as directory:
        study = plan.study.at(Path(directory) / "study.toml")
        mechanism = plan.mechanism
        if mechanism.payments == "expected":  # which no real settlement accepts; its noise is the same
            least = mechanism.score_weight * mechanism.scoring.loss(study.beliefs.radius)
            mechanism = replace(mechanism, payments="never-negative", base_payment=least)
        players = max(plan.players, PLAYERS)
        yield replace(plan, study=study, players=players, mechanism=mechanism), Path(directory) / "out"


def _features(study: Study, rng: np.random.Generator, n: int) -> dict[str, Any]:
    if study.declared.design.kind == "unit-ball":
        return study.sample_features(rng, n)
    return sample_uniform(rng, n, study.declared.encoding.features)
