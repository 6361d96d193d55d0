"""Hashes that lie in files: the same repeats as a count one by one, whatever the pieces and the ranges."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracles_duplicates as oracle

from truthful.errors import InputError
from truthful.intake.intake import LevelCounts
from truthful.intake.rules import BadRecords
from truthful.intake.sources import MemoryBatch, Piece
from truthful.moments import Sums
from truthful.settlement.engines import FiledDuplicates, HashFile, Threads, ranges
from truthful.settlement.passes import Gathered

EDGES = [0, 1, 2**63 - 1, 2**63, 2**64 - 1]

hash_batches = st.lists(
    st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 5) | st.sampled_from(EDGES), max_size=12), max_size=8
)


def gathered(piece: Piece) -> Iterator[Gathered]:
    """A first pass that finds the hashes it is given."""
    (hashes,) = piece.content.batches()
    yield Gathered(Sums.zero(1), LevelCounts({}, {}), BadRecords(1), np.array(hashes, dtype=np.uint64))


def pieces(batches: list[list[int]]) -> Iterator[Piece]:
    return (Piece(k, 1, MemoryBatch(batch), {}, "") for k, batch in enumerate(batches))


@given(batches=hash_batches, in_memory=st.integers(1, 30))
def test_the_repeated_hashes_are_those_counted_one_by_one(batches: list[list[int]], in_memory: int) -> None:
    engine = Threads(1)
    with tempfile.TemporaryDirectory() as name:
        with FiledDuplicates(Path(name) / "hashes", engine.run, in_memory) as duplicates:
            for part in engine.run(duplicates.task(gathered), pieces(batches)):
                duplicates.add(part.hashes)
            found = duplicates.repeated().tolist()
        assert list(Path(name).iterdir()) == []
    assert found == oracle.repeated(value for batch in batches for value in batch)


@pytest.mark.parametrize("number", [1, 2, 3, 7, 250])
def test_ranges_meet_without_gap_or_overlap(number: int) -> None:
    found = list(ranges(number))
    assert len(found) == number
    assert [low for low, _ in found] == [0, *(high + 1 for _, high in found[:-1])]
    assert found[-1][1] == 2**64 - 1


def test_a_file_done_again_is_the_same_and_stands_alone(tmp_path: Path) -> None:
    with FiledDuplicates(tmp_path / "hashes", Threads(1).run) as duplicates:
        task = duplicates.task(gathered)
        (first,) = (part.hashes for part in task(next(pieces([[3, 1, 2]]))))
        written = Path(first.path).read_bytes()
        (second,) = (part.hashes for part in task(next(pieces([[3, 1, 2]]))))
        assert first == second
        assert Path(first.path).read_bytes() == written
        assert [path.name for path in (tmp_path / "hashes").iterdir()] == ["00000.npy"]


def test_a_worker_whose_files_are_not_seen_here_is_told(tmp_path: Path) -> None:
    with (
        FiledDuplicates(tmp_path / "hashes", Threads(1).run) as duplicates,
        pytest.raises(InputError, match="a directory that the workers and this machine share"),
    ):
        duplicates.add(HashFile("/elsewhere/00000.npy", 3))
