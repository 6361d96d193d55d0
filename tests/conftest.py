"""What all tests share: the same examples from hypothesis every time, and the command line to run."""

import gc
import hashlib
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Before NumPy is loaded. There is a worker for every core already: threads of BLAS would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import settings
from support.commands import Ran, Run
from support.studies import people, planned, saved_study

from truthful import cli
from truthful.charts import drawing
from truthful.plan import Plan
from truthful.report import page
from truthful.settlement import settle

# Tests are compiled once and not at every run, and so is the package for all processes that tests start.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Tests are thousands of objects and leave few behind in cycles: to look for some at every 700 objects took a twelfth
# of the time.
gc.set_threshold(50_000, 20, 20)

# Files go to memory where it has room: what is tested waits for the disk at every step, thousands of times.
MEMORY = Path("/dev/shm")
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 << 30:
    tempfile.tempdir = os.environ.setdefault("TMPDIR", str(MEMORY))

settings.register_profile("truthful", derandomize=True, deadline=None, max_examples=40)
settings.load_profile("truthful")


#: Files with the longest tests. They start first: the last worker to end would have one of them alone.
LONGEST = ("test_life", "test_faults", "test_once", "test_bots", "test_docs")


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: a fifth of the time a worker waits, for a browser, a server or a disk."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in LONGEST)


def pytest_collection_finish() -> None:
    """What is loaded by now stays: the collector need not look through millions of objects again and again."""
    gc.collect()
    gc.freeze()


#: Files whose tests look at charts in pages.
LOOKING = (
    "test_charts",
    "test_report",
    "test_life",
    "test_site",
    "test_notebook",
    "test_demo",
    "test_simulation_shares",
)


@pytest.fixture(scope="module", autouse=True)
def _charts_told(request: pytest.FixtureRequest) -> Iterator[None]:
    """Nearly all the time of a small settlement goes into the charts of its report.

    Where nobody looks at them a digest of what would be drawn is enough.
    """

    def digest(chart: drawing.Chart, name: str) -> str:
        return f"<svg><title>{name} {hashlib.sha256(pickle.dumps(chart)).hexdigest()}</title></svg>"

    with pytest.MonkeyPatch.context() as patch:
        if not request.path.stem.startswith(LOOKING):
            patch.setattr(page, "inline", digest)
        yield


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


@pytest.fixture(scope="session")
def a_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a study, a plan for 500 players and their reports. Tests have copies of it."""
    directory = tmp_path_factory.mktemp("study")
    study = saved_study(directory)
    planned(study).save(directory / "plan.json")
    table = people(study).reports
    pyarrow.parquet.write_table(table, directory / "reports.parquet")
    pyarrow.csv.write_csv(table, directory / "reports.csv")
    return directory


@pytest.fixture(scope="session")
def a_settled_study(a_study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, settled, with one player's receipt."""
    directory = tmp_path_factory.mktemp("settled")
    shutil.copytree(a_study, directory, dirs_exist_ok=True)
    plan = Plan.load(directory / "plan.json")
    settlement = settle(plan, directory / "reports.parquet", out=directory / "settlement")
    settlement.receipt("p-001").save(directory / "receipt.json")
    return directory


@pytest.fixture
def here(a_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a study, a plan for 500 players and their reports, and we are in it."""
    shutil.copytree(a_study, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def settled(a_settled_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, settled, with one player's receipt."""
    shutil.copytree(a_settled_study, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
