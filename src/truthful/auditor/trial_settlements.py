"""Settlements of invented reports: the common part of the attacks on whole settlements.

A settlement runs in a directory of its own, with its own ledger and key, so that nothing of the study is touched. Its
draw and the statistics behind it are recorded. The statistics are computed a second time, from the reports as they
should have been used. A draw can also be planted: then all that is released is known, and any other change must come
from somewhere else.
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

# More people show nothing new; among fewer, some would have too much weight in the predictions for people like them.
FEWEST_PLAYERS, PLAYERS_A_LEVEL, PLAYERS_A_COLUMN = 64, 14, 10
ABSURD = 1e9  # a report, or a feature, that only clipping keeps harmless
LONGEST = 1 + 1e-9  # vectors up to here are in the ball but for rounding
PLANTED = "0" * 32
PUBLIC_FILES = ("release.json", "report.html")

Answers = tuple[tuple[int, ...], ...]


class Interrupted(Exception):
    """Stands for a crash in the middle of the payments."""


def invented_reports(plan: Plan, seed: int) -> Any:
    """Reports within the declared ranges; all levels are equally common."""
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
    """The number of people to invent: enough for the checks of features before a draw."""
    levels = [len(feature.levels) for feature in study.features if feature.levels is not None]
    return max(FEWEST_PLAYERS, PLAYERS_A_LEVEL * max(levels, default=0), PLAYERS_A_COLUMN * study.dimension)


def on_bad_for(study: Study) -> str:
    """The treatment of numbers out of range: clipped, unless nothing lies between two answers."""
    return "clip" if study.shares is None else "error"


def absurd_reports(plan: Plan, seed: int) -> Any:
    """Invented reports, the first two absurd; all are good where nothing can be clipped."""
    reports = invented_reports(plan, seed)
    return make_absurd(plan.study, reports) if on_bad_for(plan.study) == "clip" else reports


def make_absurd(study: Study, reports: Any) -> Any:
    """The reports with numbers of 1e9 for the first player, and of −1e9 for the second."""
    shouted = {name: np.array(reports[name].to_pylist()) for name in reports.column_names}
    numbers = [feature.name for feature in study.features if feature.levels is None]
    said = (study.response.name, *prediction_columns(study))
    for name in (*numbers, *said):
        shouted[name][:2] = 0.0
    for name in (*numbers[:1], *said):
        shouted[name][:2] = ABSURD, -ABSURD
    return pa.table(shouted)


def prediction_columns(study: Study) -> tuple[str, ...]:
    """The column of predictions, where people are asked for them."""
    return () if study.levels is None else (PREDICTION,)


def replace_answers(
    study: Study, reports: Any, answers: float | Floats, players: int | slice = slice(None)
) -> Any:
    """The same people with other answers, all or one of them, and predictions at the same places of their range."""
    low, high = study.response.low, study.response.high
    columns, values = {study.response.name: answers}, clip_reports(study, reports)
    for name in prediction_columns(study):
        least, most = study.prediction_range
        columns[name] = least + (most - least) * (answers - low) / (high - low)
    for name, said in columns.items():
        values[name][players] = said
        reports = reports.set_column(reports.column_names.index(name), name, pa.array(values[name]))
    return reports


def clip_reports(study: Study, reports: Any) -> dict[str, Any]:
    """Features and responses as a settlement must use them: every number moved into its range."""
    ranges = {feature.name: (feature.low, feature.high) for feature in study.features}
    ranges[study.response.name] = study.response.low, study.response.high
    ranges |= dict.fromkeys(prediction_columns(study), study.prediction_range)
    values = {name: np.array(reports[name].to_pylist()) for name in ranges}
    for name, (low, high) in ranges.items():
        if low is not None:
            values[name] = np.clip(values[name], low, high)
    ball = [feature.name for feature in study.features if feature.low is None and feature.levels is None]
    lengths = np.linalg.norm([values[name] for name in ball], axis=0)
    return values | {name: np.where(lengths > LONGEST, values[name] / lengths, values[name]) for name in ball}


def normalise_reports(study: Study, reports: Any) -> tuple[Floats, Floats]:
    """X and y of the reports as they must be used, y with predictions where people are asked for them."""
    values = clip_reports(study, reports)
    response = values.pop(study.response.name)
    predictions = [study.normalise_predictions(values.pop(name)) for name in prediction_columns(study)]
    X = study.normalise(values, len(response))
    y = study.normalise_response(response, X)
    return X, np.stack([y, *predictions], axis=1) if predictions else y


def exact_sums(product: Product, plan: Plan, reports: Any) -> Sums:
    """The exact statistics of the reports as they must be used."""
    return product.statistics(*normalise_reports(plan.study, reports), plan.mechanism, plan.study.believed)


def plant_answers(product: Product, plan: Plan, reports: Any, player: int | None = None) -> Answers:
    """A release as if θ were (c/2)(1, …, 1)/√d, without noise, and with the best-conditioned matrix possible.

    So no prediction is clipped. For shares, everybody's is the one in the middle. With a player, the *others* alone
    give this release, whatever she reports; her own report is added to it.
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
    """The middle of the averages thought possible, from −1 to 1."""
    if study.levels is not None:
        return (study.levels.low + study.levels.high) / 2
    assert study.shares is not None
    return study.shares.low + study.shares.high - 1


