"""A roster: people's ids and verified features in a CSV file, checked as intake checks reports.

Ids are text, as they stand in the file. They come back in files that are opened in spreadsheets (links, payments), so
an id that a spreadsheet would run as a formula is refused here, at the one door, instead of being changed there.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from truthful.errors import InputError, Refused
from truthful.intake import Intake, open_reports, report_columns
from truthful.intake.duplicates import later_records
from truthful.intake.rules import quote
from truthful.settlement.checks import FEWEST_ALIKE
from truthful.study import Study
from truthful.study.declaration import PLAYER, PREDICTION

FORMULA = ("=", "+", "-", "@")
LONGEST_ID = 200

People = dict[str, dict[str, Any]]


def roster_columns(study: Study) -> list[str]:
    return [PLAYER, *(feature.name for feature in study.features)]


def read_roster(study: Study, path: Path) -> People:
    """Everybody's features by player, from a CSV file; BadReports if a record is bad."""
    with open_reports(path, roster_columns(study)) as rows:
        if rows.extra:
            raise InputError(
                f"There are columns that the study does not have: {', '.join(map(repr, rows.extra))}. Leave them out: "
                "what is not asked for is not kept."
            )
        ids = [player for batch in rows.batches() for player in batch.column(PLAYER).to_pylist()]
        _require_plain(ids)
        named = ((row, player) for row, player in enumerate(ids, 1) if player.strip())
        intake = Intake(study, repeats=later_records(named), where=rows.where)
        people = dict(_check_records(study, intake, rows.batches()))
        intake.finish()
    return people


def feature_columns(study: Study, people: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """People's features as columns of Arrow, by name."""
    return {
        feature.name: pa.array(
            [features[feature.name] for features in people],
            pa.float64() if feature.levels is None else pa.string(),
        )
        for feature in study.features
    }


def _check_records(
    study: Study, intake: Intake, batches: Iterable[Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each good record. In the place of what she says it has the least there is, which cannot be at fault."""
    row, least = 1, {study.response.name: study.response.low}
    if study.levels is not None:
        least[PREDICTION] = study.prediction_range[0]
    for batch in batches:
        said = [pa.array(np.full(batch.num_rows, value)) for value in least.values()]
        report = pa.RecordBatch.from_arrays([*batch.columns, *said], names=list(report_columns(study)))
        checked = intake.check(report, row)
        for player, record in zip(checked.players.to_pylist(), checked.records.to_pylist(), strict=True):
            yield player, {name: value for name, value in record.items() if name not in least}
        row += batch.num_rows


def require_common_levels(study: Study, people: Iterable[Mapping[str, Any]]) -> None:
    """Refuse, before anything is planned, people with whom the study could never be settled.

    Sums over features are published, and would give away the few who have a level that hardly anybody has.
    """
    declared = study.declared.privacy
    known = declared is not None and declared.features_public
    if study.protects != "answers" or not study.publishes_matrix or known:
        return
    counted = Counter((f.name, row[f.name]) for row in people for f in study.features if f.levels is not None)
    for feature in study.features:
        for level in feature.levels or ():
            if counted[feature.name, level] < FEWEST_ALIKE:
                raise Refused(
                    f"{feature.name} is {level!r} for {counted[feature.name, level]} of these people, and sums over "
                    f"facts are published: they would give away fewer than {FEWEST_ALIKE}. Put the group together with "
                    "another, or say that sums are not published, or that the facts are no secret."
                )


def _require_plain(ids: Iterable[str]) -> None:
    for row, player in enumerate(ids, 1):
        if len(player) > LONGEST_ID:
            raise InputError(
                f"Row {row}: the player's id has {len(player):,} characters; give {LONGEST_ID} or fewer."
            )
        if not player.isprintable():
            raise InputError(
                f"Row {row}: the player's id {quote(player)} holds a character that cannot be seen. Leave it out."
            )
        if player.startswith(FORMULA):
            raise InputError(
                f"Row {row}: the player's id {quote(player)} begins with {player[0]!r}, which a spreadsheet takes for "
                "a formula when you open files of links or payments. Begin it with a letter or a digit."
            )


def table(header: Iterable[str] | None, rows: Iterable[Iterable[str]]) -> str:
    """A CSV file, with or without a line of names."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    if header is not None:
        writer.writerow(header)
    writer.writerows(rows)
    return written.getvalue()
