"""A study that can promise less to those who answered than was promised: nothing is drawn, and its analyst decides."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from support.analysts import counts, shown, stored, wait_until_refused, wait_until_settled
from support.databases import KINDS, database_url
from support.participants import Her, quiet
from support.sealed import say
from support.serving import ANSWERS, WHO, Asked, Served, answer, answer_all, asked, close, served

from truthful.errors import Refused
from truthful.guarantees import Guarantees
from truthful.promises import promises
from truthful.release import Release, read_release
from truthful.service.offer import bases
from truthful.service.settle_study import cancel_study, settle_study
from truthful.settlement import atomic_release
from truthful.settlement.atomic_release import read_ledger
from truthful.store import answers, studies
from truthful.store.audit_log import events
from truthful.store.tables import Role, State

FEWER = 45


@pytest.fixture(params=KINDS)
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    with database_url(request.param, tmp_path) as url, served(tmp_path / "service", url) as running:
        yield running


@pytest.fixture
def analyst(here: Served) -> TestClient:
    return here.signed_in(Role.ANALYST)


@pytest.fixture
def study(here: Served, analyst: TestClient) -> Asked:
    """Closed after fewer answers than were counted on, and refused."""
    found = asked(here.service)
    answer(here.service, found, list(found.links)[:FEWER])
    assert analyst.post(place(found, "/close"), data={"name": "Designed"}).status_code == 303
    wait_until_refused(here, found.study_id)
    return found


def place(study: Asked, path: str = "") -> str:
    return f"/studies/{study.study_id}{path}"


def drawn(here: Served, study: Asked) -> int:
    """How many releases there ever were."""
    return len(read_ledger(here.service.locations.study(study.study_id) / "ledger.json").entries)


def test_what_could_be_guaranteed_is_shown_beside_what_was_promised(
    here: Served, analyst: TestClient, study: Asked
) -> None:
    page = shown(analyst, place(study))
    refused = stored(here, study.study_id).refused or {}
    found = Guarantees.from_record(refused["found"])
    assert "the error of predictions is up to" in refused["words"]
    assert refused["words"] in page
    promised = study.plan.guarantees
    assert (found.accuracy.prediction_rmse or 0) > (promised.accuracy.prediction_rmse or 0)
    for said in promises(study.plan), promises(replace(study.plan, stated=found, players=FEWER)):
        assert all(promise.words[1:] in page for promise in said)
    paid = bases(study.plan, [study.features[player] for player in list(study.links)[:FEWER]])
    assert f"{FEWER} people answered." in page
    assert f"${paid['total']:.2f}" in page
    for decision in ("accept", "reopen", "cancel"):
        assert f'action="{place(study, f"/{decision}")}"' in page
    assert drawn(here, study) == 0
    assert not here.service.locations.settlement(study.study_id).exists()
    assert not any(player in page for player in study.links)


def test_less_is_accepted_and_the_result_says_both(here: Served, analyst: TestClient, study: Asked) -> None:
    assert analyst.post(place(study, "/accept")).status_code == 303
    wait_until_settled(here, study.study_id)
    assert here.state(study.study_id) == State.SETTLED
    assert drawn(here, study) == 1
    release = read_release((stored(here, study.study_id).release or "").encode())
    assert isinstance(release, Release)
    assert release.players == FEWER
    assert release.promised == study.plan.guarantees.record()
    assert release.guarantees["accuracy"]["prediction_rmse"] > release.promised["accuracy"]["prediction_rmse"]
    assert "Promised in advance" in shown(analyst, place(study))
    for decision in ("accept", "reopen"):
        assert analyst.post(place(study, f"/{decision}")).status_code == 409
    with here.service.database.reading() as session:
        assert "accepted less" in {event.what for event in events(session, study.study_id)}


def test_closing_and_opening_again_is_no_way_to_watch_who_answers(
    here: Served, analyst: TestClient, study: Asked
) -> None:
    """A closed study tells exact numbers: with one person more each time, she would be known to have answered."""
    assert analyst.post(place(study, "/reopen")).status_code == 303
    Her(here, study, list(study.links)[FEWER]).answers(5)
    assert analyst.post(place(study, "/close"), data={"name": "Designed"}).status_code == 303
    wait_until_refused(here, study.study_id)
    refused = analyst.post(place(study, "/reopen"))
    assert refused.status_code == 409
    assert "fewer than 10 more people have answered since" in refused.text
    assert here.state(study.study_id) == State.CLOSED
    assert here.service.locations.is_closed(study.study_id)


def test_with_ten_more_answers_a_study_is_opened_once_more(here: Served) -> None:
    study = asked(here.service)
    people = list(study.links)

    def close_and_open_again() -> None:
        with here.service.database.writing() as session:
            studies.step(session, study.study_id, State.CLOSED, WHO)
            studies.note_refusal(session, study.study_id, {})
            studies.reopen(session, study.study_id, WHO)

    answer(here.service, study, people[:20])
    close_and_open_again()
    answer(here.service, study, people[20:29])
    with here.service.database.writing() as session:
        studies.update_counts(session, study.study_id, datetime.now(UTC))
    with pytest.raises(Refused, match="fewer than 10 more"):
        close_and_open_again()
    assert here.state(study.study_id) == State.OPEN
    answer(here.service, study, people[29:30])
    close_and_open_again()


def test_answers_are_taken_again_and_those_there_are_stay(
    here: Served, analyst: TestClient, study: Asked
) -> None:
    assert analyst.post(place(study, "/reopen")).status_code == 303
    assert here.state(study.study_id) == State.OPEN
    assert not here.service.locations.is_closed(study.study_id)
    assert counts(here, study.study_id)["answered"] == FEWER
    early, late = (Her(here, study, list(study.links)[at]) for at in (0, FEWER))
    early.does("submit", answer="5")
    late.answers(5)
    answer_all(here.service, study)
    assert analyst.post(place(study, "/close"), data={"name": "Designed"}).status_code == 303
    wait_until_settled(here, study.study_id)
    assert here.state(study.study_id) == State.SETTLED
    assert drawn(here, study) == 1


def test_it_is_cancelled_and_everybody_who_answered_is_paid_the_base(
    here: Served, analyst: TestClient, study: Asked
) -> None:
    assert analyst.post(place(study, "/cancel")).status_code == 303
    assert here.state(study.study_id) == State.CANCELLED
    assert drawn(here, study) == 0
    with here.service.database.reading() as session:
        owed = list(studies.payments(session, study.study_id))
        paid = bases(study.plan, answers.features(session, study.study_id))
    assert {row.player for row in owed} == set(list(study.links)[:FEWER])
    assert sum(row.millionths for row in owed) == paid["total"] * 1_000_000
    assert {row.leverage for row in owed} == {None}
    payer = here.signed_in(Role.PAYER)
    file = payer.post(f"/payments/{study.study_id}/payments.csv").text
    amounts = [Decimal(row["amount"]) for row in csv.DictReader(io.StringIO(file))]
    assert len(amounts) == FEWER
    assert abs(sum(amounts) - paid["total"]) < FEWER * Decimal("0.01")
    assert "Cancelled" in shown(analyst, place(study))
    public = shown(here.client, f"/s/{study.study_id}")
    assert "No result was drawn" in public
    assert here.client.get(f"/s/{study.study_id}/release.json").status_code == 404
    assert analyst.get(place(study, "/release.json")).status_code == 404
    for path in ("/accept", "/reopen", "/publish"):
        assert analyst.post(place(study, path)).status_code == 409
    assert analyst.post(place(study, "/cancel")).status_code == 303
    assert drawn(here, study) == 0


def test_nothing_is_settled_behind_the_analyst_s_back(here: Served, study: Asked) -> None:
    here.service.settler.ask(study.study_id)
    here.service.settler.stop()
    assert here.state(study.study_id) == State.CLOSED
    with here.service.database.reading() as session:
        assert studies.to_settle(session) == []


def test_a_study_whose_result_was_entered_is_neither_opened_again_nor_cancelled(
    here: Served, analyst: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release that nobody has seen counts too: another one would be a second."""

    def full(built: Path, final: Path) -> None:
        raise OSError

    study = asked(here.service)
    answer_all(here.service, study)
    here.service.settler.stop()
    close(here.service, study.study_id)
    monkeypatch.setattr(atomic_release, "publish_directory", full)
    with pytest.raises(OSError):  # noqa: PT011
        settle_study(here.service.database, here.service.locations, study.study_id)
    assert drawn(here, study) == 1
    with here.service.database.writing() as session:
        studies.note_problem(session, study.study_id, "The disk is full.")
    for path in ("/reopen", "/cancel"):
        refused = analyst.post(place(study, path))
        assert refused.status_code == 409
        assert "drawn already" in refused.text
    assert here.state(study.study_id) == State.CLOSED


