"""Settlements of invented reports: what the attacks on whole settlements have in common.

A settlement is made in a place of its own, with a ledger and a key of its own, so that nothing of the study is
touched. It is overheard: what it drew, and from which statistics. These are added up a second time, from the reports as
they should have been used. And what was drawn can be replaced: then all that is released is known, and whatever else
changes came from somewhere else.
"""

from __future__ import annotations

import io
import pickle
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from truthful.asked_release import AskedRelease
from truthful.auditor.attack_surface import Product
from truthful.check import Floats
from truthful.errors import TruthfulError
from truthful.files import RECEIPTS
from truthful.geometry import Geometry
from truthful.guarantees import Guarantees
from truthful.moments import PRODUCT, Sums
from truthful.one_release import OneRelease
from truthful.plan import Plan
from truthful.release import Receipt, Release, find_receipt
from truthful.settlement import settlement
from truthful.settlement.atomic_release import open_target
from truthful.settlement.draw import Draw
from truthful.settlement.passes import Statistics
from truthful.study import Study
from truthful.study.declaration import PREDICTION
from truthful.study.features import Levels, draw_columns

# More show nothing new; of fewer, some would be too much of what is known of people like them.
FEWEST_PLAYERS, PLAYERS_A_LEVEL, PLAYERS_A_COLUMN = 64, 14, 10
ABSURD = 1e9  # a report, or a feature, that only clipping keeps harmless
LONGEST = 1 + 1e-9  # vectors up to here are in the ball but for rounding
PLANTED = "0" * 32
PUBLIC_FILES = ("release.json", "report.html")

Answers = tuple[tuple[int, ...], ...]


class Interrupted(Exception):
    """Stands for a crash in the middle of the payments."""


def invented_reports(plan: Plan, seed: int) -> Any:
    """Reports within the declared ranges; every level is as common as any other."""
    rng, study = np.random.default_rng(seed), plan.study
    n = players(study)
    names = [f"p-{i}" for i in range(n)]
    if study.declared.design.kind == "unit-ball":
        columns = study.sample_features(rng, n)
    else:
        columns = draw_columns(rng, n, study.declared.encoding.features)
    for feature in study.declared.encoding.features:
        if isinstance(feature, Levels):
            columns[feature.name] = np.array(feature.levels)[rng.permutation(n) % len(feature.levels)]
    low, high = study.response.low, study.response.high
    answers = rng.uniform(low, high, n)
    if study.shares is not None:
        answers = rng.permutation(np.resize(np.linspace(low, high, study.shares.levels), n))
    asked = {} if study.levels is None else {PREDICTION: rng.uniform(*study.prediction_range, n)}
    return pa.table({"player": names, **columns, study.response.name: answers, **asked})


def players(study: Study) -> int:
    """How many are invented: enough for what is checked of features before a draw."""
    levels = [len(feature.levels) for feature in study.features if feature.levels is not None]
    return max(FEWEST_PLAYERS, PLAYERS_A_LEVEL * max(levels, default=0), PLAYERS_A_COLUMN * study.dimension)


def on_bad_for(study: Study) -> str:
    """What settlements do with numbers out of range: move them, unless answers are such that nothing lies between."""
    return "clip" if study.shares is None else "error"


def absurd_reports(plan: Plan, seed: int) -> Any:
    """Invented reports of which the first two shout, unless nothing is moved into its range: then all are good ones."""
    reports = invented_reports(plan, seed)
    return shout(plan.study, reports) if on_bad_for(plan.study) == "clip" else reports


def shout(study: Study, reports: Any) -> Any:
    """The reports with numbers of 1e9 of the first player, and as much downward of the second."""
    shouted = {name: np.array(reports[name].to_pylist()) for name in reports.column_names}
    numbers = [feature.name for feature in study.features if feature.levels is None]
    said = (study.response.name, *asked_for(study))
    for name in (*numbers, *said):
        shouted[name][:2] = 0.0
    for name in (*numbers[:1], *said):
        shouted[name][:2] = ABSURD, -ABSURD
    return pa.table(shouted)


def asked_for(study: Study) -> tuple[str, ...]:
    """The column of predictions, where people are asked for them."""
    return () if study.levels is None else (PREDICTION,)


def with_answers(
    study: Study, reports: Any, answers: float | Floats, players: int | slice = slice(None)
) -> Any:
    """The same people with other answers, all or one of them, and predictions at the same places of their range."""
    low, high = study.response.low, study.response.high
    columns, values = {study.response.name: answers}, in_range(study, reports)
    for name in asked_for(study):
        least, most = study.prediction_range
        columns[name] = least + (most - least) * (answers - low) / (high - low)
    for name, said in columns.items():
        values[name][players] = said
        reports = reports.set_column(reports.column_names.index(name), name, pa.array(values[name]))
    return reports


