"""The analyst's pages, as a browser sends and sees them: a study from nothing to published, and every refusal."""

from __future__ import annotations

import csv
import html
import io
import json
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from databases import KINDS, database_url
from serving import INVITATION, STUDY, Served, answer, answer_all, asked, close, draft, served
from starlette.testclient import TestClient
from studies import OBSERVED, UNIT_BALL, people, planned

from truthful.payments import payment_range
from truthful.plan import Plan
from truthful.release import Release
from truthful.service.bill import most_paid
from truthful.store import answers, roster, surveys
from truthful.store.log import events
from truthful.store.tables import Role, State, Survey
from truthful.study import Study

QUESTION = {
    "name": "Spending",
    "currency": "USD",
    "response": "spend",
    "low": "0",
    "high": "200",
    "question": "How much?",
}
INVITED = {"asked_by": "An institute", "purpose": "To learn.", "contact": "mail@example.org"}
PEOPLE = {
    "f0_name": "price",
    "f0_kind": "number",
    "f0_low": "1",
    "f0_high": "5",
    "f1_name": "region",
    "f1_kind": "levels",
    "f1_levels": "north\r\nsouth\r\n\r\neast ",
    "design": "uniform",
}
BELIEFS = {"signal": "0.6", "noise": "normal"}
COSTS = {"costs": "pareto", "tail": "2", "scale": "0.05", "privacy": "quadratic"}
STEPS = {"question": QUESTION, "invitation": INVITED, "people": PEOPLE, "beliefs": BELIEFS, "costs": COSTS}
NASTY = "<script>alert(1)</script>\"'&{{7*7}}{name}%s%d\\n"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("service") / "service") as running:
        yield running


@pytest.fixture(scope="module")
def analyst(here: Served) -> TestClient:
    return here.signed_in(Role.ANALYST)


def survey(here: Served, survey_id: str) -> Survey:
    with here.service.database.reading() as session:
        return surveys.find(session, survey_id)


def new(analyst: TestClient) -> str:
    """A new draft."""
    answer = analyst.post("/studies")
    assert answer.status_code == 303
    return str(answer.headers["location"].split("/")[2])


def declared(analyst: TestClient, **changes: dict[str, str]) -> str:
    """A draft that has been through the whole wizard."""
    survey_id = new(analyst)
    for step, fields in STEPS.items():
        answer = analyst.post(f"/studies/{survey_id}/edit/{step}", data={**fields, **changes.get(step, {})})
        assert answer.status_code == 303, answer.text
    return survey_id


def shown(analyst: TestClient, path: str, status: int = 200) -> str:
    """A page as it is, with its text unescaped."""
    answer = analyst.get(path)
    assert answer.status_code == status, answer.text
    return html.unescape(answer.text)


def send_roster(analyst: TestClient, survey_id: str, text: str | bytes) -> Any:
    content = text if isinstance(text, bytes) else text.encode()
    return analyst.post(f"/studies/{survey_id}/roster", files={"file": ("people.csv", content, "text/csv")})


def counts(here: Served, survey_id: str) -> dict[str, int]:
    with here.service.database.reading() as session:
        return surveys.counts(session, survey_id)


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def wait_until_settled(here: Served, survey_id: str) -> None:
    for _ in range(600):
        if here.state(survey_id) != State.CLOSED:
            return
        time.sleep(0.1)
    raise AssertionError(survey(here, survey_id).problem)


# A whole life


@pytest.mark.parametrize("kind", KINDS)
def test_a_study_from_nothing_to_published_results(kind: str, tmp_path: Path) -> None:
    with database_url(kind, tmp_path) as url, served(tmp_path / "service", url) as running:
        live(running, running.signed_in(Role.ANALYST))


