"""The analyst's pages: a whole study from nothing to published, who gets to them, and what they never show."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from support.analysts import (
    STEPS,
    counts,
    declared,
    open_study,
    rows,
    send_roster,
    shown,
    wait_until_refused,
    wait_until_settled,
    wait_until_stopped,
)
from support.databases import KINDS, database_url
from support.serving import ANSWERS, URL, WHO, Served, answer, answer_all, asked, close, draft, served
from support.studies import people

from truthful.plan import Plan
from truthful.release import read_release
from truthful.store import answers, studies
from truthful.store.audit_log import events
from truthful.store.tables import Role, State
from truthful.study import Study


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("service") / "service") as running:
        yield running


@pytest.fixture
def analyst(here: Served) -> TestClient:
    return here.signed_in(Role.ANALYST)


@pytest.fixture
def opened(here: Served) -> str:
    return open_study(here)


@pytest.mark.parametrize("kind", KINDS)
def test_a_study_from_nothing_to_published_results(kind: str, tmp_path: Path) -> None:
    with database_url(kind, tmp_path) as url, served(tmp_path / "service", url) as running:
        live(running, running.signed_in(Role.ANALYST))


def live(here: Served, analyst: TestClient) -> None:
    """All that an analyst does."""
    study_id = declared(analyst)
    assert "Spending" in shown(analyst, "/studies")
    text = analyst.get(f"/studies/{study_id}/study.toml").text
    study = Study.parse(text)
    assert study.features[1].levels == ("north", "south", "east")
    assert "Plan" in shown(analyst, f"/studies/{study_id}")

    wishes = {"players": "4,000", "budget": "2000"}
    page = shown(analyst, f"/studies/{study_id}/plan?players=4%2C000&budget=2000")
    assert "This is possible" in page
    assert "The five guarantees" in page
    assert "If people believe otherwise" in page
    assert "A centre that is wrong by 1 moves the best answer by" in page
    assert (
        analyst.post(f"/studies/{study_id}/plan", data=wishes).headers["location"] == f"/studies/{study_id}"
    )
    plan = Plan.parse(analyst.get(f"/studies/{study_id}/plan.json").text)
    assert plan.players == 4_000
    assert (plan.guarantees.budget.cap or 0) <= 2_000

    page = shown(analyst, f"/studies/{study_id}/freeze")
    assert study.sha256 in page
    assert plan.sha256 in page
    assert analyst.post(f"/studies/{study_id}/freeze", data={"for": "people"}).status_code == 303
    for reader, path in ((here.client, f"/s/{study_id}"), (analyst, f"/studies/{study_id}")):
        assert study.sha256 in shown(reader, path)
        assert plan.sha256 in shown(reader, path)

    template = analyst.get(f"/studies/{study_id}/roster.csv")
    assert template.text == "player,price,region\n"
    invented = people(study, 60).reports.to_pylist()
    lines = [f"{person['player']},{person['price']},{person['region']}" for person in invented]
    assert send_roster(analyst, study_id, template.text + "\n".join(lines)).status_code == 303
    assert counts(here, study_id)["roster"] == 60

    links = analyst.post(f"/studies/{study_id}/links", data={"which": "new"})
    assert "attachment" in links.headers["content-disposition"]
    assert rows(links.text)[0] == ["player", "link"]
    spoken = {person["player"]: float(person["spend"]) for person in invented}
    with here.service.database.writing() as session:
        for player, link in rows(links.text)[1:]:
            token = link.removeprefix("http://testserver/a/")
            answers.submit(session, token, spoken[player], answers.consent(session, token))
    here.service.settler.tell_counts(datetime(2040, 1, 1, tzinfo=UTC))
    page = analyst.get(f"/studies/{study_id}").text
    assert "50 or more" in page or "60 or more" in page

    assert analyst.post(f"/studies/{study_id}/close", data={"name": "Spending"}).status_code == 303
    wait_until_refused(here, study_id)
    assert "Less can be guaranteed than was promised" in shown(analyst, f"/studies/{study_id}")
    assert "needs your decision" in shown(analyst, "/studies")
    assert analyst.post(f"/studies/{study_id}/accept").status_code == 303
    wait_until_settled(here, study_id)
    assert "needs your decision" not in shown(analyst, "/studies")
    page = shown(analyst, f"/studies/{study_id}")
    assert "region=north" in page
    assert here.client.get(f"/s/{study_id}/release.json").status_code == 404
    assert analyst.post(f"/studies/{study_id}/publish").status_code == 303
    assert here.state(study_id) == State.PUBLISHED
    release = read_release(here.client.get(f"/s/{study_id}/release.json").content)
    assert release.study.sha256 == study.sha256
    assert release.plan_sha256 == plan.sha256
    assert "published" in shown(analyst, f"/studies/{study_id}").lower()
    with here.service.database.reading() as session:
        done = {event.what for event in events(session, study_id)}
    assert {"created", "changed the study", "planned", "froze", "brought a roster", "made links"} <= done


def test_the_analyst_sees_neither_answers_nor_amounts_nor_who_answered(
    here: Served, analyst: TestClient
) -> None:
    study = asked(here.service)
    answer_all(here.service, study)
    place = f"/studies/{study.study_id}"
    pages = [analyst.get(place).text, analyst.get(f"{place}/close").text]
    close(here.service, study.study_id)
    here.service.settler.ask(study.study_id)
    wait_until_settled(here, study.study_id)
    pages += [analyst.get(place + path).text for path in ("", "/report", "/release.json")]
    for page in pages:
        assert not any(player in page for player in study.links)
        assert not any(repr(value) in page for value in study.answers.values())


def test_a_study_that_cannot_be_settled_does_not_tell_the_analyst_who_has_answered(
    here: Served, analyst: TestClient
) -> None:
    """One person alone of her region has answered, so that nothing can be said of people like her."""
    withheld = ANSWERS.replace('protects = "answers"', 'protects = "answers"\npublish_matrix = false')
    study = asked(here.service, withheld)
    alone = next(player for player, features in study.features.items() if features["region"] == "north")
    others = [player for player, features in study.features.items() if features["region"] != "north"]
    answer(here.service, study, [*others, alone])
    close(here.service, study.study_id)
    here.service.settler.ask(study.study_id)
    page = wait_until_stopped(analyst, study.study_id)
    assert "like somebody who answered is she herself" in page
    assert not any(player in page for player in study.links)


# Others


PATHS = [
    ("GET", "/studies"),
    ("POST", "/studies"),
    ("POST", "/studies/upload"),
    *(
        ("GET", f"/studies/ID{path}")
        for path in ("", "/file", "/plan", "/frontier.svg", "/rehearse", "/freeze")
    ),
    *(
        ("GET", f"/studies/ID{path}")
        for path in ("/edit", "/edit/question", "/close", "/study.toml", "/plan.json")
    ),
    *(("GET", f"/studies/ID{path}") for path in ("/roster.csv", "/disputes.csv", "/report", "/release.json")),
    *(("GET", f"/studies/ID{path}") for path in ("/forest.svg", "/rehearse/report")),
    *(
        ("POST", f"/studies/ID{path}")
        for path in ("/file", "/plan", "/rehearse", "/freeze", "/edit/question")
    ),
    *(("POST", f"/studies/ID{path}") for path in ("/roster", "/links", "/close", "/settle", "/publish")),
    *(("POST", f"/studies/ID{path}") for path in ("/accept", "/reopen", "/cancel", "/remove")),
    *(("GET", f"/studies/ID{path}") for path in ("/document", "/consent", "/mail", "/panel")),
    *(("POST", f"/studies/ID{path}") for path in ("/document", "/mail", "/panel", "/change", "/deadline")),
]


@pytest.mark.parametrize("role", ["payer", "stranger"])
def test_nobody_else_gets_to_a_page_of_the_analyst_s(here: Served, role: str, opened: str) -> None:
    client = here.client if role == "stranger" else here.signed_in(Role.PAYER)
    for method, path in PATHS:
        answer = client.request(method, path.replace("ID", opened))
        assert (answer.status_code, answer.headers.get("location")) == (303, "/sign-in"), path
        assert answer.text == ""
    assert here.state(opened) == State.OPEN


def test_the_list_of_paths_is_whole(here: Served) -> None:
    known = {
        (method, path.replace("ID", "{study_id}").replace("/question", "/{step}")) for method, path in PATHS
    }
    routes = here.client.app.openapi()["paths"]  # type: ignore[attr-defined]
    found = {(method.upper(), path) for path, methods in routes.items() for method in methods}
    assert {pair for pair in found if pair[1].startswith("/studies")} == known


@pytest.mark.parametrize(("method", "path"), [pair for pair in PATHS if "ID" in pair[1]])
def test_a_study_that_does_not_exist_is_nothing(
    here: Served, analyst: TestClient, method: str, path: str
) -> None:
    here.service.limits.unknown.forgive("testclient")
    answer = analyst.request(method, path.replace("ID", "0123456789ab"), data={"name": "x", "for": "people"})
    assert answer.status_code == 404


@pytest.mark.parametrize("language", ["en", "de"])
def test_pages_are_there_in_both_languages(here: Served, analyst: TestClient, language: str) -> None:
    reader = TestClient(here.client.app, base_url=URL, cookies=analyst.cookies, follow_redirects=False)
    reader.cookies.set("language", language)
    planned_draft = draft(here.service)
    opened = asked(here.service, players=4)
    done = asked(here.service)
    answer_all(here.service, done)
    paths = [f"/studies/{planned_draft}{path}" for path in ("", "/file", "/plan", "/rehearse", "/freeze")]
    paths += [f"/studies/{planned_draft}/edit/{step}" for step in STEPS]
    paths += [
        f"/studies/{opened.study_id}",
        f"/studies/{opened.study_id}/close",
        f"/studies/{done.study_id}",
    ]
    paths += ["/studies", f"/s/{opened.study_id}", f"/s/{done.study_id}"]
    for path in paths:
        assert f'<html lang="{language}">' in shown(reader, path), path
    close(here.service, done.study_id)
    assert reader.get(f"/studies/{done.study_id}").status_code == 200
    here.service.settler.ask(done.study_id)
    wait_until_settled(here, done.study_id)
    assert reader.get(f"/studies/{done.study_id}").status_code == 200
    reader.post(f"/studies/{done.study_id}/publish")
    assert reader.get(f"/studies/{done.study_id}").status_code == 200
    assert reader.get(f"/s/{done.study_id}").status_code == 200


def test_a_directory_that_is_gone_is_said_and_nothing_breaks(
    here: Served, analyst: TestClient, tmp_path: Path
) -> None:
    """Also of a study that waits for a decision: without its ledger none may be made."""
    study = asked(here.service, players=4)
    answer_all(here.service, study)
    place, page = here.service.locations.study(study.study_id), f"/studies/{study.study_id}"
    place.rename(tmp_path / "elsewhere")
    assert analyst.get(page).status_code == 409
    with here.service.database.writing() as session:
        studies.step(session, study.study_id, State.CLOSED, WHO)
        studies.note_problem(session, study.study_id, "Its files are gone.")
    for decision in ("reopen", "cancel"):
        refused = analyst.post(f"{page}/{decision}")
        assert (refused.status_code, "files of the frozen study" in refused.text) == (409, True)
    (tmp_path / "elsewhere").rename(place)
    assert analyst.get(page).status_code == 200
