"""Intake: from raw batches to checked records on the grid, with a plain account of every bad one.

A record is good if it has a player without an earlier record, every number lies in its declared range, every level is a
declared one, and nothing is missing. The analyst chooses what happens to other records, by `on_bad`:

- "error": nothing is settled; all are counted, the first ones are listed.
- "clip": numbers out of range are moved to the nearest end and counted; any other fault is an error.
- "drop": bad records are left out, exactly those that "error" counts. Of a player's records the first stays.

Ranges are declared and public. How many records were bad is a function of the data and stays private.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

import numpy as np
import pyarrow as pa

from truthful import check
from truthful.check import Floats
from truthful.errors import InputError, Option
from truthful.intake.rules import (
    NO_REPEATS,
    Bad,
    BadRecords,
    BadReports,
    Repeats,
    Rows,
    Values,
    arrow_numbers,
    ball_rules_of,
    missing_text,
    player_faults,
    player_ids,
    rules_of,
)
from truthful.intake.sources import Piece, Place, quote_names
from truthful.intake.stream import Reports, open_reports
from truthful.moments import GRID, grid_features, grid_responses
from truthful.study import Study
from truthful.study.declaration import PLAYER, PREDICTION
from truthful.study.features import Levels

#: The most cells of a pair of features for it to be counted.
MOST_CELLS = 10_000


@dataclass(frozen=True, eq=False)
class LevelCounts:
    """Counts of people by level, in the order of the levels, and by pairs of levels. The counts of two groups add.

    `levels` has one array for each feature with levels, `pairs` one matrix for each two of them.
    """

    levels: dict[str, Rows]
    pairs: dict[tuple[str, str], Rows]

    @classmethod
    def zero(cls, study: Study) -> LevelCounts:
        """Counts of nobody."""
        features = [f for f in study.declared.encoding.features if isinstance(f, Levels)]
        sizes = {feature.name: len(feature.levels) for feature in features}
        return cls(
            {name: np.zeros(size, dtype=np.int64) for name, size in sizes.items()},
            {
                (first, second): np.zeros((sizes[first], sizes[second]), dtype=np.int64)
                for first, second in combinations(sizes, 2)
                if sizes[first] * sizes[second] <= MOST_CELLS
            },
        )

    def add(self, values: dict[str, Any]) -> None:
        """Count people with levels at these places, all valid."""
        for name, counts in self.levels.items():
            counts += np.bincount(values[name], minlength=len(counts))
        for (first, second), table in self.pairs.items():
            cells = values[first] * table.shape[1] + values[second]
            table += np.bincount(cells, minlength=table.size).reshape(table.shape)

    def __add__(self, other: LevelCounts) -> LevelCounts:
        return LevelCounts(
            {name: counts + other.levels[name] for name, counts in self.levels.items()},
            {pair: counts + other.pairs[pair] for pair, counts in self.pairs.items()},
        )


ON_BAD = ("error", "clip", "drop")
CLIPPED = (Bad.OUT_OF_RANGE, Bad.OUT_OF_BALL)


@dataclass(frozen=True, eq=False)
class Checked:
    """The good records of one batch.

    `everyone` holds the ids of all records that have one, bad ones included: duplicates are searched among them. `rows`
    (as the source counts them), `players` and `values` have one row for each good record; these are numbers in raw
    units, as float64, and the places of levels.
    """

    study: Study
    everyone: Any
    rows: Rows
    players: Any
    values: Values

    @property
    def records(self) -> Any:
        """Features and response as used: numbers in raw units, levels as text."""
        rules = rules_of(self.study)
        arrays = [rule.raw(self.values[rule.name]) for rule in rules]
        return pa.RecordBatch.from_arrays(arrays, names=[rule.name for rule in rules])

    def on_grid(self) -> tuple[Floats, ...]:
        """Features and responses, normalised and on the grid of step 2⁻²⁰: (kx, ky), one row for each good record.

        Where people are asked what the others will say, (kx, ky, km).
        """
        study, bound = self.study, self.study.believed.response_bound
        X = study.normalise(self.values, len(self.players))
        y = study.normalise_response(self.values[study.response.name], X)
        grid = grid_features(X), grid_responses(y, bound)
        if study.levels is None:
            return grid
        m = study.normalise_predictions(self.values[PREDICTION])
        return *grid, grid_responses(m, study.levels.response_bound)


@dataclass(frozen=True)
class Counts:
    """How the records of a pass were treated: private, like every exact function of the reports."""

    records: int
    kept: int
    clipped: int
    bad: dict[str, int]
    ignored_columns: tuple[str, ...]


def report_columns(study: Study) -> tuple[str, ...]:
    """The columns of a file of reports: the player, the features, the response, and the prediction if asked for."""
    asked = () if study.levels is None else (PREDICTION,)
    return (PLAYER, *(feature.name for feature in study.features), study.response.name, *asked)


def number_columns(study: Study) -> frozenset[str]:
    """The columns that hold numbers."""
    return frozenset(rule.name for rule in rules_of(study) if rule.of_numbers)


class Intake:
    """A pass of checks, or the part of it on one piece of the reports.

    `repeats` are the duplicates found by an earlier pass; `account` collects the findings. `named`: records carry
    people's ids, not row numbers in their place.
    """

    def __init__(
        self,
        study: Study,
        on_bad: str = "error",
        *,
        limit: int = 20,
        repeats: Repeats = NO_REPEATS,
        place: Place | None = None,
        named: bool = True,
    ) -> None:
        self.on_bad = check.choice("on_bad", on_bad, ON_BAD)
        self._study = study
        self._rules, self._ball_rules = rules_of(study), ball_rules_of(study)
        self._repeats = repeats
        self.account = BadRecords(limit)
        self._place, self._named = place or Place(), named
        self._ignored: tuple[str, ...] = ()

    def open(self, reports: Reports) -> None:
        """Begin a pass over the reports. Call `finish` after it.

        If the headers are mapped by the user, other columns are ignored.
        """
        self._place, self._ignored = reports.place, reports.extra
        if reports.extra and self.on_bad == "error" and not reports.place.headers:
            raise InputError(
                f"In {reports.where} there are columns the study does not have: {quote_names(reports.extra)}. "
                "Leave them out, or choose ",
                Option("on_bad", "clip"),
                ", which ignores them.",
            )

    def batches(self, piece: Piece) -> Iterator[Checked]:
        """The good records of a piece."""
        for first_row, batch in piece.with_row_numbers():
            yield self.check(batch, first_row)

    def check(self, batch: Any, first_row: int) -> Checked:
        """Check a batch whose first record is row `first_row` of the source."""
        ids = player_ids(batch.column(PLAYER))
        missing = missing_text(ids)
        values = {rule.name: rule.values(batch.column(rule.name)) for rule in self._rules}
        of_columns = (rule.faults(batch.column(rule.name), values[rule.name]) for rule in self._rules)
        of_vectors = (ball.faults(values) for ball in self._ball_rules)
        of_players = player_faults(missing, first_row, self._repeats)
        faults = [*of_players, *chain.from_iterable(of_columns), *chain.from_iterable(of_vectors)]
        if self.on_bad == "clip":
            self.account.clipped += sum(int(fault.mask.sum()) for fault in faults if fault.kind in CLIPPED)
            faults = [fault for fault in faults if fault.kind not in CLIPPED]
            for ball in self._ball_rules:
                values = ball.clip(values)
            values = {rule.name: rule.clip(values[rule.name]) for rule in self._rules}
        good = ~self.account.note(faults, ids, first_row, self._named)
        everyone = ids.filter(pa.array(~missing)) if missing.any() else ids
        if not good.all():
            ids = ids.filter(pa.array(good))
            values = {name: column[good] for name, column in values.items()}
        return Checked(self._study, everyone, first_row + np.flatnonzero(good), ids, values)

    def finish(self) -> Counts:
        """The account of the pass; BadReports if there are faults that were not dropped."""
        found = self.account
        kept = found.all_records - found.bad_records
        if (found.bad_records and self.on_bad != "drop") or not kept:
            declared = self._study.path
            raise BadReports(self._place, "study.toml" if declared is None else declared.name, found)
        bad = {str(kind): number for kind, number in found.counts.items() if number}
        return Counts(found.all_records, kept, found.clipped, bad, self._ignored)


def read_players(source: Any, columns: Mapping[str, str] | None = None) -> list[Any]:
    """The ids in a file of people; other columns are ignored."""
    players: list[Any] = []
    with open_reports(source, [PLAYER], columns=columns or {}) as found:
        for batch in found.batches():
            ids = player_ids(batch.column(PLAYER))
            for index in np.flatnonzero(missing_text(ids))[:1]:
                row = found.place.first_row + len(players) + int(index)
                raise InputError(
                    f"In {found.where}, row {row}{found.place.counting}, {PLAYER!r} is missing. Give everybody an id."
                )
            players += ids.to_pylist()
    if len(set(players)) < len(players):
        again = next(player for player, times in Counter(players).items() if times > 1)
        raise InputError(f"In {found.where}, player {again!r} stands twice. Leave one of the rows out.")
    return players


def read_features(
    study: Study, source: Any, on_bad: str = "error", columns: Mapping[str, str] | None = None
) -> Floats:
    """The normalised features of every good row, on the grid, from any source of reports. Other columns are ignored.

    Each row gets the middle of the range as its answer, so that only features can be at fault. `columns` maps columns
    to headers that differ in the source.
    """
    names = [feature.name for feature in study.features]
    if not names:
        raise InputError("The study has no features, so none can be brought. Leave them out.")
    return _read_rows(study, source, on_bad, columns, names, _any_answer(study))[0]


def read_answers(
    study: Study, source: Any, columns: Mapping[str, str] | None = None
) -> tuple[Floats, Floats]:
    """The normalised features and the answers, in raw units, of every good row of an earlier study."""
    names = [feature.name for feature in study.features]
    return _read_rows(study, source, "error", columns, [*names, study.response.name], _any_answer(study)[1:])


def _read_rows(
    study: Study,
    source: Any,
    on_bad: str,
    columns: Mapping[str, str] | None,
    names: list[str],
    rest: tuple[float, ...],
) -> tuple[Floats, Floats]:
    """x and the answer of every good row. Each goes through intake as a report, with its row number as the player."""
    parts, known = [], report_columns(study)
    numbers = number_columns(study)
    with open_reports(source, names, numbers=numbers, columns=columns or {}, known=known) as found:
        intake, row = Intake(study, on_bad, place=found.place, named=False), found.place.first_row
        for batch in found.batches():
            ids = arrow_numbers(np.arange(row, row + batch.num_rows))
            said = [arrow_numbers(np.full(batch.num_rows, value)) for value in rest]
            report = pa.RecordBatch.from_arrays([ids, *batch.columns, *said], names=known)
            checked = intake.check(report, row)
            parts.append((checked.on_grid()[0] / GRID, checked.values[study.response.name]))
            row += batch.num_rows
        intake.finish()
    X, answers = (np.concatenate(part) for part in zip(*parts, strict=True))
    return X, answers


def _any_answer(study: Study) -> tuple[float, ...]:
    """A valid answer, and a valid prediction where it is asked for."""
    response = study.response
    answer = response.low if study.shares is not None else (response.low + response.high) / 2
    return (answer,) if study.levels is None else (answer, study.prediction_range[0])
