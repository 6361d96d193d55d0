"""What a pass over the reports makes of a piece, next to the rules one by one."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.generators_intake import BALL, COLUMNS, GAMBLING, KEY, RECORDS, counted, table_of

from truthful.coins import Lot
from truthful.intake import Intake, report_columns
from truthful.intake.duplicates import NOTHING, player_hashes
from truthful.intake.intake import LevelCounts
from truthful.intake.rules import NO_REPEATS, Repeats
from truthful.intake.sources import MemoryBatch, Piece
from truthful.moments import SumsTally, Transform
from truthful.one_release import LeaveOneOut, OneRelease, Paymaster, paymaster
from truthful.settlement.books import PaidTotals
from truthful.settlement.passes import Till, gather_piece, measure_piece, pay_piece
from truthful.study import Study

GOOD_RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "player": st.sampled_from(["a", "b", "007", "7"]),
            "age": st.sampled_from(["18", "42.5", "90"]),
            "region": st.sampled_from(["north", "east"]),
            "weekly_spend": st.sampled_from(["0", "12.5", "200"]),
        }
    ),
    min_size=1,
    max_size=6,
)


def transform_of(study: Study) -> Transform:
    d = study.dimension
    return tuple(tuple(1500 if i == j else 200 * (i - j) for j in range(d)) for i in range(d))


def rule_by_rule(study: Study, on_bad: str, repeats: Repeats, piece: Piece) -> tuple[Any, ...]:
    intake, tally = Intake(study, on_bad, repeats=repeats), SumsTally(study.dimension, transform_of(study))
    hashes, cells = [NOTHING], LevelCounts.zero(study)
    for batch in intake.batches(piece):
        hashes.append(player_hashes(batch.everyone, KEY))
        tally.add(*batch.on_grid())
        cells.add(batch.values)
    return tally.sums, counted(cells), np.concatenate(hashes).tolist(), vars(intake.account)


def gathered(study: Study, on_bad: str, repeats: Repeats, piece: Piece) -> tuple[Any, ...]:
    (found,) = gather_piece(study, transform_of(study), "l2", KEY, on_bad, repeats, piece)
    return found.sums, counted(found.cells), found.hashes.tolist(), vars(found.account)


def piece_of(table: pa.Table, study: Study = GAMBLING) -> Piece:
    (batch,) = table.combine_chunks().to_batches()
    columns = {name: name for name in report_columns(study)}
    return Piece(0, 1, MemoryBatch(batch), columns, "the table of reports")


@given(records=RECORDS | GOOD_RECORDS, on_bad=st.sampled_from(["error", "clip", "drop"]))
def test_the_first_pass_finds_what_the_rules_find(records: list[dict[str, Any]], on_bad: str) -> None:
    piece = piece_of(table_of(records))
    assert tuple(piece.columns) == COLUMNS
    assert gathered(GAMBLING, on_bad, NO_REPEATS, piece) == rule_by_rule(GAMBLING, on_bad, NO_REPEATS, piece)


@pytest.mark.parametrize("u", [0.6, 0.6 + 1e-7, 0.6 + 1e-12, 2.0, np.nan])
def test_vectors_at_the_edge_of_the_ball_are_seen_as_the_rules_see_them(u: float) -> None:
    """Some come back into the ball when they are put on the grid, and are out of it all the same."""
    piece = piece_of(pa.table({"player": [1, 2], "u": [0.0, u], "v": [0.0, 0.8], "y": [0.0, 1.0]}), BALL)
    for on_bad in ("error", "clip", "drop"):
        expected = rule_by_rule(BALL, on_bad, NO_REPEATS, piece)
        assert gathered(BALL, on_bad, NO_REPEATS, piece) == expected


def test_records_of_a_player_who_had_one_are_left_out() -> None:
    piece = piece_of(
        pa.table({"player": [5, 6, 5], "u": [0.1, 0.2, 0.3], "v": [0.0] * 3, "y": [1.0] * 3}), BALL
    )
    repeats = Repeats(np.array([3]), np.array([1]))
    sums, cells, hashes, account = gathered(BALL, "drop", repeats, piece)
    expected = rule_by_rule(BALL, "drop", repeats, piece)
    assert (sums, cells, account) == (expected[0], expected[1], expected[3])
    assert hashes == []  # they were looked through before
    assert sums.count == 2


# Features once more, and payments


@given(records=RECORDS | GOOD_RECORDS, on_bad=st.sampled_from(["error", "clip", "drop"]))
def test_the_look_at_features_sees_those_whom_the_first_pass_kept(
    records: list[dict[str, Any]], on_bad: str
) -> None:
    piece = piece_of(table_of(records))
    intake = Intake(GAMBLING, on_bad, repeats=NO_REPEATS)
    expected = [
        (row, player, kx.tolist())
        for batch in intake.batches(piece)
        for row, player, kx in zip(
            batch.rows.tolist(), batch.players.to_pylist(), batch.on_grid()[0], strict=True
        )
    ]
    found = [
        (row, player, features.tolist())
        for rows, players, kx in measure_piece(GAMBLING, on_bad, NO_REPEATS, piece)
        for row, player, features in zip(rows.tolist(), players.to_pylist(), kx, strict=True)
    ]
    assert found == expected


#: Whole millionths: what is paid is what is due.
TILL = Till(digits=6, lots=(Lot(1, 0, 0),), most_of=None, most_each=0)


@cache
def master() -> Paymaster:
    """Pays the people of GAMBLING against the estimate of a made-up release."""
    d, rng = GAMBLING.dimension, np.random.default_rng(4)
    mechanism = OneRelease(
        epsilon=1.0, base_payment=0.2, score_weight=0.5, clip=0.6, transform=transform_of(GAMBLING)
    )
    estimate = LeaveOneOut(
        theta=rng.normal(size=d) / 4,
        inverse=np.eye(d) / 20 + rng.normal(size=(d, d)) / 400,
        scale=2.0,
        transform=mechanism.transform,
        kept=None,
        matrix=None,
        vector=(0,) * d,
    )
    return paymaster(mechanism, GAMBLING.beliefs, estimate, count=10)


@given(records=RECORDS | GOOD_RECORDS, on_bad=st.sampled_from(["clip", "drop"]))
def test_the_second_pass_pays_everybody_as_if_she_came_alone(
    records: list[dict[str, Any]], on_bad: str
) -> None:
    piece = piece_of(table_of(records))
    found = list(pay_piece(GAMBLING, on_bad, NO_REPEATS, master(), TILL, piece))
    receipts = [row for batch, _ in found for row in batch.to_pylist()]
    paid = sum((more for _, more in found), PaidTotals())
    intake, expected = Intake(GAMBLING, on_bad, repeats=NO_REPEATS), []
    for batch in intake.batches(piece):
        kx, ky = batch.on_grid()
        for i, (player, record) in enumerate(
            zip(batch.players.to_pylist(), batch.records.to_pylist(), strict=True)
        ):
            alone = master().score_players(kx[i : i + 1], ky[i : i + 1])
            scores = {name: float(column[0]) for name, column in vars(alone).items()}
            expected.append({"player": player, **record, **scores, "paid": scores["payment"]})
    assert receipts == expected
    assert paid.players == len(expected)
    assert float(paid.total) == pytest.approx(sum(row["payment"] for row in expected), abs=1e-9)
    if expected:
        assert (paid.least, paid.most) == (
            min(row["payment"] for row in expected),
            max(row["payment"] for row in expected),
        )


def test_payments_of_a_player_who_had_a_record_are_left_out() -> None:
    piece = piece_of(table_of([dict(zip(COLUMNS, (p, "30", "north", "10"), strict=True)) for p in "aba"]))
    found = list(pay_piece(GAMBLING, "drop", Repeats(np.array([3]), np.array([1])), master(), TILL, piece))
    assert [player for batch, _ in found for player in batch.column("player").to_pylist()] == ["a", "b"]