def live(here: Served, analyst: TestClient) -> None:
    """All that an analyst does."""
    survey_id = declared(analyst)
    assert "Spending" in shown(analyst, "/studies")
    text = analyst.get(f"/studies/{survey_id}/study.toml").text
    study = Study.parse(text)
    assert study.features[1].levels == ("north", "south", "east")
    assert "Plan" in shown(analyst, f"/studies/{survey_id}")

    wishes = {"players": "4,000", "budget": "2000"}
    page = shown(analyst, f"/studies/{survey_id}/plan?players=4%2C000&budget=2000")
    assert "This is possible" in page
    assert "The five guarantees" in page
    assert (
        analyst.post(f"/studies/{survey_id}/plan", data=wishes).headers["location"] == f"/studies/{survey_id}"
    )
    plan = Plan.parse(analyst.get(f"/studies/{survey_id}/plan.json").text)
    assert plan.players == 4_000
    assert (plan.guarantees.budget.cap or 0) <= 2_000

    page = shown(analyst, f"/studies/{survey_id}/freeze")
    assert study.sha256 in page
    assert plan.sha256 in page
    assert analyst.post(f"/studies/{survey_id}/freeze", data={"for": "people"}).status_code == 303
    for reader, path in ((here.client, f"/s/{survey_id}"), (analyst, f"/studies/{survey_id}")):
        assert study.sha256 in shown(reader, path)
        assert plan.sha256 in shown(reader, path)

    template = analyst.get(f"/studies/{survey_id}/roster.csv")
    assert template.text == "player,price,region\n"
    invented = people(study, 60).reports.to_pylist()
    lines = [f"{person['player']},{person['price']},{person['region']}" for person in invented]
    assert send_roster(analyst, survey_id, template.text + "\n".join(lines)).status_code == 303
    assert counts(here, survey_id)["roster"] == 60

    links = analyst.post(f"/studies/{survey_id}/links", data={"which": "new"})
    assert "attachment" in links.headers["content-disposition"]
    assert rows(links.text)[0] == ["player", "link"]
    spoken = {person["player"]: float(person["spend"]) for person in invented}
    with here.service.database.writing() as session:
        for player, link in rows(links.text)[1:]:
            token = link.removeprefix("http://testserver/a/")
            answers.submit(session, token, spoken[player], answers.consent(session, token))
    assert "60 or more" in analyst.get(f"/studies/{survey_id}").text

    assert analyst.post(f"/studies/{survey_id}/close", data={"name": "Spending"}).status_code == 303
    wait_until_settled(here, survey_id)
    page = shown(analyst, f"/studies/{survey_id}")
    assert "region=north" in page
    assert here.client.get(f"/s/{survey_id}/release.json").status_code == 404
    assert analyst.post(f"/studies/{survey_id}/publish").status_code == 303
    assert here.state(survey_id) == State.PUBLISHED
    release = Release.model_validate_json(here.client.get(f"/s/{survey_id}/release.json").content)
    assert release.study.sha256 == study.sha256
    assert release.plan_sha256 == plan.sha256
    assert "published" in shown(analyst, f"/studies/{survey_id}").lower()
    with here.service.database.reading() as session:
        done = {event.what for event in events(session, survey_id)}
    assert {"created", "changed the study", "planned", "froze", "brought a roster", "made links"} <= done


# The wizard


def test_what_is_typed_is_kept_although_it_is_wrong(here: Served, analyst: TestClient) -> None:
    survey_id = new(analyst)
    answer = analyst.post(f"/studies/{survey_id}/edit/question", data={**QUESTION, "low": "much", "name": ""})
    assert answer.status_code == 400
    assert 'value="much"' in answer.text
    assert "Please give a number." in answer.text
    assert "Please fill this in." in answer.text
    assert "it must be a number" not in answer.text
    assert 'value="much"' in analyst.get(f"/studies/{survey_id}/edit/question").text
    assert survey(here, survey_id).declaration is None


def test_the_study_s_own_complaint_stands_at_its_step(analyst: TestClient) -> None:
    survey_id = new(analyst)
    answer = analyst.post(f"/studies/{survey_id}/edit/question", data={**QUESTION, "low": "300"})
    assert answer.status_code == 400
    assert "response.low is 300, not below high" in answer.text


def test_features_are_added_and_removed_without_a_script(here: Served, analyst: TestClient) -> None:
    survey_id, data = new(analyst), {"design": "observed"}
    place = f"/studies/{survey_id}/edit/people"
    assert analyst.post(place, data={**data, "do": "add"}).headers["location"].endswith("#f0_name")
    typed = {"f0_name": "age", "f0_kind": "number", "f0_low": "1", "f0_high": "2"}
    analyst.post(place, data={**data, **typed, "do": "add"})
    page = analyst.get(place).text
    assert 'name="f1_name"' in page
    assert 'value="age"' in page
    more = {"f1_name": "region", "f1_kind": "levels", "f1_levels": "a\nb"}
    analyst.post(place, data={**data, **typed, **more, "do": "remove-0"})
    kept = survey(here, survey_id).draft["fields"]["features"]
    assert [(row["name"], row["levels"]) for row in kept] == [("region", "a\nb")]


def test_numbers_are_read_in_the_reader_s_language(here: Served) -> None:
    german = here.signed_in(Role.ANALYST, "die Analystin")
    german.cookies.set("language", "de")
    survey_id = new(german)
    answer = german.post(
        f"/studies/{survey_id}/edit/question", data={**QUESTION, "low": "0,5", "high": "1.000"}
    )
    assert answer.status_code == 303
    fields = survey(here, survey_id).draft["fields"]
    assert (fields["low"], fields["high"]) == ("0.5", "1000")
    assert 'value="0,5"' in german.get(f"/studies/{survey_id}/edit/question").text
    german.cookies.set("language", "en")
    assert 'value="0.5"' in german.get(f"/studies/{survey_id}/edit/question").text


