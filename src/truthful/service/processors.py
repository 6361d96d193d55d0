"""The processors of worker processes: each has a share of its own, so that a page is made where its request arrived.

A request goes from the thread that listens to one that makes the page, and back. Between two processors that takes
about as long as a small page itself. A process runs Python on one processor at a time, so more would not help it.

Slow work, such as settling and planning, leaves Python for whole seconds and uses all processors.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from pathlib import Path

from truthful.files import exclusive

#: The processors that this process may use, before it keeps to its share; none where the system does not say.
ALL = frozenset(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ())
#: The lock on the share that this process has taken.
_taken = ExitStack()


def shares(workers: int, processors: frozenset[int] = ALL) -> list[set[int]]:
    """The processors divided among these workers; none if there are too few."""
    if workers > len(processors):
        return []
    return [set(sorted(processors)[place::workers]) for place in range(workers)]


def keep_to_share(workers: int, directory: Path) -> None:
    """Keep this thread, and those that it will start, to a share that no other worker of this directory has.

    The system frees the lock of a worker that dies, and the one that replaces it takes its share.
    """
    with suppress(OSError):  # such as a sandbox that forbids it: all works without, only more slowly
        for share in shares(workers):
            if _taken.enter_context(exclusive(directory / f".processor-{min(share)}.lock")):
                os.sched_setaffinity(0, share)
                return


def use_all() -> None:
    """Let this thread, and those that it will start, use all processors again."""
    with suppress(OSError):
        if ALL:
            os.sched_setaffinity(0, ALL)
