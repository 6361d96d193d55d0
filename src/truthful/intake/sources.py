"""What all sources of reports share: kinds of columns, errors in plain words, where files lie, and pieces.

Parquet parts lie on disks that this machine sees, or behind any URL that fsspec can open. A piece is what one worker
reads and works on while others have the next ones.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet

from truthful.errors import InputError

BATCH_ROWS = 65_536
CSV_BLOCK = 1 << 20  # bytes; Arrow reads some 32 blocks ahead, and no row may be longer than a block
PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # pandas saves its row labels under this name


class Source(Protocol):
    """Record batches that can be read again and again.

    A source that can be read at several places at once also has `contents(rows)`, pieces of about so many rows with
    their sizes, and `schemas`, the first row and the types of each of its parts.
    """

    @property
    def where(self) -> str: ...  # how messages call it
    @property
    def extra(self) -> tuple[str, ...]: ...  # columns found but not wanted
    @property
    def rows(self) -> int | None: ...
    def batches(self) -> Iterator[Any]: ...
    def fingerprint(self) -> object: ...  # equal as long as the source is unchanged
    def close(self) -> None: ...


def extra_columns(found: Sequence[str], wanted: Sequence[str], where: str) -> tuple[str, ...]:
    """The columns found beyond the wanted ones; missing and repeated columns are errors."""
    repeated = [name for name, times in Counter(found).items() if times > 1]
    if repeated:
        raise InputError(f"In {where} several columns are named {listed(repeated)}. Keep one of each name.")
    missing = [name for name in wanted if name not in found]
    if missing:
        raise InputError(
            f"In {where} there is no column {listed(missing)}; the columns are {listed(found)}. "
            f"Add the column or rename one.{_separator_hint(found)}"
        )
    return tuple(name for name in found if name not in wanted and not PANDAS_INDEX.fullmatch(str(name)))


def listed(names: Sequence[object], most: int = 12) -> str:
    """Names in quotes, as many as can be read."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _separator_hint(found: Sequence[str]) -> str:
    separator = next((mark for mark in ";\t|" if len(found) == 1 and mark in str(found[0])), None)
    return f" The fields look separated by {separator!r}; save the file with commas." if separator else ""


