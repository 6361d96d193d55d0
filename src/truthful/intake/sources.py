"""The common part of all sources of reports: kinds of columns, errors in plain words, locations of files, and pieces;
and the sources that Arrow reads by itself.

Parquet parts lie on disks of this machine, or behind any URL that fsspec can open. A piece is read and processed by one
worker while others take the next ones.
"""

from __future__ import annotations

import itertools
import os
import posixpath
import re
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet

from truthful.errors import InputError

BATCH_ROWS = 65_536
#: The most names that a message lists.
MOST_NAMES = 12
CSV_BLOCK = 1 << 20  # bytes; Arrow reads some 32 blocks ahead, and no row may be longer than a block
ROW_LABELS = re.compile(
    r"(__index_level_\d+__)?"
)  # pandas saves them under this name; R, and pandas in CSV, under none


@dataclass(frozen=True)
class Place:
    """Names for messages: of a source, its rows and its columns.

    `first_row` is the number of its first record: 2 in spreadsheets and text, whose header is row 1, 1 in Stata and
    SPSS, 0 in tables and Parquet. `headers` are those of columns that have another name in the study.
    """

    where: str = "the reports"
    first_row: int = 1
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def counting(self) -> str:
        """How rows are counted, unless as in spreadsheets."""
        return "" if self.first_row > 1 else f" (rows count from {self.first_row})"

    def cell(self, row: int, column: str) -> str:
        """A row, and the header of a column that has another name in the study."""
        return f"row {row}, column {self.headers[column]!r}" if column in self.headers else f"row {row}"


class MissingColumns(InputError):
    """A source lacks columns; `header` is the first."""

    def __init__(self, header: str, message: str) -> None:
        super().__init__(message)
        self.header = header


def extra_columns(found: Sequence[str], wanted: Sequence[str], where: str, hint: str = "") -> tuple[str, ...]:
    """The columns beyond the wanted ones, row labels excepted; missing and repeated columns are errors."""
    found = [name for name in found if not ROW_LABELS.fullmatch(str(name))]
    repeated = [name for name, times in Counter(found).items() if times > 1]
    if repeated:
        raise InputError(
            f"In {where} several columns are named {quote_names(repeated)}. Keep one of each name."
        )
    missing = [name for name in wanted if name not in found]
    if missing:
        raise MissingColumns(
            missing[0],
            f"In {where} there is no column {quote_names(missing)}; the columns are {quote_names(found)}. "
            f"Add the column or rename one.{hint}",
        )
    return tuple(name for name in found if name not in wanted)


def quote_names(names: Sequence[object]) -> str:
    """Names in quotes, the first MOST_NAMES of them."""
    shown = ", ".join(repr(name) for name in names[:MOST_NAMES])
    return shown if len(names) <= MOST_NAMES else f"{shown} and {len(names) - MOST_NAMES} more"


