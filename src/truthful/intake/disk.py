"""Reports in files: CSV and Parquet, read piece by piece in memory that does not grow with the rows."""

from __future__ import annotations

import csv
import gzip
import io
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.csv

from truthful.errors import InputError
from truthful.intake.pieces import RowGroups, open_parquet, split
from truthful.intake.places import Place
from truthful.intake.sources import BATCH_ROWS, CSV_BLOCK, extra_columns, file_fingerprint, readable


@dataclass(frozen=True)
class CsvFile:
    """A CSV file, plain or gzipped, read block by block, all values as text so that bad ones can be shown."""

    path: Path
    columns: tuple[str, ...]
    rows: None = None
    extra: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        with self._reader(pyarrow.csv.ConvertOptions()) as reader:
            names = reader.schema.names
        object.__setattr__(self, "extra", extra_columns(names, self.columns, self.where))
        self._check_quotes()

    @property
    def where(self) -> str:
        return self.path.name

    def batches(self) -> Iterator[Any]:
        types = dict.fromkeys(self.columns, pa.string())
        options = pyarrow.csv.ConvertOptions(include_columns=list(self.columns), column_types=types)
        with self._reader(options) as reader:
            yield from reader

    def fingerprint(self) -> object:
        return file_fingerprint(self.path)

    def close(self) -> None:
        pass

    def _check_quotes(self) -> None:
        """A quote that is never closed makes Arrow take the rest of the file, silently, for one field."""
        with readable(self.where, "CSV"), self._bytes() as file:
            quotes = sum(block.count(b'"') for block in iter(lambda: file.read(CSV_BLOCK), b""))
        if quotes % 2:
            self._find_open_quote()

    def _find_open_quote(self) -> None:
        """An odd number of quotes is harmless if one stands within an unquoted field: Python's parser tells."""
        row = 0
        with self._bytes() as file:
            text = io.TextIOWrapper(file, "utf-8", errors="replace", newline="")
            try:
                for fields in csv.reader(text, strict=True):
                    row += bool(fields)
            except csv.Error as error:
                raise InputError(f"In {self.where}, row {row}, a quote is not closed: {error}.") from None

    def _bytes(self) -> BinaryIO:
        opener = gzip.open if self._zipped else open
        return cast(BinaryIO, opener(self.path, "rb"))

    @property
    def _zipped(self) -> bool:
        return self.path.suffix.lower() == ".gz"

    @contextmanager
    def _reader(self, convert: Any) -> Iterator[Any]:
        # One thread: as fast here as two, and only then does Arrow know the number of a ragged row.
        read = pyarrow.csv.ReadOptions(use_threads=False, block_size=CSV_BLOCK)
        parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
        with (
            readable(self.where, "CSV"),
            pa.input_stream(str(self.path), compression="gzip" if self._zipped else None) as stream,
            pyarrow.csv.open_csv(stream, read, parse, convert) as reader,
        ):
            yield reader


@dataclass(frozen=True)
class ParquetFiles:
    """A Parquet file, or a directory of parts read in the order of their names."""

    place: Place
    columns: tuple[str, ...]
    files: dict[str, Any] = field(init=False)  # with what their footers say
    extra: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        files, extra = {}, dict[str, None]()
        for path in self.place.parts():
            name = posixpath.basename(path)
            with open_parquet(path, name, filesystem=self.place.filesystem) as file:
                extra.update(dict.fromkeys(extra_columns(file.schema_arrow.names, self.columns, name)))
                files[path] = file.metadata
        object.__setattr__(self, "files", files)
        object.__setattr__(self, "extra", tuple(extra))

    @property
    def where(self) -> str:
        return self.place.name

    @property
    def rows(self) -> int:
        return sum(metadata.num_rows for metadata in self.files.values())

    @property
    def schemas(self) -> Iterator[tuple[int, Any]]:
        first_row = 1
        for metadata in self.files.values():
            yield first_row, metadata.schema.to_arrow_schema()
            first_row += metadata.num_rows

    def contents(self, rows: int) -> Iterator[tuple[int, RowGroups]]:
        for path, metadata in self.files.items():
            name = posixpath.basename(path)
            sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
            for groups in split(sizes, rows):
                content = RowGroups(path, groups, self.columns, name, metadata, self.place.filesystem)
                yield sum(sizes[i] for i in groups), content

    def batches(self) -> Iterator[Any]:
        for _, content in self.contents(BATCH_ROWS):
            yield from content.batches()

    def fingerprint(self) -> object:
        return list(self.place.parts().items())

    def close(self) -> None:
        pass
