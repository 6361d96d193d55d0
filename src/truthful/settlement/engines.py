"""Engines: who works on the pieces of the reports. Results come in the order of the pieces, whoever was first."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

from truthful.intake.duplicates import IN_MEMORY, Duplicates
from truthful.intake.sources import Piece
from truthful.intake.stream import Reports
from truthful.settlement.books import Books, FileBooks

P = TypeVar("P")
T = TypeVar("T")
Task = Callable[[P], Iterator[T]]

WAITING = 2  # results of a piece that may wait to be taken


class Engine(Protocol):
    """Workers, and how what they find gets from them to here."""

    def run(self, task: Task[P, T], pieces: Iterable[P]) -> Iterator[T]: ...  # in the order of the pieces
    def pieces(self, reports: Reports) -> Iterator[Piece]: ...
    def duplicates(self, reports: Reports) -> Any: ...  # Duplicates, or what does the same
    def books(self, directory: Path, kept: str) -> Books: ...


class Threads:
    """Threads of this process, one for each processor: tasks spend their time in code that runs beside others."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or len(os.sched_getaffinity(0))

    def pieces(self, reports: Reports) -> Iterator[Piece]:
        return reports.pieces()

    def duplicates(self, reports: Reports) -> Duplicates:
        """Reports that are in memory anyway may have their hashes there."""
        return Duplicates(in_memory=max(IN_MEMORY, reports.rows_in_memory))

    def books(self, directory: Path, kept: str) -> FileBooks:
        return FileBooks(directory, kept)

    def run(self, task: Task[P, T], pieces: Iterable[P]) -> Iterator[T]:
        """What the task gives for each piece, in order. Workers that are ahead wait: memory does not grow."""
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
                        yield from _taken(running.popleft())
                while running:
                    yield from _taken(running.popleft())
            finally:
                stop.set()


class _Done:
    """The end of a piece's results."""


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


def _taken(results: queue.Queue[Any]) -> Iterator[Any]:
    while True:
        match results.get():
            case _Done():
                return
            case BaseException() as error:
                raise error
            case result:
                yield result
