"""All benchmarks, into docs/benchmarks.md.

    make bench

Takes about an hour and 15 GB of disk. `python benchmarks/run.py settle startup` renews these parts of the page
alone; `--largest 10000000` makes no file longer than that.
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
    "load": "The service with twenty thousand participants",
    "visits": "One visit to the service",
    "workers": "The service with two processes",
    "floods": "The service while others flood it",
    "kills": "The service under repeated kills",
}
HEAD = """# Benchmarks

How fast `truthful` is, compared with other programs on the same machine in the same minutes. Every ratio is a median
over rounds in which both ran in turn; below 1, `truthful` took less time. The targets, a limit and a hope, were set
before the code was written, and missed limits are marked. A limit is an upper one unless it says *at least*.
`make bench` makes this page.

Measured on {machine}.
"""
TABLE = "| work | measured | target | |\n|---|---|---|---|\n"


def found(name: str, largest: int) -> list[Row]:
    module = importlib.import_module(name)
    return list(module.rows(largest) if name in ("settle", "cluster") else module.rows())


def line(row: Row) -> str:
    value = f"{row.found:,.0f}" if row.found >= 100 else f"{row.found:.2f}"
    shown = f"{value} {row.unit}" + (" (missed)" if row.missed else "")
    return f"| {row.work} | {shown} | {row.target} | {row.note} |\n"


def peers() -> str:
    """The other libraries have an environment of their own."""
    if not PEERS.exists():
        return ""
    script = str(Path(__file__).with_name("peers.py"))
    return subprocess.run([PEERS, script], capture_output=True, text=True, check=True).stdout


def main(chosen: list[str], largest: int) -> None:
    """Renew the parts of the page that are asked for, each as soon as it is measured."""
    for name in chosen or PARTS:
        renew(PARTS[name], TABLE + "".join(line(row) for row in found(name, largest)))
    if not chosen and (others := peers()):
        renew(*others.removeprefix("\n## ").split("\n\n", 1))


def renew(title: str, text: str) -> None:
    """Write this under its title, in the place of what stood there; the head always says which machine it was."""
    print(f"\n## {title}\n\n{text}", flush=True)
    parts = dict(part.split("\n\n", 1) for part in PAGE.read_text().split("\n## ")[1:])
    parts[title] = text
    ordered = dict.fromkeys([*(name for name in PARTS.values() if name in parts), *parts])
    body = "".join(f"\n## {name}\n\n{parts[name].rstrip()}\n" for name in ordered)
    PAGE.write_text(HEAD.format(machine=machine()) + body)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="How fast it is, next to others.")
    parser.add_argument(
        "parts", nargs="*", choices=[*PARTS, []], help="parts of the page to renew; default: all"
    )
    parser.add_argument("--largest", type=int, default=50_000_000, help="players in the longest file")
    asked = parser.parse_args()
    main(asked.parts, asked.largest)
