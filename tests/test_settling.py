"""Settling in the service: exactly once, resumed wherever it stopped, refused where it would be a second time."""

import json
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text
from support.databases import KINDS, away, database_url
from support.sealed import say
from support.serving import WHO, Asked, Served, answer_all, asked, close, served

from truthful.errors import Refused
from truthful.release import Receipt, Release, verify
from truthful.service.keeping import read_books
from truthful.service.locations import Settings
from truthful.service.settle_study import Settler, cancel_study, freeze, settle_study
from truthful.settlement.atomic_release import read_ledger
from truthful.store import studies
from truthful.store.studies import RECEIPT_STEPS
from truthful.store.tables import State

#: Statements that make a database, SQLite or not, store other payments than it is given.
ROUNDING = {
    True: """CREATE TRIGGER rounding AFTER INSERT ON due
             BEGIN UPDATE due SET sealed = zeroblob(length(sealed)) WHERE rowid = new.rowid; END""",
    False: """CREATE FUNCTION rounded() RETURNS trigger LANGUAGE plpgsql AS
              $$ BEGIN new.sealed := set_byte(new.sealed, 20, 1 # get_byte(new.sealed, 20)); RETURN new; END $$""",
}


@pytest.fixture(params=KINDS)
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    with database_url(request.param, tmp_path) as url, served(tmp_path / "service", url) as running:
        yield running


def test_a_settled_study_pays_everybody_what_its_release_implies(here: Served) -> None:
    service = here.service
    study = asked(service)
    answer_all(service, study)
    close(service, study.study_id)
    settle_study(service.database, service.locations, study.study_id)
    with service.database.reading() as session:
        stored = studies.find(session, study.study_id)
        assert stored.state == State.SETTLED
        release = Release.model_validate_json(stored.release or "")
        paid = list(studies.payments(session, study.study_id))
    assert release.players == 60
    assert not release.rehearsal
    assert {row.player for row in paid} == set(study.links)
    for row in paid:
        receipt = Receipt(
            player=row.player,
            features=study.features[row.player],
            report=study.answers[row.player],
            payment=row.millionths / 1e6,
            **{name: getattr(row, name) for name in RECEIPT_STEPS},
        )
        assert verify(release, receipt).verified
        assert abs(row.coins * 10_000 - row.millionths) < 10_000


def test_a_rehearsal_says_so(here: Served) -> None:
    service = here.service
    study = asked(service, rehearsal=True)
    answer_all(service, study)
    close(service, study.study_id)
    settle_study(service.database, service.locations, study.study_id)
    with service.database.reading() as session:
        assert json.loads(studies.find(session, study.study_id).release or "")["rehearsal"] is True


def test_a_settlement_whose_files_are_there_is_stored_without_another_draw(here: Served) -> None:
    service = here.service
    study = asked(service)
    answer_all(service, study)
    close(service, study.study_id)
    settle_study(service.database, service.locations, study.study_id)
    written = (service.locations.settlement(study.study_id) / "release.json").read_text()
    with service.database.writing() as session:  # as a crash before the last transaction would leave it
        session.execute(text("DELETE FROM due"))
        stored = studies.find(session, study.study_id)
        stored.state, stored.release, stored.report = State.CLOSED, None, None
    settle_study(service.database, service.locations, study.study_id)
    with service.database.reading() as session:
        assert studies.find(session, study.study_id).release == written
    assert (
        len(json.loads((service.locations.study(study.study_id) / "ledger.json").read_text())["releases"])
        == 1
    )


