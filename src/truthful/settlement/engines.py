"""Engines, which run tasks on pieces of the reports. Results come in the order of the pieces."""

from __future__ import annotations

import logging
import os
import queue
import secrets
import shutil
import signal
import socket
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from truthful import check
from truthful.errors import InputError, Option, TruthfulError
from truthful.files import PAYMENTS, RECEIPTS, sync, written_whole
from truthful.intake.duplicates import IN_MEMORY, NOTHING, Duplicates, Hashes, repeated_in
from truthful.intake.sources import Piece
from truthful.intake.stream import Reports
from truthful.settlement.books import Books, FileBooks, PaidTotals, parquet_writer, payments_of, receipts_of
from truthful.version import __version__

DASK = Option("engine", "dask")
P = TypeVar("P")
T = TypeVar("T")
Task = Callable[[P], Iterator[T]]

WAITING = 2  # results of a piece that may wait in the queue


class Engine(Protocol):
    """Workers, and how their results get here."""

    def run(self, task: Task[P, T], pieces: Iterable[P]) -> Iterator[T]: ...  # in the order of the pieces
    def pieces(self, reports: Reports) -> Iterator[Piece]: ...
    def duplicates(self, reports: Reports) -> Any: ...  # Duplicates, or its equivalent
    def books(self, directory: Path, kept: str) -> Books: ...


class Threads:
    """Threads of this process, one per processor: tasks spend their time in code that runs in parallel."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or len(os.sched_getaffinity(0))

    def pieces(self, reports: Reports) -> Iterator[Piece]:
        return reports.pieces()

    def duplicates(self, reports: Reports) -> Duplicates:
        """Duplicates, with hashes in memory if the reports are in memory anyway."""
        return Duplicates(in_memory=max(IN_MEMORY, reports.rows or 0) if reports.in_memory else IN_MEMORY)

    def books(self, directory: Path, kept: str) -> FileBooks:
        return FileBooks(directory, kept)

    def run(self, task: Task[P, T], pieces: Iterable[P]) -> Iterator[T]:
        """Results of the task for each piece, in order. Workers that are ahead wait: memory does not grow."""
        if self.workers == 1:
            for piece in pieces:
                yield from task(piece)
            return
        stop = threading.Event()
        running: deque[queue.Queue[Any]] = deque()
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                for piece in pieces:
                    results: queue.Queue[Any] = queue.Queue(WAITING)
                    pool.submit(_work, task, piece, results, stop)
                    running.append(results)
                    if len(running) > self.workers:
                        yield from _take_results(running.popleft())
                while running:
                    yield from _take_results(running.popleft())
            finally:
                stop.set()


class _Done:
    """Marks the end of a piece's results."""


def _work(task: Task[P, T], piece: P, results: queue.Queue[Any], stop: threading.Event) -> None:
    try:
        for result in task(piece):
            if not _put(results, result, stop):
                return
        _put(results, _Done(), stop)
    except BaseException as error:
        _put(results, error, stop)


