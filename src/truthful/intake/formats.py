"""Files of reports in common formats: text read block by block, spreadsheets and statistics files read whole.

Values of every format become the text that a CSV file would hold: ids as displayed, 7.0 as "7", 0.1 as "0.1". So one
set of rules reads them all.
"""

from __future__ import annotations

import codecs
import csv
import datetime
import gzip
import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from truthful.errors import InputError
from truthful.intake.sources import (
    CSV_BLOCK,
    ParquetFiles,
    Source,
    Tables,
    extra_columns,
    file_fingerprint,
    plain_errors,
    quote_names,
)

QUALTRICS = 2  # rows below the header: the questions, and import ids
IMPORT_ID = '{"ImportId"'
SEPARATORS = ",;\t|"
HEAD = 1 << 16  # characters that hold the whole header
BLANK_LINE = rb"(\n\r?\n|\r\r)[\r\n]*[^\r\n]"

# Numbers with a decimal comma, and with a point; then those that may be whole, with a thousands separator.
COMMA = r"^\s*[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?\s*$"
POINT = r"^\s*[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*$"
THOUSANDS = r"^\s*[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}\s*$"


class TextFile(Source):
    """Fields separated by commas, or as the header shows; all are read as text so that bad ones can be shown.

    `separator` is the one that the file's name implies. Unless fields are separated by commas, columns of `numbers` may
    have decimal commas, if that is beyond doubt.
    """

    def __init__(self, path: Path, columns: tuple[str, ...], numbers: frozenset[str], separator: str) -> None:
        self.path, self.where = path, path.name
        self._columns, self._numbers = columns, [name for name in columns if name in numbers]
        self._zipped = path.suffix.lower() == ".gz"
        with plain_errors(self.where, "CSV"):
            self._encoding = self._find_encoding()
            with self._text() as text:
                head = text.read(HEAD)
        declared = re.match(r"sep=(.)\r?\n", head)  # a line that Excel reads, and does not show
        self._lead = 0 if declared is None else 1
        if not head[declared.end() if declared else 0 :].strip():
            raise InputError(
                f"The file {self.where} is empty. It must have a header and one row for each player."
            )
        self._separator = declared[1] if declared else _separator(head, separator)
        self._skipped = self._header_rows()
        self.first_row = 2 + self._skipped
        with self._reader(pyarrow.csv.ConvertOptions()) as reader:
            self.extra = extra_columns(reader.schema.names, columns, self.where)
        self._check_lines()
        self._comma = self._separator != "," and self._has_decimal_comma()
        self.notes = (
            *([_skipped_note(path.name, 2)] if self._skipped else []),
            *([f"In {path.name} numbers are read with a decimal comma."] if self._comma else []),
        )

    def batches(self) -> Iterator[Any]:
        for batch in self._as_written(self._columns):
            yield _with_points(batch, self._numbers) if self._comma else batch

    def fingerprint(self) -> object:
        return file_fingerprint(self.path)

    def _as_written(self, columns: Sequence[str]) -> Iterator[Any]:
        types = dict.fromkeys(columns, pa.string())
        options = pyarrow.csv.ConvertOptions(include_columns=list(columns), column_types=types)
        with self._reader(options) as reader:
            yield from reader

    def _find_encoding(self) -> str:
        """UTF-8, or UTF-16 where a mark makes it certain."""
        with self._bytes() as file:
            start = file.read(4096)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if max(start[side::2].count(0) for side in (0, 1)) > len(start) / 4:
            raise InputError(
                f"The file {self.where} looks like UTF-16, but lacks the mark at its start that would say so. Save it "
                "as 'CSV UTF-8'."
            )
        return "utf-8"

    def _header_rows(self) -> int:
        """The number of rows between the header and the first record."""
        with suppress(csv.Error, OSError, EOFError):  # reported later
            return extra_header_rows(list(islice(filter(None, self._rows()), 1, 1 + QUALTRICS)))
        return 0

    def _check_lines(self) -> None:
        """Refuse a quote that is never closed: Arrow silently takes the rest of the file for one field.

        Arrow also skips blank lines, which spreadsheets count.
        """
        quotes, blank, end = 0, False, b""
        with plain_errors(self.where, "CSV"):
            for block in self._blocks():
                quotes += block.count(b'"')
                lines = end + block
                blank = blank or _has_blank_line(lines)
                end = block[-2:]
        if quotes % 2:
            self._find_open_quote()
        if blank and self._has_blank_row():
            self.where = f"{self.where} (blank lines not counted)"

    def _has_blank_row(self) -> bool:
        """Whether there is a blank row before the end; a quoted field may hold blank lines."""
        blank = False
        try:
            for row in self._rows():
                if blank and row:
                    return True
                blank = blank or not row
        except csv.Error:  # this parser sees other rows than Arrow
            return True
        return False

    def _find_open_quote(self) -> None:
        """An odd number of quotes is harmless if one is within an unquoted field: Python's parser decides."""
        row = 1
        try:
            for _ in self._rows():
                row += 1
        except csv.Error as error:
            raise InputError(f"In {self.where}, row {row}, a quote is not closed: {error}.") from None

    def _find_ragged_row(self) -> None:
        """Find a row of another length; Arrow can do so only where all is UTF-8."""
        header = 0
        for number, fields in enumerate(self._rows(), 1):
            header = header or len(fields)
            if fields and len(fields) != header:
                raise InputError(
                    f"In {self.path.name}, row {number} has {len(fields)} fields and the header has {header}. Correct "
                    f"the row; a field that holds {self._separator!r} must stand in quotes."
                ) from None

    def _rows(self) -> Iterator[list[str]]:
        """All rows, the header first and blank ones included, by Python's slower parser."""
        with self._text() as text:
            for _ in range(self._lead):
                text.readline()
            yield from csv.reader(text, delimiter=self._separator, strict=True)

    def _text(self) -> io.TextIOWrapper:
        encoding = "utf-8-sig" if self._encoding == "utf-8" else self._encoding
        return io.TextIOWrapper(self._bytes(), encoding, errors="replace", newline="")

    def _bytes(self) -> BinaryIO:
        opener = gzip.open if self._zipped else open
        return cast(BinaryIO, opener(self.path, "rb"))

    def _blocks(self) -> Iterator[bytes]:
        """The whole file, in UTF-8."""
        with self._bytes() as file:
            if self._encoding == "utf-8":
                yield from iter(lambda: file.read(CSV_BLOCK), b"")
                return
            text = codecs.getreader(self._encoding)(file, "replace")
            yield from (block.encode() for block in iter(lambda: text.read(CSV_BLOCK), ""))

    @contextmanager
    def _reader(self, convert: Any) -> Iterator[Any]:
        read = pyarrow.csv.ReadOptions(
            use_threads=False,  # as fast here as two threads
            block_size=CSV_BLOCK,
            skip_rows=self._lead,
            skip_rows_after_names=self._skipped,
            encoding=self._encoding,
        )
        parse = pyarrow.csv.ParseOptions(newlines_in_values=True, delimiter=self._separator)
        try:
            with (
                plain_errors(self.path.name, "CSV"),
                pa.input_stream(str(self.path), compression="gzip" if self._zipped else None) as stream,
                pyarrow.csv.open_csv(stream, read, parse, convert) as reader,
            ):
                yield reader
        except InputError:
            with suppress(csv.Error, OSError, EOFError):
                self._find_ragged_row()
            raise

    def _has_decimal_comma(self) -> bool:
        """Whether numbers have a decimal comma. 1,234 and 1.234 alone may be whole, with a thousands separator."""
        marks = (Mark(COMMA, "comma"), Mark(POINT, "point"))
        row = self.first_row
        for batch in self._as_written(self._numbers) if self._numbers else ():
            for name in self._numbers:
                for mark in marks:
                    mark.look(batch.column(name), row, name)
            row += batch.num_rows
        comma, point = marks
        if comma.first and point.first:
            raise InputError(
                f"In {self.where} some numbers have a decimal comma ({comma.first}) and some a point ({point.first}). "
                "Write all of them one way, without setting thousands apart."
            )
        for mark in marks:
            if mark.first and not mark.certain:
                raise InputError(
                    f"In {self.where} fields are separated by {self._separator!r}, and it cannot be told whether the "
                    f"{mark.name} in numbers ({mark.first} is the first) is a decimal {mark.name} or sets thousands "
                    "apart. Write whole numbers without it; else save the file with commas between fields and points "
                    "in numbers."
                )
        return bool(comma.first)


