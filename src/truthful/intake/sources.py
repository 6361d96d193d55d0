"""What every source of reports has in common: which columns, of what kind, and errors in plain words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

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
