"""How soon the program answers: its help and one person's own check next to importing NumPy; plans and settlements."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import numpy as np
import pyarrow.parquet
from measure import Row, interleaved, ratio
from rosters import roster, survey

from truthful.people import invent
from truthful.plan import Plan, design
from truthful.settlement import settle
from truthful.study import Study

PROGRAM = Path(sys.executable).with_name("truthful")
PLAYERS, ROUNDS = 20_000, 9


def run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        _demo(directory)
        works = {
            "numpy": lambda: run(sys.executable, "-c", "import numpy"),
            "help": lambda: run(PROGRAM, "--help"),
            "verify": lambda: run(PROGRAM, "verify", directory / "release.json", directory / "receipt.json"),
            "plan": lambda: run(
                PROGRAM,
                *("plan", directory / "study.toml"),
                *("--roster", directory / "roster.parquet", "--budget", "5000"),
            ),
            "settle": _settling(directory),
        }
        interleaved(works, 2)
        seconds = interleaved(works, ROUNDS)
    found = {work: float(np.median(times)) for work, times in seconds.items()}
    what = f"the demo's {PLAYERS:,} people"
    return [
        Row("`truthful --help` ÷ `python -c 'import numpy'`", ratio(seconds, "help", "numpy"), "×", 3.0, 2.0),
        Row(
            "`truthful verify` of one's own receipt ÷ `python -c 'import numpy'`",
            ratio(seconds, "verify", "numpy"),
            "×",
            8.0,
            4.0,
            f"{found['verify']:.2f} s",
        ),
        Row(f"`truthful plan` for {what}", found["plan"], "s", 1.35, 0.9),
        Row(f"`truthful settle` of {what}", found["settle"], "s", 1.8, 1.2),
        Row("a plan from a roster of 20,000 × 10, in a running process", _planning(), "s", 5.0, 1.0),
    ]


def _demo(directory: Path) -> None:
    """The demo's study, its people, plan and reports, and a settlement to verify."""
    text = resources.files("truthful").joinpath("demo.toml").read_text(encoding="utf-8")
    (directory / "study.toml").write_text(text, encoding="utf-8")
    study = Study.load(directory / "study.toml")
    people = invent(study, PLAYERS, np.random.default_rng(0)).reports
    pyarrow.parquet.write_table(people, directory / "reports.parquet")
    pyarrow.parquet.write_table(people.drop_columns([study.response.name]), directory / "roster.parquet")
    design(study, roster=people, budget=5_000).save(directory / "plan.json")
    settlement = settle(Plan.load(directory / "plan.json"), people, seed=1)
    settlement.release.save(directory / "release.json")
    settlement.receipt(people.column("player")[7].as_py()).save(directory / "receipt.json")


def _settling(directory: Path) -> Callable[[], None]:
    """Each time into a directory of its own, as a rehearsal: a real one is made once."""
    made = iter(range(10**6))

    def settled() -> None:
        out = directory / f"settled-{next(made)}"
        run(
            PROGRAM,
            *("settle", directory / "plan.json", directory / "reports.parquet"),
            *("--out", out, "--seed", "1"),
        )

    return settled


def _planning() -> float:
    """Median seconds, the roster being in memory."""
    study, people, times = survey(10), roster(20_000, 10), []
    for _ in range(5):
        started = time.perf_counter()
        design(study, roster=people, budget=20_000)
        times.append(time.perf_counter() - started)
    return float(np.median(times))


if __name__ == "__main__":
    for row in rows():
        print(f"{row.found:.2f} {row.unit}  {row.work}")
