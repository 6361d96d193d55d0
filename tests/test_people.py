"""Who signs in and what is theirs: accounts from the command line, studies of their analysts, payers named."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import text
from starlette.testclient import TestClient
from support.analysts import shown
from support.commands import Ran, Run
from support.databases import KINDS, database_url
from support.serving import (
    PASSWORD,
    STUDY,
    URL,
    WHO,
    Served,
    answer_all,
    asked,
    close,
    draft,
    served,
)

from truthful.errors import InputError, Refused
from truthful.service.locations import Settings
from truthful.service.settle_study import settle_study
from truthful.store import accounts, studies
from truthful.store.accounts import require_name, require_unlike
from truthful.store.audit_log import (
    MOST_REFUSED,
    check_chain,
    events,
    log,
    note_refused_sign_in,
    refused_sign_ins,
)
from truthful.store.tables import Role, State

BOTH = STUDY.replace('payer = "the payer"', "asker_pays = true")
OTHERS = STUDY.replace('payer = "the payer"', 'payer = "Accounts office"')


@dataclass(frozen=True)
class Place:
    """A service that runs, with its directory, its database's URL, and the command line beside it."""

    served: Served
    directory: Path
    url: str
    run: Run

    def command(self, *words: str) -> Ran:
        *name, rest = ([words[0]], words[1:]) if words[0] == "log" else ([*words[:2]], words[2:])
        return self.run(*name[0], str(self.directory), *rest, "--database", self.url)

    def entered(self, link: str) -> TestClient:
        client = TestClient(self.served.client.app, base_url=URL, follow_redirects=False)
        path = link.removeprefix(URL)
        assert client.post(path, data={"password": PASSWORD}).status_code == 303
        return client

    def added(self, name: str, role: str) -> TestClient:
        told = self.command("account", "add", name, "--role", role, "--url", URL, "--json")
        return self.entered(json.loads(told.out)["sign_in_link"])

    def settled(self, text: str) -> str:
        here = self.served
        study = asked(here.service, text)
        answer_all(here.service, study)
        close(here.service, study.study_id)
        settle_study(here.service.database, here.service.locations, study.study_id)
        return study.study_id


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path, run: Run) -> Iterator[Place]:
    with database_url(request.param, tmp_path) as url, served(tmp_path / "service", url) as running:
        yield Place(running, tmp_path / "service", url, run)


def test_the_operator_makes_payers_and_each_sees_only_the_studies_that_name_her(place: Place) -> None:
    here = place.served
    office = place.added("Accounts office", "payer")
    mine, other = place.settled(OTHERS), place.settled(STUDY)
    assert office.get(f"/payments/{mine}").status_code == 200
    assert office.post(f"/payments/{mine}/payments.csv").status_code == 200
    listed = office.get("/payments").text
    assert f"/payments/{mine}" in listed
    assert f"/payments/{other}" not in listed
    assert office.get(f"/payments/{other}").status_code == 404
    assert office.post(f"/payments/{other}/payments.csv").status_code == 404
    assert here.signed_in(Role.PAYER).get(f"/payments/{other}").status_code == 200
    analyst = here.signed_in(Role.ANALYST)
    for path in ("/people", "/people/1/link", "/people/1/remove", "/account"):
        assert analyst.post(path, data={"name": "eve", "role": "payer"}).status_code in (404, 405)
    refused = place.command("account", "share", mine, "the payer")
    assert (refused.code, "is declared in its file" in refused.err) == (1, True)


def test_an_account_is_ended_and_let_in_again_by_the_operator_alone(place: Place) -> None:
    payer = place.added("pat", "payer")
    assert payer.get("/payments").status_code == 200
    assert "pat, payer\n" in place.command("account", "list").out
    assert place.command("account", "remove", "pat").code == 0
    assert payer.get("/payments").headers["location"] == "/sign-in"
    assert payer.post("/sign-in", data={"name": "pat", "password": PASSWORD}).status_code == 403
    assert "pat, payer, cannot sign in\n" in place.command("account", "list").out
    link = json.loads(place.command("account", "link", "pat", "--url", URL, "--json").out)["sign_in_link"]
    assert "pat, payer, without a password\n" in place.command("account", "list").out
    assert place.entered(link).get("/payments").status_code == 200
    for words, said in (
        (("account", "add", "pat", "--role", "payer"), "There is an account 'pat' already"),
        (("account", "link", "nobody"), "There is no account 'nobody'. Accounts here: 'pat'"),
    ):
        refused = place.command(*words)
        assert (refused.code, said in refused.err) == (2, True)


