"""The database of the service: the same on SQLite and PostgreSQL, and every step made once."""

import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec, module_from_spec
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from argon2 import Type, extract_parameters
from sqlalchemy import select, text
from sqlalchemy.orm import Session
from support.databases import KINDS, away, database_url
from support.sealed import codes, keyed
from support.studies import DESIGNED

from truthful.errors import InputError, Refused
from truthful.store import accounts, answers, roster, studies
from truthful.store.accounts import hash_token
from truthful.store.answers import NotHers, NotReady, OpenedAnswer, TooLate
from truthful.store.audit_log import check_chain, events, refused_sign_ins
from truthful.store.database import MIGRATIONS, Database
from truthful.store.studies import NotNow, Unknown
from truthful.store.tables import Answer, ConsentDocument, Player, Role, SignInLink, State, Table
from truthful.study import Study

WHO = "ada"
PEOPLE = {"p1": {"age": 30.0}, "p2": {"age": 40.0}, "p3": {"age": 50.0}}
#: A study that version 0.1 settled.
OLD = (
    "INSERT INTO surveys (id, name, state, draft, rehearsal, created)"
    " VALUES ('old', 'S', 'settled', '{}', false, '2026-01-01')",
    "INSERT INTO players (survey_id, player, features, disputed, code)"
    " VALUES ('old', 'p1', '{}', false, 'ABCD-2345')",
    "INSERT INTO answers (survey_id, player, value) VALUES ('old', 'p1', 43.21)",
    "INSERT INTO due (survey_id, player, \"group\", millionths, coins, digits) VALUES ('old', 'p1', 1, 167078, 17, 2)",
    "INSERT INTO accounts (name, role) VALUES ('ada', 'analyst'), ('pat', 'payer'), ('petra', 'payer')",
    "INSERT INTO sign_in_links (hash, account_id, expires) SELECT name, id, '2026-01-08' FROM accounts",
    *(
        f"INSERT INTO events (time, who, what) VALUES ('2026-01-01', 'service', '{what}')"
        for what in ("made a sign-in link for bo as", "refused a sign-in", "refused a sign-in as ada")
    ),
)

#: Studies that say how old people are, and how tall instead.
AGES = Study.parse(DESIGNED.replace('"price"', '"age"'))
HEIGHTS = Study.parse(DESIGNED.replace('"price"', '"height"'))


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with database_url(request.param, tmp_path) as url:
        opened = keyed(url, tmp_path)
        opened.upgrade()
        yield opened
        opened.close()


@pytest.fixture
def open_study(database: Database) -> tuple[str, dict[str, str]]:
    """An open study with three people, and their links."""
    with database.writing() as session:
        study_id = studies.create(session, WHO, {"name": "S"}).id
        studies.step(session, study_id, State.OPEN, WHO)
        roster.add(session, study_id, WHO, PEOPLE, most=5)
        links = dict(roster.invite(session, study_id, WHO))
    return study_id, links


def answer(database: Database, link: str, value: float) -> str:
    with database.writing() as session:
        code = answers.consent(session, link, known(session, link))
        answers.submit(session, link, value, code)
        return code


def known(session: Session, link: str) -> str:
    """The code that her browser has."""
    return roster.standing(session, link).code or ""


def stored(database: Database, study_id: str) -> dict[str, float]:
    with database.reading() as session:
        return {player: value for player, _, value, _ in answers.reports(session, study_id)}


