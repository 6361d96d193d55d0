"""A draft, as the analyst's browser sends and sees it: declared, planned, rehearsed, and every refusal."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from support.analysts import (
    INVITED,
    QUESTION,
    STEPS,
    counts,
    declared,
    new,
    rows,
    send_roster,
    shown,
    stored,
)
from support.databases import KINDS, database_url
from support.serving import (
    ANSWERS,
    INVITATION,
    OBSERVED,
    PAYER,
    RECORDS,
    STUDY,
    Served,
    asked,
    draft,
    planned,
    served,
)
from support.studies import DESIGNED, UNIT_BALL, people

from truthful.plan import Plan
from truthful.store import roster, studies
from truthful.store.tables import Role, State
from truthful.study import Study

NASTY = "<script>alert(1)</script>\"'&{{7*7}}{name}%s%d\\n"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("service") / "service") as running:
        yield running


@pytest.fixture(scope="module")
def analyst(here: Served) -> TestClient:
    return here.signed_in(Role.ANALYST)


# The wizard


def test_what_is_typed_is_kept_although_it_is_wrong(here: Served, analyst: TestClient) -> None:
    study_id = new(analyst)
    wrong = {"low": "much", "name": "", "question": ""}
    answer = analyst.post(f"/studies/{study_id}/edit/question", data={**QUESTION, **wrong})
    assert answer.status_code == 400
    assert '<a href="#question">The question, in the words people will read</a>: Please fill' in answer.text
    assert 'value="much"' in answer.text
    assert "Please give a number." in answer.text
    assert "Please fill this in." in answer.text
    assert "it must be a number" not in answer.text
    assert '<a href="#low">Least</a>: Please give a number.' in answer.text
    assert 'value="much"' in analyst.get(f"/studies/{study_id}/edit/question").text
    assert stored(here, study_id).declaration is None


def test_the_study_s_own_complaint_stands_at_its_step(analyst: TestClient) -> None:
    study_id = new(analyst)
    answer = analyst.post(f"/studies/{study_id}/edit/question", data={**QUESTION, "low": "300"})
    assert answer.status_code == 400
    assert '<a href="#low">response.low is 300, not below high' in answer.text
    assert ' low-problem" aria-invalid="true"' in answer.text


def test_a_payer_who_is_none_here_is_told_at_once(analyst: TestClient) -> None:
    place = f"/studies/{new(analyst)}/edit/invitation"
    assert f"Payers here: {PAYER}." in shown(analyst, place)
    answer = analyst.post(place, data={**STEPS["invitation"], "payer": "Nobody"})
    assert answer.status_code == 400
    assert '<a href="#payer">Who pays</a>: No payer here has this name.' in answer.text


def test_features_are_added_and_removed_without_a_script(here: Served, analyst: TestClient) -> None:
    study_id, data = new(analyst), {"design": "observed"}
    place = f"/studies/{study_id}/edit/people"
    assert analyst.post(place, data={**data, "do": "add"}).headers["location"].endswith("#f0_name")
    typed = {"f0_name": "age", "f0_kind": "number", "f0_low": "1", "f0_high": "2"}
    analyst.post(place, data={**data, **typed, "do": "add"})
    page = analyst.get(place).text
    assert 'name="f1_name"' in page
    assert 'value="age"' in page
    more = {"f1_name": "region", "f1_kind": "levels", "f1_levels": "a\nb"}
    analyst.post(place, data={**data, **typed, **more, "do": "remove-0"})
    kept = stored(here, study_id).draft["fields"]["features"]
    assert [(row["name"], row["levels"]) for row in kept] == [("region", "a\nb")]


def test_numbers_are_read_in_the_reader_s_language(here: Served) -> None:
    german = here.signed_in(Role.ANALYST, "die Analystin")
    german.cookies.set("language", "de")
    study_id = new(german)
    answer = german.post(
        f"/studies/{study_id}/edit/question", data={**QUESTION, "low": "0,5", "high": "1.000"}
    )
    assert answer.status_code == 303
    fields = stored(here, study_id).draft["fields"]
    assert (fields["low"], fields["high"]) == ("0.5", "1000")
    assert 'value="0,5"' in german.get(f"/studies/{study_id}/edit/question").text
    german.cookies.set("language", "en")
    assert 'value="0.5"' in german.get(f"/studies/{study_id}/edit/question").text


def test_changing_the_study_drops_its_plan_and_saying_the_same_does_not(
    here: Served, analyst: TestClient
) -> None:
    study_id = draft(here.service)
    assert "discarded" in shown(analyst, f"/studies/{study_id}/edit/beliefs")
    same = analyst.post(f"/studies/{study_id}/edit/beliefs", data={"signal": "0.60", "noise": "normal"})
    assert same.status_code == 303
    assert stored(here, study_id).plan is not None
    analyst.post(f"/studies/{study_id}/edit/beliefs", data={"signal": "0.5", "noise": "normal"})
    assert stored(here, study_id).plan is None
    assert stored(here, study_id).declaration is not None


def test_a_draft_is_thrown_away_and_a_frozen_study_is_not(here: Served, analyst: TestClient) -> None:
    gone, kept = declared(analyst), asked(here.service).study_id
    assert f"/studies/{gone}/remove" in analyst.get(f"/studies/{gone}").text
    assert analyst.post(f"/studies/{gone}/remove").headers["location"] == "/studies"
    assert analyst.get(f"/studies/{gone}").status_code == 404
    assert "removed a draft" in analyst.get("/log").text
    assert f'href="/studies/{gone}"' not in analyst.get("/log").text
    assert analyst.post(f"/studies/{kept}/remove").status_code == 409
    assert here.state(kept) == State.OPEN


@pytest.mark.parametrize("step", STEPS)
def test_every_step_is_a_page(analyst: TestClient, step: str) -> None:
    study_id = declared(analyst)
    assert "Save and continue" in shown(analyst, f"/studies/{study_id}/edit/{step}")


def test_a_step_that_does_not_exist_is_nothing(analyst: TestClient) -> None:
    study_id = new(analyst)
    assert analyst.get(f"/studies/{study_id}/edit/other").status_code == 404
    assert analyst.post(f"/studies/{study_id}/edit/other", data={}).status_code == 404


@pytest.mark.parametrize("kind", KINDS)
def test_text_of_all_kinds_is_shown_as_text_and_declared_as_typed(kind: str, tmp_path: Path) -> None:
    with database_url(kind, tmp_path) as url, served(tmp_path / "service", url) as running:
        show_nasty(running, running.signed_in(Role.ANALYST))


def show_nasty(here: Served, analyst: TestClient) -> None:
    """Type it everywhere, and look at every page."""
    features = {"f0_name": f"a{NASTY}", "f1_name": f"b{NASTY}", "f1_levels": f"x{NASTY}\ny"}
    question = {"name": NASTY, "response": NASTY, "question": f"{NASTY}\r\nAnd more?"}
    invited = {**dict.fromkeys(INVITED, NASTY), "payer": PAYER}
    study_id = declared(analyst, question=question, invitation=invited, people=features)
    study = Study.parse(stored(here, study_id).declaration or "")
    assert study.name == NASTY
    assert study.response.question == f"{NASTY}\nAnd more?"
    assert study.features[1].levels == (f"x{NASTY}", "y")
    with here.service.database.writing() as session:
        studies.lock_draft(session, study_id).plan = json.dumps(planned(study).record())
    paths = ["", "/file", "/plan", "/rehearse", "/freeze", *(f"/edit/{step}" for step in STEPS)]
    analyst.post(f"/studies/{study_id}/edit/question", data={**QUESTION, **question, "low": NASTY})
    pages = [analyst.get("/studies").text]
    pages.append(
        analyst.post(f"/studies/{study_id}/edit/question", data={**QUESTION, **question, "low": NASTY}).text
    )
    analyst.post(f"/studies/{study_id}/edit/question", data={**QUESTION, **question})
    with here.service.database.writing() as session:
        studies.lock_draft(session, study_id).plan = json.dumps(planned(study).record())
    pages += [analyst.get(f"/studies/{study_id}{path}").text for path in paths]
    typed = dict.fromkeys(("exaggerator", "seed", "players", "budget", "text", "name", "which"), NASTY)
    pages += [
        analyst.post(f"/studies/{study_id}/{path}", data=typed).text for path in ("rehearse", "plan", "file")
    ]
    pages.append(analyst.get(f"/studies/{study_id}/plan", params=typed).text)
    assert analyst.post(f"/studies/{study_id}/freeze", data={"for": "rehearsal"}).status_code == 303
    pages.append(analyst.post(f"/studies/{study_id}/close", data=typed).text)
    pages += [analyst.get(f"/studies/{study_id}").text, here.client.get(f"/s/{study_id}").text]
    pages.append(send_roster(analyst, study_id, f"player\n{NASTY}").text)
    for page in pages:
        assert "<script>alert" not in page
        assert "'&49" not in html.unescape(page)
    assert all("{{7*7}}" in html.unescape(page) for page in pages[:3])


# What is protected


def test_what_is_protected_is_asked_where_features_are_people_s_own(
    here: Served, analyst: TestClient
) -> None:
    study_id = new(analyst)
    place = f"/studies/{study_id}/edit/people"
    assert 'name="protects"' not in shown(analyst, place)
    assert analyst.post(place, data={"do": "next"}).status_code == 303
    observed = {**STEPS["people"], "design": "observed"}
    refused = analyst.post(place, data=observed)
    assert refused.status_code == 400
    page = html.unescape(refused.text)
    assert not re.search(r'name="protects" value="\w+" checked', page)
    assert "exact sums over everybody's facts are published" in page
    assert "Please choose. The facts are people's own" in page
    assert analyst.post(place, data={**observed, "protects": "records"}).status_code == 303
    assert stored(here, study_id).draft["fields"]["protects"] == "records"
    assert 'name="protects" value="records" checked' in shown(analyst, place)


def test_of_assigned_features_answers_are_protected_without_asking(here: Served, analyst: TestClient) -> None:
    study_id = declared(analyst)
    assert Study.parse(stored(here, study_id).declaration or "").protects == "answers"
    assert 'protects = "answers"' in (stored(here, study_id).declaration or "")
    place = f"/studies/{study_id}/edit/people"
    assert 'name="protects" value="answers" checked' in shown(analyst, place)
    own = {**STEPS["people"], "design": "observed", "protects": "answers"}
    assert analyst.post(place, data=own).status_code == 400
    assert analyst.post(place, data=own).status_code == 303


def test_a_delicate_feature_forbids_to_protect_answers_alone(here: Served, analyst: TestClient) -> None:
    study_id = declared(analyst)
    place = f"/studies/{study_id}/edit/people"
    refused = analyst.post(place, data={**STEPS["people"], "f0_sensitive": "yes", "protects": "answers"})
    assert refused.status_code == 400
    assert "Feature 'price' is sensitive" in html.unescape(refused.text)
    both = {**STEPS["people"], "f0_sensitive": "yes", "protects": "records"}
    assert analyst.post(place, data=both).status_code == 303
    assert Study.parse(stored(here, study_id).declaration or "").features[0].sensitive


def test_sums_may_be_kept_back_and_features_declared_no_secret(here: Served, analyst: TestClient) -> None:
    advanced = {"protects": "answers", "hide_matrix": "yes", "features_public": "yes"}
    study_id = declared(analyst, people=advanced)
    said = Study.parse(stored(here, study_id).declaration or "").declaration()["privacy"]
    assert said == {"protects": "answers", "publish_matrix": False, "features_public": True}


# People who are known already


def listed(players: int, text: str = ANSWERS) -> str:
    """A file of people."""
    found = people(Study.parse(text), players).reports.to_pylist()
    rows = [f"{person['player']},{person['price']},{person['region']}" for person in found]
    return "player,price,region\n" + "\n".join(rows)


def test_a_plan_for_people_s_own_features_is_made_from_the_people(here: Served, analyst: TestClient) -> None:
    study_id = upload(analyst, ANSWERS).headers["location"].rpartition("/")[2]
    place = f"/studies/{study_id}"
    assert "upload a file of everybody you will invite" in shown(analyst, place)
    assert "Upload a file of everybody you will invite" in shown(analyst, f"{place}/plan")
    assert 'name="then" value="plan"' in shown(analyst, f"{place}/plan")
    assert analyst.get(f"{place}/roster.csv").text == "player,price,region\n"
    assert send_roster(analyst, study_id, listed(400)).status_code == 303
    assert "400 people were uploaded" in shown(analyst, place)
    page = shown(analyst, f"{place}/plan?budget=2000")
    assert "made for the 400 people" in page
    assert 'name="players"' not in page
    assert "This is possible" in page
    wishes = {"budget": "2000", "response_share": "80"}
    assert analyst.post(f"{place}/plan", data=wishes).status_code == 303
    plan = Plan.parse(analyst.get(f"{place}/plan.json").text)
    assert (plan.players, plan.response_share, plan.roster is not None) == (400, 0.8, True)
    assert 'value="80"' in shown(analyst, f"{place}/plan")
    assert analyst.get(f"{place}/frontier.svg").headers["content-type"] == "image/svg+xml"
    assert "spread evenly" not in shown(analyst, f"{place}/rehearse")
    answer = analyst.post(f"{place}/rehearse", data={"exaggerator": "10"})
    assert "SIMULATION" in analyst.get(answer.headers["location"]).text
    assert analyst.post(f"{place}/freeze", data={"for": "people"}).status_code == 303
    assert counts(here, study_id)["roster"] == 400
    assert len(rows(analyst.post(f"{place}/links").text)) == 401


def test_other_people_or_other_features_drop_the_plan(here: Served, analyst: TestClient) -> None:
    study_id = upload(analyst, ANSWERS).headers["location"].rpartition("/")[2]
    place = f"/studies/{study_id}"
    for count in (400, 300):
        send_roster(analyst, study_id, listed(count))
        assert counts(here, study_id)["roster"] == count
        assert stored(here, study_id).plan is None
        analyst.post(f"{place}/plan", data={"budget": "3000"})
        assert stored(here, study_id).plan is not None
    same = ANSWERS.replace("signal = 0.6", "signal = 0.5")
    analyst.post(f"{place}/file", data={"text": same})
    assert (counts(here, study_id)["roster"], stored(here, study_id).plan) == (300, None)
    assert "people you uploaded are gone" not in shown(analyst, place)
    analyst.post(f"{place}/file", data={"text": same.replace("high = 5", "high = 6")})
    assert (counts(here, study_id)["roster"], stored(here, study_id).roster) == (0, None)
    assert "people you uploaded are gone" in shown(analyst, place)
    send_roster(analyst, study_id, listed(300))
    assert "people you uploaded are gone" not in shown(analyst, place)


def test_protected_features_are_not_planned_from(here: Served, analyst: TestClient) -> None:
    study_id = upload(analyst, RECORDS).headers["location"].rpartition("/")[2]
    send_roster(analyst, study_id, listed(400))
    page = shown(analyst, f"/studies/{study_id}")
    assert "The plan is not made from their facts" in page
    page = shown(analyst, f"/studies/{study_id}/plan")
    assert 'name="players"' in page
    assert 'name="response_share"' not in page


def test_more_people_than_the_plan_is_for_are_not_frozen(here: Served, analyst: TestClient) -> None:
    study_id = draft(here.service, RECORDS, 60)
    text = stored(here, study_id).plan
    send_roster(analyst, study_id, listed(61))
    with here.service.database.writing() as session:
        studies.lock_draft(session, study_id).plan = text
    refused = analyst.post(f"/studies/{study_id}/freeze", data={"for": "people"})
    assert refused.status_code == 409
    assert "61 people were brought, but the plan is for 60" in refused.text


def test_a_group_of_very_few_is_refused_at_once_unless_nothing_gives_them_away(
    here: Served, analyst: TestClient
) -> None:
    few = listed(400) + "\n" + "\n".join(f"q-{i},2,west" for i in range(9))
    four = ANSWERS.replace('"east"]', '"east", "west"]')
    for text, status in (
        (four, 400),
        (four.replace('"answers"', '"answers"\nfeatures_public = true'), 303),
        (four.replace('"answers"', '"answers"\npublish_matrix = false'), 303),
        (four.replace('"answers"', '"records"'), 303),
    ):
        study_id = upload(analyst, text).headers["location"].rpartition("/")[2]
        answer = send_roster(analyst, study_id, few)
        assert answer.status_code == status
        if status == 400:
            assert "region is 'west' for 9 of these people" in html.unescape(answer.text)
            assert f'href="/studies/{study_id}/edit/people"' in answer.text
            assert counts(here, study_id)["roster"] == 0


@pytest.mark.parametrize("share", ["0", "101", "many", "-5"])
def test_a_share_that_is_none_is_told(analyst: TestClient, share: str) -> None:
    study_id = declared(analyst)
    page = shown(analyst, f"/studies/{study_id}/plan?players=4000&budget=2000&response_share={share}")
    assert "Please give a number above 0 and at most 100." in page


# Files


def upload(analyst: TestClient, text: str | bytes, path: str = "/studies/upload") -> Any:
    content = text if isinstance(text, bytes) else text.encode()
    return analyst.post(path, files={"file": ("study.toml", content, "application/toml")})


def test_an_uploaded_study_is_kept_as_it_is(here: Served, analyst: TestClient) -> None:
    answer = upload(analyst, STUDY)
    study_id = answer.headers["location"].rpartition("/")[2]
    assert stored(here, study_id).declaration == STUDY
    assert stored(here, study_id).name == "Designed"
    assert 'value="Designed"' in analyst.get(f"/studies/{study_id}/edit/question").text


def test_an_uploaded_study_that_forms_cannot_hold_is_changed_as_text(
    here: Served, analyst: TestClient
) -> None:
    only_here = "This study declares more than the forms can hold"
    assert only_here not in analyst.get(f"{upload(analyst, STUDY).headers['location']}/file").text
    text = UNIT_BALL.replace("[response]", f"{INVITATION}[response]", 1)
    study_id = upload(analyst, text).headers["location"].rpartition("/")[2]
    assert analyst.get(f"/studies/{study_id}/edit").headers["location"] == f"/studies/{study_id}/file"
    assert analyst.get(f"/studies/{study_id}/edit/costs").headers["location"] == f"/studies/{study_id}/file"
    assert only_here in analyst.get(f"/studies/{study_id}/file").text
    changed = text.replace("high = 2", "high = 3")
    assert analyst.post(f"/studies/{study_id}/file", data={"text": changed}).status_code == 303
    assert stored(here, study_id).declaration == changed
    wrong = analyst.post(f"/studies/{study_id}/file", data={"text": "name = 1"})
    assert wrong.status_code == 400
    assert "name = 1" in wrong.text
    assert stored(here, study_id).declaration == changed


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("name = ", "not valid TOML"),
        (STUDY.replace("signal = 0.6", "signal = 6"), "must be below 1"),
        (b"\xff\xfe", "not UTF-8"),
        (STUDY.replace("Designed", "De\\u0000signed"), "NUL character"),
        (STUDY.replace('"east"', ", ".join(f'"{i}"' for i in range(200))), "203 coefficients; a study here"),
        (OBSERVED, 'protects = "answers"'),
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
    study_id = declared(analyst)
    page = shown(analyst, f"/studies/{study_id}/plan?players=200&budget=500")
    assert "That is not possible" in page
    tried = [part.partition('"')[0] for part in page.split('class="button second" href="')[1:]]
    assert len(tried) >= 2
    assert "This is possible" in shown(analyst, tried[0])
    answer = analyst.post(f"/studies/{study_id}/plan", data={"players": "200", "budget": "500"})
    assert answer.status_code == 200
    assert "That is not possible" in answer.text


def test_a_tolerance_that_no_money_buys_is_told_with_a_smaller_one(analyst: TestClient) -> None:
    study_id = declared(analyst)
    sent = analyst.post(
        f"/studies/{study_id}/edit/beliefs",
        data={"do": "next", "signal": "0.6", "noise": "normal", "noise_sd": "", "tolerance": "60"},
    )
    assert sent.status_code == 303
    assert 'name="tolerance" value="60"' in shown(analyst, f"/studies/{study_id}/edit/beliefs")
    alone = DESIGNED[: DESIGNED.index("[[features]]")] + DESIGNED[DESIGNED.index("[design]") :]
    text = alone.replace("signal = 0.6", "signal = 0.6\ntolerance = 60")
    place = analyst.post("/studies/upload", files={"file": ("study.toml", text)}).headers["location"]
    page = shown(analyst, f"{place}/plan?players=3000&budget=500&lie=0.05")
    assert "even if people's centre is 60 off (beliefs.tolerance)" in html.unescape(page)
    assert "Declare a tolerance of 6 under Beliefs" in page


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("players=100", "Fill in two of the four"),
        ("players=many&budget=5", '<a href="#players">People</a>: Please give a number.'),
        ("players=2.5&budget=5", "Please give a number."),
        ("players=1&budget=5", '<a href="#players">players is 1'),
        ("players=100&budget=1e300", "Please give a number."),
        ("players=100&epsilon=1e9", "epsilon is 1e+09"),
        ("", "Fill in two of the four"),
    ],
)
def test_wishes_that_make_no_plan_are_told(analyst: TestClient, query: str, words: str) -> None:
    study_id = declared(analyst)
    assert words in shown(analyst, f"/studies/{study_id}/plan?{query}")


def test_a_kept_plan_is_shown_again_with_what_was_asked(analyst: TestClient) -> None:
    study_id = declared(analyst)
    analyst.post(f"/studies/{study_id}/plan", data={"players": "4000", "epsilon": "1", "lie": "0.3"})
    page = shown(analyst, f"/studies/{study_id}/plan")
    assert 'value="4000"' in page
    assert "This is possible" in page
    chart = analyst.get(f"/studies/{study_id}/frontier.svg")
    assert chart.headers["content-type"] == "image/svg+xml"
    assert chart.headers["content-security-policy"].startswith(
        "default-src 'none'; style-src 'unsafe-inline'"
    )
    assert "script" not in chart.headers["content-security-policy"]


def test_a_plan_needs_a_whole_study(analyst: TestClient) -> None:
    study_id = new(analyst)
    assert analyst.get(f"/studies/{study_id}/plan").status_code == 409
    assert analyst.get(f"/studies/{study_id}/rehearse").status_code == 409
    assert analyst.get(f"/studies/{study_id}/freeze").status_code == 409
    assert analyst.get(f"/studies/{study_id}/frontier.svg").status_code == 404


@pytest.mark.parametrize(("path", "place"), [("plan", "/edit"), ("rehearse", "/plan"), ("freeze", "/plan")])
def test_what_cannot_be_done_yet_links_to_the_step_that_comes_first(
    analyst: TestClient, path: str, place: str
) -> None:
    study_id = new(analyst)
    assert f'class="button" href="/studies/{study_id}{place}"' in shown(
        analyst, f"/studies/{study_id}/{path}", 409
    )


def test_a_planned_study_that_cannot_be_frozen_says_why_with_links_and_no_button(
    here: Served, analyst: TestClient
) -> None:
    study_id = draft(here.service, STUDY.replace(INVITATION, ""))
    page = shown(analyst, f"/studies/{study_id}/freeze")
    assert "does not say who asks" in page
    assert f'href="/studies/{study_id}/edit/invitation"' in page
    assert 'name="for"' not in page


def test_a_change_of_the_study_is_carried_out_and_its_people_stay(here: Served, analyst: TestClient) -> None:
    study_id = upload(analyst, ANSWERS).headers["location"].rpartition("/")[2]
    send_roster(analyst, study_id, listed(400))
    wishes = {"budget": "300", "accuracy": "9"}
    page = shown(analyst, f"/studies/{study_id}/plan?budget=300&accuracy=9")
    offered = re.findall(r'name="change" value="([^"]+)"', page)
    change = next(one for one in offered if one.startswith("features="))
    answer = analyst.post(f"/studies/{study_id}/change", data={**wishes, "change": change})
    assert answer.status_code == 303
    assert "This is possible" in shown(analyst, answer.headers["location"])
    kept = stored(here, study_id)
    left = {feature.name for feature in Study.parse(kept.declaration or "").features}
    assert left == {"price", "region"} - set(change.removeprefix("features=").split(", "))
    with here.service.database.reading() as session:
        people = roster.people(session, study_id)
    assert len(people) == 400
    assert {frozenset(features) for features in people.values()} == {frozenset(left)}
    refused = analyst.post(f"/studies/{study_id}/change", data={**wishes, "change": change})
    assert refused.status_code == 409


def test_a_change_that_forms_cannot_hold_leads_to_the_file(here: Served, analyst: TestClient) -> None:
    text = ANSWERS.replace('"east"]', '"east"]\nlevel_labels = { north = "The north" }')
    study_id = upload(analyst, text).headers["location"].rpartition("/")[2]
    send_roster(analyst, study_id, listed(400))
    page = shown(analyst, f"/studies/{study_id}/plan?budget=100")
    assert re.search(rf'Merge the levels.*\n<a href="/studies/{study_id}/file"', page)
    assert 'name="change" value="features=' in page


def test_levels_that_are_put_together_are_those_of_the_people_too() -> None:
    before = Study.parse(ANSWERS)
    after = Study.parse(ANSWERS.replace('["north", "south", "east"]', '["north", "south or east"]'))
    people = {name: {"price": 2.0, "region": name} for name in ("north", "south", "east")}
    found = roster.in_terms_of(after, before, people)
    assert [row["region"] for row in found.values()] == ["north", "south or east", "south or east"]


# Rehearsals


@pytest.mark.parametrize("text", [STUDY, RECORDS])
def test_a_rehearsal_shows_observed_next_to_guaranteed(here: Served, analyst: TestClient, text: str) -> None:
    study_id = draft(here.service, text, 300)
    page = shown(analyst, f"/studies/{study_id}/rehearse")
    assert ("spread evenly" in page) == (text is RECORDS)
    assert 'name="denier"' not in page
    answer = analyst.post(f"/studies/{study_id}/rehearse", data={"exaggerator": "10", "opt-out": "5.5"})
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
        *(({"seed": seed}, "whole number") for seed in ("0" * 5_000, "1_0", "\uff11\uff10", "2147483648")),
    ],
)
def test_a_mix_that_makes_no_sense_is_told(
    here: Served, analyst: TestClient, data: dict[str, str], words: str
) -> None:
    study_id = draft(here.service)
    answer = analyst.post(f"/studies/{study_id}/rehearse", data=data)
    assert answer.status_code == 400
    assert words in answer.text
    name = next(iter(data))
    assert (f'<a href="#{name}">' in answer.text) == (len(data) == 1)


def test_a_plan_too_large_to_be_simulated_says_how_else(here: Served, analyst: TestClient) -> None:
    study_id = draft(here.service, STUDY, 10_000_000)
    assert "truthful simulate plan.json" in shown(analyst, f"/studies/{study_id}/rehearse")
    assert "truthful simulate plan.json" in analyst.post(f"/studies/{study_id}/rehearse", data={}).text
    large = draft(here.service, STUDY, 1_000_000)
    answer = analyst.post(f"/studies/{large}/rehearse", data={"best-responder": "100"})
    assert answer.status_code == 400
    assert "Choose fewer who calculate" in answer.text
