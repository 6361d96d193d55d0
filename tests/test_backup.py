"""A backup is made while people answer, says nothing without the key, and is restored whole or not at all."""

from __future__ import annotations

import json
import os
import signal
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import select
from support.commands import Run
from support.databases import KINDS, database_url
from support.sealed import codes
from support.serving import Asked, Served, answer, answer_all, asked, close, served, settle_with_less
from test_seals import ODD, as_written

from truthful.errors import InputError, Refused
from truthful.service import backups
from truthful.service.backups import EXCLUDED_TABLES, back_up
from truthful.service.keeping import read_books
from truthful.service.locations import Settings
from truthful.service.restoring import restore
from truthful.service.settle_study import Settler
from truthful.store import answers, audit_log, studies
from truthful.store.database import Database
from truthful.store.seals import KEY_FILE, VARIABLE, new_secret, write_key
from truthful.store.tables import Role, State, Table


def unsettled() -> Any:
    """The service settles nothing of its own accord; the test says when."""
    return patch.object(Settler, "_settle_all", lambda self: True)


@contextmanager
def lived(directory: Path, url: str | None = None) -> Iterator[tuple[Served, Asked, Asked, str]]:
    """A service with a study that is open, one that is closed and not settled, and one that has ended."""
    with unsettled(), served(directory, url) as here:
        opened, closed, ended = (asked(here.service) for _ in range(3))
        closed.answers.update({player: ODD + k / 1024 for k, player in enumerate(closed.links)})
        for study in (opened, closed, ended):
            answer_all(here.service, study)
        close(here.service, ended.study_id)
        settle_with_less(here.service, ended.study_id)
        here.signed_in(Role.ANALYST)
        close(here.service, closed.study_id)
        yield here, opened, closed, ended.study_id


def all_rows(database: Database) -> dict[str, list[dict[str, Any]]]:
    """Everything that is kept, but who is signed in, and that it was restored."""
    with closing(database), database.snapshot() as connection:
        return {
            table.name: [
                dict(row)
                for row in connection.execute(select(table).order_by(*table.primary_key)).mappings()
                if row.get("what") != "restored a backup"
            ]
            for table in Table.metadata.sorted_tables
            if table.name not in (*EXCLUDED_TABLES, "log_end")
        }


def files(directory: Path) -> dict[str, bytes]:
    """The files of all studies, by name, but for locks."""
    paths = [path for path in (directory / "studies").rglob("*") if path.is_file()]
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in paths if not path.name.startswith(".")
    }


def with_key_of(service: Path, directory: Path) -> Settings:
    directory.mkdir()
    (directory / KEY_FILE).write_bytes((service / KEY_FILE).read_bytes())
    return Settings(directory)


