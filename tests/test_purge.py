"""A study's people erased: afterwards no file says who they were or what they said, and whoever asks is told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select
from starlette.testclient import TestClient
from support.commands import Run
from support.databases import KINDS, database_url
from support.sealed import Killed, dying, files, found_in
from support.serving import (
    STUDY,
    WHO,
    Asked,
    Served,
    answer_all,
    asked,
    close,
    draft,
    served,
    settle_with_less,
)

from truthful.service import purging
from truthful.service.keeping import SEALED_BOOKS
from truthful.service.locations import Settings
from truthful.service.purging import Unpaid
from truthful.service.settle_study import cancel_study, freeze
from truthful.store import audit_log, roster, studies
from truthful.store.seals import KEYS_FILE
from truthful.store.studies import NotNow
from truthful.store.tables import Answer, Due, Mail, Player, Role, State, StoredStudy

DAY = date.today() + timedelta(days=40)
KEPT = STUDY.replace("[invitation]", f'[invitation]\ndelete_after = "{DAY}"', 1)


@pytest.fixture(params=KINDS)
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    with database_url(request.param, tmp_path) as url, served(tmp_path / "service", url) as running:
        yield running


def settled(here: Served, text: str = STUDY) -> Asked:
    study = asked(here.service, text)
    answer_all(here.service, study)
    close(here.service, study.study_id)
    settle_with_less(here.service, study.study_id)
    return study


def pay(here: Served, study_id: str) -> None:
    with here.service.database.writing() as session:
        studies.mark_sent(session, study_id, "paula")


def found(here: Served, study_id: str) -> StoredStudy:
    with here.service.database.reading() as session:
        return studies.find(session, study_id)


def left(here: Served, study_id: str) -> int:
    """How many rows there are of a study's people."""
    with here.service.database.reading() as session:
        kinds = (Player, Answer, Due, Mail)
        rows = (select(func.count()).where(kind.study_id == study_id) for kind in kinds)
        return sum(session.scalar(count) or 0 for count in rows)


def test_no_file_of_the_service_or_its_database_says_who_was_asked_any_more(
    here: Served, tmp_path: Path
) -> None:
    service, study = here.service, asked(here.service, players=40)
    silent = {f"somebody-{k:012d}": {"price": 2.0, "region": "north"} for k in range(20)}
    with service.database.writing() as session:
        roster.add(session, study.study_id, WHO, silent, study.plan.players)
    count_rows(here)
    answer_all(service, study)
    close(service, study.study_id)
    settle_with_less(service, study.study_id)
    facts = {repr(features["price"]).encode() for features in study.features.values()}
    facts |= {player.encode() for player in silent}
    assert all(len(fact) > 12 for fact in facts)
    assert {one for _, one in found_in(files(here, tmp_path), facts)} == facts
    pay(here, study.study_id)
    done = purging.purge(service.database, service.locations, study.study_id, "operator")
    # PostgreSQL keeps its log for a while, and docs/security.md says so.
    tables = (path for path in files(here, tmp_path) if path.parent.name != "pg_wal")
    assert found_in(tables, facts) == set()
    assert left(here, study.study_id) == 0
    directory = service.locations.study(study.study_id)
    assert not (directory / KEYS_FILE).exists()
    assert {path.name for path in (directory / "settlement").iterdir()} == {"release.json", "report.html"}
    assert done.totals["people"] == len(study.links)
    with service.database.reading() as session:
        assert audit_log.events(session, study.study_id, most=1)[0].what == "erased the people's data"


def count_rows(here: Served) -> None:
    """As PostgreSQL does by itself now and then: its statistics have ids then."""
    with here.service.database.engine.connect() as connection, connection.begin():
        connection.exec_driver_sql("ANALYZE")


def test_books_that_a_killed_settlement_left_in_clear_go_when_the_study_ends(here: Served) -> None:
    """It may end without being settled: then nobody else would look there."""
    service, study = here.service, asked(here.service)
    answer_all(service, study)
    close(service, study.study_id)
    left = service.locations.study(study.study_id) / ".settlement.unfinished"
    (left / ".parts").mkdir(parents=True)
    for path in (left / "receipts.parquet", left / ".parts" / "1.parquet"):
        path.write_bytes(b"p-01 said 12.5")
        path.with_name("copy").hardlink_to(path)
    with service.database.writing() as session:
        studies.note_problem(session, study.study_id, "The disk was full.")
    copies = [path.open("rb") for path in left.rglob("copy")]
    cancel_study(service.database, service.locations, study.study_id, "ada")
    assert not left.exists()
    for copy in copies:
        with copy:
            assert set(copy.read()) == {0}