@dataclass(frozen=True, eq=False)
class TrialSettlement:
    """Everything that others can see of a settlement, what it printed meanwhile, and its draw."""

    release: Release
    receipts: dict[str, Receipt]
    files: tuple[bytes, ...]
    said: tuple[object, ...]
    draw: Draw


def settle_trial(
    product: Product, plan: Plan, reports: Any, answers: Answers | None = None, accept_less: bool = True
) -> TrialSettlement:
    """A whole settlement, with its own draw or with these answers planted."""
    said = list[object]()
    with trial_directory(plan) as (there, out):

        def listen(stage: str, done: int, rows: int | None) -> None:
            said.append((stage, done, rows))

        with record_draws(answers) as draws, _record_output(said):
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
    """What everybody can see of a settlement with these answers: files and printed words, or the refusal."""
    try:
        found = settle_trial(product, plan, reports, answers, accept_less)
    except TruthfulError as refusal:
        return type(refusal), str(refusal)
    return found.files, found.said


def read_predictions(
    product: Product, plan: Plan, reports: Any, answers: Answers, player: str
) -> list[float]:
    """The others' prediction for a player by her receipt and, where people are asked for predictions, their mean
    prediction, their mean answer and the surprise."""
    with trial_directory(plan) as (there, out):
        kept = out.with_name(RECEIPTS)

        def interrupt(stage: str, done: int, rows: int | None) -> None:
            if stage == "payments" and done == rows:
                # A settlement that is stopped closes its books and removes them.
                kept.hardlink_to(open_target(out).unfinished / RECEIPTS)
                raise Interrupted

        with suppress(Interrupted), record_draws(answers):
            product.settle(there, reports, out=out, on_bad=on_bad_for(plan.study), progress=interrupt)
        receipts = pa.parquet.read_table(kept)
    receipt = find_receipt(receipts, player)
    assert isinstance(receipt, Receipt)
    told = (receipt.peer_prediction, receipt.others_prediction, receipt.others_answer, receipt.surprise)
    return [number for number in told if number is not None]


def interrupt_settlement(
    product: Product, plan: Plan, reports: Any, out: Path, seed: int | None = None, on_bad: str = "error"
) -> tuple[Draw, str]:
    """The draw of a settlement that is interrupted while it pays, and the hash of its statistics."""

    def interrupt(stage: str, done: int, rows: int | None) -> None:
        if stage == "payments":
            raise Interrupted

    with suppress(Interrupted), record_draws() as draws:
        product.settle(plan, reports, out=out, on_bad=on_bad, seed=seed, progress=interrupt)
    (drawn,) = draws
    return drawn


@contextmanager
def record_draws(planted: Answers | None = None) -> Iterator[list[tuple[Draw, str]]]:
    """The draws that settlements make meanwhile, and the hashes of their statistics; planted answers replace their own.

    A planted draw has a name of its own, so that nothing else that is drawn differs either.
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
def trial_directory(plan: Plan) -> Iterator[tuple[Plan, Path]]:
    """A temporary directory for a settlement and its ledger, so that the study's own ledger is left alone.

    The plan there allows as many players as are invented, and has no cap: a cap is promised for the plan's players.
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

        # The guarantees for the same people are computed once.
        object.__setattr__(there, "guarantees_for", guarantees_for)
        yield there, Path(directory) / "out"


@lru_cache(maxsize=64)
def _guarantees(plan: Plan, players: int, geometry: bytes) -> Guarantees:
    return plan.guarantees_for(players, pickle.loads(geometry))


@contextmanager
def _record_output(said: list[object]) -> Iterator[None]:
    """Note all that is printed and every warning."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield
    said += [printed.getvalue(), *(str(warning.message) for warning in warned)]