def test_other_answers_than_those_it_was_closed_with_are_refused(here: Served) -> None:
    """A database that was restored from a backup has lost, or still has, answers that others have not."""
    service = here.service
    service.settler.stop()  # it would close the study again before anybody could answer
    study = asked(service)
    answer_all(service, study)
    close(service, study.study_id)
    settle_study(service.database, service.locations, study.study_id)
    with service.database.writing() as session:
        stored = studies.find(session, study.study_id)
        session.execute(text("DELETE FROM due"))
        stored.state = State.OPEN
    answer_all(service, replace(study, answers=dict.fromkeys(study.answers, 100.0)))
    close(service, study.study_id)
    with pytest.raises(Refused, match="not those that the study was closed with"):
        settle_study(service.database, service.locations, study.study_id)
    assert here.state(study.study_id) == State.CLOSED


def test_a_settlement_that_was_removed_is_not_drawn_again(here: Served) -> None:
    service = here.service
    study = asked(service)
    answer_all(service, study)
    close(service, study.study_id)
    settle_study(service.database, service.locations, study.study_id)
    shutil.rmtree(service.locations.settlement(study.study_id))
    with service.database.writing() as session:
        session.execute(text("DELETE FROM due"))
        studies.find(session, study.study_id).state = State.CLOSED
    with pytest.raises(Refused, match="already released"):
        settle_study(service.database, service.locations, study.study_id)


def test_a_database_without_its_directory_settles_nothing(here: Served) -> None:
    """As a cloned database does, brought up elsewhere: the ledger is not there."""
    service = here.service
    study = asked(service)
    answer_all(service, study)
    close(service, study.study_id)
    shutil.move(service.locations.study(study.study_id), service.locations.root / "elsewhere")
    with pytest.raises(Refused, match="are not in"):
        settle_study(service.database, service.locations, study.study_id)


def soon(true: Callable[[], bool]) -> None:
    """Wait for the settler, which works in a thread of its own."""
    given_up = time.monotonic() + 60
    while not true():
        assert time.monotonic() < given_up
        time.sleep(0.02)


