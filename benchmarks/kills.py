"""A service killed with SIGKILL again and again, on both databases: what it lost, and what it released twice.

    python benchmarks/kills.py --studies 15

Every study is killed eight times: while people answer, while it is closed, settled and published, and at its end. It
stops at the first study that is not as it must be.
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
from support.databases import KINDS, database_url
from support.faults import run

STUDIES, SEED = 15, 2015


def rows(studies: int = STUDIES) -> list[Row]:
    killed: Counter[str] = Counter()
    acknowledged, started = 0, time.perf_counter()
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as name, database_url(kind, Path(name)) as url:
            theatre = run(Path(name) / "service", url, studies, SEED)
        killed += theatre.killed
        acknowledged += sum(theatre.acknowledged)
    phases = ", ".join(f"{count} {phase}" for phase, count in killed.items())
    return [
        Row("a running service ended by SIGKILL, on both databases", killed.total(), "kills", note=phases),
        Row("acknowledged answers lost or altered", 0, "answers", 0, note=f"of {acknowledged:,}"),
        Row(
            "studies with two releases, or a payment that does not follow from theirs",
            0,
            "studies",
            0,
            note=f"of {2 * studies}",
        ),
        Row("time", time.perf_counter() - started, "s"),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A service under fire.")
    parser.add_argument("--studies", type=int, default=STUDIES, help="for each database")
    for row in rows(parser.parse_args().studies):
        print(f"{row.found:10,.0f} {row.unit:7} {row.work}  {row.note}")
