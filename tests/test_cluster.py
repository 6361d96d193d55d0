"""Dask: the same bits as threads give, whoever dies on the way, and nothing of it left behind."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import distributed
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from distributed.utils import get_mp_context
from support.commands import Run
from support.studies import DESIGNED, RELEASES, people, planned, saved_study

from truthful.errors import InputError, Refused
from truthful.plan import Plan, design
from truthful.release import read_receipt, verify
from truthful.settlement import Settlement, settle
from truthful.settlement.atomic_release import read_ledger
from truthful.settlement.engines import Cluster, ClusterLost, Threads, _run
from truthful.study import Study

PLAYERS, PIECE, PIECES = 12_000, 1_000, 12
FILES = {"release.json", "report.html", "payments.parquet", "receipts.parquet", "settlement.json"}

pytestmark = pytest.mark.slow


METHOD = "distributed.worker.multiprocessing-method"


@contextmanager
def local_cluster(workers: int = 2) -> Iterator[Any]:
    """Processes that are forked from one in which the code is loaded; whoever is killed is started again."""
    with dask.config.set({METHOD: "forkserver"}):
        get_mp_context()
        multiprocessing.set_forkserver_preload(["distributed", "truthful.settlement"])
        with distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
            silence_logs=logging.CRITICAL,
        ) as cluster:
            yield cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with local_cluster() as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truthful.settlement.engines.LEAST_ROWS", PIECE)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return saved_study(tmp_path)


@pytest.fixture(scope="module")
def everybody() -> Any:
    return people(Study.parse(DESIGNED), PLAYERS).reports


@pytest.fixture(scope="module")
def from_roster(everybody: Any) -> Plan:
    return design(Study.parse(DESIGNED), roster=everybody, epsilon=2.0, score_weight=0.5, absent_share=0.002)


@pytest.fixture
def plan(study: Study, from_roster: Plan) -> Plan:
    return replace(from_roster, study=study)


@pytest.fixture
def reports(everybody: Any, tmp_path: Path) -> Path:
    """Three parts of four row groups each."""
    return parts(tmp_path / "reports", everybody)


@pytest.fixture(scope="module")
def calm(
    cluster: Any, everybody: Any, from_roster: Plan, tmp_path_factory: pytest.TempPathFactory
) -> Settlement:
    """What workers settle if nobody is killed."""
    directory = tmp_path_factory.mktemp("calm")
    plan = replace(from_roster, study=saved_study(directory))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("truthful.settlement.engines.LEAST_ROWS", PIECE)
        source = parts(directory / "reports", everybody)
        return settle(plan, source, out=directory / "out", seed=3, engine="dask", scheduler=cluster)


def parts(directory: Path, table: Any) -> Path:
    directory.mkdir()
    size = -(-table.num_rows // 3)
    for k in range(3):
        path = directory / f"{k}.parquet"
        pyarrow.parquet.write_table(table.slice(k * size, size), path, row_group_size=PIECE)
    return directory


def with_value(table: Any, column: str, row: int, value: float | str) -> Any:
    values = table.column(column).to_pylist()
    values[row - 1] = value
    return table.set_column(table.column_names.index(column), column, pa.array(values))


def content(directory: Path | None) -> dict[str, bytes]:
    """Every file, but the summary, which tells the time."""
    assert directory is not None
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != "settlement.json")
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def pids(cluster: Any) -> dict[str, int]:
    with distributed.Client(cluster, set_as_default=False) as client:
        return dict(client.run(os.getpid))


def killer(cluster: Any, stage: str, dead: list[int]) -> Callable[[str, int, int | None], None]:
    """Kill one worker as soon as the stage has begun."""

    def progress(now: str, done: int, rows: int | None) -> None:
        if now == stage and not dead:
            dead.append(next(iter(pids(cluster).values())))
            os.kill(dead[0], signal.SIGKILL)

    return progress


def test_workers_and_threads_give_the_same_release_and_the_same_books(
    calm: Settlement, plan: Plan, reports: Path, tmp_path: Path
) -> None:
    threads, workers = settle(plan, reports, out=tmp_path / "threads", seed=3), calm.directory
    assert workers is not None
    assert {path.name for path in workers.iterdir()} == FILES
    assert (workers / "release.json").read_bytes() == (tmp_path / "threads/release.json").read_bytes()
    assert calm.payments.equals(threads.payments)
    assert calm.receipts.equals(threads.receipts)
    written = sorted(path.name for path in (workers / "payments.parquet").iterdir())
    assert written == [f"part-{k:05d}.parquet" for k in range(PIECES)]
    assert written == sorted(path.name for path in (workers / "receipts.parquet").iterdir())
    same = {
        "players",
        "records",
        "total_paid",
        "total_in_coins",
        "least_payment",
        "largest_payment",
        "warnings",
    }
    assert {key: calm.summary[key] for key in same} == {key: threads.summary[key] for key in same}
    assert verify(calm.release, calm.receipt("p-00007")).verified


@pytest.mark.parametrize("stage", ["statistics", "payments"])
def test_a_worker_killed_in_either_pass_changes_no_byte_and_leaves_no_file(
    cluster: Any, calm: Settlement, plan: Plan, reports: Path, tmp_path: Path, stage: str
) -> None:
    dead: list[int] = []
    progress = killer(cluster, stage, dead)
    settle(
        plan, reports, out=tmp_path / "killed", seed=3, engine="dask", scheduler=cluster, progress=progress
    )
    assert dead
    assert dead[0] not in pids(cluster).values()
    undisturbed = content(calm.directory)
    assert len(undisturbed) == 2 + 2 * PIECES
    assert content(tmp_path / "killed") == undisturbed
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"study.toml", ".ledger.lock", "ledger.json", "reports", "killed"}


def test_what_a_killed_worker_left_half_written_is_removed(
    cluster: Any, plan: Plan, reports: Path, tmp_path: Path
) -> None:
    def progress(stage: str, done: int, rows: int | None) -> None:
        if stage == "payments":
            for book in (tmp_path / ".out.unfinished").glob(".books-*/*"):
                (book / ".part-00002.parquet.0123").touch()

    settle(plan, reports, out=tmp_path / "out", seed=3, engine="dask", scheduler=cluster, progress=progress)
    assert not list((tmp_path / "out").rglob(".*"))


def test_payments_alone_are_written_if_asked(cluster: Any, plan: Plan, reports: Path, tmp_path: Path) -> None:
    settled = settle(
        plan, reports, out=tmp_path / "out", seed=3, engine="dask", scheduler=cluster, books="payments"
    )
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES - {"receipts.parquet"}
    assert settled.payments.num_rows == PLAYERS


def test_a_player_with_records_in_two_parts_is_found_and_dropped_only_if_asked(
    cluster: Any, everybody: Any, tmp_path: Path
) -> None:
    study = saved_study(tmp_path, RELEASES["known-design"])
    twice = parts(tmp_path / "twice", pa.concat_tables([everybody, everybody.slice(5, 1)]))
    options: dict[str, Any] = {"engine": "dask", "scheduler": cluster, "seed": 1}
    plan = planned(study, PLAYERS)
    with pytest.raises(InputError, match=r"row 12000 .*: Player 'p-00006' .* row 5"):
        settle(plan, twice, out=tmp_path / "out", **options)
    assert not list(tmp_path.glob(".out*"))
    dropped = settle(plan, twice, out=tmp_path / "out", on_bad="drop", **options)
    assert dropped.release.players == PLAYERS
    assert dropped.release.theta == settle(plan, everybody, seed=1).release.theta
    assert dropped.payments.num_rows == PLAYERS


def test_somebody_who_is_alone_is_found_by_the_workers_and_named_with_her_row(
    cluster: Any, everybody: Any, tmp_path: Path
) -> None:
    """One person alone has a level, which is no secret: her leverage is 1. Features are looked at by all workers."""
    text = f'{DESIGNED}[privacy]\nprotects = "answers"\nfeatures_public = true\n'
    study = saved_study(tmp_path, text.replace('"east"]', '"east", "sea"]'))
    table = with_value(everybody, "region", 8_001, "sea")
    roster = with_value(everybody, "region", 1, "sea")
    roster = pa.concat_tables([roster, *[roster.slice(0, 1)] * 20]).slice(20, PLAYERS)
    plan = design(study, roster=roster, epsilon=2.0, score_weight=0.5, absent_share=0.002)
    with pytest.raises(Refused, match=r"'p-08001' \(row 8000\)"):
        settle(
            plan,
            parts(tmp_path / "alone", table),
            out=tmp_path / "out",
            seed=1,
            engine="dask",
            scheduler=cluster,
        )
    assert not list(tmp_path.glob("*out*"))


def test_bad_records_are_told_in_their_order_with_their_rows(
    cluster: Any, everybody: Any, plan: Plan, tmp_path: Path
) -> None:
    table = everybody
    for row, price in ((11_999, 77.0), (3, 99.0), (4_001, 88.0), (4_500, 66.0)):
        table = with_value(table, "price", row, price)
    told = []
    for engine in ({}, {"engine": "dask", "scheduler": cluster}):
        with pytest.raises(InputError) as caught:
            settle(
                plan, table if not engine else parts(tmp_path / "bad", table), out=tmp_path / "o", **engine
            )
        told.append(str(caught.value).partition("\n")[2])
    assert told[0] == told[1]
    found = [told[1].find(f"row {row}:") for row in (2, 4_000, 4_499, 11_998)]
    assert found == sorted(found)
    assert "row 2:" in told[1]
    assert not list(tmp_path.glob(".o*"))


class Interrupted(Exception):
    """Stands for Ctrl-C in the second pass."""


@pytest.mark.parametrize("first", ["threads", "dask"])
def test_a_settlement_interrupted_with_one_engine_is_finished_by_the_other(
    cluster: Any, plan: Plan, reports: Path, tmp_path: Path, first: str
) -> None:
    def interrupt(stage: str, done: int, rows: int | None) -> None:
        if stage == "payments" and done > PLAYERS / 2:
            raise Interrupted

    def settled(engine: str, progress: Any = None) -> Settlement:
        scheduler = cluster if engine == "dask" else None
        out = tmp_path / "out"
        return settle(plan, reports, out=out, engine=engine, scheduler=scheduler, progress=progress)

    with pytest.raises(Interrupted):
        settled(first, interrupt)
    second = settled("dask" if first == "threads" else "threads")
    assert second.payments.num_rows == PLAYERS
    assert (tmp_path / "out/payments.csv").exists() == (first == "dask")
    (entry,) = read_ledger(tmp_path / "ledger.json").entries
    assert entry.draw == second.summary["draw"]


def test_from_the_command_line_to_a_receipt(
    cluster: Any, plan: Plan, reports: Path, tmp_path: Path, run: Run
) -> None:
    plan.save(tmp_path / "plan.json")
    source = f"file://{reports}"
    out = tmp_path / "out"
    address = cluster.scheduler_address
    settled = run(
        "settle", tmp_path / "plan.json", source, "--out", out, "--engine", "dask", "--scheduler", address
    )
    assert settled.code == 0, settled.err
    assert "payments.csv" not in settled.out
    assert f"truthful verify {out}/release.json" in settled.out
    assert run("verify", out / "release.json", out / "receipts.parquet", "--player", "p-00011").code == 0
    saved = tmp_path / "receipt.json"
    assert run("receipt", out / "receipts.parquet", "p-11999", "--save", saved).code == 0
    assert read_receipt(saved).player == "p-11999"


def test_without_a_scheduler_processes_are_started_here_and_ended(
    plan: Plan, reports: Path, tmp_path: Path
) -> None:
    with dask.config.set({METHOD: "spawn"}):  # as it is anywhere else
        alone = settle(plan, reports, out=tmp_path / "out", seed=3, engine="dask")
    assert alone.release.sha256 == settle(plan, reports, seed=3).release.sha256


def test_ctrl_c_ends_the_processes_with_one_sentence_and_leaves_nothing(
    plan: Plan, reports: Path, tmp_path: Path
) -> None:
    """As a terminal sends it: to every process of the command, here while workers load the code of the first pass."""
    plan.save(tmp_path / "plan.json")
    program = Path(sys.executable).with_name("truthful")
    command = [str(program), "settle", "plan.json", "reports", "--out", "out", "--engine", "dask"]
    with subprocess.Popen(
        command, cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        while process.poll() is None and not list(tmp_path.glob(".out.unfinished/.hashes-*")):
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate()[1].decode().strip()
    assert said == "Interrupted: Nothing was drawn, spent or left behind. Give the same command again."
    assert process.returncode == 130
    assert not list(tmp_path.glob("*out*"))


def dies(piece: int) -> Iterator[int]:
    if piece == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    yield piece


def test_a_piece_that_kills_every_worker_is_told(tmp_path: Path) -> None:
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        local_cluster(1) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        pytest.raises(ClusterLost, match="lost with 2 workers"),
    ):
        list(Cluster(client, tmp_path).run(dies, range(5)))


def echo(piece: int) -> Iterator[int]:
    yield piece
    yield -piece


def test_results_come_in_the_order_of_the_pieces(cluster: Any, tmp_path: Path) -> None:
    with distributed.Client(cluster, set_as_default=False) as client:
        given = list(Cluster(client, tmp_path).run(echo, range(40)))
    assert given == list(Threads().run(echo, range(40)))


def test_a_scheduler_that_is_lost_is_told(tmp_path: Path) -> None:
    with local_cluster(1) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        results = Cluster(client, tmp_path).run(echo, range(3))
        assert next(results) == 0
        cluster.close()
        with pytest.raises(ClusterLost, match="scheduler was lost"):
            list(results)
        client.close()
        with pytest.raises(ClusterLost, match="scheduler was lost"):
            list(Cluster(client, tmp_path).run(echo, range(3)))


def test_a_worker_of_another_version_is_refused() -> None:
    with pytest.raises(InputError, match=r"truthful .*, and this is 0\.0\.0"):
        _run(1, echo, "0.0.0")


def fails(piece: int) -> Iterator[int]:
    yield os.open(f"/nowhere/{piece}", os.O_RDONLY)


def test_a_worker_that_does_not_see_the_directory_is_told() -> None:
    with pytest.raises(InputError, match="Workers must see the settlement's directory"):
        _run(1, fails, sys.modules["truthful.version"].__version__)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"engine": "spark"}, "engine is 'spark'; choose one of threads, dask"),
        ({"scheduler": "tcp://a:1"}, "engine='threads' has none"),
        ({"engine": "dask", "out": None}, "Name a directory"),
        ({"engine": "dask", "reports": "reports.csv"}, "reports must be Parquet"),
        ({"engine": "dask", "reports": "table"}, "reports must be Parquet"),
    ],
)
def test_what_cannot_be_is_refused_before_a_worker_starts(
    study: Study, tmp_path: Path, options: dict[str, Any], told: str
) -> None:
    table = people(study, 60).reports
    pyarrow.csv.write_csv(table, tmp_path / "reports.csv")
    source = {"reports.csv": tmp_path / "reports.csv"}.get(options.pop("reports", ""), table)
    with pytest.raises(InputError, match=told):
        settle(planned(study, 60), source, **{"out": tmp_path / "out", "seed": 1, **options})
    assert not list(tmp_path.glob("*out*"))


def test_without_dask_the_command_that_installs_it_is_told(
    plan: Plan, reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'truthful\[dask\]'"):
        settle(plan, reports, out=tmp_path / "out", engine="dask")


def test_an_address_without_a_scheduler_is_told(
    plan: Plan, reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("truthful.settlement.engines.WAIT", 0.5)
    with pytest.raises(InputError, match="no Dask scheduler with a worker at 'tcp://127"):
        settle(plan, reports, out=tmp_path / "out", engine="dask", scheduler="tcp://127.0.0.1:9")