def test_people_who_are_collected_at_once_are_like_those_who_answer_one_by_one(
    database: Database, open_study: tuple[str, dict[str, str]]
) -> None:
    study_id, links = open_study
    with database.writing() as session:
        session.add(ConsentDocument(study_id=study_id, kind="txt", content=b"-", sha256="ab" * 32))
    answer(database, links["p1"], 1.5)
    with database.writing() as session:
        answers.collect(session, study_id, {"p2": OpenedAnswer(2.5, None)})
        answers.collect(session, study_id, {})
    assert stored(database, study_id) == {"p1": 1.5, "p2": 2.5}
    with database.reading() as session:
        one, other = (roster.standing(session, links[player]) for player in ("p1", "p2"))
        assert len(one.code or "") == len(other.code or "") > 0
        first, second = (session.get_one(Player, (study_id, player)) for player in ("p1", "p2"))
        assert first.document == second.document == "ab" * 32
        assert second.consented is not None
    answer(database, links["p2"], 3.5)
    assert stored(database, study_id) == {"p1": 1.5, "p2": 3.5}
    with database.writing() as session:
        studies.step(session, study_id, State.CLOSED, WHO)
    with database.writing() as session, pytest.raises(TooLate):
        answers.collect(session, study_id, {"p3": OpenedAnswer(2.5, None)})


def test_migrations_make_just_the_tables_that_the_code_knows(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, Table.metadata) == []


def test_upgrading_again_keeps_what_is_there(database: Database) -> None:
    with database.writing() as session:
        studies.create(session, WHO, {"name": "S"})
    database.upgrade()
    with database.reading() as session:
        assert [row.name for row in studies.list_studies(session)] == ["S"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_database_of_version_0_1_keeps_its_payments_and_its_log(tmp_path: Path, kind: str) -> None:
    with database_url(kind, tmp_path, tables=False) as url:
        _upgrade_old(url, tmp_path)


def _upgrade_old(url: str, directory: Path) -> None:
    opened = keyed(url, directory)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with opened.engine.begin() as connection:
        config.attributes.update(connection=connection, seals=opened.seals)
        command.upgrade(config, "0001")
        for statement in OLD:
            connection.execute(text(statement))
    opened.upgrade()
    with opened.reading() as session:
        (paid,) = studies.payments(session, "old")
        assert (paid.player, paid.millionths, paid.leverage) == ("p1", 167078, None)
        assert list(answers.reports(session, "old")) == [("p1", {}, 43.21, None)]
        assert codes(session, "old") == {"p1": "ABCD-2345"}
        assert [(event.what, event.whom) for event in reversed(events(session))] == [
            ("made a sign-in link for", "bo as"),
        ]
        assert [one.whom for one in refused_sign_ins(session)] == ["ada", None]
        assert check_chain(session).broken is None
        assert [one.id for one in studies.list_studies(session, accounts.find_by_name(session, "ada"))] == [
            "old"
        ]
        assert (
            studies.list_studies(session, accounts.find_by_name(session, "pat")) == []
        )  # which of the two is not known
        row = studies.find(session, "old")
        assert (row.state, row.refused, row.accepts_less) == (State.SETTLED, None, False)
    opened.close()
    assert not [path for path in directory.glob("test.db*") if b"ABCD-2345" in path.read_bytes()]


def test_an_error_leaves_nothing_of_its_transaction(database: Database) -> None:
    def fail() -> None:
        with database.writing() as session:
            studies.create(session, WHO, {"name": "S"})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with database.reading() as session:
        assert studies.list_studies(session) == []


def test_sqlite_waits_for_the_disk_before_it_says_done(tmp_path: Path) -> None:
    opened = keyed(f"sqlite:///{tmp_path / 'a.db'}", tmp_path)
    with opened.engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
        assert connection.execute(text("PRAGMA foreign_keys")).scalar() == 1


def test_a_wrong_url_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"mysql://x.*give sqlite"):
        keyed("mysql://x", tmp_path)
    with pytest.raises(InputError, match="no-such-host"):
        keyed("postgresql://u:secret@no-such-host.invalid/x", tmp_path).upgrade()