class Mark:
    """Numbers with a comma, or with a point: the first one, and whether one cannot be a thousands separator."""

    def __init__(self, pattern: str, name: str) -> None:
        self.pattern, self.name, self.first, self.certain = pattern, name, "", False

    def look(self, column: Any, row: int, header: str) -> None:
        """Look through a column whose first value is in this row."""
        marked = pc.match_substring_regex(column, self.pattern)
        at = pc.index(marked, True).as_py()
        if at < 0:
            return
        self.first = self.first or f"row {row + at}, column {header!r}"
        thousands = pc.match_substring_regex(column, THOUSANDS)
        self.certain = self.certain or pc.any(pc.and_not(marked, thousands)).as_py()


def _separator(head: str, promised: str) -> str:
    """The separator in the header, quoted names aside; if there are several or none, the promised one."""
    header = re.sub(r'"[^"]*("|$)', "quoted", head).lstrip().partition("\n")[0]
    found = [mark for mark in SEPARATORS if mark in header]
    return found[0] if len(found) == 1 else promised


def _has_blank_line(lines: bytes) -> bool:
    """Whether there is a blank line before the last line."""
    marks = (
        (b"\n\n", b"\n\r\n", b"\r\r") if b"\r" in lines else (b"\n\n",)
    )  # sooner found than by the pattern
    return any(mark in lines for mark in marks) and re.search(BLANK_LINE, lines) is not None