def plain(batch: Any, columns: Sequence[str], where: str) -> Any:
    """The wanted columns in the order asked for, each as plain text or plain numbers."""
    arrays = [_plain_array(batch.column(name), name, where) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _plain_array(array: Any, name: str, where: str) -> Any:
    if pa.types.is_dictionary(array.type):
        return _plain_array(array.dictionary, name, where).take(array.indices)
    kind = column_kind(array.type)
    if kind == "other":
        raise InputError(f"Column {name!r} of {where} holds {array.type}; it must hold text or numbers.")
    return array.cast(pa.string()) if kind == "text" else array


def column_kind(arrow_type: Any) -> str:
    """What a column holds, as far as reports go: text, numbers, nothing at all, or something else."""
    types = pa.types
    if types.is_dictionary(arrow_type):
        return column_kind(arrow_type.value_type)
    if types.is_null(arrow_type):
        return "nothing"
    if types.is_string(arrow_type) or types.is_large_string(arrow_type) or types.is_string_view(arrow_type):
        return "text"
    number = (
        types.is_integer(arrow_type)
        or types.is_floating(arrow_type)
        or types.is_boolean(arrow_type)
        or types.is_decimal(arrow_type)
    )
    return "numbers" if number else "other"


@contextmanager
def readable(where: str, language: str) -> Iterator[None]:
    """The errors of Arrow and of the system, in words that say what to do."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(_explained(where, language, str(error))) from None


def _explained(where: str, language: str, error: str) -> str:
    ragged = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", error)
    if ragged:
        number, expected, got = map(int, ragged.groups())
        return (
            f"In {where}, row {number - 1} has {got} fields and the header has {expected}. "
            "Correct the row; a field that holds a comma must stand in quotes."
        )
    if "Empty CSV" in error:
        return f"The file {where} is empty. It must have a header and one row for each player."
    if "UTF8" in error or "utf-8" in error:
        return f"The file {where} is not UTF-8 text. Save it as CSV in UTF-8."
    if "straddling" in error:
        return f"In {where} a row is longer than {CSV_BLOCK:,} bytes; most likely a quote is never closed."
    return f"Cannot read {where} as {language}: {error.splitlines()[0]}"


def file_fingerprint(path: Path) -> tuple[str, int, int, int]:
    status = path.stat()
    return path.name, status.st_ino, status.st_size, status.st_mtime_ns


# What file systems call the things that change when a file does.
STAMPS = (
    "size",
    "ETag",
    "etag",
    "md5Hash",
    "generation",
    "mtime",
    "LastModified",
    "last_modified",
    "created",
)


class Place(Protocol):
    """A Parquet file or a directory of parts."""

    @property
    def name(self) -> str: ...  # how messages call it
    @property
    def filesystem(self) -> Any: ...  # fsspec's, or None for paths that any process here can open
    def parts(self) -> dict[str, object]: ...  # in the order of names, each with what changes when it does


@dataclass(frozen=True)
class Local:
    """A path. Parts have absolute paths: whoever reads them may stand in another directory."""

    path: Path
    filesystem: None = None

    @property
    def name(self) -> str:
        return self.path.name

    def parts(self) -> dict[str, object]:
        if not self.path.is_dir():
            return {str(self.path.absolute()): file_fingerprint(self.path)}
        paths = {path.name: path for path in self.path.iterdir()}
        names = part_names(self.name, {name: path.is_dir() for name, path in paths.items()})
        return {str(paths[name].absolute()): file_fingerprint(paths[name]) for name in names}


@dataclass(frozen=True)
class Remote:
    """A path in one of fsspec's file systems."""

    filesystem: Any
    path: str

    @property
    def name(self) -> str:
        return posixpath.basename(self.path.rstrip("/"))

    def parts(self) -> dict[str, object]:
        self.filesystem.invalidate_cache()  # listings are kept otherwise, and a change would go unseen
        entry = self.filesystem.info(self.path)
        if entry["type"] != "directory":
            return {self.path: _stamp(entry)}
        entries = {
            posixpath.basename(found["name"].rstrip("/")): found
            for found in self.filesystem.ls(self.path, detail=True)
            if found["name"].strip("/") != self.path.strip("/")  # object stores list a directory in itself
        }
        names = part_names(self.name, {name: found["type"] == "directory" for name, found in entries.items()})
        return {entries[name]["name"]: _stamp(entries[name]) for name in names}


def is_url(source: object) -> bool:
    return isinstance(source, str) and "://" in source


def open_url(url: str) -> Local | Remote:
    """The place that a URL names: file:// is a path like any other, all else is fsspec's."""
    try:
        import fsspec
    except ImportError:
        raise InputError(
            f"To read {url!r} fsspec is needed. Install it: pip install 'truthful[dask]'."
        ) from None
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
        if "file" in _protocols(filesystem):
            return Local(Path(path))
        filesystem.info(path)
    except FileNotFoundError:
        raise InputError(f"There is nothing at {url!r}. Give the URL of the reports.") from None
    except Exception as error:  # every file system has errors of its own
        raise InputError(f"Cannot open {url!r}: {error}") from None
    return Remote(filesystem, path)


def part_names(directory: str, found: Mapping[str, bool]) -> list[str]:
    """The Parquet parts among names (and whether each is a directory).

    Markers such as _SUCCESS are passed over, all else is an error.
    """
    names = sorted(name for name in found if name[:1] not in "_.")
    strange = [name for name in names if not name.lower().endswith(".parquet") or found[name]]
    if strange:
        raise InputError(f"Directory {directory} holds {listed(strange)}; keep only .parquet parts there.")
    if not names:
        raise InputError(f"Directory {directory} holds no .parquet file.")
    return names


def _protocols(filesystem: Any) -> tuple[str, ...]:
    return (filesystem.protocol,) if isinstance(filesystem.protocol, str) else tuple(filesystem.protocol)


def _stamp(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry.get(key)) for key in STAMPS)


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