def test_a_study_goes_one_way_and_each_step_is_made_once(database: Database) -> None:
    with database.writing() as session:
        study_id = studies.create(session, WHO, {"name": "S"}).id
    for state in (State.OPEN, State.CLOSED, State.SETTLED, State.PUBLISHED):
        with database.writing() as session:
            studies.step(session, study_id, state, WHO)
        with pytest.raises(NotNow, match="only one that is"), database.writing() as session:
            studies.step(session, study_id, state, WHO)
    with database.reading() as session:
        found = studies.find(session, study_id)
        assert found.state == State.PUBLISHED
        assert found.frozen <= found.closed <= found.settled <= found.published  # type: ignore[operator]
        assert [event.what for event in events(session, study_id)] == [
            "published",
            "settled",
            "closed",
            "froze",
            "created",
        ]


def refuse(database: Database) -> str:
    """A closed study for those who answered which less could be promised."""
    with database.writing() as session:
        study_id = studies.create(session, WHO, {"name": "S"}).id
        studies.step(session, study_id, State.OPEN, WHO)
        roster.add(session, study_id, WHO, PEOPLE, most=5)
        studies.step(session, study_id, State.CLOSED, WHO)
        studies.note_refusal(session, study_id, {"accuracy": {}})
    return study_id


def test_a_study_that_can_promise_less_waits_for_a_decision(database: Database) -> None:
    study_id = refuse(database)
    with database.reading() as session:
        assert studies.to_settle(session) == []
        assert studies.in_state(session, State.CLOSED) == [study_id]
    with database.writing() as session:
        studies.accept_less(session, study_id, WHO)
    with database.reading() as session:
        assert studies.to_settle(session) == [study_id]
    for decide in (studies.accept_less, studies.reopen):
        with pytest.raises(NotNow, match="nothing to decide"), database.writing() as session:
            decide(session, study_id, WHO)


def test_it_may_take_answers_again(database: Database) -> None:
    study_id = refuse(database)
    with database.writing() as session:
        studies.reopen(session, study_id, WHO)
    with database.reading() as session:
        row = studies.find(session, study_id)
        assert (row.state, row.closed, row.refused) == (State.OPEN, None, None)
        assert next(event.what for event in events(session, study_id)) == "opened again"
    with database.writing() as session:
        studies.step(session, study_id, State.CLOSED, WHO)
    with database.reading() as session:
        assert studies.to_settle(session) == [study_id]


def amount(player: str, millionths: int, coins: int, digits: int, **told: float) -> studies.Amount:
    return {"player": player, "millionths": millionths, "coins": coins, "digits": digits, **told}


def test_it_may_be_cancelled_and_everybody_is_due_what_was_recorded(database: Database) -> None:
    study_id, amounts = refuse(database), [amount("p1", 150000, 15, 2), amount("p2", 150000, 15, 2)]
    with database.writing() as session:
        studies.record(session, study_id, None, None, amounts, WHO)
        studies.require_recorded(session, study_id, None, amounts)
    with database.reading() as session:
        assert studies.find(session, study_id).state == State.CANCELLED
        assert [row.coins for row in studies.payments(session, study_id)] == [15, 15]
    with pytest.raises(NotNow), database.writing() as session:
        studies.record(session, study_id, None, None, amounts, WHO)


def test_nothing_is_decided_of_a_study_that_was_not_refused(
    database: Database, open_study: tuple[str, dict[str, str]]
) -> None:
    study_id, _ = open_study
    for state in (State.OPEN, State.CLOSED):
        if state == State.CLOSED:
            with database.writing() as session:
                studies.step(session, study_id, State.CLOSED, WHO)
        for decide in (studies.accept_less, studies.reopen):
            with pytest.raises(NotNow), database.writing() as session:
                decide(session, study_id, WHO)
    with pytest.raises(Unknown), database.writing() as session:
        studies.reopen(session, "none", WHO)


