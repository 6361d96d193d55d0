"""The public pages of a study: nothing of a draft, what it declared once it is frozen, what it found once published."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from support.serving import ANSWERS, RECORDS, STUDY, Served, answer_all, asked, close, draft, served

from truthful.plan import Plan
from truthful.release import read_release
from truthful.service.settle_study import settle_study
from truthful.store.studies import find, step
from truthful.store.tables import State
from truthful.study import Study

#: With what people read in place of names, in two languages.
LABELLED = (
    STUDY.replace('currency = "USD"', 'currency = "USD"\nlanguage = "en"')
    .replace('name = "price"', 'name = "price"\nlabel = { en = "Price", de = "Preis" }')
    .replace('name = "region"', 'name = "region"\nlevel_labels = { east = { en = "East", de = "Osten" } }')
)
FILES = ("/study.toml", "/plan.json", "/release.json", "/report", "/forest.svg")


@dataclass(frozen=True)
class Studies:
    """One study in each state of its life."""

    here: Served
    ids: dict[State, str]


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studies]:
    with served(tmp_path_factory.mktemp("service") / "service") as here:
        here.service.settler.stop()
        ids = {State.DRAFT: draft(here.service)}
        for state in (State.OPEN, State.CLOSED, State.SETTLED, State.PUBLISHED):
            study = asked(here.service, LABELLED if state == State.PUBLISHED else STUDY)
            ids[state] = study.study_id
            if state == State.OPEN:
                continue
            answer_all(here.service, study)
            close(here.service, study.study_id)
            if state != State.CLOSED:
                settle_study(here.service.database, here.service.locations, study.study_id)
            if state == State.PUBLISHED:
                with here.service.database.writing() as session:
                    step(session, study.study_id, State.PUBLISHED, "ada")
        yield Studies(here, ids)


def got(studies: Studies, study_id: str, path: str = "", status: int = 200) -> str:
    studies.here.service.limits.unknown.forgive("testclient")
    answer = studies.here.client.get(f"/s/{study_id}{path}")
    assert answer.status_code == status
    return html.unescape(answer.text)


@pytest.mark.parametrize("path", ["", *FILES])
def test_a_draft_and_a_study_that_does_not_exist_look_the_same(studies: Studies, path: str) -> None:
    drafted = got(studies, studies.ids[State.DRAFT], path, 404)
    unknown = got(studies, "0123456789ab", path, 404)
    assert drafted.replace(studies.ids[State.DRAFT], "0123456789ab") == unknown


@pytest.mark.parametrize("state", [State.OPEN, State.CLOSED, State.SETTLED])
def test_a_frozen_study_shows_what_it_declared_and_nothing_else(studies: Studies, state: State) -> None:
    study_id = studies.ids[state]
    page = got(studies, study_id)
    assert got(studies, study_id, "/study.toml") == STUDY
    study = Study.parse(STUDY)
    assert study.sha256 in page
    assert "Institute for Household Studies" in page
    assert "The five guarantees" in page
    plan = Plan.parse(got(studies, study_id, "/plan.json"))
    assert plan.sha256 in page
    for path in ("/release.json", "/report", "/forest.svg"):
        got(studies, study_id, path, 404)
    assert "What was found" not in page


def test_a_published_study_shows_its_results(studies: Studies) -> None:
    study_id = studies.ids[State.PUBLISHED]
    page = got(studies, study_id)
    with studies.here.service.database.reading() as session:
        stored = find(session, study_id)
    assert studies.here.client.get(f"/s/{study_id}/release.json").content == (stored.release or "").encode()
    release = read_release((stored.release or "").encode())
    for row in release.coefficients:
        assert row.name in page
    for language, labels in {
        "en": ("Price", "region: East − north"),
        "de": ("Preis", "region: Osten − north"),
    }.items():
        answer = studies.here.client.get(f"/s/{study_id}", headers={"Accept-Language": language})
        assert all(
            f'<th scope="row">{label}</th>' in answer.text for label in (*labels, "region: south − north")
        )
    charts = {
        studies.here.client.get(f"/s/{study_id}/forest.svg", headers={"Accept-Language": language}).text
        for language in ("en", "de")
    }
    assert len(charts) == 2
    assert "Differences in “spend” between people" in page
    for guarantee in ("Privacy", "Truthfulness", "Accuracy", "Participation", "Budget"):
        assert guarantee in page
    assert "truthful verify release.json receipt.json" in page
    assert "-0<" not in page
    assert got(studies, study_id, "/report") == html.unescape(stored.report or "")


def test_what_is_guaranteed_stands_beside_what_was_promised_and_what_is_not_protected(
    studies: Studies,
) -> None:
    for state in (State.OPEN, State.PUBLISHED):
        page = got(studies, studies.ids[state])
        assert "What is not protected" in page
        assert "It says nothing about her, and exact sums over it are published." in page
        assert "Who took part." in page
        assert ("Promised in advance" in page) == (state == State.PUBLISHED)
    assert "As promised in advance." in page


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            ANSWERS,
            "The facts of those who took part (price, region). Exact sums over everybody's facts are published",
        ),
        (RECORDS, "How many took part"),
    ],
)
def test_people_s_own_features_are_said_to_be_protected_or_not(
    studies: Studies, text: str, told: str
) -> None:
    page = got(studies, asked(studies.here.service, text).study_id)
    assert told in page
    assert ("The facts of those who took part" in page) == (text is ANSWERS)


def test_a_report_may_style_itself_and_nothing_else(studies: Studies) -> None:
    answer = studies.here.client.get(f"/s/{studies.ids[State.PUBLISHED]}/report")
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy.pop("style-src") == "'unsafe-inline'"
    assert set(policy.values()) == {"'none'"}
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_files_are_downloads_and_the_chart_is_a_picture(studies: Studies) -> None:
    study_id, client = studies.ids[State.PUBLISHED], studies.here.client
    for name in ("study.toml", "plan.json", "release.json"):
        told = client.get(f"/s/{study_id}/{name}").headers["content-disposition"]
        assert told == f'attachment; filename="{name}"'
    chart = client.get(f"/s/{study_id}/forest.svg")
    assert chart.headers["content-type"] == "image/svg+xml"
    assert b"<svg" in chart.content
    assert b"<script" not in chart.content


def test_a_results_page_holds_no_answer_no_player_and_no_amount(studies: Studies) -> None:
    study_id = studies.ids[State.PUBLISHED]
    whole = "".join(got(studies, study_id, path) for path in ("", *FILES))
    assert "p-01" not in whole
    assert "p-60" not in whole


def test_a_study_without_features_has_no_chart_and_no_broken_picture(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    head, _, rest = STUDY.partition("[[features]]")
    bare = head + rest[rest.index("[design]") :]
    with served(tmp_path_factory.mktemp("bare") / "service") as here:
        here.service.settler.stop()
        study = asked(here.service, bare)
        answer_all(here.service, study)
        close(here.service, study.study_id)
        settle_study(here.service.database, here.service.locations, study.study_id)
        with here.service.database.writing() as session:
            step(session, study.study_id, State.PUBLISHED, "ada")
        page = here.client.get(f"/s/{study.study_id}")
        assert page.status_code == 200
        assert "forest.svg" not in page.text
        assert here.client.get(f"/s/{study.study_id}/forest.svg").status_code == 404
