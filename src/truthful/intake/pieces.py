"""Reports in pieces: what one worker reads and works on while others have the next ones.

A piece knows its place among the reports, so that pieces may be done in any order, by any process, again if need be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet

from truthful.intake.sources import BATCH_ROWS, plain, readable

SLICE_ROWS = 131_072  # of what is in memory already; longer ones leave the processor's caches
PARQUET_BUFFER = 1 << 18  # bytes buffered per column, so that a huge row group is never held whole


class Content(Protocol):
    """Record batches that a piece is made of, with all of its columns or, if that is sooner read, some of them."""

    def batches(self) -> Iterator[Any]: ...
    def only(self, columns: tuple[str, ...]) -> Content: ...


@dataclass(frozen=True, eq=False)
class Held:
    """A batch in memory."""

    batch: Any

    def batches(self) -> Iterator[Any]:
        yield self.batch

    def only(self, columns: tuple[str, ...]) -> Held:
        return self


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Some row groups of a Parquet file, read batch by batch when they are asked for."""

    path: str
    groups: tuple[int, ...]
    columns: tuple[str, ...]
    name: str
    metadata: Any = None  # the file's, if it is at hand; it is not sent to other processes
    filesystem: Any = None  # fsspec's, if the path is not one of this machine

    def batches(self) -> Iterator[Any]:
        with open_parquet(self.path, self.name, self.metadata, self.filesystem) as file:
            yield from file.iter_batches(
                batch_size=BATCH_ROWS,
                row_groups=list(self.groups),
                columns=list(self.columns),
                use_threads=False,
            )

    def only(self, columns: tuple[str, ...]) -> RowGroups:
        return replace(self, columns=columns)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"metadata": None}


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive reports, of which the first is number `first_row` of the source, counted from 1."""

    number: int
    first_row: int
    content: Content
    columns: tuple[str, ...]
    where: str

    def only(self, *columns: str) -> Piece:
        """The same reports with some of their columns."""
        return replace(self, content=self.content.only(columns), columns=columns)

    def batches(self) -> Iterator[Any]:
        """Batches of at most 131,072 rows of plain text and numbers."""
        for batch in self.content.batches():
            table = plain(batch, self.columns, self.where)
            for start in range(0, table.num_rows, SLICE_ROWS):
                yield table.slice(start, SLICE_ROWS)

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """The batches, each with the number of its first row."""
        row = self.first_row
        for batch in self.batches():
            yield row, batch
            row += batch.num_rows


def split(rows: Sequence[int], most: int) -> Iterator[tuple[int, ...]]:
    """Neighbouring row groups, given by their sizes, as many together as have at most so many rows."""
    chosen: list[int] = []
    held = 0
    for group, size in enumerate(rows):
        if chosen and held + size > most:
            yield tuple(chosen)
            chosen, held = [], 0
        chosen.append(group)
        held += size
    if chosen:
        yield tuple(chosen)


@contextmanager
def open_parquet(path: str, name: str, metadata: Any = None, filesystem: Any = None) -> Iterator[Any]:
    """A Parquet file that is read as it is used: Arrow's own read-ahead holds whole row groups.

    With one of fsspec's file systems too, whose own cache would fetch some megabytes again for every column.
    """
    with (
        readable(name, "Parquet"),
        nullcontext(path) if filesystem is None else filesystem.open(path, "rb", cache_type="none") as source,
        pa.parquet.ParquetFile(
            source,
            metadata=metadata,
            pre_buffer=False,
            memory_map=False,
            buffer_size=PARQUET_BUFFER,
        ) as file,
    ):
        yield file