def test_changing_the_study_drops_its_plan_and_saying_the_same_does_not(
    here: Served, analyst: TestClient
) -> None:
    survey_id = draft(here.service)
    assert "dropped" in shown(analyst, f"/studies/{survey_id}/edit/beliefs")
    same = analyst.post(f"/studies/{survey_id}/edit/beliefs", data={"signal": "0.60", "noise": "normal"})
    assert same.status_code == 303
    assert survey(here, survey_id).plan is not None
    analyst.post(f"/studies/{survey_id}/edit/beliefs", data={"signal": "0.5", "noise": "normal"})
    assert survey(here, survey_id).plan is None
    assert survey(here, survey_id).declaration is not None


def test_a_draft_is_thrown_away_and_a_frozen_study_is_not(here: Served, analyst: TestClient) -> None:
    gone, kept = declared(analyst), asked(here.service).survey_id
    assert f"/studies/{gone}/remove" in analyst.get(f"/studies/{gone}").text
    assert analyst.post(f"/studies/{gone}/remove").headers["location"] == "/studies"
    assert analyst.get(f"/studies/{gone}").status_code == 404
    assert "removed a draft" in analyst.get("/log").text
    assert f'href="/studies/{gone}"' not in analyst.get("/log").text
    assert analyst.post(f"/studies/{kept}/remove").status_code == 409
    assert here.state(kept) == State.OPEN


@pytest.mark.parametrize("step", STEPS)
def test_every_step_is_a_page(analyst: TestClient, step: str) -> None:
    survey_id = declared(analyst)
    assert "Save and go on" in shown(analyst, f"/studies/{survey_id}/edit/{step}")


def test_a_step_that_does_not_exist_is_nothing(analyst: TestClient) -> None:
    survey_id = new(analyst)
    assert analyst.get(f"/studies/{survey_id}/edit/other").status_code == 404
    assert analyst.post(f"/studies/{survey_id}/edit/other", data={}).status_code == 404


@pytest.mark.parametrize("kind", KINDS)
def test_text_of_all_kinds_is_shown_as_text_and_declared_as_typed(kind: str, tmp_path: Path) -> None:
    with database_url(kind, tmp_path) as url, served(tmp_path / "service", url) as running:
        show_nasty(running, running.signed_in(Role.ANALYST))


def show_nasty(here: Served, analyst: TestClient) -> None:
    """Type it everywhere, and look at every page."""
    features = {"f0_name": f"a{NASTY}", "f1_name": f"b{NASTY}", "f1_levels": f"x{NASTY}\ny"}
    question = {"name": NASTY, "response": NASTY, "question": f"{NASTY}\r\nAnd more?"}
    survey_id = declared(
        analyst, question=question, invitation=dict.fromkeys(INVITED, NASTY), people=features
    )
    study = Study.parse(survey(here, survey_id).declaration or "")
    assert study.name == NASTY
    assert study.response.question == f"{NASTY}\nAnd more?"
    assert study.features[1].levels == (f"x{NASTY}", "y")
    with here.service.database.writing() as session:
        surveys.drafted(session, survey_id).plan = json.dumps(planned(study, 40).record())
    paths = ["", "/file", "/plan", "/rehearse", "/freeze", *(f"/edit/{step}" for step in STEPS)]
    analyst.post(f"/studies/{survey_id}/edit/question", data={**QUESTION, **question, "low": NASTY})
    pages = [analyst.get("/studies").text]
    pages.append(
        analyst.post(f"/studies/{survey_id}/edit/question", data={**QUESTION, **question, "low": NASTY}).text
    )
    analyst.post(f"/studies/{survey_id}/edit/question", data={**QUESTION, **question})
    with here.service.database.writing() as session:
        surveys.drafted(session, survey_id).plan = json.dumps(planned(study, 40).record())
    pages += [analyst.get(f"/studies/{survey_id}{path}").text for path in paths]
    typed = dict.fromkeys(("exaggerator", "seed", "players", "budget", "text", "name", "which"), NASTY)
    pages += [
        analyst.post(f"/studies/{survey_id}/{path}", data=typed).text for path in ("rehearse", "plan", "file")
    ]
    pages.append(analyst.get(f"/studies/{survey_id}/plan", params=typed).text)
    assert analyst.post(f"/studies/{survey_id}/freeze", data={"for": "rehearsal"}).status_code == 303
    pages.append(analyst.post(f"/studies/{survey_id}/close", data=typed).text)
    pages += [analyst.get(f"/studies/{survey_id}").text, here.client.get(f"/s/{survey_id}").text]
    pages.append(send_roster(analyst, survey_id, f"player\n{NASTY}").text)
    for page in pages:
        assert "<script>alert" not in page
        assert "'&49" not in html.unescape(page)
    assert all("{{7*7}}" in html.unescape(page) for page in pages[:3])


