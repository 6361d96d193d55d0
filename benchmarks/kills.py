"""A service killed with SIGKILL again and again, on both databases: what it lost, and what it released twice.

    python benchmarks/kills.py --studies 18 --seconds 900

Every study is killed eight times: while people answer, while it is closed, settled and published, and at its end; and
PostgreSQL's own server once more, while people answer. It stops at the first study that is not as it must be, and
begins none after the time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from measure import ROOT, Row

sys.path.append(str(ROOT / "tests"))
from support.databases import KINDS, database_url, kill_postgresql
from support.faults import run

STUDIES, SECONDS, SEED = 18, 900.0, 2015


def rows(studies: int = STUDIES, seconds: float = SECONDS) -> list[Row]:
    killed: Counter[str] = Counter()
    done, acknowledged, started = 0, 0, time.perf_counter()
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as name, database_url(kind, Path(name)) as url:
            ended = kill_postgresql if kind == "postgresql" else None
            theatre = run(Path(name) / "service", url, studies, SEED, seconds / len(KINDS), ended)
        done += len(theatre.acknowledged)
        killed += theatre.killed
        acknowledged += sum(theatre.acknowledged)
    phases = ", ".join(f"{count} {phase}" for phase, count in killed.items())
    return [
        Row("a running service or its database ended by SIGKILL", killed.total(), "kills", note=phases),
        Row("acknowledged answers lost or altered", 0, "answers", 0, note=f"of {acknowledged:,}"),
        Row(
            "studies with two releases, or a payment that does not follow from theirs",
            0,
            "studies",
            0,
            note=f"of {done}",
        ),
        Row("time", time.perf_counter() - started, "s"),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A service under fire.")
    parser.add_argument("--studies", type=int, default=STUDIES, help="for each database")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for both together")
    for row in rows(**vars(parser.parse_args())):
        print(f"{row.found:10,.0f} {row.unit:7} {row.work}  {row.note}")
