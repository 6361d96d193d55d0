"""Settlements next to fitting, multiplying and scanning the same numbers.

    python benchmarks/settle.py [ROWS]

In memory: both passes and all payments, from an Arrow table, next to scikit-learn and to X.T @ X on the same numbers as
one array. Streaming: from a Parquet file to payments.parquet, next to reading every column of that file once with as
many threads. Then how time grows with players and features, and what memory a process needs that does nothing else.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from measure import Row, interleaved, peak_memory, ratio

from truthful.intake.sources import Piece
from truthful.intake.stream import open_reports
from truthful.plan import Plan, design
from truthful.settlement import settle
from truthful.settlement.engines import Threads
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
PEAK = """
import sys
from truthful.plan import Plan
from truthful.settlement import settle
settle(Plan.load(sys.argv[1]), sys.argv[2], out=sys.argv[3], seed=1, books=sys.argv[4])
"""
BATCH = 1 << 18


def study_of(directory: Path, features: int) -> Study:
    """A designed study with so many numeric features."""
    sections = "".join(f'[[features]]\nname = "x{j}"\nlow = -1\nhigh = 1\n' for j in range(features))
    path = directory / "study.toml"
    path.write_text(STUDY.format(features=sections))
    return Study.load(path)


def plan_of(directory: Path, rows: int, features: int) -> Plan:
    plan = design(
        study_of(directory, features), players=rows, epsilon=1.0, score_weight=0.1, absent_share=0.001
    )
    plan.save(directory / "plan.json")
    return plan


def batches(rows: int, features: int) -> Iterator[Any]:
    """Invented reports, batch by batch."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=features)
    theta *= 0.4 / np.linalg.norm(theta)
    for start in range(0, rows, BATCH):
        n = min(BATCH, rows - start)
        X = rng.uniform(-1, 1, size=(features, n))
        y = np.clip(theta @ X / np.sqrt(features) + rng.normal(0, 0.2, n), -1, 1)
        yield pa.table(
            {"player": np.arange(start, start + n), **{f"x{j}": X[j] for j in range(features)}, "y": y}
        )


def write_reports(path: Path, rows: int, features: int, compression: str) -> Path:
    writer = None
    for table in batches(rows, features):
        writer = writer or pa.parquet.ParquetWriter(path, table.schema, compression=compression)
        writer.write_table(table, row_group_size=BATCH)
    assert writer is not None
    writer.close()
    return path


def count(piece: Piece) -> Iterator[int]:
    """A task that reads and does nothing."""
    yield sum(batch.num_rows for batch in piece.content.batches())


def scan(path: Path, features: int) -> int:
    """Every column of the file, read by as many threads as a settlement has."""
    with open_reports(path, ["player", *(f"x{j}" for j in range(features)), "y"]) as reports:
        return sum(Threads().run(count, reports.pieces()))


def streamed(plan: Plan, path: Path, books: str = "payments") -> float:
    """Seconds from a file of reports to a directory with its payments."""
    with tempfile.TemporaryDirectory(dir=path.parent) as name:
        started = time.perf_counter()
        settle(plan, path, out=Path(name) / "out", seed=1, books=books)
        return time.perf_counter() - started


def in_memory(rows: int, features: int, repeats: int = 5) -> list[Row]:
    """Against what a statistician would run on the same numbers without privacy, payments or checks."""
    from sklearn.linear_model import LinearRegression, Ridge

    with tempfile.TemporaryDirectory() as name:
        plan = plan_of(Path(name), rows, features)
        table = pa.concat_tables(batches(rows, features)).combine_chunks()
        X = np.empty((rows, features))
        for j in range(features):
            X[:, j] = table.column(f"x{j}").to_numpy()
        y = table.column("y").to_numpy()
        settle(plan, table.slice(0, 200_000), seed=1, accept_less=True)  # compiled code is loaded
        works = {
            "settle": lambda: settle(plan, table, seed=1),
            "ridge": lambda: Ridge(alpha=1.0, copy_X=False, fit_intercept=False).fit(X, y),
            "least squares": lambda: LinearRegression(copy_X=False, fit_intercept=False).fit(X, y),
            "product": lambda: X.T @ X,
        }
        seconds = interleaved(works, repeats)
    what = f"in memory, {rows:,} × {features}, both passes, all payments"
    took = f"{np.median(seconds['settle']):.2f} s"
    return [
        Row(f"{what} ÷ `Ridge(copy_X=False).fit`", ratio(seconds, "settle", "ridge"), "×", 1.2, 0.8, took),
        Row(f"{what} ÷ `LinearRegression.fit`", ratio(seconds, "settle", "least squares")),
        Row(f"{what} ÷ one `X.T @ X`", ratio(seconds, "settle", "product"), "×", 2.7, 2.0),
    ]