def test_whoever_asks_afterwards_is_told_when_it_was_erased(here: Served) -> None:
    service, study = here.service, settled(here)
    analyst, payer = here.signed_in(Role.ANALYST), here.signed_in(Role.PAYER)
    assert analyst.post(f"/studies/{study.study_id}/publish").status_code == 303
    pay(here, study.study_id)
    before = payer.get("/payments").text
    purging.purge(service.database, service.locations, study.study_id, "operator")
    link = f"/a/{study.links['p-01']}"
    shown = here.client.get(link)
    assert shown.status_code == 200
    assert "Your data have been erased" in shown.text
    assert f"/s/{study.study_id}" in shown.text
    for move in ("consent", "submit", "withdraw", "dispute", "review"):
        assert here.client.post(f"{link}/{move}", data={"answer": "1"}).status_code in (403, 409)
    sent = here.client.post(f"{link}/code", data={"code": "7KQ4-M2XD"})
    assert sent.status_code == 303
    assert "Your data have been erased" in here.client.get(sent.headers["location"]).text
    for name in ("/receipt.json", "/release.json"):
        assert here.client.get(link + name).status_code == 404
    total = before.partition('class="big">')[2].partition("<")[0]
    place = f"/payments/{study.study_id}"
    for page in ("/payments", place):
        text = payer.get(page).text
        assert total in text
        assert "was erased on" in text
    assert payer.post(f"{place}/payments.csv").status_code == payer.post(f"{place}/sent").status_code == 409
    assert "data were erased on" in _shown(analyst, f"/studies/{study.study_id}")
    assert "data were erased on" in _shown(here.client, f"/s/{study.study_id}")
    assert here.client.get(f"/s/{study.study_id}/release.json").status_code == 200
    assert here.client.get(f"/a/{study.links['p-01']}x").status_code == 404


def _shown(client: TestClient, path: str) -> str:
    page = client.get(path)
    assert page.status_code == 200
    return page.text


def test_nothing_is_erased_before_the_study_has_ended_and_people_are_paid(here: Served) -> None:
    service, study = here.service, asked(here.service)
    answer_all(service, study)
    with pytest.raises(NotNow, match="The study is open"):
        purging.purge(service.database, service.locations, study.study_id, "operator")
    close(service, study.study_id)
    settle_with_less(service, study.study_id)
    with pytest.raises(Unpaid, match="60 payments not marked as sent"):
        purging.purge(service.database, service.locations, study.study_id, "operator")
    assert left(here, study.study_id) == 180
    assert not (service.locations.study(study.study_id) / purging.ERASURE_RECORD).exists()
    done = purging.purge(service.database, service.locations, study.study_id, "operator", unpaid=True)
    assert done.totals["unsent"] == 60
    assert left(here, study.study_id) == 0


