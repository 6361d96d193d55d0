"""Dask on this machine, one process a processor, next to as many threads on the same file.

    python benchmarks/cluster.py [ROWS]

Starting the processes, and their first load of compiled code, is told and not counted.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import distributed
import numpy as np
from measure import Row, interleaved, ratio
from settle import plan_of, write_reports

from truthful.plan import Plan
from truthful.settlement import settle

FEATURES = 10


def settled(plan: Plan, path: Path, engine: str, scheduler: Any = None) -> None:
    """From a file of reports to a directory with its payments."""
    with tempfile.TemporaryDirectory(dir=path.parent) as name:
        out = Path(name) / "out"
        settle(plan, path, out=out, seed=1, books="payments", engine=engine, scheduler=scheduler)


def rows(players: int = 50_000_000, repeats: int = 3) -> list[Row]:
    workers = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        plan = plan_of(directory, players, FEATURES)
        few = write_reports(directory / "few.parquet", min(players, 2_000_000), FEATURES, "zstd")
        path = write_reports(directory / "reports.parquet", players, FEATURES, "zstd")
        started = time.perf_counter()
        with distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            security=True,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
        ) as cluster:
            start = time.perf_counter() - started
            settled(plan, few, "dask", cluster)
            ready = time.perf_counter() - started
            settled(plan, few, "threads")
            works = {
                "dask": lambda: settled(plan, path, "dask", cluster),
                "threads": lambda: settled(plan, path, "threads"),
            }
            seconds = interleaved(works, repeats)
    what = f"Dask, {workers} workers ÷ threads, Parquet zstd, {players:,} × {FEATURES}, payments written"
    speed = players / float(np.median(seconds["dask"])) / workers / 1e6
    note = (
        f"{speed:.2f} million players a second and worker; starting took {start:.1f} s, a first small settlement "
        f"{ready - start:.1f} s"
    )
    return [Row(what, ratio(seconds, "dask", "threads"), "×", 1.25, 1.1, note)]


if __name__ == "__main__":
    for row in rows(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000_000):
        print(f"{row.found:.2f} {row.unit}  {row.work}\n{row.note}")