def streaming(rows: int, features: int, repeats: int = 5) -> list[Row]:
    """Against reading the file once."""
    limits = {"zstd": (3.0, 2.4), "none": (5.5, 4.0)}
    found = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        plan = plan_of(directory, rows, features)
        for compression, (at_most, aim) in limits.items():
            path = write_reports(directory / f"{compression}.parquet", rows, features, compression)
            streamed(plan, path)
            works = {
                "payments": lambda path=path: streamed(plan, path),
                "all": lambda path=path: streamed(plan, path, "all"),
                "scan": lambda path=path: scan(path, features),
            }
            seconds = interleaved(works, repeats)
            kind = "Parquet zstd" if compression == "zstd" else "uncompressed Parquet"
            speed = f"{rows / np.median(seconds['payments']) / 1e6:.1f} million players a second"
            work = f"streaming {kind}, {rows:,} × {features}, payments written ÷ scanning it"
            found += [
                Row(work, ratio(seconds, "payments", "scan"), "×", at_most, aim, speed),
                Row("the same with receipts and CSV", ratio(seconds, "all", "scan")),
            ]
    return found


def growth(rows: tuple[int, ...], features: tuple[int, ...], repeats: int = 3) -> list[Row]:
    """How far time is from a constant and so much a player, and the power of d by which it grows."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)

        def medians(sizes: list[tuple[int, int]]) -> list[float]:
            works = {}
            for n, d in sizes:
                plan = plan_of(directory, n, d)
                path = write_reports(directory / f"{n}-{d}.parquet", n, d, "none")
                works[f"{n} {d}"] = lambda plan=plan, path=path: streamed(plan, path)
            times = interleaved(works, repeats)
            return [float(np.median(values)) for values in times.values()]

        n, seconds = np.array(rows), np.array(medians([(n, 10) for n in rows]))
        each, start = np.polyfit(n, seconds, 1, w=1 / seconds)
        off = 100 * float(np.abs(seconds / (start + each * n) - 1).max())
        shown = ", ".join(f"{n:,}: {s:.2f} s" for n, s in zip(rows, seconds, strict=True))
        work = f"growth with players, from {rows[0]:,} to {rows[-1]:,}, d = 10: farthest off a straight line"
        line = f"{start:.2f} s and {1e9 * each:.0f} ns a player; {shown}"
        seconds_of_d = medians([(1_000_000, d) for d in features])
        slope = np.polyfit(np.log(features), np.log(seconds_of_d), 1)[0]
        shown = ", ".join(f"d = {d}: {s:.2f} s" for d, s in zip(features, seconds_of_d, strict=True))
        return [
            Row(work, off, "%", 5, 0, line),
            Row("growth with features, 1,000,000 players", float(slope), "power", note=shown),
        ]


def memory(rows: tuple[int, ...], features: int) -> list[Row]:
    """Peak memory of a process that settles a file and does nothing else."""
    found = []
    for n in rows:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            plan_of(directory, n, features)
            path = write_reports(directory / "reports.parquet", n, features, "zstd")
            for books in ("payments", "all"):
                out = directory / books
                peak = peak_memory(PEAK, str(directory / "plan.json"), str(path), str(out), books)
                shutil.rmtree(out)
                what = "payments alone" if books == "payments" else "all books"
                found.append(Row(f"peak memory, {n:,} players, d = {features}, {what}", peak, "MB", 512, 350))
    return found


def rows(largest: int = 50_000_000) -> list[Row]:
    """All of it; `largest` is the longest file."""
    sizes = tuple(n for n in (1_000_000, 10_000_000, 50_000_000) if n <= largest)
    grown = tuple(
        n for n in (1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000) if n <= largest
    )
    many = min(largest, 10_000_000)
    return [
        *in_memory(many, 10),
        *streaming(many, 10),
        *growth(grown, (2, 5, 10, 20, 50)),
        *memory(sizes, 10),
    ]


if __name__ == "__main__":
    for row in rows(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000_000):
        print(f"{row.found:10.3g} {row.unit:6} {row.work}  {row.note}", flush=True)
