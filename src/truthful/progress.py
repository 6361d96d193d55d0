"""A progress bar on a terminal, for what takes more than a second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from truthful.settlement import Progress as Tell

DELAY = 1.0  # seconds; a quicker command shows no bar
LABELS = {"statistics": "Reading answers", "payments": "Computing payments"}


@contextmanager
def no_progress() -> Iterator[None]:
    """Nothing is shown."""
    yield None


@contextmanager
def rich_progress(console: Console) -> Iterator[Tell]:
    """One bar for each stage, removed at the end."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bars = Progress(*columns, console=console, transient=True)
    tasks: dict[str, TaskID] = {}
    started = time.monotonic()

    def tell(stage: str, done: int, rows: int | None) -> None:
        if time.monotonic() - started < DELAY:
            return
        if not tasks:
            bars.start()
        if stage not in tasks:
            tasks[stage] = bars.add_task(LABELS.get(stage, stage), total=rows)
        bars.update(tasks[stage], completed=done, total=rows)

    try:
        yield tell
    finally:
        bars.stop()
