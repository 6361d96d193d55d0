"""While people answer: until when, to which document they consent."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient
from support.analysts import declared, new, shown, stored
from support.databases import KINDS, database_url
from support.serving import (
    INVITATION,
    STUDY,
    WHO,
    Asked,
    Served,
    answer,
    asked,
    bring,
    close,
    draft,
    planned,
    served,
)
from support.studies import UNIT_BALL

from truthful.errors import InputError
from truthful.files import pretty_json
from truthful.service.drafts import with_document
from truthful.service.settle_study import freeze
from truthful.store import roster, studies
from truthful.store.audit_log import events
from truthful.store.tables import Role, State, StoredStudy
from truthful.study import Study

SOON = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(days=3)
PDF, TEXT = b"%PDF-1.7\nWhat you consent to \xff\x00.", b"Sie willigen ein: ja."


@pytest.fixture(scope="module", params=KINDS)
def here(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("service")
    with database_url(request.param, directory) as url, served(directory / "service", url) as running:
        running.service.settler.stop()  # deadlines are looked at when a test says so
        yield running


@pytest.fixture(scope="module")
def analyst(here: Served) -> TestClient:
    return here.signed_in(Role.ANALYST)


# Until when


def due(here: Served, study: Asked) -> None:
    """Its deadline passes."""
    passed = update(StoredStudy).where(StoredStudy.id == study.study_id)
    with here.service.database.writing() as session:
        session.execute(passed.values(deadline=datetime.now(UTC) - timedelta(seconds=1)))


def test_a_deadline_is_set_when_freezing_told_and_only_made_later(here: Served, analyst: TestClient) -> None:
    study_id = draft(here.service)
    place = f"/studies/{study_id}"
    for wrong, words in (("2020-01-01T10:00", "which is over"), ("soon", "give a day and a time")):
        refused = analyst.post(f"{place}/freeze", data={"for": "people", "until": wrong})
        assert (refused.status_code, here.state(study_id)) == (400, State.DRAFT)
        assert words in html.unescape(refused.text)
        assert 'id="until-problem"' in refused.text
        assert refused.text.index('<a href="#until">') < refused.text.index(
            "<h2>"
        )  # above all that is reviewed
        assert 'value="people" required checked' in refused.text
    told = f"{SOON:%Y-%m-%dT%H:%M}"
    assert analyst.post(f"{place}/freeze", data={"for": "people", "until": told}).status_code == 303
    assert stored(here, study_id).deadline == SOON
    link = next(iter(bring(here.service, study_id, 12).links.values()))
    shown_at = f"{SOON:%b} {SOON.day}, {SOON.year}"
    assert f"You can answer until {shown_at}" in shown(here.client, f"/a/{link}")
    assert shown_at in shown(here.client, f"/s/{study_id}")
    earlier = analyst.post(f"{place}/deadline", data={"until": f"{SOON - timedelta(days=1):%Y-%m-%dT%H:%M}"})
    assert earlier.status_code == 400
    assert "People were told that they can answer until" in html.unescape(earlier.text)
    later = SOON + timedelta(days=1)
    assert analyst.post(f"{place}/deadline", data={"until": f"{later:%Y-%m-%dT%H:%M}"}).status_code == 303
    assert stored(here, study_id).deadline == later
    with here.service.database.reading() as session:
        assert [event.what for event in events(session, study_id)].count("set the deadline") == 2


def test_a_study_whose_deadline_is_over_closes_if_as_many_have_answered_as_it_counts_on(here: Served) -> None:
    few, enough = asked(here.service), asked(here.service)
    needed = few.plan.answering
    answer(here.service, few, list(few.links)[: needed - 1])
    answer(here.service, enough, list(enough.links)[:needed])
    here.service.settler.close_overdue()
    assert here.state(enough.study_id) == State.OPEN
    due(here, few)
    due(here, enough)
    here.service.settler.close_overdue()
    assert (here.state(few.study_id), here.state(enough.study_id)) == (State.OPEN, State.CLOSED)
    with here.service.database.reading() as session:
        assert ("closed", "service") in [
            (event.what, event.who) for event in events(session, enough.study_id)
        ]


def test_after_a_deadline_with_too_few_people_can_answer_and_the_analyst_is_asked(
    here: Served, analyst: TestClient
) -> None:
    study = asked(here.service)
    due(here, study)
    page = shown(analyst, f"/studies/{study.study_id}")
    assert f"fewer than {study.plan.answering} people have answered" in page
    assert "You can answer until" not in shown(here.client, f"/a/{next(iter(study.links.values()))}")
    answer(here.service, study, list(study.links)[:5])


def test_a_study_that_is_opened_again_has_no_deadline_that_would_close_it_at_once(here: Served) -> None:
    study = asked(here.service)
    answer(here.service, study, list(study.links)[: study.plan.answering])
    due(here, study)
    close(here.service, study.study_id)
    with here.service.database.writing() as session:
        studies.note_problem(session, study.study_id, "The disk is full.")
        studies.reopen(session, study.study_id, WHO)
    here.service.settler.close_overdue()
    assert here.state(study.study_id) == State.OPEN
    assert stored(here, study.study_id).deadline is None


# The consent document


def upload(analyst: TestClient, study_id: str, content: bytes, version: str = "2") -> int:
    files = {"file": ("consent.pdf", content, "application/pdf")}
    status: int = analyst.post(
        f"/studies/{study_id}/document", data={"version": version}, files=files
    ).status_code
    return status


def test_a_consent_document_is_declared_shown_and_remembered_with_each_consent(
    here: Served, analyst: TestClient
) -> None:
    study_id = declared(analyst)
    assert (upload(analyst, study_id, TEXT, "1"), upload(analyst, study_id, PDF)) == (303, 303)
    sha256 = hashlib.sha256(PDF).hexdigest()
    study = Study.parse(stored(here, study_id).declaration or "")
    assert study.declaration()["invitation"]["consent_sha256"] == sha256
    with here.service.database.writing() as session:
        studies.lock_draft(session, study_id).plan = pretty_json(planned(study).record())
    assert sha256 in shown(analyst, f"/studies/{study_id}/freeze")
    assert here.client.get(f"/s/{study_id}/consent").status_code == 404
    assert analyst.post(f"/studies/{study_id}/freeze", data={"for": "people"}).status_code == 303
    assert upload(analyst, study_id, TEXT) == 409
    sent = here.client.get(f"/s/{study_id}/consent")
    assert (sent.content, sent.headers["content-type"]) == (PDF, "application/pdf")
    links = bring(here.service, study_id, 12).links
    token = links[min(links)]
    visitor = TestClient(here.client.app, base_url="http://testserver", follow_redirects=False)
    assert ">Consent document (version 2)<" in shown(visitor, f"/a/{token}")
    visitor.post(f"/a/{token}/consent")
    with here.service.database.reading() as session:
        assert roster.standing(session, token)[0].document == sha256
    visitor.post(f"/a/{token}/withdraw")
    with here.service.database.reading() as session:
        assert roster.standing(session, token)[0].document is None


def test_a_study_is_not_frozen_with_another_document_than_it_names(here: Served, analyst: TestClient) -> None:
    named = f'consent_version = "1"\nconsent_sha256 = "{hashlib.sha256(TEXT).hexdigest()}"\n'
    text = STUDY.replace(INVITATION, INVITATION + named)
    study_id = draft(here.service, text)
    refused = analyst.post(f"/studies/{study_id}/freeze", data={"for": "people"})
    assert refused.status_code == 409
    assert f'href="/studies/{study_id}/document"' in refused.text
    assert upload(analyst, study_id, TEXT, "1") == 303
    assert stored(here, study_id).declaration is not None
    freeze(here.service.database, here.service.locations, study_id, WHO, rehearsal=False)


@pytest.mark.parametrize(
    ("content", "version", "words"),
    [
        (b"\xff\xfe\x00picture", "2", "neither a PDF nor plain text"),
        (b"", "2", "1 to 5,000,000"),
        (TEXT, "", "The version is missing"),
        (b"%PDF-" + bytes(5_000_000), "2", "1 to 5,000,000"),
    ],
)
def test_what_is_no_consent_document_is_refused(
    analyst: TestClient, content: bytes, version: str, words: str
) -> None:
    study_id = new(analyst)
    files = {"file": ("consent", content, "application/pdf")}
    answer = analyst.post(f"/studies/{study_id}/document", data={"version": version}, files=files)
    assert answer.status_code == 400
    assert words in html.unescape(answer.text)


def test_a_study_file_names_its_document_and_stays_as_it_was_written() -> None:
    text = UNIT_BALL.replace("[response]", f"{INVITATION}[response]", 1)
    named = with_document(text, 'the "second"', "ab" * 32)
    invitation = Study.parse(named).declared.invitation
    assert invitation is not None
    assert (invitation.consent_version, invitation.consent_sha256) == ('the "second"', "ab" * 32)
    assert with_document(named, "", "") == text
    with pytest.raises(InputError, match="no line"):
        with_document(UNIT_BALL, "2", "ab" * 32)