@pytest.mark.parametrize(("here", "there"), [("sqlite", "postgresql"), ("postgresql", "sqlite")])
def test_a_backup_has_everything_and_goes_on_to_the_same_release_on_either_database(
    here: str, there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backups, "PART_BYTES", 5_000)
    (tmp_path / "new").mkdir()
    with (
        database_url(here, tmp_path) as url,
        database_url(there, tmp_path / "new", tables=False) as other,
        lived(tmp_path / "a", url) as (running, opened, closed, ended),
    ):
        (tmp_path / "a" / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        made = back_up(running.service.settings, tmp_path / "backup")
        before, kept = all_rows(Database(url, running.service.database.seals)), files(tmp_path / "a")
        assert made.studies == 3
        assert made.rows == {**{name: len(rows) for name, rows in before.items()}, "log_end": 1}
        assert made.rows["answers"] == 180
        assert made.rows["due"] == 60
        monkeypatch.setenv(VARIABLE, (tmp_path / "a" / KEY_FILE).read_text())
        settings = Settings(tmp_path / "b", database=other)
        assert restore(tmp_path / "backup", settings) == made
        assert files(tmp_path / "b") == kept
        assert (tmp_path / "b" / "logo.png").exists()
        assert not (tmp_path / "b" / KEY_FILE).exists()
        assert all_rows(settings.open_database()) == before
        with served(tmp_path / "b", other) as copy:
            for one in (running, copy):
                settle_with_less(one.service, closed.study_id)
            released = [
                (directory / "studies" / study / "settlement" / "release.json").read_bytes()
                for directory in (tmp_path / "a", tmp_path / "b")
                for study in (closed.study_id, ended)
            ]
            assert released[:2] == released[2:]
            books = [
                read_books(one.service.database.seals, one.service.locations, closed.study_id)
                for one in (running, copy)
            ]
            assert books[0]["payments.parquet"] == books[1]["payments.parquet"]
            # The key of its draw went with its release: there is nothing to draw it again with.
            assert not list(copy.service.locations.study(ended).glob("draw-*"))
            with copy.service.database.writing() as session:
                assert audit_log.check_chain(session).broken is None
                assert "restored a backup" in {event.what for event in audit_log.events(session)}
                table = Table.metadata.tables["sign_ins"]
                assert session.execute(select(table)).all() == []
                code = codes(session, opened.study_id)["p-01"] or ""
                answers.submit(session, opened.links["p-01"], 7.0, code)


@pytest.mark.parametrize("kind", KINDS)
def test_a_backup_made_while_people_answer_is_of_one_moment(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each table is copied two more people agree and answer."""
    real = backups._parts
    with database_url(kind, tmp_path) as url, served(tmp_path / "a", url) as here:
        study = asked(here.service)
        late = iter(list(study.links)[10:])
        answer(here.service, study, list(study.links)[:10])

        def meanwhile(rows: Any) -> Iterator[list[bytes]]:
            answer(here.service, study, [next(late), next(late)])
            return real(rows)

        monkeypatch.setattr(backups, "_parts", meanwhile)
        made = back_up(here.service.settings, tmp_path / "backup")
        with here.service.database.reading() as session:
            assert studies.counts(session, study.study_id)["answered"] == 10 + 2 * len(made.rows)
    settings = with_key_of(tmp_path / "a", tmp_path / "b")
    restore(tmp_path / "backup", settings)
    with closing(settings.open_database()) as database, database.reading() as session:
        counted = studies.counts(session, study.study_id)
        assert counted["answered"] == counted["consented"] == made.rows["answers"] == 10
        said = {player: value for player, _, value, _ in answers.reports(session, study.study_id)}
        assert said == {player: study.answers[player] for player in list(study.links)[:10]}


def test_files_and_rows_are_of_one_moment_though_a_study_is_frozen_or_settled_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = backups._locked_studies
    seen: list[set[str]] = []
    late: list[str] = []

    @contextmanager
    def slowly(locations: Any) -> Iterator[set[str]]:
        """As when a study is frozen after the locks were taken, and another is to be settled."""
        with real(locations) as held:
            if not late:
                late.append(asked(here.service).study_id)
                with pytest.raises(Refused, match="settling"):
                    settle_with_less(here.service, closed.study_id)
            seen.append(held)
            yield held

    monkeypatch.setattr(backups, "_locked_studies", slowly)
    with lived(tmp_path / "a") as (here, _, closed, _):
        made = back_up(here.service.settings, tmp_path / "backup")
        assert here.state(closed.study_id) == State.CLOSED
    assert late[0] not in seen[0]
    assert late[0] in seen[1]
    assert made.studies == 4
    settings = with_key_of(tmp_path / "a", tmp_path / "b")
    restore(tmp_path / "backup", settings)
    assert settings.locations.key_sha256(late[0]) is not None


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a service that is stopped, `a`, and its `backup`."""
    directory = tmp_path_factory.mktemp("kept")
    with lived(directory / "a") as (here, *_):
        back_up(here.service.settings, directory / "backup")
        with here.service.database.reading() as session:
            (directory / "codes").write_text(
                json.dumps(
                    [
                        code
                        for stored in studies.list_studies(session)
                        for code in codes(session, stored.id).values()
                    ]
                )
            )
    return directory


def test_the_file_says_nothing_and_is_its_owners_alone(kept: Path) -> None:
    content = (kept / "backup").read_bytes()
    assert oct((kept / "backup").stat().st_mode & 0o777) == "0o600"
    numbers = set().union(*(as_written(ODD + k / 1024) for k in range(60)))
    secrets = {code.encode() for code in json.loads((kept / "codes").read_text()) if code}
    keys = {path.read_bytes().strip() for path in (kept / "a").rglob("*.key")}
    assert len(keys) >= 6
    assert [one for one in numbers | secrets | keys | {b"p-01", b"Institute"} if one in content] == []


def test_a_backup_is_written_whole_or_not_at_all(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(kept / "a")
    (tmp_path / "backup").write_text("here already")
    with pytest.raises(Refused, match="never overwritten"):
        back_up(settings, tmp_path / "backup")
    assert (tmp_path / "backup").read_text() == "here already"
    with pytest.raises(InputError, match="Create it first"):
        back_up(settings, tmp_path / "none" / "backup")
    monkeypatch.setattr(backups, "_add_rows", broken)
    with pytest.raises(OSError, match="full"):
        back_up(settings, tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["backup"]


def broken(*_: Any) -> Any:
    raise OSError("the disk is full")


def changed(kept: Path, path: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """A copy of the backup, of which the members were changed."""
    with zipfile.ZipFile(kept / "backup") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def manifest(**said: Any) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        members["manifest.json"] = json.dumps({**json.loads(members["manifest.json"]), **said}).encode()

    return change


def swap(members: dict[str, bytes]) -> None:
    """Give one study the plan of another, and say so in the manifest."""
    first, second = [name for name in members if name.endswith("answers.key")][:2]
    members[first], members[second] = members[second], members[first]


def flip(members: dict[str, bytes]) -> None:
    name = next(name for name in members if name.startswith("rows/answers"))
    members[name] = members[name][:-1] + bytes([members[name][-1] ^ 1])


DAMAGES = {
    "flipped": (flip, "answers-000000.jsonl was changed"),
    "swapped": (swap, "answers.key was changed"),
    "missing": (lambda members: members.pop("rows/due-000000.jsonl"), "members are missing"),
    "more": (lambda members: members.update({"files/../../x": b""}), "members are missing"),
    "no manifest": (lambda members: members.pop("manifest.json"), "cannot be read"),
    "counts": (manifest(studies=7), "manifest.json was changed"),
    "members": (manifest(members={}), "manifest.json was changed"),
    "format": (manifest(format="truthful/backup/2"), "Restore it with that version"),
    "tables": (manifest(tables="9999"), "Restore it with that version"),
    "key": (manifest(key="00"), "another key"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_backup_that_was_changed_is_refused_and_nothing_is_written(
    name: str, kept: Path, tmp_path: Path
) -> None:
    change, sentence = DAMAGES[name]
    damaged = changed(kept, tmp_path / "backup", change)
    settings = with_key_of(kept / "a", tmp_path / "b")
    with pytest.raises((InputError, Refused), match=sentence):
        restore(damaged, settings)
    assert_untouched(tmp_path, kept)


def assert_untouched(directory: Path, kept: Path) -> None:
    assert {path.name for path in directory.iterdir()} <= {"backup", "b"}
    assert [path.name for path in (directory / "b").iterdir()] == [KEY_FILE]
    assert (directory / "b" / KEY_FILE).read_bytes() == (kept / "a" / KEY_FILE).read_bytes()


def test_what_is_cut_off_or_no_backup_is_refused(kept: Path, tmp_path: Path, run: Run) -> None:
    with_key_of(kept / "a", tmp_path / "b")
    for content in (b"", b"no archive", (kept / "backup").read_bytes()[:-100]):
        (tmp_path / "backup").write_bytes(content)
        assert "is not a whole backup" in run("restore", tmp_path / "backup", tmp_path / "b").err
    assert "There is no backup" in run("restore", tmp_path / "none", tmp_path / "b").err
    assert_untouched(tmp_path, kept)


def test_without_its_key_or_where_something_is_a_backup_is_not_restored(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "b"
    with pytest.raises(Refused, match="is missing"):
        restore(kept / "backup", Settings(there))
    assert list(tmp_path.iterdir()) == []
    there.mkdir()
    write_key(there, (new_secret(),))
    with pytest.raises(Refused, match="another key"):
        restore(kept / "backup", Settings(there))
    assert [path.name for path in there.iterdir()] == [KEY_FILE]
    with pytest.raises(Refused, match="is not empty"):
        restore(kept / "backup", Settings(kept / "a"))
    monkeypatch.setenv(VARIABLE, (kept / "a" / KEY_FILE).read_text())
    with pytest.raises(InputError, match="Leave --database out"):
        restore(kept / "backup", Settings(there, database=f"sqlite:///{there / 'x.db'}"))
    taken = f"sqlite:///{kept / 'a' / 'truthful.db'}"
    with pytest.raises(Refused, match=r"is not empty: accounts, answers.* have rows"):
        restore(kept / "backup", Settings(there, database=taken))
    assert [path.name for path in there.iterdir()] == [KEY_FILE]


def test_a_restore_that_is_killed_leaves_nothing_and_can_be_done_again(kept: Path, tmp_path: Path) -> None:
    """Before every third write to the disk and every name that changes."""
    settings, killed = with_key_of(kept / "a", tmp_path / "b"), 0
    while killed_at(killed, lambda: restore(kept / "backup", settings)):
        left = {path.name for path in settings.directory.iterdir()}
        hidden = tmp_path / ".b.restoring"
        assert left == {KEY_FILE} or (not left and (hidden / KEY_FILE).exists())
        killed += 3
    assert killed > 30
    assert not (tmp_path / ".b.restoring").exists()
    assert files(tmp_path / "b") == files(kept / "a")
    assert all_rows(settings.open_database()) == all_rows(Settings(kept / "a").open_database())


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Do this in a process of its own that dies before this step; whether it did."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # there are threads, which this does not use
        child = os.fork()
    if child == 0:
        left = iter(range(step))
        for name in ("fsync", "replace", "rename"):
            setattr(os, name, dying(getattr(os, name), left))
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0


def dying(real: Callable[..., Any], left: Iterator[int]) -> Callable[..., Any]:
    def step(*given: Any) -> Any:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given)

    return step


def test_the_commands_say_where_the_key_must_be_and_that_one_of_two_must_end(
    kept: Path, tmp_path: Path, run: Run
) -> None:
    made = run("backup", kept / "a", tmp_path / "backup")
    assert made.code == 0
    assert "frozen studies: 3, people on their rosters: 180, answers: 180" in made.out
    assert "which is not in it" in made.out
    assert "exists already" in run("backup", kept / "a", tmp_path / "backup").err
    assert "There is no service in" in run("backup", tmp_path, tmp_path / "other").err
    with_key_of(kept / "a", tmp_path / "b")
    restored = run("restore", tmp_path / "backup", tmp_path / "b")
    assert restored.code == 0
    assert "must not run again" in restored.out
    assert "is not empty" in run("restore", tmp_path / "backup", tmp_path / "b").err
