"""Where Parquet parts lie: on disks that this machine sees, or behind any URL that fsspec can open."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from truthful.errors import InputError
from truthful.intake.sources import file_fingerprint, listed

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
