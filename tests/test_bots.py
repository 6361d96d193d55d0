"""Programs that rehearse a study over HTTP: they use the pages as people do, and check every payment."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import httpx2
import pytest
from support import both_studies
from support.commands import Run
from support.serving import PASSWORD
from support.shares import KINDS as KINDS_OF_SHARES
from support.shares import WITH_FEATURES, YES_NO, planned
from test_serve import Serving, serving

from truthful.agents import KINDS
from truthful.plan import design
from truthful.service.rehearsal import complaint, demo_study, invent_bots
from truthful.simulation.population import assign_roles
from truthful.study import Study


def test_a_page_s_complaint_is_what_it_says_aloud() -> None:
    assert complaint('<p id="a" role="alert" lang="en">That is <b>wrong</b> &amp; late.</p><p>Fine.</p>') == (
        "That is  wrong  & late."
    )
    assert complaint("<p>Fine.</p>") == ""


def test_bots_answer_as_their_kind_does_and_stay_away_if_it_does() -> None:
    plan = design(Study.parse(demo_study()), players=2_000, budget=10_000.0)
    bots = invent_bots(plan, assign_roles(dict.fromkeys(KINDS, 1 / len(KINDS)), 700), seed=1)
    assert {bot.kind for bot in bots.values()} == set(KINDS)
    assert {bot.kind for bot in bots.values() if bot.answer is None} <= {"opt-out"}
    said = [bot.answer for bot in bots.values() if bot.answer is not None]
    assert 0 <= min(said) < max(said) <= 1_000
    assert {bot.answer for bot in bots.values() if bot.kind == "privacy-seeker"} == {500.0}
    again = invent_bots(plan, assign_roles(dict.fromkeys(KINDS, 1 / len(KINDS)), 700), seed=1)
    assert bots == again
    manners = {(bot.disputes, bot.withdraws, bot.stays) for bot in bots.values() if bot.answer is not None}
    steps = ("dispute", "undispute")
    assert manners == {((), False, True), ((), True, False), (steps[:1], False, False), (steps, False, True)}


@pytest.mark.parametrize("kind", ["yes or no", "yes or no, with features", "rating", "rating, with features"])
def test_bots_say_yes_or_no_or_a_rating_and_liars_the_opposite(kind: str) -> None:
    plan = planned(KINDS_OF_SHARES[kind], 2_000)
    bots = invent_bots(plan, assign_roles({"exaggerator": 0.5}, 700), seed=1).values()
    low, high = plan.study.response.low, plan.study.response.high
    allowed = {low + k for k in range(int(high - low) + 1)}
    assert {bot.answer for bot in bots} == allowed
    honest, liar = (
        fmean(bot.answer or 0 for bot in bots if bot.kind == k) for k in ("honest", "exaggerator")
    )
    # Opposite answers of 350 people each; sums of means scatter by less than (high - low)/26 each way.
    assert honest + liar == pytest.approx(low + high, abs=6 * (high - low) / 26)


@pytest.mark.parametrize("kind", [kind for kind in both_studies.KINDS if "interact" not in kind])
def test_bots_say_what_the_others_will_say_if_they_are_asked(kind: str) -> None:
    plan = both_studies.planned(both_studies.KINDS[kind], 400)
    bots = invent_bots(plan, assign_roles({"exaggerator": 0.1}, 300), seed=1).values()
    (low, high), response = plan.study.prediction_range, plan.study.response
    said = [bot.prediction for bot in bots if bot.prediction is not None]
    assert len(said) == len(bots)
    assert low <= min(said) < max(said) <= high
    mean = (fmean(bot.answer or 0 for bot in bots) - response.low) / (response.high - response.low)
    # Errors of at most a tenth of the scale each: six standard errors of 300 are 0.035.
    assert (fmean(said) - low) / (high - low) == pytest.approx(mean, abs=0.04)
    assert all(response.low <= (bot.answer or 0.0) <= response.high for bot in bots)
    declared = invent_bots(planned(YES_NO, 400), assign_roles({}, 60), seed=1).values()
    assert {bot.prediction for bot in declared} == {None}


REHEARSED = {
    "yes or no": YES_NO,
    "number, asked": both_studies.NUMBER,
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A service that starts empty, for all rehearsals."""
    with serving(tmp_path_factory.mktemp("bots") / "service") as service:
        httpx2.post(service.said["sign_in_link"], data={"password": PASSWORD})
        yield service


@pytest.mark.slow
@pytest.mark.parametrize("text", REHEARSED.values(), ids=REHEARSED)
def test_bots_rehearse_yes_or_no_without_features_and_all_payments_are_verified(
    run: Run, service: Serving, tmp_path: Path, text: str
) -> None:
    study = tmp_path / "study.toml"
    study.write_text(text, encoding="utf-8")
    options = ["--players", "60", "--password", PASSWORD, "--study", str(study), "--seed", "1"]
    ran = run("bots", service.url, *options)
    assert ran.code == 0, ran.err
    found = re.search(r"(\d+) answered, (\d+) were paid, (\d+) found their payment right", ran.out)
    assert found, ran.out
    assert len(set(found.groups())) == 1
    assert int(found[1]) > 50


def test_bots_say_which_studies_they_cannot_rehearse(run: Run, tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(WITH_FEATURES.replace('kind = "uniform"', 'kind = "observed"'), encoding="utf-8")
    for path, said in ((study, "programs have none"), (tmp_path / "none.toml", "cannot be read")):
        ran = run("bots", "http://127.0.0.1:1", "--password", PASSWORD, "--study", str(path))
        assert (ran.code, said in " ".join(ran.err.split())) == (2, True)


@pytest.mark.slow
def test_bots_rehearse_a_whole_study_on_a_running_service(run: Run, service: Serving) -> None:
    directory, options = service.said["directory"], ("--url", service.url, "--json")
    beside = run("account", "link", directory, "analyst", *options)
    link = json.loads(beside.out)["sign_in_link"]
    office = run("account", "add", directory, "Accounts <office>", "--role", "payer", *options)
    payer = json.loads(office.out)["sign_in_link"]
    first = run("bots", link, "--players", "60", "--password", PASSWORD, "--seed", "3", "--payer", payer)
    assert first.code == 0, first.err
    # Two take their answers back, and two say that their facts are wrong.
    assert "56 answered, 56 were paid, 56 found their payment right." in first.out
    assert "The payer's file has 56 of these payments, in coins." in first.out
    wrong = run("bots", service.url, "--password", "not this one")
    assert (wrong.code, "answered by 403" in wrong.err) == (1, True)
    used = run("bots", link, "--password", PASSWORD)
    assert (used.code, "answered by 404" in used.err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nowhere"], 2, "The URL is 'nowhere'"),
        (["http://127.0.0.1:1", "--password", PASSWORD], 2, "does not answer"),
        (["http://127.0.0.1:1"], 1, "Give the analyst's --password"),
        (["http://127.0.0.1:1", "--players", "3"], 2, "players"),
        (["http://127.0.0.1:1", "--mix", "liar=2"], 2, "between 0 and 1"),
        (["http://127.0.0.1:1", "--mix", "saint=1"], 2, "no agent 'saint'"),
    ],
)
def test_what_bots_cannot_do_is_said(run: Run, arguments: list[str], code: int, said: str) -> None:
    ran = run("bots", *arguments)
    assert ran.code == code
    assert said in " ".join(ran.err.split())