def plain_columns(batch: Any, columns: Mapping[str, str], where: str) -> Any:
    """The wanted columns in this order and under these names, each as plain text or plain numbers."""
    arrays = [_plain_array(batch.column(header), header, where) for header in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _plain_array(array: Any, name: str, where: str) -> Any:
    if pa.types.is_dictionary(array.type):
        return _plain_array(array.dictionary, name, where).take(array.indices)
    kind = column_kind(array.type)
    if kind == "other":
        raise InputError(f"Column {name!r} of {where} holds {array.type}; it must hold text or numbers.")
    return array.cast(pa.string()) if kind == "text" else array


def column_kind(arrow_type: Any) -> str:
    """The kind of a column, as far as reports go: text, numbers, nothing at all, or something else."""
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
def plain_errors(where: str, language: str) -> Iterator[None]:
    """Translate errors of Arrow and of the system into words that say what to do."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(_explain(where, language, str(error))) from None


def _explain(where: str, language: str, error: str) -> str:
    if "UTF8" in error or "utf-8" in error:
        return (
            f"The file {where} is not UTF-8 text; most likely it is Windows-1252, which Excel's plain CSV is. Save it "
            "as 'CSV UTF-8'."
        )
    if "straddling" in error:
        return f"In {where} a row is longer than {CSV_BLOCK:,} bytes; most likely a quote is never closed."
    return f"Cannot read {where} as {language}: {error.splitlines()[0]}"


def file_fingerprint(path: Path) -> tuple[str, int, int, int]:
    status = path.stat()
    return path.name, status.st_ino, status.st_size, status.st_mtime_ns


# Names, in various file systems, of properties that change when a file does.
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


def local_parts(path: Path) -> dict[str, object]:
    """The parts of a Parquet file or of a directory of them, sorted by name, each with properties that change when it
    does.

    Paths are absolute: other processes may have another working directory.
    """
    if not path.is_dir():
        return {str(path.absolute()): file_fingerprint(path)}
    paths = {found.name: found for found in path.iterdir()}
    names = part_names(path.name, {name: found.is_dir() for name, found in paths.items()})
    return {str(paths[name].absolute()): file_fingerprint(paths[name]) for name in names}


def remote_parts(filesystem: Any, path: str) -> dict[str, object]:
    """The parts in one of fsspec's file systems."""
    filesystem.invalidate_cache()  # listings are cached otherwise, and a change would go unseen
    entry = filesystem.info(path)
    if entry["type"] != "directory":
        return {path: _stamp(entry)}
    entries = {
        posixpath.basename(found["name"].rstrip("/")): found
        for found in filesystem.ls(path, detail=True)
        if found["name"].strip("/") != path.strip("/")  # object stores list a directory in itself
    }
    directories = {name: found["type"] == "directory" for name, found in entries.items()}
    names = part_names(posixpath.basename(path.rstrip("/")), directories)
    return {entries[name]["name"]: _stamp(entries[name]) for name in names}


def open_url(url: str) -> tuple[Any, str]:
    """The file system and path of a URL: file:// is a local path (None), all else goes to fsspec."""
    try:
        import fsspec
        from fsspec.implementations.local import LocalFileSystem
    except ImportError:
        raise InputError(
            f"To read {url!r} fsspec is needed. Install it: pip install 'truthful[dask]'."
        ) from None
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
        if isinstance(filesystem, LocalFileSystem):
            return None, path
        filesystem.info(path)
    except FileNotFoundError:
        raise InputError(f"There is nothing at {url!r}. Give the URL of the reports.") from None
    except Exception as error:  # every file system has its own errors
        raise InputError(f"Cannot open {url!r}: {error}") from None
    return filesystem, path


def part_names(directory: str, found: Mapping[str, bool]) -> list[str]:
    """The Parquet parts among names (and whether each is a directory).

    Markers such as _SUCCESS are skipped, all else is an error.
    """
    names = sorted(name for name in found if name[:1] not in "_.")
    strange = [name for name in names if not name.lower().endswith(".parquet") or found[name]]
    if strange:
        raise InputError(
            f"Directory {directory} holds {quote_names(strange)}; keep only .parquet parts there."
        )
    if not names:
        raise InputError(f"Directory {directory} holds no .parquet file.")
    return names


def _stamp(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry.get(key)) for key in STAMPS)


SLICE_ROWS = 131_072  # rows of data in memory; longer slices leave the processor's caches
PARQUET_BUFFER = 1 << 18  # bytes buffered per column, so that a huge row group is never held whole


class Content(Protocol):
    """Record batches of a piece, with all of its columns or, if that is faster to read, some of them."""

    @property
    def schema(self) -> Any: ...
    def batches(self) -> Iterator[Any]: ...
    def only(self, columns: tuple[str, ...]) -> Content: ...