# Files


def upload(analyst: TestClient, text: str | bytes, path: str = "/studies/upload") -> Any:
    content = text if isinstance(text, bytes) else text.encode()
    return analyst.post(path, files={"file": ("study.toml", content, "application/toml")})


def test_an_uploaded_study_is_kept_as_it_is(here: Served, analyst: TestClient) -> None:
    answer = upload(analyst, STUDY)
    survey_id = answer.headers["location"].rpartition("/")[2]
    assert survey(here, survey_id).declaration == STUDY
    assert survey(here, survey_id).name == "Designed"
    assert 'value="Designed"' in analyst.get(f"/studies/{survey_id}/edit/question").text


def test_an_uploaded_study_that_forms_cannot_hold_is_changed_as_text(
    here: Served, analyst: TestClient
) -> None:
    text = UNIT_BALL.replace("[response]", f"{INVITATION}[response]", 1)
    survey_id = upload(analyst, text).headers["location"].rpartition("/")[2]
    assert analyst.get(f"/studies/{survey_id}/edit").headers["location"] == f"/studies/{survey_id}/file"
    assert analyst.get(f"/studies/{survey_id}/edit/costs").headers["location"] == f"/studies/{survey_id}/file"
    changed = text.replace("high = 2", "high = 3")
    assert analyst.post(f"/studies/{survey_id}/file", data={"text": changed}).status_code == 303
    assert survey(here, survey_id).declaration == changed
    wrong = analyst.post(f"/studies/{survey_id}/file", data={"text": "name = 1"})
    assert wrong.status_code == 400
    assert "name = 1" in wrong.text
    assert survey(here, survey_id).declaration == changed


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("name = ", "not valid TOML"),
        (STUDY.replace("signal = 0.6", "signal = 6"), "must be below 1"),
        (b"\xff\xfe", "not UTF-8"),
        (STUDY.replace("Designed", "De\\u0000signed"), "NUL character"),
        (STUDY.replace('"east"', ", ".join(f'"{i}"' for i in range(200))), "203 coefficients; a study here"),
        ("#" * 200_001, "more than 200,000 characters"),
        ("x = " + "[" * 30_000, "more than 50 deep"),
        ("x = " + "9" * 100_000, "number of 100,000 characters"),
        (
            STUDY.replace(
                'kind = "pareto"\ntail = 2.0\nscale = 0.05', 'kind = "empirical"\nfile = "/etc/passwd"'
            ),
            "file is",
        ),
    ],
)
def test_a_study_file_that_is_wrong_is_refused_with_its_complaints(
    analyst: TestClient, content: str | bytes, words: str
) -> None:
    answer = upload(analyst, content)
    assert answer.status_code == 400
    assert words in html.unescape(answer.text)


def test_an_upload_without_a_file_says_so(analyst: TestClient) -> None:
    assert "No file was chosen" in analyst.post("/studies/upload", data={}).text


# Plans


def test_an_impossible_plan_says_why_and_what_would_help(analyst: TestClient) -> None:
    survey_id = declared(analyst)
    page = shown(analyst, f"/studies/{survey_id}/plan?players=200&budget=500")
    assert "That is not possible" in page
    tried = [part.partition('"')[0] for part in page.split('class="button second" href="')[1:]]
    assert len(tried) >= 2
    assert "This is possible" in shown(analyst, tried[0])
    answer = analyst.post(f"/studies/{survey_id}/plan", data={"players": "200", "budget": "500"})
    assert answer.status_code == 200
    assert "That is not possible" in answer.text


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("players=100", "Fill in two of the four"),
        ("players=many&budget=5", "Please give a number."),
        ("players=2.5&budget=5", "Please give a number."),
        ("players=1&budget=5", "players is 1"),
        ("players=100&budget=1e300", "Please give a number."),
        ("players=100&epsilon=1e9", "epsilon is 1e+09"),
        ("", "Fill in two of the four"),
    ],
)
def test_wishes_that_make_no_plan_are_told(analyst: TestClient, query: str, words: str) -> None:
    survey_id = declared(analyst)
    assert words in shown(analyst, f"/studies/{survey_id}/plan?{query}")


def test_a_kept_plan_is_shown_again_with_what_was_asked(analyst: TestClient) -> None:
    survey_id = declared(analyst)
    analyst.post(f"/studies/{survey_id}/plan", data={"players": "4000", "epsilon": "1", "lie": "0.3"})
    page = shown(analyst, f"/studies/{survey_id}/plan")
    assert 'value="4000"' in page
    assert "This is possible" in page
    chart = analyst.get(f"/studies/{survey_id}/frontier.svg")
    assert chart.headers["content-type"] == "image/svg+xml"
    assert chart.headers["content-security-policy"].startswith(
        "default-src 'none'; style-src 'unsafe-inline'"
    )
    assert "script" not in chart.headers["content-security-policy"]


