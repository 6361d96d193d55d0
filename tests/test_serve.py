"""`truthful serve` as people run it: a process of its own, on an empty directory."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.commands import Run
from support.databases import copy_new, database_url
from support.lives import until
from support.serving import PASSWORD, answer_all, asked, close, code_of, served

import truthful
from truthful.errors import InputError, Refused
from truthful.service.locations import Locations, Settings
from truthful.service.monitoring import TOKEN
from truthful.service.server import PLAYERS, TO_ANSWER, Opening, listen, make_demo, prepare
from truthful.store import studies
from truthful.store.tables import State

PROGRAM = [sys.executable, "-c", "from truthful.cli import main; main()"]


@dataclass(frozen=True)
class Serving:
    """A server, and what it said when it started."""

    process: subprocess.Popen[str]
    said: dict[str, Any]

    @property
    def url(self) -> str:
        return str(self.said["url"])

    def stop(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Its exit code, and what it said on the side."""
        self.process.send_signal(number)
        _, told = self.process.communicate(timeout=60)
        return self.process.returncode, told


@contextmanager
def serving(directory: Path, *options: str, program: Sequence[str] = PROGRAM) -> Iterator[Serving]:
    arguments = [*program, "serve", str(directory), "--port", "0", "--json", *options]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Serving(process, json.loads(process.stdout.readline()))
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.slow
def test_an_empty_directory_is_all_it_takes_and_a_killed_server_is_started_again(
    tmp_path: Path, run: Run
) -> None:
    """What is written there is for its owner alone, although the directory is open to all."""
    directory = tmp_path / "open to all"
    directory.mkdir(mode=0o755)
    with serving(directory) as first:
        assert {oct(path.stat().st_mode & 0o077) for path in directory.iterdir()} == {"0o0"}
        require_one_server(directory, first, run)
        first.process.kill()
        first.process.wait()
    with serving(directory) as second:
        link = new_link(directory, second, run)
        with httpx2.Client(base_url=second.url) as client:
            assert "Welcome" in client.get(link).text
            entered = client.post(link, data={"password": PASSWORD})
            assert entered.headers["location"] == "/studies"
            assert "server" not in entered.headers
            assert client.get("/people").status_code == 200
        code, told = second.stop()
    assert code == 0
    assert "Stopping" in told
    assert "127.0.0.1" not in told  # nobody's address is written down
    assert "Traceback" not in told
    with serving(directory) as third:
        assert third.said["sign_in_link"] is None
        with httpx2.Client(base_url=third.url) as client:
            data = {"name": "analyst", "password": PASSWORD}
            assert client.post("/sign-in", data=data).headers["location"] == "/studies"
        assert third.stop(signal.SIGTERM)[0] == -signal.SIGTERM


def require_one_server(directory: Path, first: Serving, run: Run) -> None:
    """No second one for the same directory, but a link can be made beside it, which ends the one before."""
    again = run("serve", directory, "--port", "0")
    assert again.code == 1
    assert "Another server is running" in again.err
    link = new_link(directory, first, run)
    with httpx2.Client() as client:
        assert client.get(first.said["sign_in_link"]).status_code == 404
        assert client.get(link).status_code == 200


def new_link(directory: Path, service: Serving, run: Run) -> str:
    """A sign-in link for the analyst, made beside a running server."""
    made = run("account", "link", directory, "analyst", "--url", service.url, "--json")
    assert made.code == 0
    return str(json.loads(made.out)["sign_in_link"])


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_stopping_while_a_study_is_settled_loses_nothing_and_draws_once(tmp_path: Path, times: int) -> None:
    """Ctrl-C lets it finish, a second one leaves at once; in both cases the next start has one release."""
    with served(tmp_path) as before:
        study = asked(before.service)
        answer_all(before.service, study)
        close(before.service, study.study_id)
        link = study.links["p-01"]
        hers = {"code": code_of(before.service, link)}
    with serving(tmp_path) as first:
        with httpx2.Client() as client:
            assert client.get(f"{first.url}/sign-in").status_code == 200
        for _ in range(times):
            first.process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        assert first.process.wait(timeout=60) in (0, 130)[:times]
    with served(tmp_path) as after:
        after.client.cookies.update(hers)
        until(lambda: after.client.get(f"/a/{link}/receipt.json").status_code == 200)
        assert after.state(study.study_id) == State.SETTLED
    ledger = json.loads((Locations(tmp_path).study(study.study_id) / "ledger.json").read_text())
    assert len(ledger["releases"]) == 1