@dataclass(frozen=True, eq=False)
class MemoryBatch:
    """A batch in memory."""

    batch: Any

    @property
    def schema(self) -> Any:
        return self.batch.schema

    def batches(self) -> Iterator[Any]:
        yield self.batch

    def only(self, columns: tuple[str, ...]) -> MemoryBatch:
        return self


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Row groups of a Parquet file, read batch by batch on demand."""

    path: str
    groups: tuple[int, ...]
    columns: tuple[str, ...]
    name: str
    metadata: Any  # the file's; not sent to other processes
    filesystem: Any  # fsspec's, if the path is not local

    @property
    def schema(self) -> Any:
        return self.metadata.schema.to_arrow_schema()

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
    """Consecutive reports; the first is row `first_row` of the source. `columns` have headers there."""

    number: int
    first_row: int
    content: Content
    columns: Mapping[str, str]
    where: str

    def only(self, *columns: str) -> Piece:
        """The same reports with only these columns."""
        headers = {name: self.columns[name] for name in columns}
        return replace(self, content=self.content.only(tuple(headers.values())), columns=headers)

    def batches(self) -> Iterator[Any]:
        """Batches of at most 131,072 rows of plain text and numbers."""
        for batch in self.content.batches():
            table = plain_columns(batch, self.columns, self.where)
            for start in range(0, table.num_rows, SLICE_ROWS):
                yield table.slice(start, SLICE_ROWS)

    def with_row_numbers(self) -> Iterator[tuple[int, Any]]:
        """The batches, each with the number of its first row."""
        row = self.first_row
        for batch in self.batches():
            yield row, batch
            row += batch.num_rows


def split(rows: Sequence[int], most: int) -> Iterator[tuple[int, ...]]:
    """Group neighbouring row groups, given by their sizes, up to this many rows together."""
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

    In fsspec's file systems too, whose own cache would fetch some megabytes again for every column.
    """
    with (
        plain_errors(name, "Parquet"),
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


class Source(ABC):
    """Record batches that can be read repeatedly.

    `where` is its name in messages, `first_row` the number of its first record there, `extra` are the columns found but
    not wanted, `rows` is None if unknown, and `notes` report values that were not read as written.
    """

    where: str
    first_row = 0
    extra: tuple[str, ...]
    rows: int | None = None
    notes: tuple[str, ...] = ()

    @abstractmethod
    def batches(self) -> Iterator[Any]:
        """One pass over the rows."""

    @abstractmethod
    def fingerprint(self) -> object:
        """A value that stays equal as long as the source is unchanged."""

    def contents(self, rows: int) -> Iterator[tuple[int, Content]]:
        """Pieces with their sizes: of about `rows` rows, if the source can be read at several places at once."""
        for batch in self.batches():
            yield batch.num_rows, MemoryBatch(batch)

    def close(self) -> None:  # noqa: B027 - most keep nothing
        """Remove temporary files."""


class ParquetFiles(Source):
    """A Parquet file or the parts of a directory, on a disk or in one of fsspec's file systems."""

    def __init__(self, path: str | Path, columns: tuple[str, ...], filesystem: Any = None) -> None:
        self._path, self._columns, self._filesystem = path, columns, filesystem
        self.where = posixpath.basename(str(path).rstrip("/"))
        self._files, extra = {}, dict[str, None]()
        for part in self._parts():
            name = posixpath.basename(part)
            with open_parquet(part, name, filesystem=filesystem) as file:
                extra.update(dict.fromkeys(extra_columns(file.schema_arrow.names, columns, name)))
                self._files[part] = file.metadata
        self.extra = tuple(extra)
        self.rows = sum(metadata.num_rows for metadata in self._files.values())

    def _parts(self) -> dict[str, object]:
        if self._filesystem is None:
            return local_parts(Path(self._path))
        return remote_parts(self._filesystem, str(self._path))

    def contents(self, rows: int) -> Iterator[tuple[int, RowGroups]]:
        for path, metadata in self._files.items():
            name = posixpath.basename(path)
            sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
            for groups in split(sizes, rows):
                content = RowGroups(path, groups, self._columns, name, metadata, self._filesystem)
                yield sum(sizes[i] for i in groups), content

    def batches(self) -> Iterator[Any]:
        for _, content in self.contents(BATCH_ROWS):
            yield from content.batches()

    def fingerprint(self) -> object:
        return list(self._parts().items())


TABLE_ROWS = 1 << 18  # slices of an Arrow table are not copies
ACCEPTED = "an Arrow table or batch, a pandas or polars frame, or a dict of arrays"


class Tables(Source):
    """Tables in memory, one or several, converted slice by slice."""

    where = "the table of reports"

    def __init__(self, tables: Sequence[Any], columns: tuple[str, ...]) -> None:
        self._tables = [_open_table(table, self.where) for table in tables]
        self._columns = columns
        extra = (extra_columns(_names(table), columns, self.where) for table in self._tables)
        self.extra = tuple(dict.fromkeys(itertools.chain.from_iterable(extra)))
        self.rows = sum(int(table.shape[0]) for table in self._tables)

    def batches(self) -> Iterator[Any]:
        for table in self._tables:
            yield from _batches(table, self._columns, self.where)

    def fingerprint(self) -> object:
        return None  # no cheap test shows whether memory changed; the number of rows is still compared


class Spool(Source):
    """A stream that can be read only once, kept in a temporary file until it is closed.

    The file holds consecutive Arrow IPC streams: a new one begins wherever the types change.
    """

    where = "the stream of reports"

    def __init__(self, tables: Iterable[Any], columns: tuple[str, ...]) -> None:
        descriptor, name = tempfile.mkstemp(prefix="truthful-", suffix=".arrows")
        os.close(descriptor)
        self._path = Path(name)
        self._remove = weakref.finalize(self, self._path.unlink, missing_ok=True)
        extra: dict[str, None] = {}
        try:
            self.rows = self._fill(self._select(tables, columns, extra))
        except BaseException:
            self.close()
            raise
        self.extra = tuple(extra)

    def batches(self) -> Iterator[Any]:
        with pa.OSFile(str(self._path), "rb") as file:
            while file.tell() < file.size():
                with pa.ipc.open_stream(file) as reader:
                    yield from reader

    def fingerprint(self) -> object:
        return file_fingerprint(self._path)

    def close(self) -> None:
        self._remove()

    def _select(
        self, tables: Iterable[Any], columns: tuple[str, ...], extra: dict[str, None]
    ) -> Iterator[Any]:
        for table in tables:
            known = _open_table(table, self.where)
            extra.update(dict.fromkeys(extra_columns(_names(known), columns, self.where)))
            for batch in _batches(known, columns, self.where):
                yield plain_columns(batch, dict(zip(columns, columns, strict=True)), self.where)

    def _fill(self, batches: Iterator[Any]) -> int:
        rows = 0
        with pa.OSFile(str(self._path), "wb") as file:
            for schema, alike in itertools.groupby(batches, lambda batch: batch.schema):
                with pa.ipc.new_stream(file, schema) as writer:
                    for batch in alike:
                        writer.write_batch(batch)
                        rows += batch.num_rows
        return rows


def is_table(source: Any) -> bool:
    """Whether the source can be read again: a table or dict of arrays can, a reader or iterator cannot."""
    if isinstance(source, pa.Table | pa.RecordBatch | Mapping):
        return True
    # A pandas or polars frame, recognised by its methods, so that neither library is imported.
    return all(hasattr(source, name) for name in ("__arrow_c_stream__", "columns", "shape", "__getitem__"))


def _open_table(table: Any, where: str) -> Any:
    """An Arrow table, batch or reader, or a frame."""
    with _convertible(where):
        if isinstance(table, Mapping):
            return pa.table(dict(table))
        if is_table(table):
            return table
        if hasattr(table, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(table)
    raise InputError(f"A batch of reports is a {type(table).__name__}; it must be {ACCEPTED}.")


def _names(table: Any) -> list[str]:
    arrow = isinstance(table, pa.Table | pa.RecordBatch | pa.RecordBatchReader)
    return list(table.schema.names if arrow else table.columns)


def _batches(table: Any, columns: tuple[str, ...], where: str) -> Iterator[Any]:
    """Arrow batches with the wanted columns; a frame is converted one slice at a time."""
    with _convertible(where):
        if isinstance(table, pa.RecordBatchReader):
            yield from table
        elif isinstance(table, pa.RecordBatch):
            yield table
        elif isinstance(table, pa.Table):
            yield from table.select(list(columns)).to_batches(max_chunksize=TABLE_ROWS)
        else:
            rows = table.iloc if hasattr(table, "iloc") else table
            for start in range(0, table.shape[0], BATCH_ROWS):
                part = rows[start : start + BATCH_ROWS][list(columns)]
                yield from pa.RecordBatchReader.from_stream(part)


@contextmanager
def _convertible(where: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, TypeError) as error:
        reason = "; ".join(str(part) for part in error.args)
        raise InputError(
            f"Cannot read {where}: {reason}. Every column must hold values of one type."
        ) from None