def in_range(study: Study, reports: Any) -> dict[str, Any]:
    """Features and responses as a settlement is to use them: every number moved to the nearest end of its range."""
    ranges = {feature.name: (feature.low, feature.high) for feature in study.features}
    ranges[study.response.name] = study.response.low, study.response.high
    ranges |= dict.fromkeys(asked_for(study), study.prediction_range)
    values = {name: np.array(reports[name].to_pylist()) for name in ranges}
    for name, (low, high) in ranges.items():
        if low is not None:
            values[name] = np.clip(values[name], low, high)
    ball = [feature.name for feature in study.features if feature.low is None and feature.levels is None]
    lengths = np.linalg.norm([values[name] for name in ball], axis=0)
    return values | {name: np.where(lengths > LONGEST, values[name] / lengths, values[name]) for name in ball}


def normalise_reports(study: Study, reports: Any) -> tuple[Floats, Floats]:
    """X and y of the reports as they are to be used, y with predictions where people are asked for them."""
    values = in_range(study, reports)
    response = values.pop(study.response.name)
    predictions = [study.normalise_predictions(values.pop(name)) for name in asked_for(study)]
    X = study.normalise(values, len(response))
    y = study.normalise_response(response, X)
    return X, np.stack([y, *predictions], axis=1) if predictions else y


def exact_sums(product: Product, plan: Plan, reports: Any) -> Sums:
    """The exact statistics of the reports as they are to be used."""
    return product.statistics(*normalise_reports(plan.study, reports), plan.mechanism, plan.study.believed)


def plant_answers(product: Product, plan: Plan, reports: Any, player: int | None = None) -> Answers:
    """A release as if θ were (c/2)(1, …, 1)/√d and there were no noise, and the matrix as clear as it could be.

    So what others predict of anybody is not clipped. Of shares, as if everybody's were the one in the middle. With a
    player: the noise is such that the *others* say so, whatever she reports; only her own report is added to it.
    """
    mechanism, beliefs, d = plan.mechanism, plan.study.believed, plan.study.dimension
    sums = exact_sums(product, plan, reports)
    if isinstance(mechanism, OneRelease):
        theta = np.full(d, mechanism.clip / 2 / np.sqrt(d))
    else:
        theta = np.zeros(d)
        theta[0] = _middle(plan.study) * plan.study.declared.encoding.scale
    answers: list[tuple[int, ...]] = []
    match mechanism.estimator:
        case "instruments":
            matrix = (sums.matrix / PRODUCT).astype(np.float64)
        case "known-design":
            matrix = sums.count * np.asarray(mechanism.design)
        case _:
            matrix = 4 * mechanism.floor(d) * np.eye(d)
            answers.append(tuple(round(matrix[i, j] * PRODUCT) for i in range(d) for j in range(i, d)))
    vector = np.array([round(k * PRODUCT) for k in (matrix @ theta).tolist()], dtype=object)
    released = [int(k) for k in vector]
    if isinstance(mechanism, AskedRelease):
        released.append(
            round(theta[0] / plan.study.declared.encoding.scale * sums.count * PRODUCT * mechanism.ratio)
        )
    if player is not None:
        X, y = normalise_reports(plan.study, reports)
        own = product.statistics(X[[player]], y[[player]], mechanism, beliefs)
        released = [
            k + int(hers) for k, hers in zip(released, mechanism.queries(own, beliefs)[-1].value, strict=True)
        ]
    return *answers, tuple(released)


def _middle(study: Study) -> float:
    """The middle of the averages that are thought possible, from −1 to 1."""
    if study.levels is not None:
        return (study.levels.low + study.levels.high) / 2
    assert study.shares is not None
    return study.shares.low + study.shares.high - 1


@dataclass(frozen=True, eq=False)
class TrialSettlement:
    """All that a settlement leaves for others to see, what it said meanwhile, and the draw that it was made from."""

    release: Release
    receipts: dict[str, Receipt]
    files: tuple[bytes, ...]
    said: tuple[object, ...]
    draw: Draw


def settle_trial(
    product: Product, plan: Plan, reports: Any, answers: Answers | None = None, accept_less: bool = True
) -> TrialSettlement:
    """A whole settlement, of its own draw or of these answers."""
    said = list[object]()
    with place(plan) as (there, out):

        def listen(stage: str, done: int, rows: int | None) -> None:
            said.append((stage, done, rows))

        with overheard(answers) as draws, _listen(said):
            settled = product.settle(
                there,
                reports,
                out=out,
                on_bad=on_bad_for(plan.study),
                accept_less=accept_less,
                progress=listen,
            )
        receipts = map(settled.receipt, reports["player"].to_pylist())
        kept = {receipt.player: receipt for receipt in receipts if isinstance(receipt, Receipt)}
        files = tuple((out / name).read_bytes() for name in PUBLIC_FILES)
    ((draw, _),) = draws
    return TrialSettlement(settled.release, kept, files, tuple(said), draw)


