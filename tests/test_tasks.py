"""What a pass over the reports makes of a piece, next to the rules one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from generators_intake import BALL, COLUMNS, GAMBLING, KEY, RECORDS, table_of
from hypothesis import given
from hypothesis import strategies as st

from truthful.groups import groups_of, player_hashes
from truthful.intake import Intake, report_columns
from truthful.intake.duplicates import NO_REPEATS, NOTHING, Repeats
from truthful.intake.pieces import Held, Piece
from truthful.moments import Tally
from truthful.settlement.tasks import Gather
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


def rule_by_rule(study: Study, on_bad: str, repeats: Repeats, piece: Piece) -> tuple[Any, ...]:
    intake, tally = Intake(study, on_bad, repeats=repeats), Tally(study.dimension)
    hashes = [NOTHING]
    for batch in intake.batches(piece):
        hashes.append(player_hashes(batch.everyone, KEY))
        tally.add(*batch.on_grid(), groups_of(player_hashes(batch.players, KEY)))
    return tally.halves, np.concatenate(hashes).tolist(), vars(intake.account)


def gathered(study: Study, on_bad: str, repeats: Repeats, piece: Piece) -> tuple[Any, ...]:
    (found,) = Gather(study, KEY, on_bad, repeats)(piece)
    return found.halves, found.hashes.tolist(), vars(found.account)


def piece_of(table: pa.Table, study: Study = GAMBLING) -> Piece:
    (batch,) = table.combine_chunks().to_batches()
    return Piece(0, 1, Held(batch), report_columns(study), "the table of reports")


@given(records=RECORDS | GOOD_RECORDS, on_bad=st.sampled_from(["error", "clip", "drop"]))
def test_the_first_pass_finds_what_the_rules_find(records: list[dict[str, Any]], on_bad: str) -> None:
    piece = piece_of(table_of(records))
    assert piece.columns == COLUMNS
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
    halves, hashes, account = gathered(BALL, "drop", repeats, piece)
    assert (halves, account) == rule_by_rule(BALL, "drop", repeats, piece)[::2]
    assert hashes == []  # they were looked through before
    assert halves[0].count + halves[1].count == 2