def test_a_study_s_name_gives_the_operator_s_terminal_no_commands(place: Place) -> None:
    with place.served.service.database.writing() as session:
        studies.create(session, "ada", {"name": "\x1b]0;mine\x07\u202e"})
    for told in (
        place.command("account", "list").out,
        place.run("purge", str(place.directory), "nothing", "--database", place.url).err,
    ):
        assert r"'\x1b]0;mine\x07\u202e'" in told
        assert not {"\x1b", "\x07", "\u202e"} & set(told)


def test_a_study_is_frozen_only_if_it_names_a_payer_of_this_service(place: Place) -> None:
    here = place.served
    analyst = here.signed_in(Role.ANALYST)
    analyst_pays = STUDY.replace('payer = "the payer"', 'payer = "the analyst"')
    for declared, said in (
        (OTHERS, "payers here: 'the payer'"),
        (analyst_pays, "nobody can sign in here as a payer"),
    ):
        study_id = draft(here.service, declared)
        refused = analyst.post(f"/studies/{study_id}/freeze", data={"for": "people"})
        assert refused.status_code == 409
        assert said in shown_text(refused.text)
        assert here.state(study_id) == State.DRAFT


def shown_text(page: str) -> str:
    return page.replace("&#39;", "'").replace("&#34;", '"')


def test_who_asks_may_also_pay_if_people_are_told(place: Place) -> None:
    here = place.served
    analyst = here.signed_in(Role.ANALYST)
    open_study = asked(here.service, BOTH)
    consent = shown(here.client, f"/a/{next(iter(open_study.links.values()))}")
    told = "can work out your answer from the amount and what is known about you."
    assert told in consent
    assert consent.index(told) < consent.index("I take part")
    study_id = place.settled(BOTH)
    assert f"/payments/{study_id}" in analyst.get(f"/studies/{study_id}").text
    assert analyst.post(f"/payments/{study_id}/payments.csv").text.startswith("player,amount")
    assert here.signed_in(Role.PAYER).get(f"/payments/{study_id}").status_code == 404
    assert here.signed_in(Role.ANALYST, "other").get(f"/payments/{study_id}").status_code == 404
    named = asked(here.service)
    consent = shown(here.client, f"/a/{next(iter(named.links.values()))}")
    assert "the payer sees your id and your amount, to pay you, but not your answer." in consent
    assert "also pays" not in consent


def routes(client: TestClient) -> list[tuple[str, str]]:
    """Every address of a study's, with every method that it takes."""
    paths = client.app.openapi()["paths"]  # type: ignore[attr-defined]
    return [
        (method, path)
        for path, methods in paths.items()
        for method in methods
        if "/studies/{study_id}" in path
    ]


def test_a_study_of_another_analyst_is_as_if_there_were_none_at_every_address(place: Place) -> None:
    here = place.served
    study, ended = asked(here.service), place.settled(STUDY)
    other = here.signed_in(Role.ANALYST, "other")
    addresses = routes(here.client)
    assert len(addresses) > 30
    for study_id in (study.study_id, ended):
        for method, path in addresses:
            here.service.limits.unknown.forgive("testclient")
            told, none = (
                other.request(
                    method, path.format(study_id=which, step="question"), data={"for": "people", "name": "x"}
                )
                for which in (study_id, "0123456789ab")
            )
            assert told.status_code == none.status_code == 404, (method, path)
            assert told.text == none.text.replace("0123456789ab", study_id), (method, path)
        assert (
            study_id not in other.get("/studies").text + other.get("/log").text + other.get("/log.csv").text
        )
    assert here.state(study.study_id) == State.OPEN
    assert place.command("account", "share", study.study_id, "other").code == 0
    assert other.get(f"/studies/{study.study_id}").status_code == 200
    assert "froze" in other.get("/log.csv").text
    assert place.command("account", "share", study.study_id, "other", "--end").code == 0
    assert other.get(f"/studies/{study.study_id}").status_code == 404