def _with_points(batch: Any, numbers: Sequence[str]) -> Any:
    """The batch with points for decimal commas."""
    for name in numbers:
        column, at = batch.column(name), batch.schema.get_field_index(name)
        pointed = pc.replace_substring(column, ",", ".")
        batch = batch.set_column(
            at, name, pc.if_else(pc.match_substring_regex(column, COMMA), pointed, column)
        )
    return batch


def extra_header_rows(below: Sequence[Sequence[Any]]) -> int:
    """The number of rows below the header that are not records: two, if the second holds Qualtrics ids."""
    ids = [str(cell) for cell in below[1] if cell] if len(below) == QUALTRICS else []
    return QUALTRICS if ids and all(cell.startswith(IMPORT_ID) for cell in ids) else 0


def _skipped_note(where: str, first: int) -> str:
    return f"In {where} rows {first} and {first + 1} are no records but Qualtrics' questions and ids; they are skipped."


@dataclass(frozen=True, eq=False)
class Sheet:
    """A file read whole: values by column, under their headers, the first in row `first_row`.

    `hint` says what else there is, if a column is missing.
    """

    headers: list[str]
    values: Sequence[Sequence[Any]]
    first_row: int
    hint: str = ""
    notes: tuple[str, ...] = ()


#: Reads a file, given its sheet, the columns wanted, and which of them hold numbers.
Reader = Callable[[Path, str, tuple[str, ...], frozenset[str]], Sheet]


class WholeFile(Tables):
    """A spreadsheet or a statistics file, held whole."""

    def __init__(
        self, path: Path, sheet: str, columns: tuple[str, ...], numbers: frozenset[str], read: Reader
    ) -> None:
        self.path, self.where = path, path.name
        try:
            found = read(path, sheet, columns, numbers)
        except ModuleNotFoundError as missing:
            raise InputError(
                f"To read {path.name} {missing.name} is needed. Install it: pip install 'truthful[files]'."
            ) from None
        extra = extra_columns(found.headers, columns, path.name, found.hint)
        self.first_row, self.notes = found.first_row, found.notes
        texts = {name: self._texts(found, name, name in numbers) for name in columns}
        super().__init__([pa.table(texts)], columns)
        self.extra = extra

    def fingerprint(self) -> object:
        return file_fingerprint(self.path)

    def _texts(self, found: Sheet, name: str, number: bool) -> Any:
        values = found.values[found.headers.index(name)]
        texts = []
        for row, value in enumerate(values, self.first_row):
            try:
                texts.append(_cell_text(value, number))
            except ValueError as problem:
                raise InputError(f"In {self.where}, row {row}, column {name!r} {problem}") from None
        return pa.array(texts, pa.string())


LARGEST_WHOLE = 10**15  # spreadsheets keep 15 digits