def test_what_was_begun_is_finished_wherever_it_was_killed(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before every write to the disk and every name that changes or goes; pages hold up in between."""
    service, killed = here.service, 0
    study = settled(here)
    pay(here, study.study_id)
    directory = service.locations.study(study.study_id)
    while True:
        steps = iter(range(killed + 1))
        with monkeypatch.context() as patch:
            for name in ("fsync", "replace"):
                patch.setattr(os, name, dying(getattr(os, name), steps, killed))
            try:
                if killed:
                    purging.finish(service.database, service.locations)
                if not (directory / purging.ERASURE_RECORD).exists():
                    purging.purge(service.database, service.locations, study.study_id, "operator")
                break
            except Killed:
                killed += 1
        assert here.client.get(f"/a/{study.links['p-01']}").status_code == 200
        # Either nothing has happened, or nothing is left: never a part.
        assert left(here, study.study_id) in (0, 180)
    assert killed > 5
    assert '"whole": true' in (directory / purging.ERASURE_RECORD).read_text()
    assert left(here, study.study_id) == 0
    assert not any((directory / name).exists() for name in (KEYS_FILE, f"settlement/{SEALED_BOOKS}"))


def test_a_database_that_is_brought_back_from_before_is_erased_again(tmp_path: Path) -> None:
    with served(tmp_path) as here:
        study = asked(here.service)
        answer_all(here.service, study)
        here.service.database.truncate_log()
        older = (tmp_path / "truthful.db").read_bytes()
        close(here.service, study.study_id)
        settle_with_less(here.service, study.study_id)
        pay(here, study.study_id)
        purging.purge(here.service.database, here.service.locations, study.study_id, "operator")
        release = found(here, study.study_id).release
    for path in tmp_path.glob("truthful.db*"):
        path.unlink()
    (tmp_path / "truthful.db").write_bytes(older)
    with served(tmp_path) as here:
        assert left(here, study.study_id) == 0
        stored = found(here, study.study_id)
        assert (stored.state, stored.release) == (State.SETTLED, release)
        assert here.client.get(f"/a/{study.links['p-01']}").status_code == 200
        assert here.signed_in(Role.ANALYST).get(f"/studies/{study.study_id}").status_code == 200


def test_the_service_erases_by_itself_after_the_day_that_people_were_told(here: Served) -> None:
    service, study = here.service, asked(here.service, KEPT)
    told = here.client.get(f"/a/{study.links['p-01']}").text
    assert f"After {DAY:%B} {DAY.day}, {DAY.year}, once the study has ended" in told
    assert "Daten der Befragten werden gelöscht nach dem" in (
        here.client.get(f"/s/{study.study_id}", headers={"Accept-Language": "de"}).text
    )
    answer_all(service, study)
    close(service, study.study_id)
    settle_with_less(service, study.study_id)
    after = DAY + timedelta(days=1)
    purging.purge_due(service.database, service.locations, after)
    assert left(here, study.study_id) == 180
    pay(here, study.study_id)
    purging.purge_due(service.database, service.locations, DAY)
    assert left(here, study.study_id) == 180
    purging.purge_due(service.database, service.locations, after)
    assert left(here, study.study_id) == 0
    assert found(here, study.study_id).erased is not None


def test_the_analyst_is_told_that_erasing_waits_for_payments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path) as here:
        study, analyst = settled(here, KEPT), here.signed_in(Role.ANALYST)
        place = f"/studies/{study.study_id}"
        assert "data are kept until" in _shown(analyst, place)
        late = DAY + timedelta(days=1)
        monkeypatch.setattr("truthful.service.analyst.study_pages.today", lambda: late)
        assert "will be erased as soon as" in _shown(analyst, place)


def test_a_deadline_after_that_day_and_a_day_that_is_over_are_refused(tmp_path: Path) -> None:
    with served(tmp_path) as here:
        service, study_id = here.service, draft(here.service, KEPT)
        late = datetime(DAY.year, DAY.month, DAY.day, 12, tzinfo=UTC) + timedelta(days=1)
        with pytest.raises(Exception, match=r"The deadline is .*erased after"):
            freeze(service.database, service.locations, study_id, "ada", rehearsal=False, deadline=late)
        over = draft(service, KEPT.replace(str(DAY), "2020-01-31"))
        with pytest.raises(Exception, match=r"erased after 2020-01-31 .*is over"):
            freeze(service.database, service.locations, over, "ada", rehearsal=False)
        study_id = asked(service, KEPT).study_id
        moved = here.signed_in(Role.ANALYST).post(
            f"/studies/{study_id}/deadline", data={"until": f"{late:%Y-%m-%dT%H:%M}"}
        )
        assert moved.status_code == 400
        assert "Give an earlier deadline" in moved.text


def test_the_command_erases_and_names_the_studies_there_are(tmp_path: Path, run: Run) -> None:
    with served(tmp_path) as here:
        study_id = settled(here).study_id
    assert f"{study_id} (" in run("purge", tmp_path, "nothing").err.replace("\n", "")
    assert "60 payments" in run("purge", tmp_path, study_id).err
    assert run("purge", tmp_path, study_id, "--unpaid", "--json").code == 0
    assert "60 paid people" in run("purge", tmp_path, study_id).out
    with closing(Settings(tmp_path).open_database()) as database, database.reading() as session:
        assert studies.find(session, study_id).erased is not None
