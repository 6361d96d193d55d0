"""Measuring on a noisy machine: everything of one table is run in turn, again and again, and medians are compared."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Row:
    """One line of docs/benchmarks.md. A limit and `aim` are what was set out for, in the unit of `found`.

    The limit is `at_most`, or `at_least` where more is better.
    """

    work: str
    found: float
    unit: str = "×"
    at_most: float | None = None
    aim: float | None = None
    note: str = ""
    at_least: float | None = None

    @property
    def missed(self) -> bool:
        above = self.at_most is not None and self.found > self.at_most
        return above or (self.at_least is not None and self.found < self.at_least)

    @property
    def target(self) -> str:
        """The limit and the hope, as the page shows them."""
        limits = (self.at_most, self.at_least, self.aim)
        shown = " / ".join(f"{limit:g}" for limit in limits if limit is not None)
        return shown if self.at_least is None else f"at least {shown}"


def interleaved(works: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each, in rounds: what slows one round down slows all of it."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - started)
    return seconds


def ratio(seconds: Mapping[str, list[float]], work: str, peer: str) -> float:
    """The median over the rounds of work ÷ peer."""
    return statistics.median(a / b for a, b in zip(seconds[work], seconds[peer], strict=True))


def peak_memory(code: str, *arguments: str) -> float:
    """The peak memory, in MB, of a process of its own that runs this code with these sys.argv."""
    # VmHWM, not getrusage: a child's ru_maxrss starts at its parent's.
    tail = (
        "\nstatus = dict(line.split(':', 1) for line in open('/proc/self/status'))"
        "\nprint(int(status['VmHWM'].split()[0]) / 1024)"
    )
    command = [sys.executable, "-c", code + tail, *arguments]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def machine() -> str:
    """What the figures were measured on."""
    import numba
    import numpy as np
    import pyarrow as pa

    lines = Path("/proc/cpuinfo").read_text().splitlines()
    name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{len(os.sched_getaffinity(0))} processors ({name}), {memory:.0f} GB, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, Arrow {pa.__version__}, Numba {numba.__version__}"
    )
