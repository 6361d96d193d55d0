"""The payer sees who is paid how much and nothing else; the analyst sees everything but that."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from support.databases import KINDS, database_url
from support.serving import Asked, Served, answer_all, asked, close, code_of, served

from truthful.coins import Bill, Kind
from truthful.service.settle_study import settle_study
from truthful.store import studies
from truthful.store.audit_log import events
from truthful.store.tables import Role

FILES = {kind: f"/{kind}" for kind in Kind}


@pytest.fixture(scope="module", params=KINDS)
def here(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("service")
    with database_url(request.param, directory) as url, served(directory / "service", url) as running:
        yield running


@pytest.fixture(scope="module")
def study(here: Served) -> Asked:
    """A study that is settled."""
    study = asked(here.service)
    answer_all(here.service, study)
    close(here.service, study.study_id)
    settle_study(here.service.database, here.service.locations, study.study_id)
    return study


def take(client: TestClient, study_id: str, kind: str) -> str:
    answer = client.post(f"/payments/{study_id}/{kind}")
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == f'attachment; filename="{study_id}-{kind}"'
    assert answer.headers["cache-control"] == "no-store"
    return answer.text


def test_the_payment_file_is_player_and_amount_in_coins_and_nothing_else(here: Served, study: Asked) -> None:
    payer = here.signed_in(Role.PAYER)
    rows = list(csv.reader(io.StringIO(take(payer, study.study_id, "payments.csv"))))
    assert rows[0] == ["player", "amount"]
    with here.service.database.reading() as session:
        meant = [
            [row.player, f"{Decimal(row.coins) / 100:.2f}"]
            for row in studies.payments(session, study.study_id)
        ]
    assert rows[1:] == meant
    assert len(meant) == 60


def test_the_page_tells_the_total_and_the_count(here: Served, study: Asked) -> None:
    payer = here.signed_in(Role.PAYER)
    rows = csv.DictReader(io.StringIO(take(payer, study.study_id, "payments.csv")))
    total = sum(Decimal(row["amount"]) for row in rows)
    for path in ("/payments", f"/payments/{study.study_id}"):
        shown = payer.get(path).text
        assert f"${total:,.2f}" in shown
        assert "To 60 people." in shown


def test_payments_are_marked_as_sent_and_each_person_is_told_about_hers(here: Served, study: Asked) -> None:
    payer, place = here.signed_in(Role.PAYER), f"/payments/{study.study_id}"
    first, second = sorted(study.links)[:2]

    def told(player: str) -> bool:
        link = study.links[player]
        browser = TestClient(here.client.app, base_url="http://testserver")
        browser.cookies.set("code", code_of(here.service, link), path=f"/a/{link}")
        return "Your payment was sent on" in browser.get(f"/a/{link}").text

    def upload(text: str) -> int:
        files = {"file": ("ids.csv", text, "text/csv")}
        status: int = payer.post(f"{place}/sent", data={"do": "file"}, files=files).status_code
        return status

    assert (told(first), upload(f"player,amount\n{first},1.20\n")) == (False, 303)
    assert (told(first), told(second)) == (True, False)
    assert upload(f"{second}\nstranger\n") == 400
    assert not told(second)
    for path in (place, "/payments"):
        assert "1 of 60 payments are marked" in payer.get(path).text
    assert payer.post(f"{place}/sent", data={"do": "all"}).status_code == 303
    assert "60 of 60 payments are marked" in payer.get(place).text
    assert told(second)
    assert payer.post(f"{place}/sent", data={"do": "undo"}).status_code == 303
    assert not told(second)
    assert here.signed_in(Role.ANALYST).post(f"{place}/sent", data={"do": "all"}).status_code in (303, 404)
    with here.service.database.reading() as session:
        assert studies.count_unsent(session, study.study_id) == 60


def test_before_anything_is_settled_there_is_nothing_to_pay(here: Served, tmp_path: Path) -> None:
    with served(tmp_path) as fresh:
        assert "No study has been settled yet" in fresh.signed_in(Role.PAYER).get("/payments").text
    study, payer = asked(here.service), here.signed_in(Role.PAYER)
    assert payer.get(f"/payments/{study.study_id}").status_code == 404
    assert payer.post(f"/payments/{study.study_id}/payments.csv").status_code == 404
    assert payer.get("/payments/nothing").text == payer.get(f"/payments/{study.study_id}").text.replace(
        study.study_id, "nothing"
    )


def test_taking_a_file_is_in_the_log_and_looking_is_not(here: Served, study: Asked) -> None:
    payer = here.signed_in(Role.PAYER)
    payer.get(f"/payments/{study.study_id}")
    with here.service.database.reading() as session:
        before = len(events(session))
    take(payer, study.study_id, "payments.csv")
    with here.service.database.reading() as session:
        found = events(session)
    assert len(found) == before + 1
    assert (found[0].who, found[0].what, found[0].study_id) == (
        "the payer",
        "took the payment file",
        study.study_id,
    )


def test_a_rehearsal_is_not_to_be_paid_and_says_so(here: Served) -> None:
    study = asked(here.service, rehearsal=True)
    answer_all(here.service, study)
    close(here.service, study.study_id)
    settle_study(here.service.database, here.service.locations, study.study_id)
    assert "Pay nobody" in here.signed_in(Role.PAYER).get(f"/payments/{study.study_id}").text


def test_the_payer_gets_nothing_elsewhere_and_the_analyst_nothing_here(here: Served, study: Asked) -> None:
    payer, analyst = here.signed_in(Role.PAYER), here.signed_in(Role.ANALYST)
    for path in ("/people", "/log"):
        assert payer.get(path).headers["location"] == "/sign-in"
    assert payer.get(f"/studies/{study.study_id}").headers["location"] == "/sign-in"
    assert study.plan.study.name not in analyst.get("/payments").text
    assert analyst.get(f"/payments/{study.study_id}").status_code == 404
    for kind in Kind:
        assert analyst.post(f"/payments/{study.study_id}/{kind}").status_code == 404
    assert here.client.post(f"/payments/{study.study_id}/payments.csv").headers["location"] == "/sign-in"


def test_an_unknown_kind_of_file_is_refused(here: Served, study: Asked) -> None:
    assert here.signed_in(Role.PAYER).post(f"/payments/{study.study_id}/answers.csv").status_code == 422


def test_platforms_are_not_offered_players_that_are_no_ids_of_theirs(here: Served, study: Asked) -> None:
    payer = here.signed_in(Role.PAYER)
    assert "other player names" in payer.get(f"/payments/{study.study_id}").text
    for kind in (Kind.PROLIFIC, Kind.MTURK):
        assert payer.post(f"/payments/{study.study_id}/{kind}").status_code == 409


def bill(currency: str, digits: int, *rows: tuple[str, int]) -> Bill:
    return Bill(currency, digits, list(rows))


def test_prolific_takes_lines_of_id_and_amount_without_a_heading() -> None:
    owed = bill("GBP", 2, ("5f3e8a", 5), ("60aa11", 120), ("61bb22", 0))
    assert owed.file(Kind.PROLIFIC) == "5f3e8a,0.05\n60aa11,1.20\n"
    assert owed.takes(Kind.PROLIFIC)
    assert owed.paid == 2


def test_mturk_takes_the_names_of_its_own_operation() -> None:
    owed = bill("USD", 2, ("A1B2C3", 5), ("A9", 0))
    assert owed.file(Kind.MTURK) == "WorkerId,BonusAmount\nA1B2C3,0.05\n"
    assert owed.takes(Kind.MTURK)


@pytest.mark.parametrize(
    ("currency", "prolific", "mturk"), [("USD", True, True), ("GBP", True, False), ("EUR", False, False)]
)
def test_a_platform_pays_in_its_own_currencies(currency: str, prolific: bool, mturk: bool) -> None:
    owed = bill(currency, 2, ("A1", 5))
    assert (owed.takes(Kind.PROLIFIC), owed.takes(Kind.MTURK)) == (prolific, mturk)
    assert owed.takes(Kind.CSV)


@pytest.mark.parametrize("player", ["a,b", 'a"b', "a\nb", "=1+1", "", "é"])
def test_a_platform_is_never_given_an_id_that_could_become_another_line(player: str) -> None:
    owed = bill("USD", 2, (player, 5))
    assert not owed.takes(Kind.PROLIFIC)
    assert not owed.takes(Kind.MTURK)
    assert list(csv.reader(io.StringIO(owed.file(Kind.CSV), newline=""))) == [
        ["player", "amount"],
        [player, "0.05"],
    ]


def test_coins_without_fractions_have_none() -> None:
    assert bill("JPY", 0, ("a", 12)).file(Kind.CSV) == "player,amount\na,12\n"
    assert bill("KWD", 3, ("a", 12)).file(Kind.CSV) == "player,amount\na,0.012\n"