def test_a_study_that_stopped_for_another_reason_may_go_on_collecting_or_be_cancelled(
    here: Served, analyst: TestClient
) -> None:
    """As one with a group of very few: it can never be settled as it is."""
    study = asked(here.service, ANSWERS)
    few = [player for player, row in study.features.items() if row["region"] == "north"][:4]
    answer(here.service, study, [p for p, row in study.features.items() if row["region"] != "north"] + few)
    here.service.settler.stop()
    close(here.service, study.study_id)
    with pytest.raises(Refused, match="Only 4 of those who answered have region = 'north'") as refused:
        settle_study(here.service.database, here.service.locations, study.study_id)
    with here.service.database.writing() as session:
        studies.note_problem(session, study.study_id, str(refused.value))
    page = shown(analyst, place(study))
    assert "Only 4 of those who answered" in page
    assert place(study, "/accept") not in page
    assert analyst.post(place(study, "/accept")).status_code == 409
    assert analyst.post(place(study, "/reopen")).status_code == 303
    assert here.state(study.study_id) == State.OPEN


def test_a_study_that_nothing_stopped_is_not_cancelled(tmp_path: Path) -> None:
    with quiet(tmp_path) as here:
        study, analyst = asked(here.service), here.signed_in(Role.ANALYST)
        answer_all(here.service, study)
        for state in (State.OPEN, State.CLOSED):
            if state == State.CLOSED:
                close(here.service, study.study_id)
            analyst.post(place(study, "/cancel"))
            assert here.state(study.study_id) == state


def test_other_answers_than_those_it_was_closed_with_are_not_paid(here: Served, study: Asked) -> None:
    """A database that was restored from a backup, say."""
    with here.service.database.writing() as session:
        player = next(iter(study.links))
        say(session, study.study_id, player, study.answers[player] + 1)
    with pytest.raises(Refused, match="not those that the study was closed with"):
        cancel_study(here.service.database, here.service.locations, study.study_id, WHO)
    assert here.state(study.study_id) == State.CLOSED
