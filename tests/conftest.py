"""What all tests share: the same examples from hypothesis every time, and the command line to run."""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

# Before NumPy is loaded. There is a worker for every core already: threads of BLAS would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pyarrow.csv
import pyarrow.parquet
import pytest
from commands import PLAN, Ran, Run
from hypothesis import settings
from studies import people, saved_study

from truthful import cli

# Files go to memory where it has room: what is tested waits for the disk at every step, thousands of times.
MEMORY = Path("/dev/shm")
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 << 30:
    tempfile.tempdir = os.environ.setdefault("TMPDIR", str(MEMORY))

settings.register_profile("truthful", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("truthful")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `truthful ARGS` in this process, as the installed program does."""
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments: str | Path) -> Ran:
        monkeypatch.setattr(sys, "argv", ["truthful", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        code = left.value.code
        captured = capsys.readouterr()
        return Ran(code if isinstance(code, int) else 0, captured.out, captured.err)

    return command


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """A directory with a study, a plan for 500 players and their reports, and we are in it."""
    monkeypatch.chdir(tmp_path)
    study = saved_study(tmp_path)
    assert run("plan", "study.toml", *PLAN, "--public-share", "0.6", "--save", "plan.json").code == 0
    table = people(study).reports
    pyarrow.parquet.write_table(table, "reports.parquet")
    pyarrow.csv.write_csv(table, "reports.csv")
    return tmp_path


@pytest.fixture
def settled(here: Path, run: Run) -> Path:
    """The same, settled, with one player's receipt."""
    assert run("settle", "plan.json", "reports.parquet", "--out", "settlement").code == 0
    row = pyarrow.parquet.read_table("settlement/receipts.parquet").slice(0, 1).to_pylist()[0]
    receipt = {
        "format": "truthful/receipt/1",
        "player": row["player"],
        "features": {"price": row["price"], "region": row["region"]},
        "report": row["spend"],
        "group": row["group"],
        "payment": row["payment"],
    }
    Path("receipt.json").write_text(json.dumps(receipt))
    return here
