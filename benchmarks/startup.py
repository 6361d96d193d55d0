"""How soon the program answers: `truthful --help` next to importing NumPy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from measure import Row, interleaved, ratio

PROGRAM = Path(sys.executable).with_name("truthful")


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def rows() -> list[Row]:
    works = {
        "help": lambda: run(str(PROGRAM), "--help"),
        "numpy": lambda: run(sys.executable, "-c", "import numpy"),
    }
    interleaved(works, 2)
    seconds = interleaved(works, 15)
    return [
        Row("`truthful --help` ÷ `python -c 'import numpy'`", ratio(seconds, "help", "numpy"), "×", 3.0, 2.0)
    ]


if __name__ == "__main__":
    for row in rows():
        print(f"{row.found:.2f} {row.unit}  {row.work}")
