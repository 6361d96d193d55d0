"""Settling in the service: once and only once, resumed wherever it stopped, refused where it would be a second time."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from databases import KINDS, database_url
from serving import Served, answer_all, asked, close, served

from truthful.errors import Refused
from truthful.release import Receipt, Release, verify
from truthful.service.once import settle_survey
from truthful.store import due, surveys
from truthful.store.tables import State


@pytest.fixture(params=KINDS)
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    with database_url(request.param, tmp_path) as url, served(tmp_path / "service", url) as running:
        yield running


def test_a_settled_study_pays_everybody_what_its_release_implies(here: Served) -> None:
    service = here.service
    study = asked(service)
    answer_all(service, study)
    close(service, study.survey_id)
    settle_survey(service.database, service.places, study.survey_id)
    with service.database.reading() as session:
        survey = surveys.find(session, study.survey_id)
        assert survey.state == State.SETTLED
        release = Release.model_validate_json(survey.release or "")
        paid = list(due.payments(session, study.survey_id))
    assert release.players == 40
    assert not release.rehearsal
    assert {row.player for row in paid} == set(study.links)
    for row in paid:
        receipt = Receipt(
            player=row.player,
            features=study.features[row.player],
            report=study.answers[row.player],
            group=row.group,
            payment=row.millionths / 1e6,
        )
        assert verify(release, receipt).verified
        assert abs(row.coins * 10_000 - row.millionths) < 10_000


def test_a_rehearsal_says_so(here: Served) -> None:
    service = here.service
    study = asked(service, rehearsal=True)
    answer_all(service, study)
    close(service, study.survey_id)
    settle_survey(service.database, service.places, study.survey_id)
    with service.database.reading() as session:
        assert json.loads(surveys.find(session, study.survey_id).release or "")["rehearsal"] is True


def test_a_settlement_whose_files_are_there_is_stored_without_another_draw(here: Served) -> None:
    service = here.service
    study = asked(service)
    answer_all(service, study)
    close(service, study.survey_id)
    settle_survey(service.database, service.places, study.survey_id)
    written = (service.places.settlement(study.survey_id) / "release.json").read_text()
    with service.database.writing() as session:  # as a crash before the last transaction would leave it
        for row in due.payments(session, study.survey_id):
            session.delete(row)
        survey = surveys.find(session, study.survey_id)
        survey.state, survey.release, survey.report = State.CLOSED, None, None
    settle_survey(service.database, service.places, study.survey_id)
    with service.database.reading() as session:
        assert surveys.find(session, study.survey_id).release == written
    assert (
        len(json.loads((service.places.study(study.survey_id) / "ledger.json").read_text())["releases"]) == 1
    )


def test_other_answers_than_those_it_was_closed_with_are_refused(here: Served) -> None:
    """A database that was restored from a backup has lost, or still has, answers that others have not."""
    service = here.service
    study = asked(service)
    answer_all(service, study)
    close(service, study.survey_id)
    settle_survey(service.database, service.places, study.survey_id)
    with service.database.writing() as session:
        survey = surveys.find(session, study.survey_id)
        for row in due.payments(session, study.survey_id):
            session.delete(row)
        survey.state = State.OPEN
    answer_all(service, replace(study, answers=dict.fromkeys(study.answers, 100.0)))
    close(service, study.survey_id)
    with pytest.raises(Refused, match="not those that the study was closed with"):
        settle_survey(service.database, service.places, study.survey_id)
    assert here.state(study.survey_id) == State.CLOSED


def test_a_settlement_that_was_removed_is_not_drawn_again(here: Served) -> None:
    service = here.service
    study = asked(service)
    answer_all(service, study)
    close(service, study.survey_id)
    settle_survey(service.database, service.places, study.survey_id)
    shutil.rmtree(service.places.settlement(study.survey_id))
    with service.database.writing() as session:
        for row in due.payments(session, study.survey_id):
            session.delete(row)
        surveys.find(session, study.survey_id).state = State.CLOSED
    with pytest.raises(Refused, match="already released"):
        settle_survey(service.database, service.places, study.survey_id)


def test_a_database_without_its_directory_settles_nothing(here: Served) -> None:
    """As a cloned database does, brought up elsewhere: the ledger is not there."""
    service = here.service
    study = asked(service)
    answer_all(service, study)
    close(service, study.survey_id)
    shutil.move(service.places.study(study.survey_id), service.places.root / "elsewhere")
    with pytest.raises(Refused, match="are not in"):
        settle_survey(service.database, service.places, study.survey_id)