def test_people_brought_to_a_draft_replace_those_before_and_drop_its_plan(database: Database) -> None:
    with database.writing() as session:
        row = studies.create(session, WHO, {"name": "S"})
        row.plan = "{}"
        study_id = row.id
    hashes = []
    for people in (PEOPLE, {"p9": {"age": 1.0}}, {"p9": {"age": 2.0}}):
        with database.writing() as session:
            roster.replace(session, study_id, WHO, people, AGES)
        with database.reading() as session:
            row = studies.find(session, study_id)
            assert row.plan is None
            assert roster.features(session, study_id) == list(people.values())
            assert roster.fits(session, row, AGES)
            assert not roster.fits(session, row, HEIGHTS)
            hashes.append(row.roster)
    assert len(set(hashes)) == 3
    with database.writing() as session:
        studies.step(session, study_id, State.OPEN, WHO)
    with pytest.raises(NotNow, match="frozen"), database.writing() as session:
        roster.replace(session, study_id, WHO, PEOPLE, AGES)
    with database.reading() as session:
        assert roster.size(session, study_id) == 1


def test_a_draft_goes_with_its_people(database: Database) -> None:
    with database.writing() as session:
        study_id = studies.create(session, WHO, {"name": "S"}).id
        roster.replace(session, study_id, WHO, PEOPLE, AGES)
    with database.writing() as session:
        studies.remove(session, study_id, WHO)
    with database.reading() as session:
        assert roster.size(session, study_id) == 0
        assert studies.list_studies(session) == []


