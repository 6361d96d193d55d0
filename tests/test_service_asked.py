"""People who are also asked what the others will say, in the service: asked, settled, paid and told in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from support import both_studies, sealed
from support.both_studies import KINDS, NUMBER, RATING, YES_NO
from support.databases import database_url
from support.participants import GERMAN, Her, quiet
from support.serving import PAYER, WHO, Asked, Served, answer, answer_all, asked, close, draft

from truthful.asked_release import AskedRelease
from truthful.coins import in_currency
from truthful.plan import Plan
from truthful.release import Receipt, Release, read_release, verify
from truthful.service.asking import ParsedAnswer, Wrong, parse_answer
from truthful.service.offer import make_offer, pay_range
from truthful.service.pages import languages
from truthful.service.settle_study import cancel_study, settle_study
from truthful.settlement import settle
from truthful.store import roster, studies
from truthful.store.tables import Role, State
from truthful.study import Study

#: The second question, of each kind.
SECOND = {
    NUMBER: "What do you think is the average answer of all others?",
    YES_NO: "Of 100 others, how many will say Yes?",
    RATING: "What do you think is the average rating of all others?",
}
FACTS = KINDS["number, with facts"]
#: Beliefs that would be recognised wherever they are shown.
BELIEVED = {
    NUMBER.replace("sure = 10\nspread = 15", "sure = 9.137\nspread = 14.293\nplausible = [3.719, 83.71]"): (
        *("9.137", "14.293", "3.719", "83.71"),
    ),
    YES_NO.replace("0.08", "0.0813").replace("0.3, 0.6", "0.3071, 0.6093"): (
        "8.13",
        "30.71",
        "60.93",
        "0.0813",
    ),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with quiet(tmp_path_factory.mktemp("service")) as running:
        yield running


@cache
def settled(here: Served, text: str, **parameters: Any) -> Asked:
    """A study that everybody answered, published; made once."""
    study = asked(here.service, text, **parameters)
    answer_all(here.service, study)
    close(here.service, study.study_id)
    with here.service.database.writing() as session:
        studies.note_refusal(session, study.study_id, {})
        studies.accept_less(session, study.study_id, WHO)
    settle_study(here.service.database, here.service.locations, study.study_id)
    with here.service.database.writing() as session:
        studies.step(session, study.study_id, State.PUBLISHED, WHO)
    return study


def stored(her: Her) -> tuple[float, float | None] | None:
    with her.here.service.database.reading() as session:
        found = sealed.said(session, her.study.study_id, her.player)
        return None if found is None else (found.value, found.prediction)


# What is taken


@pytest.mark.parametrize(
    ("text", "typed", "key"),
    [
        (NUMBER, "", "empty"),
        (NUMBER, "many", "not_number"),
        (NUMBER, "101", "outside"),
        (YES_NO, "-1", "outside"),
        (YES_NO, "100.1", "outside"),
        (RATING, "0.9", "outside"),
        (RATING, "nan", "not_number"),
        (RATING, "3" * 50, "not_number"),
    ],
)
def test_a_prediction_that_is_none_is_told_in_a_sentence(text: str, typed: str, key: str) -> None:
    study = Study.parse(text)
    found = parse_answer("1", typed, study, languages()["de"].locale).prediction
    assert isinstance(found, Wrong)
    assert found.key == f"participant.{key}"
    sent = parse_answer("1", typed, study)
    assert not sent.fits
    assert isinstance(sent.prediction, Wrong)


def test_a_prediction_is_read_in_her_language_and_none_where_none_is_asked_for() -> None:
    english, german = (languages()[code].locale for code in ("en", "de"))
    assert parse_answer("12", "37,5", Study.parse(NUMBER), german) == ParsedAnswer(12.0, 37.5)
    assert parse_answer("1", "37.5", Study.parse(YES_NO), english) == parse_answer(
        "1", "37.5", Study.parse(YES_NO)
    )
    declared = both_studies.NUMBER.replace('centre = "predictions"\nsure = 10\nspread = 15', "signal = 0.6")
    assert parse_answer("12", "37.5", Study.parse(declared)) == ParsedAnswer(12.0, None)


# Her pages


@pytest.mark.parametrize("text", SECOND, ids=["number", "yes or no", "rating"])
def test_both_are_asked_on_one_page_with_nothing_filled_in(here: Served, text: str) -> None:
    her = Her(here, asked(here.service, text))
    assert SECOND[text] in her.sees()
    her.does("consent")
    page = her.sees()
    assert SECOND[text] in page
    (box,) = re.findall(r'<input id="prediction"[^>]*>', page)
    assert 'value=""' in box
    assert "required" in box
    # A slider only helps to fill in the field: it sends nothing itself, and stands nowhere until it is touched.
    sliders = re.findall(r'<input[^>]*type="range"[^>]*>', page)
    assert sliders
    assert not any("name=" in slider or "checked" in slider for slider in sliders)
    assert " checked" not in page


def test_the_page_keeps_what_was_right_and_says_what_is_missing(here: Served) -> None:
    her = Her(here, asked(here.service, YES_NO))
    her.does("consent")
    page = her.does("review", 400, answer="1", prediction="")
    assert "There is no answer yet. Give a number from 0 to 100." in page
    assert re.findall(r'value="(\d)" required[^>]* checked', page) == ["1"]
    page = her.does("review", 400, answer="", prediction="37")
    assert "There is no answer yet. Choose Yes or No." in page
    assert re.search(r'<input id="prediction"[^>]*value="37"', page)
    page = her.does("review", 400, answer="", prediction="370")
    assert "370 is outside the range. Give a number from 0 to 100." in page
    assert page.count("autofocus") == 1
    assert stored(her) is None


@pytest.mark.parametrize(
    ("text", "said", "plain", "shown"),
    [
        (NUMBER, ("12,5", "37,25"), (12.5, 37.25), ("12,5", "37,25")),
        (YES_NO, ("1", "37"), (1.0, 37.0), ("Sie antworten: Ja", "37")),
        (RATING, ("4", "2,5"), (4.0, 2.5), ("Sie antworten: 4", "2,5")),
    ],
)
def test_both_are_reviewed_and_sent_and_folded_away(
    here: Served, text: str, said: tuple[str, str], plain: tuple[float, float], shown: tuple[str, str]
) -> None:
    her = Her(here, asked(here.service, text))
    her.does("consent")
    page = her.does("review", 200, answer=said[0], prediction=said[1], language=GERMAN)
    assert re.findall(r'<p class="big">(.*?)</p>', page) == list(shown)
    sent = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]+)"', page))
    assert stored(her) is None
    her.does("submit", answer=sent["answer"], prediction=sent["prediction"])
    assert stored(her) == plain
    folded = her.sees().split("<details>")[1].split("</details>")[0]
    assert SECOND[text] in folded
    assert f'<p class="big">{plain[1]:g}</p>' in folded


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_answer_without_a_prediction_is_not_stored_and_both_are_withdrawn_together(
    tmp_path: Path, kind: str
) -> None:
    with database_url(kind, tmp_path) as url, quiet(tmp_path / "service", url) as there:
        her = Her(there, asked(there.service, NUMBER))
        her.does("consent")
        for wrong in ("", "x", "101"):
            her.does("submit", 400, answer="12", prediction=wrong)
        assert stored(her) is None
        her.does("submit", answer="12", prediction="30")
        her.does("submit", answer="13", prediction="31.5")
        assert stored(her) == (13.0, 31.5)
        her.does("withdraw")
        assert stored(her) is None
        declared = Her(there, asked(there.service))
        declared.does("consent")
        declared.does("submit", 400, answer="12", prediction="30")
        assert stored(declared) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            NUMBER,
            "If the others' answers come out higher than people predicted, answers above the average earn more",
        ),
        (YES_NO, "If more of the others say Yes than people predicted, Yes earns more"),
        (
            RATING,
            "If the others' ratings come out higher than people predicted, ratings above the average earn more",
        ),
    ],
    ids=["number", "yes or no", "rating"],
)
def test_the_invitation_says_how_answers_and_predictions_are_paid(
    here: Served, text: str, words: str
) -> None:
    study = asked(here.service, text)
    page = Her(here, study).sees()
    assert words in page
    for said in (
        "And a second one",
        "Your prediction is paid separately, up to ",
        "Your own answer and prediction are left out",
        "Your prediction is protected together with your answer.",
        "Next come both questions.",
    ):
        assert said in page, said
    impossible = "If the others' average is outside the plausible range" in page
    assert impossible == (text != NUMBER)
    surprise, paid = make_offer(study.plan, {})["stakes"]["rows"][-1]
    example = page[page.index("For example:") :].partition("</p>")[0]
    assert f" {surprise:g} " in example
    amounts = [float(amount) for amount in re.findall(r"\$(\d+\.\d+)", example)]
    assert amounts == pytest.approx([paid[-1], paid[0]], abs=0.0051)
    least, most = pay_range(study.plan)
    assert f"Always between ${least:.2f} and ${most:.2f}." in page


def test_what_the_invitation_says_of_surprises_is_what_is_paid(here: Served) -> None:
    """At a share, or an average, that is as far from what was predicted as the table says."""
    for text in SECOND:
        plan = both_studies.planned(text, 60)
        told = make_offer(plan, {})["stakes"]
        mechanism = plan.mechanism
        assert isinstance(mechanism, AskedRelease)
        (low, high), levels = plan.study.prediction_range, plan.study.levels
        assert levels is not None
        unit, s = (high - low) / 2, levels.slope
        for surprise, paid in told["rows"]:
            for column, amount in zip(told["columns"], paid, strict=True):
                if text == YES_NO:
                    score = column * surprise / unit / mechanism.clip
                else:
                    t, over = column / unit, surprise / unit
                    score = 2 * s * (1 - s) * t * over - (s * t) ** 2
                assert amount == pytest.approx(mechanism.base_payment + mechanism.score_weight * score)
        assert told["predictions"][0] == pytest.approx(mechanism.prediction_payment)


@pytest.mark.parametrize("text", BELIEVED, ids=["number", "yes or no"])
def test_nothing_that_is_believed_is_shown_while_people_are_asked(here: Served, text: str) -> None:
    study = asked(here.service, text)
    her, public = Her(here, study), f"/s/{study.study_id}"
    pages = [her.sees(), unescape(here.client.get(public).text)]
    her.does("consent")
    pages += [her.sees(), her.does("review", 200, answer="1", prediction="2")]
    her.does("submit", answer="1", prediction="2")
    pages += [her.sees()]
    assert not [number for number in BELIEVED[text] if any(number in page for page in pages)]
    assert "once the study has closed" in pages[1]
    for file in ("study.toml", "plan.json"):
        assert here.client.get(f"{public}/{file}").status_code == 404
        assert file not in pages[1]
    close(here.service, study.study_id)
    for file in ("study.toml", "plan.json"):
        assert here.client.get(f"{public}/{file}").status_code == 200
    closed = unescape(here.client.get(public).text)
    assert all(number in closed for number in BELIEVED[text][:3])


# The end


@pytest.mark.parametrize("kind", KINDS)
def test_everybody_is_paid_for_both_and_can_see_how(here: Served, kind: str) -> None:
    players = 400 if "facts" in kind else 60
    study = settled(here, KINDS[kind], players=players)
    first = next(iter(study.links))
    release = read_release(Her(here, study, first).sees("/release.json").encode())
    assert isinstance(release, Release)
    low, high = (float(end) for end in pay_range(study.plan))
    for player in list(study.links)[:12]:
        her = Her(here, study, player)
        receipt = Receipt.model_validate_json(her.sees("/receipt.json"))
        assert verify(release, receipt).verified
        assert (receipt.report, receipt.prediction) == (study.answers[player], study.predictions[player])
        assert low - 0.01 <= receipt.payment <= high + 0.01
        page = her.sees()
        assert "does not lead to the amount" not in page
        parts = [float(amount.replace(",", "")) for amount in re.findall(r"= \$([\d.,]+)\.<", page)]
        exact = re.search(r"Together that is \$([\d.]+),", page)
        assert exact
        assert float(exact[1]) == receipt.payment
        assert sum(parts) == pytest.approx(receipt.payment, abs=2.1e-6)
        assert "Everybody else's predictions, with their noise, average" in page


def test_a_settlement_of_the_service_is_that_of_the_library(here: Served) -> None:
    study = settled(here, NUMBER)
    release = read_release(Her(here, study).sees("/release.json").encode())
    reports = both_studies.reports(study.plan.study, 60)
    again = settle(study.plan, reports, seed=1, accept_less=True)
    assert release.players == again.release.players == 60
    mine = Receipt.model_validate_json(Her(here, study, "p-07").sees("/receipt.json"))
    theirs = again.receipt("p-07")
    assert isinstance(theirs, Receipt)
    assert (mine.report, mine.prediction, mine.leverage) == (
        theirs.report,
        theirs.prediction,
        theirs.leverage,
    )


def test_an_average_that_was_thought_impossible_is_told(here: Served) -> None:
    far = NUMBER.replace("spread = 15", 'spread = 15\nplausible = [80, 95]\nimplausible = "flat"')
    page = Her(here, settled(here, far)).sees()
    assert "The others' average is outside the plausible range. So the score is 0" in page


def test_a_cancelled_study_pays_the_base_and_half_of_what_a_prediction_earns(here: Served) -> None:
    study = asked(here.service, NUMBER)
    answer(here.service, study, list(study.links)[:20])
    close(here.service, study.study_id)
    cancel_study(here.service.database, here.service.locations, study.study_id, WHO)
    her = Her(here, study)
    mechanism = study.plan.mechanism
    assert isinstance(mechanism, AskedRelease)
    page = her.sees()
    paid = re.search(r'<p class="big">\$([\d.]+)</p>', page)
    assert paid
    exact = mechanism.base_payment + mechanism.prediction_payment / 2
    assert abs(float(paid[1]) - exact) < float(in_currency(1, 2))
    assert "half of what a prediction can earn" in page
    assert "half of what a prediction can earn" in unescape(here.client.get(f"/s/{study.study_id}").text)


def test_the_range_of_pay_holds_for_whoever_answers() -> None:
    for kind in ("number, with facts", "rating, with facts"):
        plan = both_studies.planned(KINDS[kind], 400)
        low, high = (float(end) for end in pay_range(plan))
        assert pay_range(plan, {}) == pay_range(plan)
        for seed in range(3):
            reports = both_studies.reports(plan.study, 400, seed=seed, level=0.2 + 0.3 * seed)
            paid = settle(plan, reports, seed=seed, accept_less=True).payments.column("payment").to_pylist()
            assert low <= min(paid)
            assert max(paid) <= high


@pytest.mark.parametrize("text", SECOND, ids=["number", "yes or no", "rating"])
def test_every_page_is_there_in_german(here: Served, text: str) -> None:
    her = Her(here, settled(here, text))
    her.client.cookies.set("language", GERMAN, domain="testserver.local", path="/")
    assert "Die Überraschung" in her.sees()
    other = Her(here, asked(here.service, text))
    other.client.cookies.set("language", GERMAN, domain="testserver.local", path="/")
    page = other.sees()
    assert "wird gesondert bezahlt" in page
    assert "Wie genau" in page
    other.does("consent")
    assert "Sagen Sie, was Sie wirklich erwarten" in other.sees()


# The analyst's pages, and everybody's


@pytest.fixture(scope="module")
def analyst(here: Served) -> TestClient:
    return here.signed_in(Role.ANALYST)


def sees(client: TestClient, path: str, language: str = "en", status: int = 200) -> str:
    response = client.get(path, headers={"Accept-Language": language})
    assert response.status_code == status, response.text
    return " ".join(unescape(response.text).split())


def fill(client: TestClient, path: str, step: str, fields: dict[str, str], status: int = 303) -> str:
    response = client.post(f"{path}/edit/{step}", data={"do": "next", **fields})
    assert response.status_code == status, unescape(response.text)
    return unescape(response.text)


INVITED = {"asked_by": "We", "purpose": "To learn.", "contact": "us", "payer": PAYER}
COSTS = {"costs": "pareto", "tail": "2", "scale": "0.05", "privacy": "quadratic"}
NAMED = {"name": "Drinks", "response": "drinks", "question": "How many?", "currency": "USD"}


def declared(here: Served, path: str) -> Study:
    with here.service.database.reading() as session:
        return Study.parse(studies.find(session, path.rsplit("/", 1)[-1]).declaration or "")


def test_the_wizard_asks_for_predictions_unless_there_are_facts_or_it_is_unticked(
    here: Served, analyst: TestClient
) -> None:
    path = str(analyst.post("/studies").headers["location"]).rsplit("/edit", 1)[0]
    fill(analyst, path, "question", {"answer_kind": "number", "low": "0", "high": "100", **NAMED})
    fill(analyst, path, "invitation", INVITED)
    fill(analyst, path, "people", {"design": "observed", "protects": "answers"})
    page = sees(analyst, f"{path}/edit/beliefs")
    assert re.search(r'name="predictions" value="yes" checked', page)
    assert "How unsure people are of the average answer" in page
    told = {"predictions": "yes", "sure": "10", "noise": "normal"}
    assert "Please fill this in" in fill(analyst, path, "beliefs", told, 400)
    fill(analyst, path, "beliefs", {**told, "spread": "15", "plausible_low": "2", "plausible_high": "60"})
    fill(analyst, path, "costs", COSTS)
    beliefs = declared(here, path).declared.beliefs
    assert (beliefs.centre, beliefs.sure, beliefs.spread, beliefs.plausible) == (
        "predictions",
        10,
        15,
        (2, 60),
    )
    fill(analyst, path, "beliefs", {"signal": "0.5", "noise": "normal"})
    assert declared(here, path).levels is None
    assert not re.search(r'name="predictions" value="yes" checked', sees(analyst, f"{path}/edit/beliefs"))
    other = str(analyst.post("/studies").headers["location"]).rsplit("/edit", 1)[0]
    fill(analyst, other, "question", {"answer_kind": "yes-no", **NAMED})
    facts = {"design": "uniform", "f0_name": "age", "f0_kind": "number", "f0_low": "18", "f0_high": "80"}
    fill(analyst, other, "people", facts)
    assert not re.search(r'name="predictions" value="yes" checked', sees(analyst, f"{other}/edit/beliefs"))


def uploaded(client: TestClient, text: str) -> str:
    sent = client.post("/studies/upload", files={"file": ("study.toml", text)})
    assert sent.status_code == 303, sent.text
    return str(sent.headers["location"])


@pytest.mark.parametrize("text", SECOND, ids=["number", "yes or no", "rating"])
def test_a_study_that_asks_is_planned_frozen_and_its_pages_say_what_is_asked(
    here: Served, analyst: TestClient, text: str
) -> None:
    path = uploaded(analyst, text)
    page = sees(analyst, f"{path}/plan?players=500&epsilon=0.5")
    assert "This is possible" in page
    assert "frontier.svg" not in page
    assert "How steeply" not in page
    assert "she must take others to expect it there too" in page
    assert "off what is declared" not in page
    assert ("no lie may pay, in units of drinks" in page) == (text == NUMBER)
    assert analyst.get(f"{path}/frontier.svg?players=500&epsilon=0.5").status_code == 404
    assert analyst.post(f"{path}/plan", data={"players": "500", "epsilon": "0.5"}).status_code == 303
    frozen = sees(analyst, f"{path}/freeze")
    assert SECOND[text] in frozen
    assert "they may be off by" in frozen
    with here.service.database.reading() as session:
        plan = Plan.parse(studies.find(session, path.rsplit("/", 1)[-1]).plan or "")
    assert plan.asked_mechanism is not None


def test_people_are_brought_without_anything_they_say(tmp_path: Path) -> None:
    study, path = Study.parse(FACTS), tmp_path / "people.csv"
    path.write_text("player,age,advice\na,30,nobody\nb,44.5,a friend\n", encoding="utf-8")
    people = {"a": {"age": 30.0, "advice": "nobody"}, "b": {"age": 44.5, "advice": "a friend"}}
    assert roster.read(study, path) == people


@pytest.mark.parametrize("text", SECOND, ids=["number", "yes or no", "rating"])
def test_a_study_that_asks_is_rehearsed_with_careless_and_colluding_people(
    here: Served, analyst: TestClient, text: str
) -> None:
    path = f"/studies/{draft(here.service, text)}/rehearse"
    page = sees(analyst, path)
    for words in ("Careless predictors", "Colluders", "People who believe otherwise", "Deniers"):
        assert words in page
    mix = {
        "careless": "5",
        "colluder": "5",
        "misbeliever": "10",
        "denier": "5",
        "best-responder": "5",
        "seed": "1",
    }
    sent = analyst.post(path, data=mix)
    assert sent.status_code == 303, unescape(sent.text)
    report = sees(analyst, str(sent.headers["location"]))
    assert "colluder" in report


@pytest.mark.parametrize("language", ["en", GERMAN])
@pytest.mark.parametrize("text", SECOND, ids=["number", "yes or no", "rating"])
def test_results_show_both_averages(here: Served, analyst: TestClient, text: str, language: str) -> None:
    study = settled(here, text)
    release = read_release(Her(here, study).sees("/release.json").encode())
    assert isinstance(release, Release)
    assert release.predictions
    page = sees(here.client, f"/s/{study.study_id}", language)
    for name, row in (
        ({"en": "answers", GERMAN: "Antworten"}, release.predictions.answer),
        ({"en": "predictions", GERMAN: "Vorhersagen"}, release.predictions.prediction),
    ):
        found = re.search(rf'<th scope="row">{name[language]}</th><td class="number">([\d.,]+)</td>', page)
        assert found
        assert float(found[1].replace(",", ".")) == pytest.approx(row.value, abs=(row.high - row.low) / 4)
    assert "intercept" not in page
    assert ("people had expected" in page or "wurde" in page) or text == YES_NO
    assert "predicted" in sees(analyst, f"/studies/{study.study_id}")