def test_the_log_is_of_her_own_studies_newest_first_and_holds_no_secret(place: Place) -> None:
    here = place.served
    analyst, other = here.signed_in(Role.ANALYST), here.signed_in(Role.ANALYST, "other")
    study = asked(here.service)
    analyst.post("/sign-in", data={"name": "the analyst", "password": "a wrong password"})
    shown_log = analyst.get("/log").text
    order = [shown_log.index(words) for words in ("made personal links", "froze the study", "signed in")]
    assert order == sorted(order)
    assert "<li>" in shown_log.partition("Refused sign-ins")[2]
    assert not any(token in shown_log for token in study.links.values())
    assert "froze the study" not in other.get("/log").text
    assert "<li>" not in other.get("/log").text.partition("Refused sign-ins")[2]
    analyst.post("/language", data={"language": "de"})
    assert "hat die Studie eingefroren" in analyst.get("/log").text


# The chain


CHANGES: dict[str, tuple[str, str]] = {
    "changed": (
        "UPDATE events SET who = 'eve' WHERE id = (SELECT MIN(id) + 1 FROM events)",
        "does not follow",
    ),
    "left out": ("DELETE FROM events WHERE id = (SELECT MIN(id) + 1 FROM events)", "does not follow"),
    "cut off": ("DELETE FROM events WHERE id = (SELECT MAX(id) FROM events)", "the last are others now"),
    "added": (
        "INSERT INTO events (time, who, what, hash) SELECT time, who, what, hash FROM events WHERE id = 1",
        "does not follow",
    ),
    "cut off with its end": (
        "DELETE FROM events; UPDATE log_end SET events = 0, hash = '" + "0" * 64 + "'",
        "does not hold the hash",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whoever_changes_the_log_breaks_its_chain(place: Place, change: str) -> None:
    database = place.served.service.database
    place.served.signed_in(Role.ANALYST)
    whole = place.command("log")
    assert whole.code == 0
    kept = whole.out.splitlines()[-1].rpartition(",")[2]
    assert f"The last hash is {kept}" in whole.err
    assert place.command("log", "--kept", kept).code == 0
    first = json.loads(place.command("log", "--json").out.splitlines()[0])
    assert (first["what"], first["whom"]) == ("added a payer", "the payer")
    statements, said = CHANGES[change]
    with database.writing() as session:
        for statement in statements.split("; "):
            session.execute(text(statement))
    broken = place.command("log", "--kept", kept)
    assert (broken.code, said in broken.err) == (1, True), broken.err


@pytest.mark.parametrize("words", [["log"], ["log", "--refused"], ["account", "list"]])
def test_who_pages_through_the_log_and_who_answers_do_not_wait_for_each_other(
    place: Place, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("truthful.store.database.PATIENCE_SECONDS", 1)
    with place.served.service.database.writing():
        assert place.command(*words).code == 0


def test_many_writers_at_once_make_one_chain(place: Place) -> None:
    """Those who hold locks on studies in either order, and those who hold none."""
    database = place.served.service.database
    ids = [asked(place.served.service, players=4).study_id for _ in range(2)]
    with database.reading() as session:
        before = len(check_chain(session).hashes)

    def write(worker: int) -> None:
        for turn in range(6):
            with database.writing() as session:
                log(session, f"writer {worker}", "signed in")
                if worker % 4:
                    studies.find(session, ids[worker % 2], lock=True)
                log(session, f"writer {worker}", "planned", ids[turn % 2])

    failed = together([partial(write, worker) for worker in range(8)])
    assert failed == []
    with database.reading() as session:
        chain = check_chain(session)
    assert (chain.broken, len(chain.hashes)) == (None, before + 8 * 6 * 2)


def together(work: list[Callable[[], None]]) -> list[Exception]:
    failed: list[Exception] = []

    def kept(one: Callable[[], None]) -> None:
        try:
            one()
        except Exception as problem:
            failed.append(problem)

    threads = [threading.Thread(target=kept, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def test_what_is_undone_is_not_told_and_a_flood_of_wrong_passwords_pushes_nothing_out(place: Place) -> None:
    database = place.served.service.database

    def fail() -> None:
        with database.writing() as session:
            log(session, WHO, "planned")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with database.writing() as session:
        for _ in range(MOST_REFUSED + 20):
            note_refused_sign_in(session, None)
        note_refused_sign_in(session, "pat")
    with database.reading() as session:
        assert [event.what for event in events(session)] == []
        kept = refused_sign_ins(session, most=2 * MOST_REFUSED)
    assert len(kept) == MOST_REFUSED
    assert kept[0].whom == "pat"
    told = place.command("log", "--refused")
    assert told.out.splitlines()[-1].endswith(",pat")


# Names


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "has 0 characters"),
        ("x" * 101, "has 101 characters"),
        ("pay\u200broll", "cannot be seen"),
        ("pay\u3164roll", "cannot be seen"),
        ("a\u202eb", "cannot be seen"),
        ("payroll ", "spaces at its ends"),
        ("pay  roll", "spaces at its ends, or two in a row"),
        ("ｐayroll", "written in other characters than 'payroll'"),
        ("=1+1", "begins with '='"),
        ("\u0440ayroll", "mixes Cyrillic and Latin"),
    ],
)
def test_a_name_that_cannot_be_read_as_it_stands_is_refused(name: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        require_name(name)


@pytest.mark.parametrize(
    "name",
    ["PAYROLL", "Payroll", "payro1l", "payroII", "Service", "соmmand line", "Demo", "\u0440\u0430\u0443roll"],
)
def test_a_name_that_looks_like_another_is_refused(name: str) -> None:
    with pytest.raises(Refused, match="looks like"):
        require_unlike(name, ["payroll"])


def test_other_names_are_not() -> None:
    for name in ("Petra Payer", "Анна", "Аня", "李雷", "José", "O'Neill", "payroll 2"):
        require_unlike(require_name(name), ["payroll", "Anna", "Jose"])


def test_a_name_that_looks_like_anothers_makes_no_account(place: Place) -> None:
    place.added("payroll", "payer")
    refused = place.command("account", "add", "Payrol1", "--role", "payer")
    assert (refused.code, "looks like 'payroll'" in refused.err) == (1, True)
    with place.served.service.database.reading() as session:
        assert [one.name for one in accounts.accounts(session)] == ["payroll"]


def test_a_directory_without_a_service_is_not_made_one(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "typo"
    for words in (
        ("account", "add", directory, "pat", "--role", "payer"),
        ("identity", directory, "pat", "a@b"),
    ):
        told = run(*words)
        assert (told.code, "There is no service in" in told.err) == (2, True)
        assert not directory.exists()


@pytest.mark.parametrize(
    "words", [("account", "list"), ("rotate-key",), ("backup", "file"), ("purge", "study")]
)
def test_a_database_that_is_not_the_services_is_neither_made_nor_used(
    run: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """As when TRUTHFUL_DATABASE is set for the service, and not for the command."""
    Settings(tmp_path, database=f"sqlite:///{tmp_path / 'elsewhere'}").open_database().close()
    key = (tmp_path / "truthful.key").read_bytes()
    one = 2 if words[0] == "account" else 1
    told = run(*words[:one], tmp_path, *words[one:])
    assert (told.code, "is empty. Name the one that" in told.err) == (2, True)
    assert not (tmp_path / "truthful.db").exists()
    assert (tmp_path / "truthful.key").read_bytes() == key


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write where the service could not read it")
def test_root_gives_no_command_to_a_service_of_another_user(run: Run, tmp_path: Path) -> None:
    Settings(tmp_path).open_database().close()
    os.chown(tmp_path / "studies", 12345, 12345)
    for words in (("account", "list", tmp_path), ("serve", tmp_path, "--port", "0")):
        told = run(*words)
        assert (told.code, "sudo -u '#12345' truthful" in told.err) == (1, True)
