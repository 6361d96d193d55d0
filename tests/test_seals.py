"""What people said is sealed: a stolen copy of the database says nothing, and what is gone is gone."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select
from support.commands import Run
from support.databases import KINDS, database_url
from support.sealed import Killed, codes, dying, files, found_in, said
from support.serving import Asked, Served, answer_all, asked, close, served, settle_with_less

from truthful.errors import InputError, Refused
from truthful.files import exclusive
from truthful.service.keeping import PRIVATE, SEALED_BOOKS, read_books, renew, renew_old, rotate
from truthful.service.locations import Settings
from truthful.store import answers, studies
from truthful.store.database import Database
from truthful.store.seals import KEY_FILE, VARIABLE, Unreadable, open_seals
from truthful.store.tables import Answer, StoredStudy

#: Answers that stand nowhere by chance.
ODD = 123.456789012345


@pytest.fixture(params=KINDS)
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    with database_url(request.param, tmp_path) as url, served(tmp_path / "service", url) as running:
        yield running


def as_written(number: float) -> set[bytes]:
    """A number as databases and files may hold it."""
    kinds = [struct.pack(kind, number) for kind in ("<d", ">d")]
    return {repr(number).encode(), *kinds}


def settled(here: Served) -> StoredStudy:
    """A study that was answered, with an answer that was changed and one that was taken back, and settled."""
    service, study = here.service, asked(here.service)
    first, second, *_ = study.links
    study.answers.update({player: ODD + k / 1024 for k, player in enumerate(study.links)})
    answer_all(service, study)
    with service.database.writing() as session:
        code = codes(session, study.study_id)[first] or ""
        answers.submit(session, study.links[first], ODD + 0.5, code)
        answers.withdraw(session, study.links[second], codes(session, study.study_id)[second] or "")
    close(service, study.study_id)
    settle_with_less(service, study.study_id)
    with service.database.reading() as session:
        return studies.find(session, study.study_id)


def test_no_file_of_the_service_or_its_database_says_what_anybody_said(here: Served, tmp_path: Path) -> None:
    study_id = settled(here).id
    with here.service.database.reading() as session:
        said = {value for _, _, value, _ in answers.reports(session, study_id)} | {ODD, ODD + 1 / 1024}
        due = list(studies.payments(session, study_id))
        secrets = {code.encode() for code in codes(session, study_id).values() if code}
        sealed = {row.sealed for row in session.scalars(select(Answer))}
    assert len(said) == 61
    assert len(secrets) == len(due) == 59
    told = {row.own_prediction for row in due} | {row.peer_prediction for row in due}
    numbers = set().union(*(as_written(number) for number in said | told if number is not None))
    assert found_in(files(here, tmp_path), numbers | secrets) == set()
    # What we look for would be found: the sealed answers are there.
    assert {one for _, one in found_in(files(here, tmp_path), sealed)} == sealed


def test_what_the_directory_says_of_all_answers_cannot_be_tried_out(here: Served) -> None:
    study_id = settled(here).id
    with here.service.database.reading() as session:
        known = answers.older_fingerprint(session, study_id)
    directory = here.service.locations.study(study_id)
    assert known not in (directory / "closed.json").read_text()
    settlement = {path.name for path in (directory / "settlement").iterdir()}
    assert settlement == {"release.json", "report.html", SEALED_BOOKS}


def test_what_was_taken_back_can_be_read_by_nobody_once_the_keys_are_renewed(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, study = here.service, asked(here.service)
    answer_all(service, study)
    with service.database.reading() as session:
        before = {row.player: row.sealed for row in session.scalars(select(Answer))}
    with service.database.writing() as session:
        answers.withdraw(session, study.links["p-01"], codes(session, study.study_id)["p-01"] or "")
    renew(service.database, service.locations, study.study_id)
    renew_old(service.database, service.locations)
    assert service.database.seals.open(study.study_id, answers.ANSWER, "p-01", before["p-01"])
    monkeypatch.setattr("truthful.service.keeping.GRACE_SECONDS", 0.0)
    renew_old(service.database, service.locations)
    for seals in (service.database.seals, open_seals(service.settings.directory, None)):
        with pytest.raises(Unreadable, match="does not hold"):
            seals.open(study.study_id, answers.ANSWER, "p-01", before["p-01"])
    with service.database.writing() as session:
        kept = {player: value for player, _, value, _ in answers.reports(session, study.study_id)}
        assert kept == {player: value for player, value in study.answers.items() if player != "p-01"}
        # A process that remembers the old key for her row asks for the new one.
        answers.submit(session, study.links["p-02"], 7.0, codes(session, study.study_id)["p-02"] or "")
        assert said(session, study.study_id, "p-02") == answers.OpenedAnswer(7.0, None)


def test_sealed_rows_have_one_length_never_look_alike_and_say_nothing_elsewhere(here: Served) -> None:
    service, study = here.service, asked(here.service)
    study.answers.update(dict.fromkeys(study.links, 1.0))
    answer_all(service, study)
    with service.database.writing() as session:
        rows = {row.player: row for row in session.scalars(select(Answer))}
        assert len({len(row.sealed) for row in rows.values()}) == 1
        assert len({row.sealed for row in rows.values()}) == len(rows)
        rows["p-01"].sealed, rows["p-02"].sealed = rows["p-02"].sealed, rows["p-01"].sealed
    for _ in range(2):
        _flip(service.database)
        with (
            service.database.reading() as session,
            pytest.raises(Unreadable, match="is not what was sealed") as told,
        ):
            list(answers.reports(session, study.study_id))
        assert "p-" not in str(told.value)  # it goes to the console


def _flip(database: Database) -> None:
    with database.writing() as session:
        for row in session.scalars(select(Answer)):
            row.sealed = row.sealed[:-1] + bytes([row.sealed[-1] ^ 1])


def test_without_the_right_key_the_service_does_not_start_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path) as here:
        study = asked(here.service)
        answer_all(here.service, study)
    key = tmp_path / KEY_FILE
    assert oct(key.stat().st_mode & 0o777) == "0o600"
    kept, keys = key.read_text(), here.service.database.seals.path(study.study_id)
    before = keys.read_bytes()
    key.unlink()
    with pytest.raises(Refused, match="is missing"):
        Settings(tmp_path).open_database()
    assert not key.exists()
    monkeypatch.setenv(VARIABLE, "no key")
    with pytest.raises(InputError, match="TRUTHFUL_KEY holds no key: give 32"):
        Settings(tmp_path).open_database()
    monkeypatch.setenv(VARIABLE, "A" * 43 + "=")
    with pytest.raises(Refused, match="does not open"):
        Settings(tmp_path).open_database()
    assert keys.read_bytes() == before
    monkeypatch.setenv(VARIABLE, kept)
    with Settings(tmp_path).open_database().reading() as session:
        assert len(list(answers.reports(session, study.study_id))) == 60
    assert not key.exists()


def test_a_key_is_replaced_whenever_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """Before every write to the disk and every name that changes; what was settled and what is open stay readable."""
    with served(tmp_path) as here:
        ended, study = settled(here).id, asked(here.service)
        answer_all(here.service, study)

    old, killed = (tmp_path / KEY_FILE).read_text(), 0
    while True:
        steps = iter(range(killed + 1))

        with monkeypatch.context() as patch:
            for name in ("fsync", "replace"):
                patch.setattr(os, name, dying(getattr(os, name), steps, killed))
            try:
                assert rotate(Settings(tmp_path)) == 2
                break
            except Killed:
                killed += 1
        _require_readable(tmp_path, ended, study)
    assert killed > 10
    _require_readable(tmp_path, ended, study)
    new = (tmp_path / KEY_FILE).read_text()
    assert len(new.split()) == 1
    monkeypatch.setenv(VARIABLE, old)
    with pytest.raises(Refused, match="does not open"):
        Settings(tmp_path).open_database()
    monkeypatch.setenv(VARIABLE, new)
    assert "holds one key" in run("rotate-key", tmp_path).err
    monkeypatch.setenv(VARIABLE, f"{old} {new}")
    assert run("rotate-key", tmp_path, "--json").code == 0
    monkeypatch.setenv(VARIABLE, old)
    _require_readable(tmp_path, ended, study)
    with exclusive(tmp_path):
        assert "Stop it, rotate the key" in " ".join(run("rotate-key", tmp_path).err.split())
    assert "There is no service in" in run("rotate-key", tmp_path / "studies").err


def _require_readable(directory: Path, ended: str, study: Asked) -> None:
    with closing(Settings(directory).open_database()) as database, database.reading() as session:
        assert {
            player: value for player, _, value, _ in answers.reports(session, study.study_id)
        } == study.answers
        assert len(list(studies.payments(session, ended))) == 59
        assert all(codes(session, study.study_id).values())
        assert set(read_books(database.seals, Settings(directory).locations, ended)) == set(PRIVATE)


def test_who_agreed_before_a_key_was_replaced_answers_after_the_old_one_is_gone(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Her process remembers which key her row has; that one is not there any more."""
    service, study = here.service, asked(here.service)
    link = study.links["p-01"]
    with service.database.writing() as session:
        code = answers.consent(session, link)
    renew(service.database, service.locations, study.study_id)
    monkeypatch.setattr("truthful.service.keeping.GRACE_SECONDS", 0.0)
    renew_old(service.database, service.locations)
    with service.database.writing() as session:
        answers.submit(session, link, 7.0, code)
        assert said(session, study.study_id, "p-01") == answers.OpenedAnswer(7.0, None)
