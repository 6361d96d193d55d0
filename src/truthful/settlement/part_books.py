"""Books written by many workers: directories of parts, one for each piece of the reports, each whole or not there."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from truthful import check
from truthful.errors import InputError
from truthful.files import sync, written_whole
from truthful.intake.sources import Piece
from truthful.settlement.books import KEPT, PAYMENTS, RECEIPTS, parquet_writer, payments_schema
from truthful.settlement.tasks import Paid

Paying = Callable[[Piece], Iterator[tuple[Any, Paid]]]


@dataclass(frozen=True, eq=False)
class WriteParts:
    """A second pass that leaves its books in files, and gives only their name and what was paid.

    Parts depend on their piece alone: done again, after a worker was lost, they are the same to the byte.
    """

    pay: Paying
    books: tuple[Path, ...]

    def __call__(self, piece: Piece) -> Iterator[tuple[str | None, Paid]]:
        name, paid = f"part-{piece.number:05d}.parquet", Paid()
        writers: list[Any] = []
        with ExitStack() as files:
            for receipts, more in self.pay(piece):
                if not writers:
                    schemas = {PAYMENTS: payments_schema(receipts.schema), RECEIPTS: receipts.schema}
                    parts = (_part(book / name, schemas[book.name]) for book in self.books)
                    writers = [files.enter_context(part) for part in parts]
                for writer in writers:
                    writer.write(receipts.select(writer.schema.names))
                paid += more
        yield name if writers else None, paid


class PartBooks:
    """Books in a directory that all workers share.

    They are built under a name that is used once, and then moved in one step. So a worker that was given up, but still
    works, meets nobody's books but its own, and none that are finished.
    """

    def __init__(self, directory: Path, kept: str = "all") -> None:
        names = (PAYMENTS, RECEIPTS) if check.choice("books", kept, KEPT) == "all" else (PAYMENTS,)
        self._directory, self._building = directory, directory / f".books-{secrets.token_hex(8)}"
        self._books = tuple(self._building / name for name in names)

    def task(self, pay: Paying) -> Paying:
        return WriteParts(pay, self._books)

    def write(self, name: str | None) -> None:
        """Take note of a part that a worker has written."""
        for book in self._books:
            if name is not None and not (book / name).exists():
                raise InputError(
                    f"A worker wrote {name} to {str(book)!r}, but it is not there on this machine. Let the settlement "
                    "go to a directory that the workers and this machine share."
                )

    def __enter__(self) -> PartBooks:
        for book in self._books:
            book.mkdir(parents=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            for book in self._books:
                _remove_debris(book.rename(self._directory / book.name))


def _remove_debris(book: Path) -> None:
    """Remove what killed workers left half written."""
    for debris in book.glob(".*"):
        debris.unlink()


@contextmanager
def _part(path: Path, schema: Any) -> Iterator[Any]:
    with written_whole(path) as temporary:
        with parquet_writer(temporary, schema) as writer:
            yield writer
        sync(temporary)