def test_servers_on_one_directory_settle_a_study_once(here: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks them to: one of them looks by itself."""
    monkeypatch.setattr("truthful.service.settle_study.LOOK_SECONDS", 0.1)
    service = here.service
    service.settler.stop()
    servers = [Settler(service.database, service.locations) for _ in range(3)]
    for server in servers:
        server.start()
    study = asked(service)
    answer_all(service, study)
    close(service, study.study_id)
    soon(lambda: here.state(study.study_id) == State.SETTLED)
    for server in servers:
        server.stop()
    with service.database.reading() as session:
        assert studies.find(session, study.study_id).problem is None
    ledger = json.loads((service.locations.study(study.study_id) / "ledger.json").read_text())
    assert len(ledger["releases"]) == 1


def test_a_server_takes_over_from_one_that_dies_while_settling(here: Served) -> None:
    service = here.service
    study = asked(service)
    answer_all(service, study)
    with service.locations.settling(study.study_id):  # as another server does; a killed one frees it
        close(service, study.study_id)
        service.settler.ask(study.study_id)
        soon(lambda: service.settler.progress_of(study.study_id) is not None)
        time.sleep(0.2)
        assert here.state(study.study_id) == State.CLOSED
    soon(lambda: here.state(study.study_id) == State.SETTLED)


def test_a_problem_is_shown_and_settling_is_tried_again_until_it_is_gone(here: Served) -> None:
    service = here.service
    study = asked(service)
    answer_all(service, study)
    plan = service.locations.study(study.study_id) / "plan.json"
    plan.rename(plan.with_name("elsewhere"))
    close(service, study.study_id)
    service.settler.ask(study.study_id)

    def problem() -> str:
        with service.database.reading() as session:
            return studies.find(session, study.study_id).problem or ""

    soon(lambda: "are not in" in problem())
    plan.with_name("elsewhere").rename(plan)
    soon(lambda: here.state(study.study_id) == State.SETTLED)
    assert problem() == ""


def test_a_database_that_was_away_is_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with database_url("postgresql", tmp_path) as url, served(tmp_path / "service", url) as here:
        study = asked(here.service)
        answer_all(here.service, study)
        close(here.service, study.study_id)
        said = ""

        def complained() -> bool:
            nonlocal said
            said += capsys.readouterr().err
            return "OperationalError" in said

        with away(url):
            here.service.settler.ask(study.study_id)
            soon(complained)
        soon(lambda: here.state(study.study_id) == State.SETTLED)


def test_a_study_that_was_closed_is_closed_in_an_older_database_too(tmp_path: Path) -> None:
    """No answer can be given that could never be settled; with the same answers it is settled as it was."""
    directory = tmp_path / "service"
    with served(directory) as here:
        study = asked(here.service)
        answer_all(here.service, study)
        backup = tmp_path / "backup.db"
        with closing(sqlite3.connect(directory / "truthful.db")) as connection:
            connection.execute("VACUUM INTO ?", [str(backup)])
        close(here.service, study.study_id)
        settle_study(here.service.database, here.service.locations, study.study_id)
        with here.service.database.reading() as session:
            release = studies.find(session, study.study_id).release
    for path in directory.glob("truthful.db*"):
        path.unlink()
    shutil.move(backup, directory / "truthful.db")
    with served(directory) as here:
        soon(lambda: here.state(study.study_id) == State.SETTLED)
        with here.service.database.reading() as session:
            assert studies.find(session, study.study_id).release == release


def test_a_database_that_falls_back_under_a_running_server_is_closed_again(here: Served) -> None:
    """As when a standby takes over that has not heard of the closing yet."""
    service = here.service
    study = asked(service)
    answer_all(service, study)
    close(service, study.study_id)
    settle_study(service.database, service.locations, study.study_id)
    with service.database.writing() as session:
        stored = studies.find(session, study.study_id)
        release, stored.state, stored.closed, stored.release = stored.release, State.OPEN, None, None
        session.execute(text("DELETE FROM due"))
    service.settler.ask(study.study_id)
    soon(lambda: here.state(study.study_id) == State.SETTLED)
    with service.database.reading() as session:
        assert studies.find(session, study.study_id).release == release


def closed_in(directory: Path, names: Sequence[str]) -> tuple[Asked, Path]:
    """A closed study that waits to be settled, in copies of database and directory by these names; where its key is."""
    with served(directory / "service") as here:
        study = asked(here.service)
        answer_all(here.service, study)
        here.service.settler.stop()
        close(here.service, study.study_id)
    for name in names:
        shutil.copytree(directory / "service", directory / name)
    (key,) = (directory / "service").glob("studies/*/draw-*.key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    return study, key.relative_to(directory / "service")


def settled(here: Served, study: Asked) -> dict[str, object]:
    """Everything that a settlement decides."""
    soon(lambda: here.state(study.study_id) == State.SETTLED)
    files = here.service.locations.settlement(study.study_id)
    closing = json.loads((files.parent / "closed.json").read_text())
    with here.service.database.reading() as session:
        release = studies.find(session, study.study_id).release
        due = [
            [getattr(row, name) for name in studies.AMOUNT]
            for row in studies.payments(session, study.study_id)
        ]
    (entry,) = read_ledger(files.parent / "ledger.json").entries
    kept = read_books(here.service.database.seals, here.service.locations, study.study_id)
    books = [kept["receipts.parquet"], kept["payments.parquet"], (files / "report.html").read_bytes()]
    return {"release": release, "due": due, "draw": entry.draw, "books": books, "closing": closing}


def test_two_servers_on_copies_settle_to_the_same_bytes_and_other_answers_to_another_draw(
    tmp_path: Path,
) -> None:
    study, key = closed_in(tmp_path, ("copy", "changed"))
    with closing(Settings(tmp_path / "changed").open_database()) as database, database.writing() as session:
        say(session, study.study_id, "p-07", 200 - study.answers["p-07"])
    found = {}
    for name in ("service", "copy", "changed"):
        with served(tmp_path / name) as here:
            found[name] = settled(here, study)
        assert not (tmp_path / name / key).exists()
    assert found["service"] == found["copy"]
    for what in ("release", "draw", "closing"):
        assert found["service"][what] != found["changed"][what]


@pytest.mark.parametrize("key", [b"", b"00" * 32 + b"\n"], ids=["missing", "another"])
def test_a_study_without_the_key_it_was_frozen_with_is_not_settled_but_may_be_cancelled(
    tmp_path: Path, key: bytes
) -> None:
    study, place = closed_in(tmp_path, ())
    (tmp_path / "service" / place).unlink()
    if key:
        (tmp_path / "service" / place).write_bytes(key)
    with served(tmp_path / "service") as here:

        def problem() -> str:
            with here.service.database.reading() as session:
                return studies.find(session, study.study_id).problem or ""

        soon(lambda: "The key from which the noise of this study follows" in problem())
        here.service.settler.stop()
        assert not (tmp_path / "service" / place.parent / "ledger.json").exists()
        cancel_study(here.service.database, here.service.locations, study.study_id, WHO)
        assert here.state(study.study_id) == State.CANCELLED
    assert not (tmp_path / "service" / place).exists()


def test_a_study_frozen_before_there_were_keys_is_settled(tmp_path: Path) -> None:
    study, key = closed_in(tmp_path, ())
    (tmp_path / "service" / key).unlink()
    with closing(sqlite3.connect(tmp_path / "service" / "truthful.db")) as connection, connection:
        connection.execute("UPDATE surveys SET key_sha256 = NULL")
    with served(tmp_path / "service") as here:
        assert settled(here, study)


def test_a_key_that_a_kill_left_is_destroyed_at_the_next_start(tmp_path: Path) -> None:
    study, key = closed_in(tmp_path, ())
    kept = (tmp_path / "service" / key).read_bytes()
    with served(tmp_path / "service") as here:
        settled(here, study)
    (tmp_path / "service" / key).write_bytes(kept)
    with served(tmp_path / "service"):
        assert not (tmp_path / "service" / key).exists()


def test_a_study_that_was_closed_is_not_frozen_again_from_an_older_database(here: Served) -> None:
    service = here.service
    study = asked(service)
    answer_all(service, study)
    close(service, study.study_id)
    settle_study(service.database, service.locations, study.study_id)
    kept = service.locations.study(study.study_id)
    for missing in ((), ("ledger.json",)):
        for name in missing:
            (kept / name).unlink()
        with service.database.writing() as session:
            studies.find(session, study.study_id).state = State.DRAFT
        with pytest.raises(Refused, match="frozen and closed before"):
            freeze(service.database, service.locations, study.study_id, WHO, rehearsal=False)


def test_an_error_of_the_database_does_not_tell_what_people_said(here: Served) -> None:
    with (
        pytest.raises(Exception, match=r"no such|does not exist") as told,
        here.service.database.reading() as session,
    ):
        session.execute(text("SELECT x FROM nowhere WHERE x = :x"), {"x": 123.456})
    assert "123.456" not in str(told.value)


def test_an_outcome_that_does_not_read_back_is_not_stored(here: Served) -> None:
    """A database that changes what it is given, as one that rounds would: here by a trigger of its own."""
    service = here.service
    study = asked(service)
    answer_all(service, study)
    close(service, study.study_id)
    with service.database.writing() as session:
        session.execute(text(ROUNDING[service.database.is_sqlite]))
        if not service.database.is_sqlite:
            session.execute(
                text("CREATE TRIGGER rounding BEFORE INSERT ON due FOR EACH ROW EXECUTE FUNCTION rounded()")
            )
    with pytest.raises(Refused, match="not what its settlement wrote"):
        settle_study(service.database, service.locations, study.study_id)
    assert here.state(study.study_id) == State.CLOSED
    with service.database.reading() as session:
        assert list(studies.payments(session, study.study_id)) == []
        assert studies.find(session, study.study_id).release is None
