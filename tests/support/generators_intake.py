"""Studies, reports and the whole of the intake, for the tests that check it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import strategies as st

from truthful.intake import Checked, Counts, Intake, report_columns
from truthful.intake.duplicates import Duplicates, later_records, player_hashes, suspects
from truthful.intake.intake import LevelCounts
from truthful.intake.rules import NO_REPEATS, BadReports, Repeats
from truthful.intake.stream import open_reports
from truthful.study import Study

GAMBLING = Study.parse(
    """
    name = "Weekly gambling spend"
    currency = "USD"
    [response]
    name = "weekly_spend"
    low = 0
    high = 200
    [[features]]
    name = "age"
    low = 18
    high = 90
    [[features]]
    name = "region"
    levels = ["north", "south", "east"]
    [design]
    kind = "observed"
    [beliefs]
    signal = 0.6
    [costs]
    kind = "pareto"
    tail = 2.0
    scale = 0.05
    """
)
BALL = Study.parse(
    """
    name = "Unit ball"
    currency = "USD"
    intercept = false
    [response]
    name = "y"
    low = -2
    high = 2
    [[features]]
    name = "u"
    [[features]]
    name = "v"
    [design]
    kind = "unit-ball"
    [beliefs]
    radius = 1.0
    noise_bound = 1.0
    [costs]
    kind = "pareto"
    tail = 2.0
    scale = 0.05
    """
)
COLUMNS = report_columns(GAMBLING)
KEY = bytes(range(16))
GOOD = pa.table(
    {
        "player": ["007", "p-1", "p-2", "p-3", "p-4"],
        "age": [18, 30, 42, 55, 90],
        "region": ["north", "south", "east", "north", "south"],
        "weekly_spend": [0.0, 12.5, 200.0, 0.1, 199.99],
    }
)


def take_in(
    source: Any, on_bad: str = "error", study: Study = GAMBLING, limit: int = 20
) -> tuple[list[Checked], Counts]:
    """All that is done with a source: a pass for duplicates, and, if there are any, a pass without them."""
    with open_reports(source, report_columns(study)) as reports:
        batches, intake = one_pass(reports, Intake(study, on_bad, limit=limit))
        repeats = _repeats(reports, batches)
        if len(repeats):
            batches, intake = one_pass(reports, Intake(study, on_bad, limit=limit, repeats=repeats))
        return batches, intake.finish()


def one_pass(reports: Any, intake: Intake) -> tuple[list[Checked], Intake]:
    intake.open(reports)
    return [batch for piece in reports.pieces() for batch in intake.batches(piece)], intake


def _repeats(reports: Any, batches: list[Checked]) -> Repeats:
    with Duplicates() as duplicates:
        for batch in batches:
            duplicates.add(player_hashes(batch.everyone, KEY))
        repeated = duplicates.repeated()
    first_row = reports.place.first_row
    return (
        later_records(suspects(reports.batches(), first_row, KEY, repeated)) if len(repeated) else NO_REPEATS
    )


def joined(batches: list[Checked]) -> tuple[list[Any], list[Any], bytes, bytes]:
    players = [player for batch in batches for player in batch.players.to_pylist()]
    records = [record for batch in batches for record in batch.records.to_pylist()]
    kx, ky = (
        np.concatenate([b.on_grid()[0] for b in batches]),
        np.concatenate([b.on_grid()[1] for b in batches]),
    )
    return players, records, kx.tobytes(), ky.tobytes()


def counted(cells: LevelCounts) -> dict[Any, Any]:
    """How many people have which levels, as plain lists that can be compared."""
    return {key: counts.tolist() for key, counts in [*cells.levels.items(), *cells.pairs.items()]}


def refused(source: Any, on_bad: str = "error", study: Study = GAMBLING, limit: int = 20) -> BadReports:
    with pytest.raises(BadReports) as caught:
        take_in(source, on_bad, study, limit)
    return caught.value


def one(**changes: Any) -> pa.Table:
    """The good table with one value of the second record changed."""
    rows = GOOD.to_pylist()
    rows[1] |= changes
    return pa.table({name: [row[name] for row in rows] for name in COLUMNS})


BAD = """player,age,region,weekly_spend
p-01,30,north,10
p-02,,north,10
p-03,NaN,north,10
p-04,abc,north,10
p-05,30,north,"12,5"
p-06,inf,north,10
p-0042,130,north,10
p-08,30,north,-0.01
p-09,30,nroth,10
p-10,30,,10
,30,north,10
p-01,40,east,20
p-13,17,west,1e400
p-01,,east,
p-15,30,east,10
"""

TEXTS = st.sampled_from(
    [
        "",
        "18",
        " 90 ",
        "+42",
        "42.",
        ".5",
        "1e2",
        "17.999",
        "90.1",
        "-1",
        "200",
        "200.5",
        " ",
        "nan",
        "NaN",
        "nan(1)",
        "NA",
        " n/a",
        "#N/A",
        ".",
        "..",
        "inf",
        "-Infinity",
        "1e999",
        "abc",
        "12,5",
        "1_0",
        "0x20",
        "--1",
        "1 2",
        "４２",
        "\u200342",
    ]
)
PLAYERS = st.sampled_from(["a", "b", "c", "007", "7", "", " ", "NA", "na.", "d", "e", "f", "g", "h"])
REGIONS = st.sampled_from(["north", "south", "east", "", " ", "North", "north ", "nan", "NA", " n/a ", "-"])
RECORDS = st.lists(
    st.fixed_dictionaries({"player": PLAYERS, "age": TEXTS, "region": REGIONS, "weekly_spend": TEXTS}),
    min_size=1,
    max_size=14,
)


def table_of(records: list[dict[str, Any]]) -> pa.Table:
    return pa.table({name: pa.array([row[name] for row in records], pa.string()) for name in COLUMNS})
