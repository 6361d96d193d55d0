"""Files written whole or not at all, and the canonical form in which records are hashed."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: The books of a settlement.
PAYMENTS, RECEIPTS, PAYMENTS_CSV = "payments.parquet", "receipts.parquet", "payments.csv"


def canonical_json(record: Any) -> bytes:
    """The one byte string of a record: sorted keys, no spaces. Two equal records have equal bytes."""
    return json.dumps(
        record, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def sha256(record: Any) -> str:
    """The hash of a record's canonical form, by which other records refer to it."""
    return hashlib.sha256(canonical_json(record)).hexdigest()


def pretty_json(record: Any) -> str:
    """A record as JSON for people."""
    return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_atomically(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Write a file so that a reader, or a crash, sees either the old file or the whole new one. Text is UTF-8.

    A private file is never open to anybody but its owner.
    """

    def opened(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600 if private else 0o666)

    with written_whole(path) as temporary, open(temporary, "wb", opener=opened) as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    sync(path.parent)


def write_quickly(path: Path, content: str) -> None:
    """Write a small file that readers see whole; a power failure may lose it."""
    with written_whole(path) as temporary:
        temporary.write_text(content, encoding="utf-8")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to; it becomes `path` if the block succeeds, and is removed otherwise."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file written by other means, or the names in a directory, are on disk.

    A rename is durable only after its directory is.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def publish_directory(built: Path, final: Path) -> None:
    """Make a finished directory visible under its name in one step. An existing one is never replaced."""
    for path in built.iterdir():
        sync(path)
    sync(built)
    # os.rename refuses a target directory that is not empty; an empty one was never a release.
    os.rename(built, final)
    sync(final.parent)


@contextmanager
def exclusive(path: Path) -> Iterator[bool]:
    """Hold a lock on a file (made if need be) or a directory while the block runs; yields whether it was free.

    It was not free if somebody else holds it, or if the path was renamed before it could be locked. A killed holder
    frees it.
    """
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = os.path.samestat(os.stat(path), os.fstat(descriptor))
        except OSError:
            free = False
        yield free
    finally:
        os.close(descriptor)