def test_a_plan_needs_a_whole_study(analyst: TestClient) -> None:
    survey_id = new(analyst)
    assert analyst.get(f"/studies/{survey_id}/plan").status_code == 409
    assert analyst.get(f"/studies/{survey_id}/rehearse").status_code == 409
    assert analyst.get(f"/studies/{survey_id}/freeze").status_code == 409
    assert analyst.get(f"/studies/{survey_id}/frontier.svg").status_code == 404


# Rehearsals


@pytest.mark.parametrize("text", [STUDY, OBSERVED])
def test_a_rehearsal_shows_observed_next_to_guaranteed(here: Served, analyst: TestClient, text: str) -> None:
    survey_id = draft(here.service, text, 300)
    page = shown(analyst, f"/studies/{survey_id}/rehearse")
    assert ("spread evenly" in page) == (text is OBSERVED)
    answer = analyst.post(f"/studies/{survey_id}/rehearse", data={"exaggerator": "10", "opt-out": "5.5"})
    assert answer.status_code == 303
    report = analyst.get(answer.headers["location"])
    assert "SIMULATION" in report.text
    assert "exaggerator=0.1" in report.text
    assert "opt-out=0.055" in report.text
    assert "default-src 'none'; style-src 'unsafe-inline'" in report.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"exaggerator": "60", "coordinated": "60"}, "more than 100"),
        ({"exaggerator": "-1"}, "from 0 to 100"),
        ({"exaggerator": "many"}, "from 0 to 100"),
        ({"seed": "x"}, "whole number"),
        ({"seed": "9" * 30}, "whole number"),
    ],
)
def test_a_mix_that_makes_no_sense_is_told(
    here: Served, analyst: TestClient, data: dict[str, str], words: str
) -> None:
    survey_id = draft(here.service)
    answer = analyst.post(f"/studies/{survey_id}/rehearse", data=data)
    assert answer.status_code == 400
    assert words in answer.text


def test_a_plan_too_large_to_be_simulated_says_how_else(here: Served, analyst: TestClient) -> None:
    survey_id = draft(here.service, STUDY, 10_000_000)
    assert "truthful simulate plan.json" in shown(analyst, f"/studies/{survey_id}/rehearse")
    assert "truthful simulate plan.json" in analyst.post(f"/studies/{survey_id}/rehearse", data={}).text
    large = draft(here.service, STUDY, 1_000_000)
    answer = analyst.post(f"/studies/{large}/rehearse", data={"best-responder": "100"})
    assert answer.status_code == 400
    assert "Choose fewer who calculate" in answer.text


# Freezing


def test_freezing_needs_a_choice_and_an_invitation(here: Served, analyst: TestClient) -> None:
    survey_id = draft(here.service)
    assert analyst.post(f"/studies/{survey_id}/freeze", data={}).status_code == 409
    bare = draft(here.service, STUDY.replace(INVITATION, ""))
    assert "who asks" in shown(analyst, f"/studies/{bare}")
    assert "who asks" in analyst.post(f"/studies/{bare}/freeze", data={"for": "people"}).text
    assert here.state(bare) == here.state(survey_id) == State.DRAFT


def test_a_frozen_study_cannot_be_changed_planned_or_frozen_again(here: Served, analyst: TestClient) -> None:
    study = asked(here.service)
    place = f"/studies/{study.survey_id}"
    for path, data in (
        ("/edit/question", QUESTION),
        ("/file", {"text": STUDY.replace("Designed", "Other")}),
        ("/plan", {"players": "100", "epsilon": "1"}),
        ("/freeze", {"for": "people"}),
    ):
        assert analyst.post(place + path, data=data).status_code == 409, path
    assert analyst.get(f"{place}/edit/question").status_code == 409
    assert survey(here, study.survey_id).declaration == STUDY


def test_a_rehearsal_says_so_on_its_pages(here: Served, analyst: TestClient) -> None:
    survey_id = draft(here.service)
    analyst.post(f"/studies/{survey_id}/freeze", data={"for": "rehearsal"})
    assert survey(here, survey_id).rehearsal
    assert "This is a rehearsal" in shown(analyst, f"/studies/{survey_id}")
    assert "REHEARSAL" in shown(here.client, f"/s/{survey_id}")


# Rosters


@pytest.fixture
def opened(here: Served) -> str:
    """An open study for up to ten people, of whom nobody is known yet."""
    from truthful.service.freezing import freeze

    survey_id = draft(here.service, STUDY, 10)
    freeze(here.service.database, here.service.places, survey_id, "ada", rehearsal=False)
    return survey_id