def test_of_many_who_close_at_once_one_succeeds(
    database: Database, open_study: tuple[str, dict[str, str]]
) -> None:
    study_id, _ = open_study
    outcomes: list[bool] = []

    def close() -> None:
        try:
            with database.writing() as session:
                studies.step(session, study_id, State.CLOSED, WHO)
            outcomes.append(True)
        except NotNow:
            outcomes.append(False)

    threads = [threading.Thread(target=close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False] * 7 + [True]


def test_an_unknown_study_and_an_unknown_link_are_unknown(database: Database) -> None:
    with database.writing() as session:
        with pytest.raises(Unknown):
            studies.find(session, "none")
        with pytest.raises(Unknown):
            studies.step(session, "none", State.OPEN, WHO)
        with pytest.raises(Unknown):
            roster.standing(session, "none")[0]


def test_links_are_kept_as_hashes_alone(database: Database, open_study: tuple[str, dict[str, str]]) -> None:
    _, links = open_study
    with database.reading() as session:
        kept = set(session.scalars(select(Player.link)))
        assert kept == {hash_token(link) for link in links.values()}
        assert not kept & set(links.values())
        assert roster.standing(session, links["p2"])[0].player == "p2"


def test_new_links_for_all_end_the_old_ones(
    database: Database, open_study: tuple[str, dict[str, str]]
) -> None:
    study_id, links = open_study
    with database.writing() as session:
        assert roster.invite(session, study_id, WHO) == []
        fresh = dict(roster.invite(session, study_id, WHO, again=True))
    assert not set(fresh.values()) & set(links.values())
    with database.reading() as session:
        assert roster.standing(session, fresh["p1"])[0].player == "p1"
        with pytest.raises(Unknown):
            roster.standing(session, links["p1"])[0]


def test_a_roster_is_brought_whole_or_not_at_all(
    database: Database, open_study: tuple[str, dict[str, str]]
) -> None:
    study_id, _ = open_study
    with pytest.raises(InputError, match="'p1' is on the roster already"), database.writing() as session:
        roster.add(session, study_id, WHO, {"p9": {"age": 1.0}, "p1": {"age": 2.0}}, most=5)
    with pytest.raises(Refused, match=r"would have 6 people.*at most 2 new"), database.writing() as session:
        roster.add(session, study_id, WHO, {f"q{i}": {"age": 1.0} for i in range(3)}, most=5)
    with database.reading() as session:
        assert roster.size(session, study_id) == 3


def test_an_answer_needs_consent_and_can_be_changed_and_withdrawn(
    database: Database, open_study: tuple[str, dict[str, str]]
) -> None:
    study_id, links = open_study
    with pytest.raises(NotReady), database.writing() as session:
        answers.submit(session, links["p1"], 5.0, "")
    first, second = answer(database, links["p1"], 5.0), answer(database, links["p1"], 6.0)
    assert first == second
    assert stored(database, study_id) == {"p1": 6.0}
    with database.writing() as session:
        answers.withdraw(session, links["p1"], first)
    assert stored(database, study_id) == {}
    with pytest.raises(NotReady), database.writing() as session:
        answers.submit(session, links["p1"], 5.0, first)


def test_who_does_not_know_the_code_can_neither_change_an_answer_nor_take_it_back(
    database: Database, open_study: tuple[str, dict[str, str]]
) -> None:
    study_id, links = open_study
    code = answer(database, links["p1"], 5.0)
    for wrong in ("", "AAAA-AAAA", code.lower(), "\ud800"):
        for move in (
            lambda s, w=wrong: answers.withdraw(s, links["p1"], w),
            lambda s, w=wrong: answers.dispute(s, links["p1"], True, w),
            lambda s, w=wrong: answers.consent(s, links["p1"], w),
        ):
            with pytest.raises(NotHers), database.writing() as session:
                move(session)
        with pytest.raises(NotReady), database.writing() as session:
            answers.submit(session, links["p1"], 6.0, wrong.replace("\ud800", "?"))
    assert stored(database, study_id) == {"p1": 5.0}


def test_features_that_are_wrong_stop_an_answer_until_they_are_put_right(
    database: Database, open_study: tuple[str, dict[str, str]]
) -> None:
    study_id, links = open_study
    code = answer(database, links["p1"], 5.0)
    with database.writing() as session:
        answers.dispute(session, links["p1"], True, code)
    assert stored(database, study_id) == {}
    for move in (
        lambda s: answers.consent(s, links["p1"]),
        lambda s: answers.submit(s, links["p1"], 1.0, code),
    ):
        with pytest.raises(NotReady), database.writing() as session:
            move(session)
    with database.writing() as session:
        assert list(roster.disputes(session, study_id)) == ["p1"]
        roster.add(session, study_id, WHO, {"p1": {"age": 31.0}}, most=3)
    answer(database, links["p1"], 7.0)
    with database.reading() as session:
        assert list(answers.reports(session, study_id)) == [("p1", {"age": 31.0}, 7.0, None)]


def test_after_closing_nothing_of_a_player_changes(
    database: Database, open_study: tuple[str, dict[str, str]]
) -> None:
    study_id, links = open_study
    code = answer(database, links["p1"], 5.0)
    with database.writing() as session:
        studies.step(session, study_id, State.CLOSED, WHO)
    for move in (
        lambda s: answers.consent(s, links["p2"]),
        lambda s: answers.submit(s, links["p1"], 1.0, code),
        lambda s: answers.withdraw(s, links["p1"], code),
        lambda s: answers.dispute(s, links["p1"], True, code),
    ):
        with pytest.raises(TooLate), database.writing() as session:
            move(session)
    for change in (
        lambda s: roster.add(s, study_id, WHO, {"p9": {"age": 1.0}}, most=9),
        lambda s: roster.invite(s, study_id, WHO),
    ):
        with pytest.raises(NotNow), database.writing() as session:
            change(session)
    assert stored(database, study_id) == {"p1": 5.0}


def test_no_acknowledged_answer_is_missed_by_a_closing_at_the_same_moment(database: Database) -> None:
    """Forty people submit while the study is closed: who was told that it counts is in what is settled."""
    people = {f"p{i:02d}": {"age": 1.0} for i in range(40)}
    with database.writing() as session:
        study_id = studies.create(session, WHO, {"name": "S"}).id
        studies.step(session, study_id, State.OPEN, WHO)
        roster.add(session, study_id, WHO, people, most=40)
        links = dict(roster.invite(session, study_id, WHO))
        codes = {player: answers.consent(session, link) for player, link in links.items()}
    acknowledged: list[str] = []
    seen: list[set[str]] = []

    def submit(player: str) -> None:
        try:
            with database.writing() as session:
                answers.submit(session, links[player], 1.0, codes[player])
            acknowledged.append(player)
        except TooLate:
            pass

    def close() -> None:
        while len(acknowledged) < 10:
            pass
        with database.writing() as session:
            studies.step(session, study_id, State.CLOSED, WHO)
        seen.append(set(stored(database, study_id)))

    threads = [threading.Thread(target=submit, args=(player,)) for player in people]
    threads.append(threading.Thread(target=close))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(acknowledged) >= 10
    assert set(acknowledged) == seen[0] == set(stored(database, study_id))


def test_two_tabs_at_once_leave_one_answer(
    database: Database, open_study: tuple[str, dict[str, str]]
) -> None:
    study_id, links = open_study
    with database.writing() as session:
        code = answers.consent(session, links["p1"])

    def submit(value: float) -> None:
        with database.writing() as session:
            answers.submit(session, links["p1"], value, code)

    threads = [threading.Thread(target=submit, args=(float(i),)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.reading() as session:
        assert len(session.scalars(select(Answer)).all()) == 1
    assert len(stored(database, study_id)) == 1


@pytest.fixture
def postgresql(tmp_path: Path) -> Iterator[Database]:
    with database_url("postgresql", tmp_path) as url:
        opened = keyed(url, tmp_path)
        opened.upgrade()
        yield opened
        opened.close()


def in_threads(*works: Callable[[], object]) -> list[threading.Thread]:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    return threads


def wait_for_locks(database: Database, waiting: int) -> None:
    """Until so many transactions wait for another one."""
    with database.engine.connect() as connection:
        while connection.scalar(text("SELECT count(*) FROM pg_locks WHERE NOT granted")) != waiting:
            connection.rollback()


def test_tabs_whose_code_was_just_replaced_do_not_wait_for_each_other(postgresql: Database) -> None:
    """PostgreSQL locks a player for a submission before it sees that her code is another one now."""
    with postgresql.writing() as session:
        study_id = studies.create(session, WHO, {"name": "S"}).id
        studies.step(session, study_id, State.OPEN, WHO)
        roster.add(session, study_id, WHO, PEOPLE, most=5)
        link = dict(roster.invite(session, study_id, WHO))["p1"]
        code = answers.consent(session, link)
    told = []

    def submit() -> None:
        try:
            with postgresql.writing() as session:
                answers.submit(session, link, 1.0, code)
        except Exception as problem:
            told.append(type(problem))

    with postgresql.writing() as session:
        answers.consent(session, link)  # in another browser, which begins anew
        session.flush()
        tabs = in_threads(submit, submit)
        wait_for_locks(postgresql, 2)
    for tab in tabs:
        tab.join()
    assert told == [NotReady, NotReady]


def test_of_two_transactions_that_wait_for_each_other_both_are_done_in_the_end(postgresql: Database) -> None:
    with postgresql.writing() as session:
        study_id = studies.create(session, WHO, {"name": "S"}).id
        roster.replace(session, study_id, WHO, PEOPLE, AGES)
    both, tries, done = threading.Barrier(2), [], []

    def lock(first: str, second: str) -> None:
        def work(session: Session) -> str:
            session.get(Player, (study_id, first), with_for_update=True)
            tries.append(first)
            if len(tries) <= 2:
                both.wait()
            session.get(Player, (study_id, second), with_for_update=True)
            return first

        done.append(postgresql.transact(work))

    for thread in in_threads(lambda: lock("p1", "p2"), lambda: lock("p2", "p1")):
        thread.join()
    assert sorted(done) == ["p1", "p2"]
    assert len(tries) >= 3  # the one that PostgreSQL ended may come again before the other has gone on


def test_replacing_links_while_people_submit_waits_for_nobody_for_ever(database: Database) -> None:
    """Whoever locks takes the study before its players: the other way round PostgreSQL would end one of the two."""
    people = {f"p{i:03d}": {"age": 1.0} for i in range(200)}
    with database.writing() as session:
        study_id = studies.create(session, WHO, {"name": "S"}).id
        studies.step(session, study_id, State.OPEN, WHO)
        roster.add(session, study_id, WHO, people, most=200)
        links = dict(roster.invite(session, study_id, WHO))
        codes = {player: answers.consent(session, link) for player, link in links.items()}
    stop, failed = threading.Event(), []

    def submit(players: list[str]) -> None:
        while not stop.is_set():
            for player in players:
                try:
                    with database.writing() as session:
                        answers.submit(session, links[player], 1.0, codes[player])
                except (TooLate, NotReady):
                    pass  # her link was replaced
                except Exception as problem:
                    failed.append(problem)

    threads = [threading.Thread(target=submit, args=(list(links)[k::6],)) for k in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(4):
        with database.writing() as session:
            links.update(roster.invite(session, study_id, WHO, again=True))
    stop.set()
    for thread in threads:
        thread.join()
    assert failed == []


def test_the_fingerprint_tells_answers_and_features_apart(
    database: Database, open_study: tuple[str, dict[str, str]]
) -> None:
    study_id, links = open_study

    def fingerprint() -> str:
        with database.reading() as session:
            return answers.fingerprint(session, study_id)

    found = {fingerprint()}
    for player, value in (("p1", 5.0), ("p1", 5.000001), ("p2", 5.0)):
        answer(database, links[player], value)
        assert fingerprint() not in found
        found.add(fingerprint())


def test_a_prediction_is_kept_changed_and_erased_with_its_answer(
    database: Database, open_study: tuple[str, dict[str, str]]
) -> None:
    study_id, links = open_study
    for said in ((7.0, 40.0), (7.0, 41.5), (8.0, 41.5)):
        with database.writing() as session:
            code = answers.consent(session, links["p1"], known(session, links["p1"]))
            answers.submit(session, links["p1"], said[0], code, prediction=said[1])
        with database.reading() as session:
            assert list(answers.reports(session, study_id)) == [("p1", {"age": 30.0}, *said)]
    with database.writing() as session:
        answers.withdraw(session, links["p1"], code)
    with database.reading() as session:
        assert list(answers.reports(session, study_id)) == []
        assert session.execute(select(Answer)).all() == []


def test_the_fingerprint_tells_predictions_apart(
    database: Database, open_study: tuple[str, dict[str, str]]
) -> None:
    study_id, links = open_study
    answer(database, links["p1"], 5.0)
    with database.reading() as session:
        found = {answers.fingerprint(session, study_id)}
    for prediction in (0.0, 5.0, 5.000001):
        with database.writing() as session:
            answers.submit(session, links["p1"], 5.0, known(session, links["p1"]), prediction=prediction)
        with database.reading() as session:
            found.add(answers.fingerprint(session, study_id))
    assert len(found) == 4


def test_an_outcome_is_stored_whole_or_not_at_all(
    database: Database, open_study: tuple[str, dict[str, str]]
) -> None:
    study_id, _ = open_study
    amounts = [
        amount("p1", 167078, 17, 2),
        amount("p2", 150000, 15, 2, leverage=0.1),
        amount("p3", 150000, 15, 2, leverage=0.1, others_answer=0.5, others_prediction=0.4, surprise=0.15),
    ]
    with pytest.raises(NotNow), database.writing() as session:
        studies.record(session, study_id, "{}", "<p>", amounts, WHO)
    with database.writing() as session:
        studies.step(session, study_id, State.CLOSED, WHO)
    with pytest.raises(Exception, match=r"(?i)foreign key"), database.writing() as session:
        studies.record(session, study_id, "{}", "<p>", [*amounts, amount("nobody", 1, 1, 6)], WHO)
    with database.reading() as session:
        assert studies.find(session, study_id).state == State.CLOSED
        assert list(studies.payments(session, study_id)) == []
    with database.writing() as session:
        studies.record(session, study_id, "{}", "<p>", amounts, WHO)
    with database.reading() as session:
        studies.require_recorded(session, study_id, "{}", amounts)
        for wrong in ({**amounts[1], "millionths": 150001}, {**amounts[1], "digits": 3}):
            with pytest.raises(Refused, match="not what its settlement wrote"):
                studies.require_recorded(session, study_id, "{}", [amounts[0], wrong])
        with pytest.raises(Refused, match="not what its settlement wrote"):
            studies.require_recorded(session, study_id, "{}", amounts[:1])
        with pytest.raises(Refused):
            studies.require_recorded(session, study_id, '{"a": 1}', amounts)


def test_coins_that_do_not_pay_what_is_due_are_not_stored(
    database: Database, open_study: tuple[str, dict[str, str]]
) -> None:
    study_id, _ = open_study
    amounts = [amount("p1", 167078, 18, 2), amount("p2", 150000, 15, 2)]
    with database.writing() as session:
        studies.step(session, study_id, State.CLOSED, WHO)

    def settle() -> None:
        with database.writing() as session:
            studies.record(session, study_id, "{}", "<p>", amounts, WHO)
            studies.require_recorded(session, study_id, "{}", amounts)

    with pytest.raises(Refused, match="nothing was stored"):
        settle()
    with database.reading() as session:
        assert list(studies.payments(session, study_id)) == []


def test_a_sign_in_link_works_once_and_a_new_one_ends_the_old(database: Database) -> None:
    with database.writing() as session:
        ada = accounts.account(session, "ada", Role.ANALYST, WHO)
        old, new = accounts.new_link(session, ada, WHO), accounts.new_link(session, ada, WHO)
    password = accounts.hash_password("correct horse battery")
    with database.writing() as session:
        assert accounts.find_by_link(session, old) is None
        assert accounts.find_by_link(session, new) is not None
        assert set(session.scalars(select(SignInLink.hash))) == {hash_token(new)}
        accounts.set_password(session, new, password)
    with pytest.raises(Refused, match="used already"), database.writing() as session:
        accounts.set_password(session, new, password)


def test_passwords_are_hashed_slowly() -> None:
    """With 19 MB and two rounds of argon2id at least, as OWASP asks. Of a copy: other tests make the module quick."""
    spec = find_spec(accounts.__name__)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(fresh := module_from_spec(spec))
    for used in map(extract_parameters, (fresh.hash_password("correct horse"), fresh._DUMMY_HASH)):
        assert used.type == Type.ID
        assert used.memory_cost >= 19_456
        assert used.time_cost >= 2


def test_signing_in_needs_the_right_name_and_password(database: Database) -> None:
    with database.writing() as session:
        ada = accounts.account(session, "ada", Role.ANALYST, WHO)
        assert accounts.check_password(session, "ada", "") is None
        accounts.set_password(
            session, accounts.new_link(session, ada, WHO), accounts.hash_password("correct horse")
        )
        assert accounts.check_password(session, "ada", "correct horsf") is None
        assert accounts.check_password(session, "bob", "correct horse") is None
        found = accounts.check_password(session, "ada", "correct horse")
        assert found is not None
        token = accounts.sign_in(session, found)
        assert accounts.signed_in(session, token) is found
        accounts.sign_out(session, token)
        assert accounts.signed_in(session, token) is None


def test_a_name_has_one_role(database: Database) -> None:
    with database.writing() as session:
        accounts.account(session, "ada", Role.ANALYST, WHO)
    with pytest.raises(Refused, match="'ada' is analyst here"), database.writing() as session:
        accounts.account(session, "ada", Role.PAYER, WHO)


def test_a_short_password_is_refused_with_its_length() -> None:
    with pytest.raises(InputError, match="has 5 characters; give 12"):
        accounts.hash_password("short")


def test_a_connection_that_was_ended_while_it_rested_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("truthful.store.database.IDLE_SECONDS", 0.0)
    with database_url("postgresql", tmp_path) as url:
        opened = keyed(url, tmp_path)
        with opened.reading() as session:
            first = session.scalar(text("SELECT pg_backend_pid()"))
        with away(url):
            pass
        with opened.reading() as session:
            assert session.scalar(text("SELECT pg_backend_pid()")) != first
        opened.close()
