"""Yes or no, and ratings, in the service: asked, answered, settled, paid and told in words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from html import unescape
from typing import Any

import pytest
from starlette.testclient import TestClient
from support.participants import GERMAN, Her, quiet
from support.serving import PAYER, WHO, WITHOUT_FEATURES, Asked, Served, answer_all, asked, close
from support.shares import KINDS, RATING, WITH_FEATURES, YES_NO

from truthful.plan import Plan
from truthful.release import Receipt, Release, read_release, verify
from truthful.service.asking import Wrong, choices, parse_answer, read_choice, shown_choices
from truthful.service.offer import make_offer
from truthful.service.pages import languages
from truthful.service.settle_study import cancel_study, settle_study
from truthful.store import studies
from truthful.store.tables import Player, Role, State
from truthful.study import Study


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
    settle_study(here.service.database, here.service.locations, study.study_id)
    with here.service.database.writing() as session:
        studies.step(session, study.study_id, State.PUBLISHED, WHO)
    return study


# What is taken


@pytest.mark.parametrize("typed", ["1", "1.0", " 1 "])
def test_yes_is_one_and_a_rating_its_number(typed: str) -> None:
    english = languages()["en"].locale
    for study in map(Study.parse, (YES_NO, RATING)):
        assert parse_answer(typed, "", study, english).answer == parse_answer(typed, "", study).answer == 1.0


@pytest.mark.parametrize(
    ("text", "typed", "key"),
    [
        *((YES_NO, typed, "not_yes_no") for typed in ("0.5", "2", "-1", "yes", "nan", "1" * 50)),
        (YES_NO, " ", "empty_yes_no"),
        *((RATING, typed, "not_rating") for typed in ("0", "6", "2.5", "three", "inf")),
        (RATING, "", "empty_rating"),
    ],
)
def test_anything_else_is_told_in_a_sentence(text: str, typed: str, key: str) -> None:
    response = Study.parse(text).response
    found = read_choice(typed, response)
    assert isinstance(found, Wrong)
    assert found.key == f"participant.{key}"
    assert found == parse_answer(typed, "", Study.parse(text), languages()["de"].locale).answer


def test_which_of_the_two_comes_first_is_a_lot_that_stays() -> None:
    """Of 1,000 people it is yes for 500; six standard deviations are 95."""
    response = Study.parse(YES_NO).response
    people = [Player(study_id="s", player=f"p-{i}") for i in range(1000)]
    first = [shown_choices(response, player)[0] for player in people]
    assert 405 < sum(first) < 595
    assert first == [shown_choices(response, player)[0] for player in people]
    assert all(set(shown_choices(response, player)) == {0.0, 1.0} for player in people[:20])


def test_ratings_are_in_order_for_everybody() -> None:
    response = Study.parse(RATING).response
    assert choices(response) == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert {shown_choices(response, Player(study_id="s", player=f"{i}")) for i in range(20)} == {
        choices(response)
    }


# Her pages


def shown(page: str) -> list[str]:
    """The choices of a page, in their order."""
    return re.findall(r'<input type="radio" name="answer" value="(\d+)" required', page)


def test_the_question_has_two_buttons_in_an_order_that_stays_and_none_is_chosen(here: Served) -> None:
    study = asked(here.service, YES_NO)
    orders = set()
    for player in list(study.links)[:12]:
        her = Her(here, study, player)
        her.does("consent")
        page = her.sees()
        assert sorted(shown(page)) == ["0", "1"]
        assert "checked" not in page
        orders.add(tuple(shown(page)))
        wrong = her.does("review", status=400, answer="")
        assert "There is no answer yet. Choose Yes or No." in wrong
        assert shown(page) == shown(her.sees("/answer")) == shown(wrong)
    assert len(orders) == 2  # all twelve alike: 1 in 2,048


@pytest.mark.parametrize(("language", "words"), [("en", "You answer: Yes"), (GERMAN, "Sie antworten: Ja")])
def test_yes_is_reviewed_sent_and_folded_away(here: Served, language: str, words: str) -> None:
    her = Her(here, asked(here.service, YES_NO))
    her.does("consent")
    page = her.does("review", 200, answer="1", language=language)
    assert words in page
    plain = re.search(r'name="answer" value="([^"]+)"', page)
    assert plain
    assert her.stored() is None
    her.does("submit", answer=plain[1])
    assert her.stored() == 1.0
    folded = her.sees().split("<details>")[1].split("</details>")[0]
    assert '<p class="big">Yes</p>' in folded


def test_a_rating_is_reviewed_and_sent(here: Served) -> None:
    her = Her(here, asked(here.service, RATING))
    her.does("consent")
    page = her.sees()
    assert shown(page) == ["1", "2", "3", "4", "5"]
    assert "from 1, the lowest, to 5, the highest" in page
    assert "You answer: 4" in her.does("review", 200, answer="4")
    her.does("submit", answer="4.0")
    assert her.stored() == 4.0


@pytest.mark.parametrize(
    ("text", "answer"), [(YES_NO, "0.5"), (YES_NO, "yes"), (RATING, "2.5"), (RATING, "6")]
)
def test_what_is_no_choice_is_not_stored_and_said_to_be_none(here: Served, text: str, answer: str) -> None:
    her = Her(here, asked(here.service, text))
    her.does("consent")
    told = "none of the ratings" if text == RATING else "neither Yes nor No"
    for move in ("review", "submit"):
        assert f"“{answer}” is {told}" in her.does(move, status=400, answer=answer)
    assert her.stored() is None


def test_the_invitation_says_how_yes_and_no_are_paid(here: Served) -> None:
    study = asked(here.service, YES_NO, tolerance=0.037)
    page = Her(here, study).sees()
    offer = make_offer(study.plan, {})
    share, no, yes = offer["bonus"]["rows"][-1]
    for words in (
        f"For example: if {share:.0%} of the others say Yes, Yes is paid ${yes:.4f} and No is paid ${no:.4f}.",
        f"A typical person who tells the truth is paid ${offer['typical']:.2f} on average.",
        "Your answer could be worked out from the amount, so whoever pays has to be trusted.",
        "One question · Yes or No",
        "Always between $0.10 and $0.50.",
        "The more others say Yes, the more Yes earns",
        "If 24.1% of the others say Yes, Yes and No pay the same: $0.3000.",
        "the two lines cross at 24.1%",
        "If less than 1.3% or more than 43.7% of the others say Yes",
        "Only your answer is used",
    ):
        assert words in page, words
    assert "/dispute" not in page


def test_the_invitation_says_how_ratings_are_paid_and_what_facts_do(here: Served) -> None:
    page = Her(here, asked(here.service, RATING)).sees()
    assert "a rating from 1 to 5" in page
    assert "The higher the others' ratings are, the more a high rating earns" in page
    assert "which is not plausible" in page
    paid = Her(here, asked(here.service, RATING, tolerance=math.inf)).sees()
    assert "which is not plausible" not in paid
    facts = Her(here, asked(here.service, WITH_FEATURES)).sees()
    assert "The more others say Yes, the more Yes earns" in facts
    assert "it is not a fact about you" in facts
    assert "These are wrong" not in facts


def test_without_a_bonus_nothing_is_said_of_others(here: Served) -> None:
    page = Her(here, asked(here.service, YES_NO, bonus=0.0)).sees()
    assert "You are paid $0.10." in page
    assert "does not depend on your answer" in page
    assert "How exactly" not in page


# The end


@pytest.mark.parametrize("text", [YES_NO, WITH_FEATURES, RATING], ids=["yes or no", "facts", "rating"])
def test_everybody_is_paid_and_can_see_how(here: Served, text: str) -> None:
    study = settled(here, text)
    release = read_release(Her(here, study).sees("/release.json").encode())
    for player, said in study.answers.items():
        her = Her(here, study, player)
        receipt = verified(her, release)
        assert receipt.report == said
        page = her.sees()
        words = {YES_NO: ("No", "Yes"), WITH_FEATURES: ("No", "Yes")}.get(text)
        assert f"You answered {f'{said:g}' if words is None else words[int(said)]}." in page
        assert "NOT verified: the" in page  # what the script may say
        assert "does not lead to the amount" not in page
        assert "It was fixed before anybody was asked." in page


def verified(her: Her, release: Any) -> Any:
    receipt = Receipt.model_validate_json(her.sees("/receipt.json"))
    assert verify(release, receipt).verified
    return receipt


def test_an_implausible_share_is_told(here: Served) -> None:
    """Three in ten say yes where 90 to 95 % were thought possible."""
    study = settled(here, YES_NO.replace("0.05, 0.40", "0.9, 0.95"), tolerance=0.05)
    page = Her(here, study).sees()
    assert "That is below 85% or above 100%, which is not plausible." in page
    assert "$0.30" in page


def test_a_cancelled_study_pays_half_of_the_bonus(here: Served) -> None:
    study = asked(here.service, YES_NO)
    answer_all(here.service, study)
    close(here.service, study.study_id)
    cancel_study(here.service.database, here.service.locations, study.study_id, WHO)
    page = Her(here, study).sees()
    assert "$0.30" in page
    assert "the flat fee and half of the bonus" in page


def test_every_page_is_there_in_german(here: Served) -> None:
    for text in (YES_NO, RATING):
        study = settled(here, text)
        her = Her(here, study)
        her.client.cookies.set("language", GERMAN, domain="testserver.local", path="/")
        assert "Wendepunkt" in her.sees()
        other = Her(here, asked(here.service, text))
        other.client.cookies.set("language", GERMAN, domain="testserver.local", path="/")
        assert "Wie genau" in other.sees()
        other.does("consent")
        assert len(shown(other.sees())) == (2 if text == YES_NO else 5)


# The analyst's pages, and everybody's


@pytest.fixture(scope="module")
def analyst(here: Served) -> TestClient:
    return here.signed_in(Role.ANALYST)


def sees(client: TestClient, path: str, language: str = "en", status: int = 200) -> str:
    response = client.get(path, headers={"Accept-Language": language})
    assert response.status_code == status, response.text
    return " ".join(unescape(response.text).split())


def begun(client: TestClient) -> str:
    """Where the first step of a new study is."""
    return str(client.post("/studies").headers["location"]).rsplit("/edit", 1)[0]


def fill(client: TestClient, path: str, step: str, fields: dict[str, str], status: int = 303) -> str:
    response = client.post(f"{path}/edit/{step}", data={"do": "next", **fields})
    assert response.status_code == status, unescape(response.text)
    return unescape(response.text)


INVITED = {"asked_by": "We", "purpose": "To learn.", "contact": "us", "payer": PAYER}
COSTS = {"costs": "pareto", "tail": "2", "scale": "0.05", "privacy": "quadratic"}
NAMED = {"name": "Evasion", "response": "evaded", "question": "Have you?", "currency": "USD"}


def test_the_wizard_makes_a_study_of_yes_or_no_and_keeps_what_was_typed(
    here: Served, analyst: TestClient
) -> None:
    path = begun(analyst)
    page = sees(analyst, f"{path}/edit/question")
    assert page.index("What do people answer?") < page.index("Name of the study")
    fill(analyst, path, "question", {"answer_kind": "yes-no", **NAMED})
    fill(analyst, path, "invitation", INVITED)
    assert "What is protected" not in sees(analyst, f"{path}/edit/people")  # there are no facts
    fill(analyst, path, "people", {})
    page = sees(analyst, f"{path}/edit/beliefs")
    assert "Surely at least, %" in page
    assert "A fact changes" not in page  # no facts, so nothing changes the share
    assert "Please fill this in" in fill(analyst, path, "beliefs", {"share_low": "5", "share_high": ""}, 400)
    fill(analyst, path, "beliefs", {"share_low": "5", "share_high": "40"})
    fill(analyst, path, "costs", COSTS)
    with here.service.database.reading() as session:
        study = Study.parse(studies.find(session, path.rsplit("/", 1)[-1]).declaration or "")
    assert (study.kind, study.declared.beliefs.share) == ("yes-no", (0.05, 0.4))
    assert re.search(r'name="share_high" value="40"', sees(analyst, f"{path}/edit/beliefs"))
    assert 'value="yes-no" checked' in sees(analyst, f"{path}/edit/question")
    facts = {"design": "uniform", "f0_name": "age", "f0_kind": "number", "f0_low": "18", "f0_high": "80"}
    fill(analyst, path, "people", facts)
    assert "their answers are protected and their facts are not" in sees(analyst, f"{path}/edit/people")
    assert "A fact changes this by at most" in sees(analyst, f"{path}/edit/beliefs")
    fill(analyst, path, "beliefs", {"share_low": "5", "share_high": "40", "effect": "3"})
    fill(analyst, path, "question", {"answer_kind": "number", "low": "0", "high": "9", **NAMED})
    assert 'name="signal" value="0.6"' in sees(analyst, f"{path}/edit/beliefs")


def test_a_rating_by_the_wizard_in_german(here: Served, analyst: TestClient) -> None:
    path = begun(analyst)
    fill(analyst, path, "question", {"answer_kind": "rating", **NAMED}, 400)
    fill(analyst, path, "question", {"answer_kind": "rating", "levels": "5", **NAMED})
    assert "Wie die mittlere Bewertung ausfallen würde" in sees(analyst, f"{path}/edit/beliefs", GERMAN)
    german = {"do": "next", "share_low": "1,8", "share_high": "3,4", "tolerance": "0,2"}
    sent = analyst.post(f"{path}/edit/beliefs", data=german, headers={"Accept-Language": GERMAN})
    assert sent.status_code == 303
    assert 'name="share_low" value="1.8"' in sees(analyst, f"{path}/edit/beliefs")
    assert 'name="tolerance" value="0.2"' in sees(analyst, f"{path}/edit/beliefs")


def uploaded(client: TestClient, text: str) -> str:
    sent = client.post("/studies/upload", files={"file": ("study.toml", text)})
    assert sent.status_code == 303, sent.text
    return str(sent.headers["location"])


def test_a_plan_of_yes_or_no_is_asked_for_in_percentage_points(here: Served, analyst: TestClient) -> None:
    path = uploaded(analyst, YES_NO)
    page = sees(analyst, f"{path}/plan?players=2000&accuracy=2")
    for words in (
        "Allowed error, in percentage points",
        "This is possible",
        "of people the truth earns at least",
        "Yes and no pay the same if 24.1%",
        "The share of yes that people expect, knowing their own answer, may be",
    ):
        assert words.lower() in page.lower(), words
    german = sees(analyst, f"{path}/plan?players=2000&accuracy=2", GERMAN)
    assert re.search(r"Alle, die geantwortet haben</th>.*>± \d,\d+<", german)
    assert "How steeply" not in page
    assert "The error is that of" not in page
    assert "frontier.svg" not in page
    assert analyst.get(f"{path}/frontier.svg?players=2000&accuracy=2").status_code == 404
    kept = analyst.post(f"{path}/plan", data={"players": "2000", "accuracy": "2"})
    assert kept.status_code == 303
    with here.service.database.reading() as session:
        plan = Plan.parse(studies.find(session, path.rsplit("/", 1)[-1]).plan or "")
    assert plan.guarantees.accuracy.rmse is not None
    assert 0.015 < plan.guarantees.accuracy.rmse <= 0.02
    assert re.search(r'name="accuracy" value="2"', sees(analyst, f"{path}/plan"))
    frozen = sees(analyst, f"{path}/freeze")
    assert "Yes or No" in frozen
    assert "surely between 5% and 40% would truthfully say Yes" in frozen


def test_what_would_make_a_plan_possible_is_said_in_points(analyst: TestClient) -> None:
    path = uploaded(analyst, YES_NO)
    page = sees(analyst, f"{path}/plan?players=500&budget=100&accuracy=0.5")
    found = re.search(r'plan\?([^"]*)">Try an error of ([\d.]+) percentage points', page)
    assert found
    assert 1 < float(found[2]) < 15
    assert "This is possible" in sees(analyst, f"{path}/plan?{found[1]}")


def test_a_plan_of_a_rating_asks_from_how_many_levels_on_no_lie_may_pay(analyst: TestClient) -> None:
    path = uploaded(analyst, RATING)
    page = sees(analyst, f"{path}/plan?players=2000&budget=1000&lie=2")
    assert "Number of levels from which no lie may pay" in page
    assert "any lie of 2 steps or more" in page.lower()
    assert "Allowed error, in units of evaded" in page


def test_a_rehearsal_knows_those_who_deny_and_those_who_believe_otherwise(
    here: Served, analyst: TestClient
) -> None:
    path = uploaded(analyst, YES_NO)
    analyst.post(f"{path}/plan", data={"players": "300", "budget": "150"})
    page = sees(analyst, f"{path}/rehearse")
    assert "They give the lowest answer, such as no, whatever the truth." in page
    assert "People who believe otherwise" in page
    assert "Andere Erwartungen" in sees(analyst, f"{path}/rehearse", GERMAN)
    answer = analyst.post(f"{path}/rehearse", data={"denier": "10", "misbeliever": "5.5"})
    report = analyst.get(answer.headers["location"]).text
    assert "denier=0.1" in report
    assert "misbeliever=0.055" in report


@pytest.mark.parametrize("language", ["en", GERMAN])
def test_results_of_yes_or_no_are_percentages_and_points(
    here: Served, analyst: TestClient, language: str
) -> None:
    study = settled(here, WITH_FEATURES, players=400)
    release = Her(here, study, "p-001").sees("/release.json")
    read = read_release(release.encode())
    assert isinstance(read, Release)
    assert read.shares
    page = sees(here.client, f"/s/{study.study_id}", language)
    word = {"en": "Everybody who answered", GERMAN: "Alle, die geantwortet haben"}[language]
    found = re.search(rf'{word}</th><td class="number">([\d.,]+)</td>', page)
    assert found
    assert float(found[1].replace(",", ".")) == pytest.approx(100 * read.shares[0].value, abs=0.6)
    assert {"en": "in percentage points", GERMAN: "in Prozentpunkten"}[language] in page
    assert {"en": "Odds ratios", GERMAN: "Chancenverhältnisse"}[language] in page
    assert "region: south − north" in page
    drawn = here.client.get(f"/s/{study.study_id}/forest.svg")
    assert drawn.headers["content-type"].startswith("image/svg")
    assert "percentage points" in sees(analyst, f"/studies/{study.study_id}")


def test_results_without_facts_have_no_differences_and_no_odds(here: Served) -> None:
    shown = {
        YES_NO: "Share of Yes to “evaded”, in percent",
        RATING: "Mean rating, “evaded”",
        WITHOUT_FEATURES: "Average of “spend”",
    }
    for text, words in shown.items():
        study = settled(here, text)
        page = sees(here.client, f"/s/{study.study_id}")
        assert words in page
        assert "Odds" not in page
        assert "intercept" not in page
        assert "Differences" not in page
        assert here.client.get(f"/s/{study.study_id}/forest.svg").status_code == 404


def test_odds_that_cannot_be_estimated_are_said_to_be_so(here: Served) -> None:
    """So much noise that no finite odds fit the published sums."""
    study = settled(here, WITH_FEATURES, epsilon=0.01)
    read = read_release(Her(here, study).sees("/release.json").encode())
    assert isinstance(read, Release)
    assert read.odds_ratios is None
    assert "not estimable from this result" in sees(here.client, f"/s/{study.study_id}")


def test_the_public_page_says_in_words_what_is_believed(here: Served) -> None:
    told = {
        "yes or no": "surely between 5% and 40% would truthfully say Yes.",
        "yes or no, with features": "say Yes. Any one fact changes that by at most 10 percentage points.",
        "yes or no, effects expected": "Expected changes: age: -5 percentage points, region=south: 3 perc",
        "rating": "The mean rating of people like the average one is surely between 1.8 and 3.4.",
    }
    for kind, words in told.items():
        study = asked(here.service, KINDS[kind])
        assert words in sees(here.client, f"/s/{study.study_id}")