HEAD = "player,price,region\n"


def test_ids_are_kept_as_they_are_written(here: Served, analyst: TestClient, opened: str) -> None:
    text = HEAD + '007,1,north\n7,2,south\n"a, ""b""",3,east\nÄda 1,4.5,north\n'
    assert send_roster(analyst, opened, b"\xef\xbb\xbf" + text.encode()).status_code == 303
    links = rows(analyst.post(f"/studies/{opened}/links").text)[1:]
    assert [player for player, _ in links] == sorted(["007", "7", 'a, "b"', "Äda 1"])
    with here.service.database.reading() as session:
        token = {row[0]: row[1] for row in links}["007"].rpartition("/")[2]
        assert roster.player_of(session, token).features == {"price": 1.0, "region": "north"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + "a,9,north\n", "outside its declared range [1, 5]"),
        (HEAD + "a,1,west\n", "not one of its levels north, south, east"),
        (HEAD + "a,one,north\n", "not a number"),
        (HEAD + "a,,north\n", "is missing"),
        (HEAD + "a,nan,north\n", "is missing"),
        (HEAD + "a,inf,north\n", "not a finite number"),
        (HEAD + ",1,north\n", "player id is missing"),
        (HEAD + " ,1,north\n", "player id is missing"),
        (HEAD + "a,1,north\na,2,north\n", "'a' appears again; the first record is in row 2"),
        (HEAD + "a\0b,1,north\n", "cannot be seen"),
        (HEAD + '"a\nb",1,north\n', "cannot be seen"),
        (HEAD + "=1+1,1,north\n", "takes for a formula"),
        (HEAD + "+49,1,north\n", "takes for a formula"),
        (HEAD + "-a,1,north\n", "takes for a formula"),
        (HEAD + "@a,1,north\n", "takes for a formula"),
        (HEAD + "x" * 201 + ",1,north\n", "has 201 characters"),
        (HEAD + "".join(f"{player},1,north\n" for player in range(10)), "the plan is for 10"),
        (HEAD + "a,1\n", "has 2 fields"),
        (HEAD + 'a,1,"north\n', "quote"),
        (HEAD, "no reports"),
        ("", "empty"),
        ("player,price\na,1\n", "no column 'region'"),
        ("player;price;region\na;1;north\n", "save the file with commas"),
        ("player,price,region,spend\na,1,north,5\n", "columns that the study does not have: 'spend'"),
        (HEAD.encode() + b"\xff\xfe,1,north\n", "not UTF-8"),
    ],
)
def test_a_bad_roster_is_refused_whole(
    here: Served, analyst: TestClient, opened: str, text: str | bytes, words: str
) -> None:
    good = HEAD + "good,1,north\n"
    whole = text.replace(HEAD, good) if isinstance(text, str) and text != HEAD else text
    answer = send_roster(analyst, opened, whole)
    assert answer.status_code == 400
    told = html.unescape(answer.text)
    assert words in told
    assert "on_bad" not in told
    assert counts(here, opened)["roster"] == 0


def test_only_the_first_faults_of_many_are_listed(analyst: TestClient, opened: str) -> None:
    answer = send_roster(analyst, opened, HEAD + "".join(f"p{i},9,north\n" for i in range(100)))
    assert "100 rows are not right" in answer.text
    assert answer.text.count("<li>Row ") == 20


def test_somebody_who_is_known_is_not_changed_unless_her_features_were_wrong(
    here: Served, analyst: TestClient
) -> None:
    study = asked(here.service, players=4)
    player, link = next(iter(study.links.items()))
    row = HEAD + f"{player},2,east\n"
    refused = send_roster(analyst, study.survey_id, row)
    assert refused.status_code == 400
    assert "on the roster already" in refused.text
    with here.service.database.writing() as session:
        answers.dispute(session, link, True)
    page = shown(analyst, f"/studies/{study.survey_id}")
    assert "One person says that her facts are wrong" in page
    assert player not in page
    assert analyst.get(f"/studies/{study.survey_id}/disputes.csv").text == f"player\n{player}\n"
    assert send_roster(analyst, study.survey_id, row).status_code == 303
    assert analyst.get(f"/studies/{study.survey_id}/disputes.csv").text == "player\n"
    with here.service.database.reading() as session:
        assert roster.player_of(session, link).features == {"price": 2.0, "region": "east"}


