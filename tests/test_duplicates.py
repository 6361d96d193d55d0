from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracles_duplicates as oracle

from truthful.errors import InputError
from truthful.intake.duplicates import PART_BITS, Duplicates, later_records, player_hashes, suspects
from truthful.intake.rules import Repeats
from truthful.intake.stream import open_reports

KEY = bytes(range(16))
NO_HASHES: npt.NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)


def pairs(repeats: Repeats) -> list[tuple[int, int]]:
    return list(zip(repeats.rows.tolist(), repeats.first_rows.tolist(), strict=True))


def scan(tables: list[Any]) -> Repeats:
    """The whole search, as a settlement makes it."""
    with open_reports(tables, ["player"]) as reports, Duplicates() as duplicates:
        for batch in reports.batches():
            given = batch.column(0).drop_null()
            duplicates.add(player_hashes(given, KEY))
        return later_records(suspects(reports.batches(), 1, KEY, duplicates.repeated()))


hash_batches = st.lists(
    st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 5) | st.integers(2**64 - 5, 2**64 - 1), max_size=12),
    max_size=8,
)


@given(batches=hash_batches, in_memory=st.integers(1, 30))
def test_spilled_or_in_memory_the_repeated_hashes_are_those_counted_one_by_one(
    batches: list[list[int]], in_memory: int
) -> None:
    expected = oracle.repeated(value for batch in batches for value in batch)
    for threshold in (in_memory, 10**6):
        with Duplicates(in_memory=threshold) as duplicates:
            for batch in batches:
                duplicates.add(np.array(batch, dtype=np.uint64))
            assert duplicates.repeated().tolist() == expected


def test_a_million_hashes_with_three_planted_repeats_give_exactly_those(tmp_path: Path) -> None:
    # By chance two of 10^6 random 64-bit hashes agree with probability 3e-8.
    hashes = np.random.default_rng(11).integers(0, 2**64, 10**6, dtype=np.uint64)
    planted = hashes[[7, 500_000, 999_999]]
    with Duplicates(tmp_path, in_memory=100_000) as duplicates:
        for part in np.array_split(np.concatenate([hashes, planted, planted[:1]]), 37):
            duplicates.add(part)
        assert duplicates.repeated().tolist() == sorted(planted.tolist())


@given(values=st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 2**56), max_size=40))
def test_parts_hold_the_hashes_that_begin_alike_in_their_order(values: list[int]) -> None:
    with Duplicates() as duplicates:
        duplicates.add(np.array(values, dtype=np.uint64))
        for number in range(2**PART_BITS):
            alike = [value for value in values if value >> (64 - PART_BITS) == number]
            assert duplicates._part(number).tolist() == alike


def test_hashes_that_all_begin_alike_are_one_part() -> None:
    hashes = np.arange(5_000, dtype=np.uint64)
    for threshold in (1, 10**6):
        with Duplicates(in_memory=threshold) as duplicates:
            for part in (hashes, hashes[4_000:] + np.uint64(999), NO_HASHES):
                duplicates.add(part)
            assert duplicates.repeated().tolist() == [4_999]


def test_spilled_hashes_lie_in_a_file_that_has_no_name(tmp_path: Path) -> None:
    with Duplicates(tmp_path, in_memory=1) as duplicates:
        duplicates.add(np.arange(10, dtype=np.uint64))
        assert list(tmp_path.iterdir()) == []
        opened = (os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink())
        assert sum(str(tmp_path) in name for name in opened) == 1


def test_nobody_is_repeated_where_nobody_is() -> None:
    with Duplicates() as duplicates:
        assert duplicates.repeated().tolist() == []


def test_a_threshold_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="in_memory is 0; it must be at least 1"):
        Duplicates(in_memory=0)


@given(
    players=st.lists(
        st.sampled_from(["a", "b", "c", "007", "7"]) | st.none() | st.text(max_size=3), max_size=25
    ),
    cut=st.integers(0, 25),
)
def test_the_search_finds_the_rows_that_a_walk_through_the_records_finds(
    players: list[str | None], cut: int
) -> None:
    tables = [
        pa.table({"player": pa.array(part, pa.string())}) for part in (players[:cut], players[cut:], ["z"])
    ]
    assert pairs(scan(tables)) == oracle.repeats([*players, "z"])


def test_whole_numbers_are_players_too() -> None:
    assert pairs(scan([pa.table({"player": [5, 6, 5]}), pa.table({"player": [6, 5, 7]})])) == [
        (3, 1),
        (4, 2),
        (5, 1),
    ]


def test_different_players_who_share_a_hash_are_no_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "truthful.intake.duplicates.player_hashes", lambda ids, key: np.zeros(len(ids), dtype=np.uint64)
    )
    batches = [pa.record_batch({"player": ["a", "b", "a", "c"]})]
    assert pairs(later_records(suspects(batches, 1, KEY, np.zeros(1, dtype=np.uint64)))) == [(3, 1)]


def test_records_whose_hash_does_not_repeat_are_not_looked_at() -> None:
    batches = [pa.record_batch({"player": ["a", "a"]})]
    assert len(later_records(suspects(batches, 1, KEY, NO_HASHES))) == 0
