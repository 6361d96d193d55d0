"""What an operator is told: whether the service is well, counts that single nobody out, a log without values."""

from __future__ import annotations

import json
import logging.config
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from support.databases import away, database_url
from support.lives import until
from support.serving import Served, asked, served

from truthful.errors import InputError
from truthful.service import monitoring, participant
from truthful.service.monitoring import TOKEN, read_token, write_log_as
from truthful.store.database import RolledBack

SECRET = "a token that nobody can guess"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as running:
        yield running


def from_address(here: Served, host: str) -> TestClient:
    return TestClient(here.client.app, client=(host, 1), follow_redirects=False)


def test_health_says_whether_the_database_answers_and_nothing_else(tmp_path: Path) -> None:
    with database_url("postgresql", tmp_path) as url, served(tmp_path / "service", url) as here:
        probe = from_address(here, "192.0.2.1")  # by any name: it goes by none of the service's own
        well = probe.get("/health", headers={"Host": "10.0.0.7:8000"})
        assert (well.status_code, well.text) == (200, "ok\n")
        with away(url):
            monitoring_again(here)
            ill = probe.get("/health")
            assert (ill.status_code, ill.text) == (503, "the database is away\n")


def test_while_the_database_is_away_a_page_says_so_and_the_log_has_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with database_url("postgresql", tmp_path) as url, served(tmp_path / "service", url) as here:
        here.service.settler.stop()
        page = f"/a/{asked(here.service).links['p-01']}"
        write_log_as("words")
        with away(url):
            shown = here.client.get(page)
        assert (shown.status_code, shown.headers["retry-after"]) == (503, "5")
        assert "cannot reach its data" in shown.text
        (line,) = capsys.readouterr().err.splitlines()
        assert re.fullmatch(r"A page failed\. The database could not be reached \(\w+\)\.", line)
        assert here.client.get(page).status_code == 200


def test_a_process_that_starts_while_the_database_is_away_waits_for_it(tmp_path: Path) -> None:
    """If it gave up, all processes would be stopped with it."""
    with database_url("postgresql", tmp_path) as url:
        gone = threading.Event()

        def restart() -> None:
            with away(url):
                gone.set()
                time.sleep(0.5)

        server = threading.Thread(target=restart)
        server.start()
        gone.wait()
        with served(tmp_path / "service", url, processes=2) as here:
            assert from_address(here, "127.0.0.1").get("/health").text == "ok\n"
        server.join()


def monitoring_again(here: Served) -> None:
    """As after the second for which the answer is told."""
    layer = here.client.app.middleware_stack  # type: ignore[attr-defined]
    while not hasattr(layer, "_well"):
        layer = getattr(layer, "app", None) or layer._app
    layer._well = (float("-inf"), False)


def test_metrics_are_for_this_machine_or_for_who_knows_the_token(
    tmp_path: Path, here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    local, stranger = from_address(here, "127.0.0.1"), from_address(here, "192.0.2.1")
    assert local.get("/metrics").status_code == 200
    assert local.get("/metrics", headers={"X-Forwarded-For": "127.0.0.1"}).status_code != 200
    assert stranger.get("/metrics").status_code != 200
    monkeypatch.setenv(TOKEN, SECRET)
    with served(tmp_path / "with token") as other:
        asking = from_address(other, "192.0.2.1")
        assert asking.get("/metrics", headers={"Authorization": f"Bearer {SECRET}"}).status_code == 200
        assert asking.get("/metrics", headers={"Authorization": "Bearer "}).status_code != 200
        assert from_address(other, "127.0.0.1").get("/metrics").status_code != 200
    with pytest.raises(InputError, match="has 5 characters"):
        read_token("short")


def test_metrics_do_not_tell_what_a_participant_does(here: Served) -> None:
    study = asked(here.service)
    link = study.links["p-01"]
    browser = here.client
    before = browser_counts(here)
    browser.get(f"/a/{link}")
    browser.post(f"/a/{link}/consent")
    browser.post(f"/a/{link}/submit", data={"answer": "50"})
    browser.post(f"/a/{link}/withdraw")
    browser.get("/sign-in")
    told = from_address(here, "127.0.0.1").get("/metrics").text
    routes = set(re.findall('route="([^"]*)"', told))
    assert {route for route in routes if route.startswith("/a/")} == {"/a/…"}
    assert "/sign-in" in routes
    assert sum(browser_counts(here).values()) == sum(before.values()) + 4
    assert link not in told
    assert study.study_id not in told
    assert "truthful_settler_leads 1.0" in told


def test_a_process_keeps_its_gauges_although_another_is_asked_for_them(here: Served) -> None:
    monitoring._LEADS.set(0)
    until(lambda: monitoring._LEADS._value.get() == 1)


def browser_counts(here: Served) -> dict[str, float]:
    """Requests of participants by status."""
    told = from_address(here, "127.0.0.1").get("/metrics").text
    found = re.findall(r'truthful_requests_total\{route="/a/…",status="(\d+)"\} (\S+)', told)
    return {status: float(count) for status, count in found}


def test_the_log_tells_where_it_failed_and_no_value(
    here: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    link, said = asked(here.service).links["p-01"], 57.25

    def fail(*_: object) -> None:
        raise ValueError(f"{link} said {said}")

    monkeypatch.setattr(participant, "make_offer", fail)
    for form in ("json", "words"):
        write_log_as(form)
        assert here.client.get(f"/a/{link}").status_code == 500
        told = capsys.readouterr().err
        assert link not in told
        assert str(said) not in told
        if form == "json":
            (line,) = told.splitlines()
            record = json.loads(line)
            assert (record["level"], record["event"], record["error"]) == (
                "error",
                "A page failed.",
                "ValueError",
            )
            assert any("participant.py" in frame for frame in record["where"])
        else:
            assert told.startswith("A page failed.\n")
            assert told.endswith("ValueError\n")


def test_a_full_disk_is_one_line_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    write_log_as("words")
    monitoring.complain("A page failed.", RolledBack("See whether its disk is full."))
    assert capsys.readouterr().err == "A page failed. See whether its disk is full.\n"


@pytest.mark.parametrize("form", ["json", "words"])
def test_what_other_libraries_write_tells_no_value_either(
    form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By itself Python would print it as it is, beside our lines."""
    monkeypatch.setattr(logging.root, "handlers", [])
    logging.config.dictConfig(write_log_as(form))
    logging.getLogger("asyncio").error("<Task exception=ValueError('she said 57.25')>")
    logging.getLogger("multipart").warning("Expected %r", "57.25", exc_info=ValueError("57.25"))
    monkeypatch.undo()
    told = capsys.readouterr().err
    assert "57.25" not in told
    lines = told.splitlines()
    said = [json.loads(line)["event"] for line in lines] if form == "json" else [lines[0], lines[1]]
    assert [one.partition(",")[0] for one in said] == ["asyncio wrote something", "multipart wrote something"]