def _cell_text(value: Any, number: bool) -> str:
    """Format a value as a CSV file would hold it. A number used as a name, such as an id, must be whole."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return str(value).upper()
        case int() | float():
            if abs(value) < LARGEST_WHOLE and float(value).is_integer():
                return str(int(value))
            if abs(value) >= LARGEST_WHOLE and not number:
                raise ValueError(
                    "holds a number of more than 15 digits, of which spreadsheets lose some. Write it as text."
                )
            return "" if math.isnan(value) else repr(value)
        case datetime.date() | datetime.time() | datetime.timedelta():
            raise ValueError("holds a date or a time. Write it as text or as a number.")
        case _:
            raise ValueError(f"holds a {type(value).__name__}. Write it as text or as a number.")


def _read_workbook(path: Path, sheet: str, columns: tuple[str, ...], numbers: frozenset[str]) -> Sheet:
    """One sheet of a spreadsheet file: the one named, or the first."""
    from python_calamine import CalamineError, CalamineWorkbook

    try:
        with CalamineWorkbook.from_path(str(path)) as book:
            names = book.sheet_names
            if sheet and sheet not in names:
                raise InputError(
                    f"In {path.name} there is no sheet {sheet!r}; there are {quote_names(names)}."
                )
            page = book.get_sheet_by_name(sheet or names[0])
            rows, merged = page.to_python(skip_empty_area=False), page.merged_cell_ranges or []
    except CalamineError as error:
        raise InputError(f"Cannot read {path.name} as a spreadsheet: {error}") from None
    filled = [at for at, row in enumerate(rows) if any(str(cell).strip() for cell in row)]
    if not filled:
        raise InputError(
            f"Sheet {page.name!r} of {path.name} is empty. It must have a header and one row for each player."
        )
    top, end = filled[0], filled[-1] + 1
    headers = [_cell_text(cell, True) if isinstance(cell, str | float | int) else "" for cell in rows[top]]
    for (first, left), (last, right) in merged:
        if first <= top <= last and left < right and headers[left] in columns:
            raise InputError(
                f"In {path.name} the header {headers[left]!r} stands over {right - left + 1} columns. Unmerge its "
                "cells, and give each column a header of its own."
            )
    skipped = extra_header_rows(rows[top + 1 : top + 1 + QUALTRICS])
    start = top + 1 + skipped
    gaps = sorted(set(range(start, end)) - set(filled))
    if gaps:
        raise InputError(f"In {path.name}, row {gaps[0] + 1} is empty, and more rows follow. Delete it.")
    others = [name for name in names if name != page.name]
    hint = f" This is sheet {page.name!r}; another one is read as {path.name}#{others[0]}." if others else ""
    notes = (_skipped_note(path.name, top + 2),) if skipped else ()
    values = list(zip(*rows[start:end], strict=True)) or [()] * len(headers)
    return Sheet(headers, values, start + 1, hint, notes)


def _read_statistics(path: Path, sheet: str, columns: tuple[str, ...], numbers: frozenset[str]) -> Sheet:
    """A file of Stata or SPSS. Values declared missing are missing."""
    import pyreadstat

    read = pyreadstat.read_dta if path.suffix.lower() == ".dta" else pyreadstat.read_sav
    try:
        _, about = read(path, metadataonly=True, output_format="dict")
        wanted = [name for name in columns if name in about.column_names]
        found, _ = read(path, usecols=wanted, output_format="dict") if wanted else ({}, None)
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError) as error:
        raise InputError(f"Cannot read {path.name} as a file of Stata or SPSS: {error}") from None
    values: dict[str, Sequence[Any]] = {name: found[name] for name in wanted}
    for name in wanted:
        if about.readstat_variable_types[name] == "float":  # 4-byte: 0.1 is the nearest of these to 0.1
            values[name] = [
                None if value is None else float(str(np.float32(value))) for value in values[name]
            ]
        labels = about.variable_value_labels.get(name, {})
        if labels and name not in numbers:
            values[name] = [labels.get(value, value) for value in values[name]]
    return Sheet(about.column_names, [values.get(name, ()) for name in about.column_names], 1)


#: The separator of fields, by the file's suffix.
TEXT = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}
#: Readers of files that are held whole.
WORKBOOKS = dict.fromkeys((".xlsx", ".xls", ".xlsb", ".ods"), _read_workbook)
WHOLE: dict[str, Reader] = {**WORKBOOKS, **dict.fromkeys((".dta", ".sav", ".zsav"), _read_statistics)}


def open_file(path: Path, columns: tuple[str, ...], numbers: frozenset[str]) -> Source | None:
    """The source for a file, None if its kind cannot be read. people.xlsx#Codes is the sheet 'Codes'."""
    name, _, sheet = path.name.partition("#")
    if sheet and Path(name).suffix.lower() in WORKBOOKS:
        path = path.with_name(name)
    if not path.exists():
        raise InputError(f"There is no file {str(path)!r}. Give the path of one, from {str(Path.cwd())!r}.")
    suffix = path.suffix.lower()
    if path.is_dir() or suffix == ".parquet":
        return ParquetFiles(path, columns)
    if suffix in WHOLE:
        return WholeFile(path, sheet, columns, numbers, WHOLE[suffix])
    separator = TEXT.get(Path(path.stem).suffix.lower() if suffix == ".gz" else suffix)
    return None if separator is None else TextFile(path, columns, numbers, separator)