def test_links_are_made_once_and_replaced_only_when_asked_for(
    here: Served, analyst: TestClient, opened: str
) -> None:
    send_roster(analyst, opened, HEAD + "a,1,north\nb,1,north\n")
    first = dict(rows(analyst.post(f"/studies/{opened}/links").text)[1:])
    assert set(first) == {"a", "b"}
    assert analyst.post(f"/studies/{opened}/links").status_code == 409
    send_roster(analyst, opened, HEAD + "c,1,north\n")
    assert set(dict(rows(analyst.post(f"/studies/{opened}/links").text)[1:])) == {"c"}
    again = dict(rows(analyst.post(f"/studies/{opened}/links", data={"which": "all"}).text)[1:])
    assert set(again) == {"a", "b", "c"}
    assert again["a"] != first["a"]
    assert first["a"] not in analyst.get(f"/studies/{opened}").text


def test_a_roster_without_a_file_says_so(analyst: TestClient, opened: str) -> None:
    assert "No file was chosen" in analyst.post(f"/studies/{opened}/roster", data={}).text


def test_a_roster_comes_only_to_an_open_study(here: Served, analyst: TestClient) -> None:
    survey_id = draft(here.service)
    assert send_roster(analyst, survey_id, HEAD + "a,1,north\n").status_code == 409
    assert analyst.post(f"/studies/{survey_id}/links").status_code == 409


# Closing, settling, publishing


def test_where_the_bill_is_limited_the_limit_is_on_what_is_paid(here: Served, analyst: TestClient) -> None:
    """Coins are tossed up or down: the plan's cap, which is on exact amounts, can be exceeded by them."""
    survey_id = draft(here.service)
    with here.service.database.reading() as session:
        plan = Plan.parse(surveys.find(session, survey_id).plan or "")
    each, most = payment_range(plan.mechanism, plan.study.beliefs)[1], most_paid(plan, plan.players)
    assert (plan.guarantees.budget.cap or 0.0) < most < plan.players * (Decimal(each) + Decimal("0.01"))
    for path in ("freeze", "plan"):
        assert f"${most:,}" in analyst.get(f"/studies/{survey_id}/{path}").text
    assert analyst.post(f"/studies/{survey_id}/freeze", data={"for": "people"}).status_code == 303
    assert f"at most ${most:,}" in here.client.get(f"/s/{survey_id}").text


def test_while_a_study_is_open_one_more_answer_changes_no_page(here: Served, analyst: TestClient) -> None:
    """Or whoever invites one person after the other would see of each whether she has answered."""
    study = asked(here.service, players=20)
    place, pages = f"/studies/{study.survey_id}", []
    for player in study.links:
        answer(here.service, study, [player])
        pages.append((analyst.get(place).text, analyst.get(f"{place}/close").text))
    assert len(set(pages[:9])) == len(set(pages[9:19])) == 1
    assert len(set(pages)) == 3
    assert "fewer than 10" in pages[0][0]
    assert "10 or more" in pages[9][0]


def test_freezing_warns_of_a_study_that_may_ask_the_same_people(here: Served, analyst: TestClient) -> None:
    """One of the same name, or that declares the same; not a rehearsal, which asks nobody, nor another draft."""
    mine = STUDY.replace("Designed", "Asked twice?").replace("signal = 0.6", "signal = 0.55")
    other = mine.replace("signal = 0.55", "signal = 0.45")
    survey_id = draft(here.service, mine)
    draft(here.service, mine)
    asked(here.service, mine, rehearsal=True)
    asked(here.service, other.replace("Asked twice?", "Unlike it"))
    warning = "was frozen here before"
    assert warning not in shown(analyst, f"/studies/{survey_id}/freeze")
    named = asked(here.service, other)
    assert f"/studies/{named.survey_id}" in shown(analyst, f"/studies/{survey_id}/freeze")
    same = asked(here.service, mine.replace("Asked twice?", "Once more"))
    page = shown(analyst, f"/studies/{survey_id}/freeze")
    assert warning in page
    assert "Once more" in page
    assert same.survey_id in page
    assert "Unlike it" not in page


def test_a_study_for_very_few_is_not_frozen(here: Served, analyst: TestClient) -> None:
    survey_id = draft(here.service, players=9)
    refused = analyst.post(f"/studies/{survey_id}/freeze", data={"for": "people"})
    assert refused.status_code == 409
    assert "fewer than 10 people" in refused.text
    assert here.state(survey_id) == State.DRAFT


def test_closing_takes_the_study_s_name_and_ten_answers(here: Served, analyst: TestClient) -> None:
    study = asked(here.service, players=10)
    place = f"/studies/{study.survey_id}/close"
    *most, last = study.links
    for players in ([], most):
        answer(here.service, study, players)
        assert "Fewer than 10 people have answered" in shown(analyst, place)
        refused = analyst.post(place, data={"name": "Designed"})
        assert refused.status_code == 409
        assert "Fewer than 10 people have answered" in refused.text
        assert here.state(study.survey_id) == State.OPEN
    answer(here.service, study, [last])
    wrong = analyst.post(place, data={"name": "designed?"})
    assert wrong.status_code == 400
    assert "not the study's name" in html.unescape(wrong.text)
    assert here.state(study.survey_id) == State.OPEN
    assert analyst.post(place, data={"name": " Designed "}).status_code == 303
    assert analyst.post(place, data={"name": "Designed"}).status_code == 409
    wait_until_settled(here, study.survey_id)


