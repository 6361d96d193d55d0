"""All benchmarks, into docs/benchmarks.md.

    make bench

Takes about half an hour and 15 GB of disk. `python benchmarks/run.py settle startup` runs some of them and prints;
`--largest 10000000` makes the page with no file longer than that.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
from pathlib import Path

from measure import ROOT, Row, machine

PAGE = ROOT / "docs" / "benchmarks.md"
PEERS = ROOT / ".venv-peers" / "bin" / "python"
PARTS = {
    "settle": "Settlements",
    "predictions": "Own predictions, and regression without privacy",
    "simulator": "The laboratory",
    "cluster": "Dask",
    "startup": "The command line",
    "load": "The service, with twenty thousand participants",
    "kills": "The service, killed again and again",
}
HEAD = """# Benchmarks

How fast `truthful` is, next to what it is measured against on the same machine in the same minutes: every ratio is a
median over rounds in which both were run in turn. Below 1 means that `truthful` took less time. "Set out for" is
what was asked of it before it was written, at most and hoped for; where it is missed, it says so here. The page is made
by `make bench`.

Measured on {machine}.
"""
TABLE = "| work | found | set out for | |\n|---|---|---|---|\n"


def found(name: str, largest: int) -> list[Row]:
    module = importlib.import_module(name)
    return list(module.rows(largest) if name in ("settle", "cluster") else module.rows())


def line(row: Row) -> str:
    limits = " / ".join(f"{value:g}" for value in (row.at_most, row.aim) if value is not None)
    missed = row.at_most is not None and row.found > row.at_most
    value = f"{row.found:,.0f}" if row.found >= 100 else f"{row.found:.2f}"
    shown = f"{value} {row.unit}" + (" (missed)" if missed else "")
    return f"| {row.work} | {shown} | {limits} | {row.note} |\n"


def peers() -> str:
    """The other libraries have an environment of their own."""
    if not PEERS.exists():
        return ""
    script = str(Path(__file__).with_name("peers.py"))
    return subprocess.run([PEERS, script], capture_output=True, text=True, check=True).stdout


def main(chosen: list[str], largest: int) -> None:
    parts = []
    for name in chosen or PARTS:
        rows = found(name, largest)
        parts.append(f"\n## {PARTS[name]}\n\n{TABLE}{''.join(map(line, rows))}")
        print(parts[-1], flush=True)
    if not chosen:
        PAGE.write_text(HEAD.format(machine=machine()) + "".join(parts) + peers())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="How fast it is, next to others.")
    parser.add_argument(
        "parts", nargs="*", choices=[*PARTS, []], help="some of them; default: all, into the page"
    )
    parser.add_argument("--largest", type=int, default=50_000_000, help="players in the longest file")
    asked = parser.parse_args()
    main(asked.parts, asked.largest)
