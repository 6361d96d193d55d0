"""Settle a large file of reports, next to scikit-learn's Ridge on the same numbers in the same run.

    python benchmarks/settle.py [ROWS] [FEATURES]

Prints seconds, their ratio, and the peak memory of a process that does nothing but settle.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from truthful.plan import Plan, design
from truthful.settlement import settle
from truthful.study import Study

STUDY = """
name = "Benchmark"
currency = "USD"
intercept = false
[response]
name = "y"
low = -1
high = 1
{features}
[design]
kind = "uniform"
[beliefs]
signal = 0.5
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""


def study_of(directory: Path, features: int) -> Study:
    """A designed study with so many numeric features."""
    sections = "".join(f'[[features]]\nname = "x{j}"\nlow = -1\nhigh = 1\n' for j in range(features))
    path = directory / "study.toml"
    path.write_text(STUDY.format(features=sections))
    return Study.load(path)


def prepare(directory: Path, rows: int, features: int) -> None:
    """Write a plan and its reports, batch by batch."""
    study = study_of(directory, features)
    design(study, players=rows, epsilon=1.0, score_weight=0.1, absent_share=0.001).save(
        directory / "plan.json"
    )
    rng = np.random.default_rng(0)
    theta = rng.normal(size=features)
    theta *= 0.4 / np.linalg.norm(theta)
    writer = None
    for start in range(0, rows, 250_000):
        n = min(250_000, rows - start)
        X = rng.uniform(-1, 1, size=(n, features))
        y = np.clip(X @ theta / np.sqrt(features) + rng.normal(0, 0.2, n), -1, 1)
        columns = {
            "player": np.arange(start, start + n),
            **{f"x{j}": X[:, j] for j in range(features)},
            "y": y,
        }
        table = pa.table(columns)
        writer = writer or pa.parquet.ParquetWriter(
            directory / "reports.parquet", table.schema, compression="zstd"
        )
        writer.write_table(table, row_group_size=250_000)
    if writer is not None:
        writer.close()


def settle_alone(directory: Path, out: str) -> None:
    """What the measured process does: settle, and print its seconds and its peak memory in MB."""
    plan = Plan.load(directory / "plan.json")
    started = time.perf_counter()
    settle(plan, directory / "reports.parquet", out=directory / out, spend_again=True)
    seconds = time.perf_counter() - started
    # VmHWM, not getrusage: a child's ru_maxrss starts at its parent's.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(seconds, int(status["VmHWM"].split()[0]) / 1024)


def measured(directory: Path, out: str) -> tuple[float, float]:
    """Seconds and peak memory of settling in a process of its own."""
    command = [sys.executable, __file__, "alone", str(directory), out]
    seconds, memory = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(seconds), float(memory)


def ridge_seconds(directory: Path, features: int) -> float:
    """scikit-learn's Ridge on the same numbers, already in memory."""
    from sklearn.linear_model import Ridge

    table = pa.parquet.read_table(directory / "reports.parquet")
    X = np.column_stack([table.column(f"x{j}").to_numpy() for j in range(features)])
    y = table.column("y").to_numpy()
    started = time.perf_counter()
    Ridge(alpha=1.0, fit_intercept=False).fit(X, y)
    return time.perf_counter() - started


def scan_seconds(directory: Path) -> float:
    """Reading every batch of the file once and doing nothing with it."""
    started = time.perf_counter()
    for _ in pa.parquet.ParquetFile(directory / "reports.parquet").iter_batches(65_536):
        pass
    return time.perf_counter() - started


def main(rows: int, features: int, repeats: int = 3) -> None:
    """Interleave the three and show medians."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        prepare(directory, rows, features)
        runs = [
            (*measured(directory, f"out{k}"), ridge_seconds(directory, features), scan_seconds(directory))
            for k in range(repeats)
        ]
    settled, memory, ridge, scan = np.median(np.array(runs), axis=0)
    print(f"{rows:,} × {features}, medians of {repeats} interleaved runs")
    print(f"settle (two passes, payments, receipts, files)  {settled:8.2f} s   peak memory {memory:.0f} MB")
    print(
        f"Ridge.fit on the array in memory                {ridge:8.2f} s   settle ÷ Ridge {settled / ridge:.1f}"
    )
    print(
        f"scanning the Parquet file once                  {scan:8.2f} s   settle ÷ scan  {settled / scan:.1f}"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["alone"]:
        settle_alone(Path(sys.argv[2]), sys.argv[3])
    else:
        main(
            int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000,
            int(sys.argv[2]) if len(sys.argv) > 2 else 10,
        )