def test_a_study_that_waits_to_be_settled_shows_itself_again(tmp_path: Path) -> None:
    with served(tmp_path / "service") as here:
        here.service.settler.stop()
        analyst, study = here.signed_in(Role.ANALYST), asked(here.service)
        answer_all(here.service, study)
        close(here.service, study.survey_id)
        place = f"/studies/{study.survey_id}"
        waiting = analyst.get(place)
        assert "Waiting for its turn." in waiting.text
        assert waiting.headers["refresh"] == "4"
        assert analyst.post(f"{place}/publish").status_code == 409
        assert analyst.get(f"{place}/release.json").status_code == 404
        with here.service.database.writing() as session:
            surveys.note_problem(session, study.survey_id, "The disk is <full>.")
        assert "The disk is &lt;full&gt;." in analyst.get(place).text


def test_settling_that_stopped_is_told_and_can_be_tried_again(
    here: Served, analyst: TestClient, tmp_path: Path
) -> None:
    study = asked(here.service)
    answer_all(here.service, study)
    directory, place = here.service.places.study(study.survey_id), f"/studies/{study.survey_id}"
    directory.rename(tmp_path / "elsewhere")
    assert analyst.post(f"{place}/close", data={"name": "Designed"}).status_code == 303
    for _ in range(600):
        if survey(here, study.survey_id).problem is not None:
            break
        time.sleep(0.1)
    page = shown(analyst, place)
    assert "are not in" in page
    assert "Try again" in page
    (tmp_path / "elsewhere").rename(directory)
    assert analyst.post(f"{place}/settle").status_code == 303
    wait_until_settled(here, study.survey_id)
    assert survey(here, study.survey_id).problem is None
    with here.service.database.reading() as session:
        assert "asked to settle again" in {event.what for event in events(session, study.survey_id)}


def test_the_analyst_sees_neither_answers_nor_amounts_nor_who_answered(
    here: Served, analyst: TestClient
) -> None:
    study = asked(here.service)
    answer_all(here.service, study)
    place = f"/studies/{study.survey_id}"
    pages = [analyst.get(place).text, analyst.get(f"{place}/close").text]
    close(here.service, study.survey_id)
    here.service.settler.ask(study.survey_id)
    wait_until_settled(here, study.survey_id)
    pages += [analyst.get(place + path).text for path in ("", "/report", "/release.json")]
    for page in pages:
        assert not any(player in page for player in study.links)
        assert not any(repr(value) in page for value in study.answers.values())


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
    ("POST", "/studies/ID/remove"),
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
        (method, path.replace("ID", "{survey_id}").replace("/question", "/{step}")) for method, path in PATHS
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
    reader = here.signed_in(Role.ANALYST, f"reader of {language}")
    reader.cookies.set("language", language)
    planned_draft = draft(here.service)
    opened = asked(here.service, players=4)
    done = asked(here.service)
    answer_all(here.service, done)
    paths = [f"/studies/{planned_draft}{path}" for path in ("", "/file", "/plan", "/rehearse", "/freeze")]
    paths += [f"/studies/{planned_draft}/edit/{step}" for step in STEPS]
    paths += [
        f"/studies/{opened.survey_id}",
        f"/studies/{opened.survey_id}/close",
        f"/studies/{done.survey_id}",
    ]
    paths += ["/studies", f"/s/{opened.survey_id}", f"/s/{done.survey_id}"]
    for path in paths:
        assert f'<html lang="{language}">' in shown(reader, path), path
    close(here.service, done.survey_id)
    assert reader.get(f"/studies/{done.survey_id}").status_code == 200
    here.service.settler.ask(done.survey_id)
    wait_until_settled(here, done.survey_id)
    assert reader.get(f"/studies/{done.survey_id}").status_code == 200
    reader.post(f"/studies/{done.survey_id}/publish")
    assert reader.get(f"/studies/{done.survey_id}").status_code == 200
    assert reader.get(f"/s/{done.survey_id}").status_code == 200


def test_a_directory_that_is_gone_is_said_and_nothing_breaks(
    here: Served, analyst: TestClient, tmp_path: Path
) -> None:
    study = asked(here.service, players=4)
    place = here.service.places.study(study.survey_id)
    place.rename(tmp_path / "elsewhere")
    assert analyst.get(f"/studies/{study.survey_id}").status_code == 409
    (tmp_path / "elsewhere").rename(place)
    assert analyst.get(f"/studies/{study.survey_id}").status_code == 200