@pytest.mark.slow
def test_the_demo_is_made_once_and_open_to_click_through_with_its_answers_in_postgresql(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "service"
    with database_url("postgresql", tmp_path, tables=False) as url:
        with serving(directory, "--demo", "--database", url) as demo, httpx2.Client() as client:
            asked = client.get(demo.said["participant_link"])
            assert asked.status_code == 200
            assert "The makers of truthful" in asked.text
            assert client.get(demo.said["public_page"]).status_code == 200
            assert demo.said["database"].startswith("postgresql")
            assert "Welcome" in client.get(demo.said["payer_link"]).text
            assert demo.stop()[0] == 0
        assert not (directory / "truthful.db").exists()
        database = Settings(directory, database=url).open_database()
        assert make_demo(database, Locations(directory)) is None
        with database.reading() as session:
            (stored,) = studies.list_studies(session)
            counts = studies.counts(session, stored.id)
        database.close()
    assert demo.said["public_page"].endswith(stored.id)
    assert stored.rehearsal
    assert stored.state == State.OPEN
    assert counts["roster"] == counts["invited"] == PLAYERS
    assert counts["answered"] == PLAYERS - TO_ANSWER


def test_a_port_in_use_is_said_to_be(tmp_path: Path, run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run("serve", tmp_path, "--port", str(port))
    assert ran.code == 2
    assert f"Port {port} of 127.0.0.1 is in use" in ran.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--url", "study.example.org"], "give what people type before the first slash"),
        (["--mail-from", "a@example.org"], "no mail server: add --smtp"),
        (["--smtp", "mail.example.org:587"], "add --mail-from"),
        (["--host", "0.0.0.0"], "Add --url"),
        (["--host", "192.0.2.1"], "cannot listen on '192.0.2.1'"),
        (["--host", "no-such-host.invalid"], "cannot listen on"),
        (["--port", "70000"], "port is 70000"),
        (["--port", "0", "--analyst", ""], "give 1 to 100"),
        (["--port", "0", "--database", "mysql://x"], "give sqlite:///FILE or postgresql://"),
        (["--port", "0", "--database", "postgresql://u:secret@127.0.0.1:1/x"], "cannot be opened"),
        (["--port", "0", "--database", "sqlite:////nowhere/at/all.db"], "cannot be opened"),
    ],
)
def test_what_cannot_be_is_said_clearly(tmp_path: Path, run: Run, options: list[str], said: str) -> None:
    ran = run("serve", tmp_path / "service", *options)
    assert ran.code == 2
    assert said in ran.err
    assert "secret" not in ran.err


def test_a_token_that_could_be_guessed_is_refused_before_anything_is_made(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, "short")
    ran = run("serve", tmp_path, "--port", "0")
    assert (ran.code, f"{TOKEN} has 5 characters" in ran.err) == (2, True)
    assert not any(tmp_path.iterdir())


def test_an_answer_does_not_wait_for_the_browser_to_acknowledge_its_beginning() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_file_that_is_no_database_is_not_used(tmp_path: Path, run: Run) -> None:
    (tmp_path / "truthful.db").write_text("a diary" * 1_000)
    ran = run("serve", tmp_path, "--port", "0")
    assert ran.code == 2
    assert "cannot be used: file is not a database" in ran.err


def test_a_damaged_database_is_told_at_the_start_and_not_touched(tmp_path: Path) -> None:
    Settings(tmp_path).open_database().close()
    path = tmp_path / "truthful.db"
    content = path.read_bytes()
    path.write_bytes(content[:-4096] + b"\xff" * 4096)
    before = path.read_bytes()
    with pytest.raises(InputError, match="is damaged: "):
        Settings(tmp_path).open_database()
    assert path.read_bytes() == before


def test_a_database_that_is_missing_beside_frozen_studies_is_told_and_not_begun_anew(tmp_path: Path) -> None:
    with served(tmp_path) as here:
        asked(here.service)
    for path in tmp_path.glob("truthful.db*"):
        path.unlink()
    with pytest.raises(Refused, match=r"holds 1 frozen studies\. Bring the database back"):
        Settings(tmp_path).open_database()
    assert not (tmp_path / "truthful.db").exists()


def test_studies_that_the_database_does_not_have_are_told_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is another service's, or was restored from before they were frozen."""
    with served(tmp_path) as here:
        study_id = asked(here.service).study_id
    prepare(Settings(tmp_path), analyst="ada", demo=False)
    assert capsys.readouterr().err == ""
    for path in tmp_path.glob("truthful.db*"):
        path.unlink()
    copy_new(tmp_path / "truthful.db")
    prepare(Settings(tmp_path), analyst="ada", demo=False)
    assert f"Studies {study_id} are frozen in" in capsys.readouterr().err


def test_a_database_that_cannot_be_written_is_told_at_the_start(tmp_path: Path) -> None:
    Settings(tmp_path).open_database().close()
    only_read = f"sqlite:///file:{tmp_path / 'truthful.db'}?mode=ro&uri=true"
    with pytest.raises(InputError, match=r"readonly database\. See whether this user may write the file"):
        Settings(tmp_path, database=only_read).open_database()


def test_a_database_of_a_newer_version_is_not_touched(tmp_path: Path, run: Run) -> None:
    Settings(tmp_path).open_database().close()
    with sqlite3.connect(tmp_path / "truthful.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'later'")
    connection.close()
    ran = run("serve", tmp_path, "--port", "0")
    assert ran.code == 2
    assert "made by a newer version" in ran.err


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path, run: Run) -> None:
    (tmp_path / "file").write_text("")
    ran = run("serve", tmp_path / "file" / "service")
    assert ran.code == 2
    assert "Not a directory" in ran.err


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.startswith("truthful.service")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(truthful, "service", truthful.service)  # as it was, when the modules are back
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    ran = run("serve", tmp_path)
    assert ran.code == 2
    assert "pip install 'truthful[service]'" in ran.err


def test_links_that_travel_in_the_open_are_warned_of(tmp_path: Path) -> None:
    def words(url: str) -> str:
        return Opening(Settings(tmp_path, url).origin, "d", "s", "link").words()

    assert "Warning: without TLS" in words("http://192.0.2.1:8000")
    assert "Warning" not in words("https://study.example.org")
    assert "Warning" not in words("http://localhost:8000")


def test_the_mask_of_files_is_as_it_was(tmp_path: Path, run: Run) -> None:
    before = os.umask(0o022)
    try:
        assert run("serve", tmp_path, "--port", "0", "--database", "mysql://x").code == 2
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