def outcome(
    product: Product, plan: Plan, reports: Any, answers: Answers, accept_less: bool
) -> tuple[object, ...]:
    """What everybody can see of a settlement with these answers: its files and what it said, or how it was refused."""
    try:
        found = settle_trial(product, plan, reports, answers, accept_less)
    except TruthfulError as refusal:
        return type(refusal), str(refusal)
    return found.files, found.said


def read_predictions(
    product: Product, plan: Plan, reports: Any, answers: Answers, player: str
) -> list[float]:
    """What others predict of a player by her receipt when everybody is paid and, where they are asked for predictions,
    their mean prediction, their mean answer and their surprise."""
    with place(plan) as (there, out):
        kept = out.with_name(RECEIPTS)

        def interrupt(stage: str, done: int, rows: int | None) -> None:
            if stage == "payments" and done == rows:
                # A settlement that is stopped closes its books and removes them.
                kept.hardlink_to(open_target(out).unfinished / RECEIPTS)
                raise Interrupted

        with suppress(Interrupted), overheard(answers):
            product.settle(there, reports, out=out, on_bad=on_bad_for(plan.study), progress=interrupt)
        receipts = pa.parquet.read_table(kept)
    receipt = find_receipt(receipts, player)
    assert isinstance(receipt, Receipt)
    told = (receipt.peer_prediction, receipt.others_prediction, receipt.others_answer, receipt.surprise)
    return [number for number in told if number is not None]


def interrupt_settlement(
    product: Product, plan: Plan, reports: Any, out: Path, seed: int | None = None, on_bad: str = "error"
) -> tuple[Draw, str]:
    """The draw of a settlement that is interrupted while it pays, and the hash of the statistics it was made from."""

    def interrupt(stage: str, done: int, rows: int | None) -> None:
        if stage == "payments":
            raise Interrupted

    with suppress(Interrupted), overheard() as draws:
        product.settle(plan, reports, out=out, on_bad=on_bad, seed=seed, progress=interrupt)
    (drawn,) = draws
    return drawn


@contextmanager
def overheard(planted: Answers | None = None) -> Iterator[list[tuple[Draw, str]]]:
    """What settlements draw meanwhile, and the hash of the statistics; these answers are put in the place of theirs.

    A planted draw has a name of its own: nothing that is drawn besides noise differs either.
    """
    heard, real = list[tuple[Draw, str]](), settlement._draw

    def draw(plan: Plan, mechanism: Any, statistics: Statistics, *others: Any) -> Draw:
        drawn = real(plan, mechanism, statistics, *others)
        if planted is not None:
            drawn = Draw(PLANTED, PLANTED, planted)
        heard.append((drawn, statistics.sums.digest()))
        return drawn

    vars(settlement)["_draw"] = draw
    try:
        yield heard
    finally:
        vars(settlement)["_draw"] = real


@contextmanager
def place(plan: Plan) -> Iterator[tuple[Plan, Path]]:
    """A place of its own for a settlement and its ledger, so that the study's own ledger is left alone.

    There it may have as many players as are invented, and no cap: a cap is promised for those of the plan.
    """
    with TemporaryDirectory() as directory:
        file = Path(directory) / "study.toml"
        file.touch()  # beside which the ledger is kept
        study = plan.study.at(file)
        # A real settlement does not accept payments that may be negative; its noise is the same.
        mechanism = plan.mechanism
        if isinstance(mechanism, OneRelease):
            mechanism = replace(mechanism, payments="never-negative")
        promised = plan.guarantees
        stated = replace(promised, budget=replace(promised.budget, cap=None))
        count = max(plan.players, players(study))
        there = replace(plan, study=study, players=count, mechanism=mechanism, stated=stated)

        def guarantees_for(players: int, geometry: Geometry | None = None) -> Guarantees:
            return _guarantees(plan, players, pickle.dumps(geometry))

        # What can be guaranteed for the same people is worked out once.
        object.__setattr__(there, "guarantees_for", guarantees_for)
        yield there, Path(directory) / "out"


@lru_cache(maxsize=64)
def _guarantees(plan: Plan, players: int, geometry: bytes) -> Guarantees:
    return plan.guarantees_for(players, pickle.loads(geometry))


@contextmanager
def _listen(said: list[object]) -> Iterator[None]:
    """Notes all that is printed and every warning."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield
    said += [printed.getvalue(), *(str(warning.message) for warning in warned)]