def _put(results: queue.Queue[Any], item: Any, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            results.put(item, timeout=0.1)
            return True
        except queue.Full:
            continue
    return False


def _take_results(results: queue.Queue[Any]) -> Iterator[Any]:
    while True:
        match results.get():
            case _Done():
                return
            case BaseException() as error:
                raise error
            case result:
                yield result


Gathering = Callable[[Piece], Iterator[Any]]
Range = tuple[int, int]  # the least and the largest value


@dataclass(frozen=True)
class HashFile:
    """The sorted hashes of one piece."""

    path: str
    count: int


def file_hashes(gather: Gathering, directory: Path, piece: Piece) -> Iterator[Any]:
    """A first pass that writes its hashes to a file, and returns only its name."""
    path = directory / f"{piece.number:05d}.npy"
    for part in gather(piece):
        with written_whole(path) as temporary, open(temporary, "wb") as file:
            np.save(file, np.sort(part.hashes))
        yield replace(part, hashes=HashFile(str(path), len(part.hashes)))


def repeated_within(paths: Sequence[str], within: Range) -> Iterator[Hashes]:
    """Hashes in this range that occur more than once in all files together."""
    found, (low, high) = [NOTHING], map(np.uint64, within)
    for path in paths:
        hashes = np.load(path, mmap_mode="r")  # only the parts used are read
        rows = slice(np.searchsorted(hashes, low, "left"), np.searchsorted(hashes, high, "right"))
        found.append(np.array(hashes[rows]))
    yield repeated_in(np.concatenate(found))


class FiledDuplicates:
    """Like Duplicates, with hashes in a directory shared by all workers.

    `run` executes a task for each of some ranges, on any worker.
    """

    def __init__(
        self,
        directory: Path,
        run: Callable[[Task[Range, Hashes], Iterable[Range]], Iterator[Hashes]],
        in_memory: int = IN_MEMORY,
    ) -> None:
        self._directory, self._run, self._in_memory = directory, run, in_memory
        self._files: list[HashFile] = []

    def task(self, gather: Gathering) -> Gathering:
        return partial(file_hashes, gather, self._directory)

    def add(self, hashes: HashFile) -> None:
        if not os.path.exists(hashes.path):
            raise InputError(
                f"A worker wrote to {str(self._directory.parent)!r}, but what it wrote is not there on this machine. "
                "Let the settlement go to a directory that the workers and this machine share."
            )
        self._files.append(hashes)

    def repeated(self) -> Hashes:
        """Hashes that occur more than once, each once, ascending."""
        count = sum(file.count for file in self._files)
        task = partial(repeated_within, [file.path for file in self._files if file.count])
        return np.concatenate([NOTHING, *self._run(task, ranges(-(-count // self._in_memory)))])

    def __enter__(self) -> FiledDuplicates:
        self._directory.mkdir(mode=0o700)
        return self

    def __exit__(self, *exception: object) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)


def ranges(number: int) -> Iterator[Range]:
    """This many ranges of nearly equal length that cover all 64-bit values: keyed hashes fill them evenly."""
    for k in range(number):
        yield k * 2**64 // number, (k + 1) * 2**64 // number - 1


Paying = Callable[[Piece], Iterator[tuple[Any, PaidTotals]]]


def write_parts(
    pay: Paying, books: tuple[Path, ...], piece: Piece
) -> Iterator[tuple[str | None, PaidTotals]]:
    """A second pass that writes its books to files, and returns only their name and the totals paid.

    Parts depend on their piece alone: repeated after the loss of a worker, they are the same to the byte.
    """
    name, paid = f"part-{piece.number:05d}.parquet", PaidTotals()
    writers: list[Any] = []
    with ExitStack() as files:
        for receipts, more in pay(piece):
            if not writers:
                schemas = {PAYMENTS: payments_of(receipts).schema, RECEIPTS: receipts_of(receipts).schema}
                parts = (_open_part(book / name, schemas[book.name]) for book in books)
                writers = [files.enter_context(part) for part in parts]
            for writer in writers:
                writer.write(receipts.select(writer.schema.names))
            paid += more
    yield name if writers else None, paid


@contextmanager
def _open_part(path: Path, schema: Any) -> Iterator[Any]:
    with written_whole(path) as temporary:
        with parquet_writer(temporary, schema) as writer:
            yield writer
        sync(temporary)


class PartBooks(Books):
    """Books in a directory that all workers share.

    They are built under a name used once, then moved in one step. So a worker that was given up, but still runs,
    touches only books of its own, and no finished ones.
    """

    def __init__(self, directory: Path, kept: str) -> None:
        names = (PAYMENTS, RECEIPTS) if kept == "all" else (PAYMENTS,)
        self._directory, self._building = directory, directory / f".books-{secrets.token_hex(8)}"
        self._books = tuple(self._building / name for name in names)

    def task(self, pay: Paying) -> Paying:
        return partial(write_parts, pay, self._books)

    def write(self, name: str | None) -> None:
        """Record a part that a worker has written."""
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

    def __exit__(self, *exception: object) -> None:
        if exception[0] is None:
            for book in self._books:
                for debris in book.rename(self._directory / book.name).glob(".*"):
                    debris.unlink()  # left half written by workers that were killed


ENGINES = ("threads", "dask")
LEAST_ROWS, MOST_ROWS = 1 << 18, 1 << 22  # rows of a piece
PIECES = 64  # the least number of pieces of many rows, so that workers end at about the same time
LOST = "The Dask scheduler was lost. Nothing was published; start it and settle again."
WAIT = 60  # seconds for a scheduler, and for its first worker


class ClusterLost(TruthfulError):
    """The workers, or their scheduler, are gone."""


class Cluster:
    """The workers of a Dask scheduler, who share `directory` with this process."""

    def __init__(self, client: Any, directory: Path) -> None:
        self._client, self._directory = client, directory

    def pieces(self, reports: Reports) -> Iterator[Piece]:
        """Pieces that depend on the reports alone, so that the parts of books do too."""
        rows = (reports.rows or 0) // PIECES
        return reports.pieces(min(max(rows, LEAST_ROWS), MOST_ROWS))

    def duplicates(self, reports: Reports) -> FiledDuplicates:
        return FiledDuplicates(self._directory / f".hashes-{secrets.token_hex(8)}", self.run)

    def books(self, directory: Path, kept: str) -> PartBooks:
        return PartBooks(directory.absolute(), kept)

    def run(self, task: Task[P, T], pieces: Iterable[P]) -> Iterator[T]:
        """Results of the task for each piece, in order."""
        if self._client.status == "closed":  # between two passes
            raise ClusterLost(LOST)
        # Submitted, not scattered: losing a worker that holds the task loses nothing else.
        held = self._client.submit(_same, task, pure=False)
        futures = self._client.map(_run, list(pieces), task=held, version=__version__, pure=False)
        waiting = deque(futures)
        del futures
        try:
            while waiting:
                yield from _result(waiting[0])
                waiting.popleft().release()
        finally:
            for future in waiting:
                future.release()


@contextmanager
def open_engine(name: str, scheduler: Any, reports: Reports, directory: Path | None) -> Iterator[Engine]:
    """Open an engine that `require_engine` accepts: Dask's workers share a directory, threads need none."""
    if name == "threads" or directory is None:
        yield Threads()
        return
    if not reports.readable_elsewhere:
        raise InputError(
            "With ",
            DASK,
            " reports must be Parquet, in a file, a directory of parts or at a URL, so that every worker can read its "
            f"own; {reports.where} is not.",
        )
    with _connect(scheduler) as client:
        yield Cluster(client, directory.absolute())


def require_engine(name: str, scheduler: Any, directory: object) -> None:
    """Refuse impossible combinations before anything is read."""
    check.choice("engine", name, ENGINES)
    if name == "threads" and scheduler is not None:
        raise InputError(
            f"A scheduler is given, {scheduler!r}, but ",
            Option("engine", "threads"),
            " has none. Say ",
            DASK,
            ".",
        )
    if name == "dask" and directory is None:
        raise InputError(
            "With ",
            DASK,
            " the books are too large for memory. Name a directory, `out`, that all workers share.",
        )


@contextmanager
def _connect(scheduler: Any) -> Iterator[Any]:
    """A client of the scheduler: an address, one of Dask's cluster objects, or a cluster started here."""
    try:
        import distributed
    except ImportError:
        raise InputError(
            "With ", DASK, " Dask is needed. Install it: pip install 'truthful[dask]'."
        ) from None
    with ExitStack() as stack:
        place = stack.enter_context(_local_cluster()) if scheduler is None else scheduler
        try:
            client = stack.enter_context(distributed.Client(place, set_as_default=False, timeout=WAIT))
            client.wait_for_workers(1, timeout=WAIT)
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(
                f"There is no Dask scheduler with a worker at {scheduler!r}: {error}. Give the address that "
                "`dask scheduler` prints, such as tcp://10.0.0.1:8786, and start a worker."
            ) from None
        yield client


@contextmanager
def _local_cluster() -> Iterator[Any]:
    """A process for each processor of this machine.

    They use keys made for it: else anybody with an account here could connect and run code as us.
    """
    import distributed

    with tempfile.TemporaryDirectory(prefix="truthful-") as scratch:
        with _interrupts_held():
            cluster = distributed.LocalCluster(
                n_workers=len(os.sched_getaffinity(0)),
                threads_per_worker=1,
                processes=True,
                security=True,
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # its port; there is no dashboard
                silence_logs=logging.CRITICAL,
                local_directory=scratch,
            )
        with cluster:
            yield cluster


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C until the end of the block; processes started in it never see one: the driver ends them."""
    resource_tracker.ensure_running()  # else the first process would start it, and expose it to interrupts again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _same(task: T) -> T:
    return task


def _run(piece: P, task: Task[P, T], version: str) -> list[T]:
    if version != __version__:
        raise InputError(
            f"A worker has truthful {__version__}, and this is {version}. Install the same version everywhere."
        )
    try:
        return list(task(piece))
    except OSError as error:
        raise InputError(
            f"A worker on {socket.gethostname()} failed: {error}. Workers must see the settlement's directory, under "
            "the name that it has on this machine, and be allowed to write there."
        ) from None


def _result(future: Any) -> Any:
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    try:
        return future.result()
    except KilledWorker as error:
        raise ClusterLost(
            f"One piece of the reports was lost with {error.allowed_failures + 1} workers, one after the other. Most "
            "likely they ran out of memory: give each worker more, or fewer threads."
        ) from None
    except (CancelledError, CommClosedError):
        raise ClusterLost(LOST) from None
