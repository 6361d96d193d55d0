"""Yes and no, and ratings, as people read them in a terminal, and the commands that show them."""

import io
import json
import math
import re
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType
from rich.text import Text
from support.commands import Run
from support.shares import TEXTS, TRUST, YES_NO, plan_of, released, reports, settled
from support.studies import DESIGNED

from truthful.errors import InputError
from truthful.formatting import number, points, share
from truthful.plan import design
from truthful.planner import worth
from truthful.promises import compare_promised, promises
from truthful.release import Receipt, Verdict, verify
from truthful.show.plan_view import plan_view
from truthful.show.settlement_view import estimates_views, settlement_view, verdict_view
from truthful.show.terminal import show
from truthful.study import Study

FIVE = ["privacy", "truthfulness", "accuracy", "participation", "budget"]


def printed(*views: RenderableType, width: int = 200) -> str:
    """What a terminal of this width shows, without its colours."""
    file = io.StringIO()
    show(
        Console(file=file, width=width, markup=False, emoji=False, highlight=False, force_terminal=True),
        *views,
    )
    return Text.from_ansi(file.getvalue()).plain


@pytest.fixture
def study_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """We are in a directory with the study study.toml and reports.csv of its people."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "study.toml"
    path.write_text(YES_NO)
    pyarrow.csv.write_csv(reports(Study.parse(YES_NO)), tmp_path / "reports.csv")
    return path


# Words


@given(value=st.floats(-1, 1), width=st.floats(1e-6, 1))
def test_a_share_is_within_a_hundredth_of_its_interval(value: float, width: float) -> None:
    told = float(share(value, width).removesuffix("%").replace(",", ""))
    assert told == pytest.approx(100 * value, abs=0.051 * 100 * width)


def test_differences_of_shares_are_in_percentage_points() -> None:
    assert points(0.0138) == "1.38 percentage points"
    assert points(2.5e-6, 2) == "0.00025 percentage points"


@pytest.mark.parametrize(
    ("value", "told"),
    [(0.9999999, "1.00"), (0.9994, "0.999"), (9.999, "10.0"), (99.96, "100"), (0.5, "0.500")],
)
def test_a_number_that_is_rounded_up_has_no_digit_more(value: float, told: str) -> None:
    assert number(value) == told


# Plans


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("width", [80, 120])
def test_a_plan_shows_its_guarantees_and_parameters_and_nothing_of_numbers(name: str, width: int) -> None:
    plan = plan_of(name)
    text = printed(*plan_view(plan), width=width)
    assert max(map(len, text.splitlines())) <= width
    places = [text.index(f" {guarantee} ") for guarantee in FIVE]
    assert places == sorted(places)
    for parameter, value in plan.parameters().items():
        assert (re.search(rf"^ {parameter} +\S", text, flags=re.MULTILINE) is not None) == (value is not None)
    for word in ("paper", "published", "Estimators compared", "slope", "clip", "score_weight"):
        assert word not in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "yes-no",
            [
                "of people the truth earns at least",
                "more than the other answer",
                "pay the same if 24.1% of the others say yes",
            ],
        ),
        (
            "features",
            ["pay the same for the average person if 35.5% of the others say yes", "each difference between"],
        ),
        (
            "rating",
            ["any lie", "The lowest and the highest rating pay the same", "if the others' mean is 2.81"],
        ),
    ],
)
def test_the_words_of_a_plan_name_the_switch_point(name: str, words: list[str]) -> None:
    plan = plan_of(name, 20_000, bonus=10.0, epsilon=0.1)
    told = " ".join(promise.words for promise in promises(plan))
    for sentence in words:
        assert sentence in told
    believed = next(a for a in plan.guarantees.truthfulness.assumptions if a.startswith("people believe"))
    assert ("say yes" in believed) == (name != "rating")
    assert ("the mean rating is between 2.2 and 3.4" in believed) == (name == "rating")


def test_lies_of_some_steps_are_told_as_what_they_are() -> None:
    plan = plan_of("rating", 5000, budget=5000.0, lie=2)
    truthfulness = promises(plan)[1].words
    assert "a rating that is one step off costs a typical person " in truthfulness
    assert "more than any lie of 2 steps or more on average" in truthfulness
    every = plan_of("rating", 20_000, budget=20_000.0, lie=1)
    assert "more than any lie on average" in promises(every)[1].words


def test_nothing_is_promised_of_the_truth_where_there_is_no_bonus() -> None:
    text = printed(*plan_view(plan_of("yes-no", bonus=0.0)))
    assert "nothing is promised: the bonus does not outweigh what this privacy is worth" in text


def test_with_a_budget_alone_all_of_it_is_the_bonus_and_the_advice_says_what_would_be_wiser() -> None:
    plan = plan_of("yes-no", budget=500.0)
    text = printed(*plan_view(plan))
    assert "All of the money goes into the bonus" in text
    assert "With --accuracy the bonus is as small as honesty" in text
    assert re.search(
        r"1 USD more lowers the error by 0\.000\d+ percentage points and one more player lowers", text
    )


def test_with_an_accuracy_the_bonus_is_the_least_and_the_rest_a_flat_fee() -> None:
    both, cheapest = (plan_of("yes-no", accuracy=0.02, **more) for more in ({"budget": 500.0}, {}))
    text = printed(*plan_view(both))
    smallest = "The bonus is the smallest that makes honesty pay at this accuracy"
    assert f"{smallest}, and the rest of the budget is a flat fee. People" in re.sub(r"\s+", " ", text)
    assert "more lowers the error" not in text
    text = printed(*plan_view(cheapest))
    assert f"{smallest}. People" in re.sub(r"\s+", " ", text)
    assert "One more player saves" in text


def test_what_more_money_buys_is_what_a_plan_with_more_money_has() -> None:
    plan = plan_of("yes-no", budget=500.0)
    assert plan.solution is not None
    found = worth(plan.solution)
    richer = plan_of("yes-no", budget=525.0).guarantees.accuracy.rmse or math.nan
    larger = plan_of("yes-no", 2100, budget=500.0).guarantees.accuracy.rmse or math.nan
    before = plan.guarantees.accuracy.rmse or math.nan
    assert found.currency_unit == pytest.approx((richer - before) / 25, rel=1e-6)
    assert found.player == pytest.approx((larger - before) / 100, rel=1e-6)
    assert (found.currency_unit or 0.0) < 0
    assert (found.player or 0.0) < 0


# Settlements


def test_a_settlement_shows_shares_in_percent_and_differences_in_points() -> None:
    plan, settlement = settled("features")
    _, release = released("features")
    text = printed(*settlement_view(settlement, plan))
    found = re.search(r"([\d.]+)% say yes, between ([\d.]+)% and ([\d.]+)%\.", text)
    assert found
    (row,) = release.shares or ()
    assert [float(end) / 100 for end in found.groups()] == pytest.approx(
        [row.value, row.low, row.high], abs=6e-4
    )
    assert "Differences in the share of yes, percentage points" in text
    for label, one in zip(
        ("age, from 18 to 80", "region: south, not north", "region: east, not north"),
        release.differences or (),
        strict=True,
    ):
        told = re.findall(rf"{label} +(-?[\d.]+) +(-?[\d.]+) +(-?[\d.]+)", text)
        assert [float(end) / 100 for end in told[0]] == pytest.approx(
            [one.value, one.low, one.high], abs=6e-3
        )
        assert len(told) == 2  # the odds ratios too
    assert "Coefficients" not in text


def test_odds_ratios_are_not_estimable_where_noise_drowns_them() -> None:
    plan, settlement = settled("features", epsilon=0.001)
    text = printed(*estimates_views(released("features", epsilon=0.001)[1], plan.study))
    assert "Odds ratios are not estimable from what was released." in text
    assert "Odds ratios of yes" not in text
    assert "not estimable" not in printed(*estimates_views(released("yes-no")[1], Study.parse(YES_NO)))
    assert settlement.release.odds_ratios is None


def test_the_mean_of_ratings_is_on_their_scale() -> None:
    plan, release = released("rating", share=0.45)
    text = printed(*estimates_views(release, plan.study))
    found = re.search(
        r"The mean rating is ([\d.]+), between [\d.]+ and [\d.]+, on the scale from 1 to 5\.", text
    )
    assert found
    (row,) = release.shares or ()
    assert float(found[1]) == pytest.approx(row.value, abs=6e-3)
    assert 1 < row.value < 5
    assert "%" not in text.replace("95%", "")
    assert "dds" not in text


def test_a_share_beyond_what_can_be_is_shown_cut() -> None:
    """And kept as it is in the release: of an ε this small the noise is larger than all answers."""
    plan, release = released("features", epsilon=0.001)
    (row,) = release.shares or ()
    assert not 0 <= row.low <= row.high <= 1
    text = printed(*estimates_views(release, plan.study))
    told = re.search(r"everybody +([\d.]+)% +([\d.]+)% +([\d.]+)%", text)
    assert told
    assert all(0 <= float(end) <= 100 for end in told.groups())


@pytest.mark.parametrize("name", TEXTS)
def test_what_was_promised_stands_beside_what_holds(name: str) -> None:
    plan, release = released(name)
    rows = {words: (promised, now) for words, promised, now in compare_promised(release, plan)}
    assert "What the truth earns more than a lie, at least" in rows
    assert ("Steps from which no lie pays" in rows) == (name == "rating")
    assert any(words.startswith("Error of differences") for words in rows) == (name != "yes-no")
    cap = plan.guarantees.budget.cap
    assert rows["Most that all payments can cost"][0] == f"{cap:,.2f} USD"
    if name == "yes-no":
        promised = 100 * (plan.guarantees.accuracy.rmse or math.nan)
        assert rows["Error of the share of yes, percentage points"][0] == number(promised)


# Verdicts


@pytest.mark.parametrize(
    ("name", "player"), [("yes-no", f"p-{k:04d}") for k in range(1, 7)] + [("features", "p-0003")]
)
def test_a_payment_can_be_done_by_hand(name: str, player: str) -> None:
    """flat + bonus × (1 ± φ)/2 with the numbers as they are shown."""
    _, settlement = settled(name, flat=0.1, bonus=1.0, epsilon=0.2)
    receipt, release = settlement.receipt(player), settlement.release
    text = printed(*verdict_view(verify(release, receipt), release.payment))
    assert f"Verified: the payment of player {player}" in text
    sign, word = (1, "yes") if receipt.report == 1 else (-1, "no")
    assert f"0.1 + 1 × (1 {'+' if sign > 0 else '−'} φ)/2, for {word}" in text
    phi = float(re.findall(r"φ +(-?[\d.]+): ", text)[0])
    assert 0.1 + (1 + sign * phi) / 2 == pytest.approx(receipt.payment, abs=2e-6)
    assert isinstance(receipt, Receipt)
    p, t = (float(re.findall(rf"{letter} +(-?[\d.]+): ", text)[0]) for letter in "pt")
    assert p == pytest.approx(receipt.peer_prediction, abs=1e-6)
    assert math.copysign(1, p - t) == math.copysign(1, phi)
    assert "the switch point, the share at which yes and no pay the same" in text


@pytest.mark.usefixtures("study_file")
def test_a_bonus_of_ones_own_has_a_margin_and_a_tolerance(run: Run) -> None:
    own = (
        "--players",
        "2000",
        "--epsilon",
        "0.1",
        "--bonus",
        "0.25",
        "--margin",
        "0.02",
        "--tolerance",
        "0.03",
    )
    parameters = json.loads(run("plan", "study.toml", *own, "--json").out)["parameters"]
    assert (parameters["margin"], parameters["tolerance"]) == (0.02, 0.03)
    alone = run("plan", "study.toml", "--players", "2000", "--budget", "500", "--margin", "0.02")
    assert "margin is 0.02. Give a bonus too, or leave it out." in alone.err


@pytest.mark.parametrize("player", [f"p-{k:04d}" for k in range(1, 9)])
def test_a_payment_for_a_rating_can_be_done_by_hand(player: str) -> None:
    _, settlement = settled("rating", share=0.45)
    receipt, release = settlement.receipt(player), settlement.release
    text = printed(*verdict_view(verify(release, receipt), release.payment))
    assert "0 + 1 × (1 + φy + s(1 − y²))/2" in text
    phi, y, s = (float(re.findall(rf"{letter} +(-?[\d.]+): ", text)[0]) for letter in "φys")
    assert y == (receipt.report - 3) / 2
    assert (1 + phi * y + s * (1 - y * y)) / 2 == pytest.approx(receipt.payment, abs=3e-6)


def test_where_the_others_share_is_implausible_half_the_bonus_is_paid_and_said_to_be() -> None:
    _, settlement = settled("yes-no", share=0.9, bonus=1.0, epsilon=0.2, tolerance=0.05)
    receipt, release = settlement.receipt("p-0001"), settlement.release
    verdict = verify(release, receipt)
    text = printed(*verdict_view(verdict, release.payment))
    assert receipt.payment == 0.5
    assert "0 + 1/2, whatever the answer: p is beyond all that was thought possible" in text
    assert "φ" not in text


def test_the_verdict_on_a_number_has_nothing_of_shares() -> None:
    verdict = Verdict(True, "p", 1.0, 1.0, 0.1, 0.2, False, 0.9, 0.01, x=(1.0,), answer=0.3, noise=0.1)
    assert (verdict.switch, verdict.phi, verdict.plausible, verdict.bend) == (None,) * 4


# The commands


def test_a_study_of_yes_and_no_is_planned_settled_checked_and_reported(study_file: Path, run: Run) -> None:
    told = run("plan", "study.toml", "--players", "2000", "--budget", "500", "--save", "plan.json")
    assert (told.code, told.err) == (0, "")
    assert "the other answer" in told.out
    told = run("settle", "plan.json", "reports.csv", "--out", "out", "--seed", "1")
    assert (told.code, told.err) == (0, "")
    assert "% say yes, between " in told.out
    assert "Paid " in told.out
    told = run("verify", "out/release.json", "out/receipts.parquet", "--player", "p-0007")
    assert told.code == 0
    assert "for yes" in told.out or "for no" in told.out
    record = json.loads(
        run("verify", "out/release.json", "out/receipts.parquet", "--player", "p-0007", "--json").out
    )
    assert record["switch"] == pytest.approx(0.2410991637)
    assert abs(record["phi"]) <= 1
    assert record["answer"] in (-1.0, 1.0)
    made = Path("out/report.html").read_text(encoding="utf-8")
    assert run("report", "out/release.json", "plan.json", "--out", "again.html").code == 0
    assert Path("again.html").read_text(encoding="utf-8") == made
    assert "Undeclared income: report" in made


def test_an_accuracy_is_a_share(study_file: Path, run: Run) -> None:
    told = run("plan", "study.toml", "--players", "2000", "--accuracy", "0.02", "--json")
    record = json.loads(told.out)
    assert record["guarantees"]["accuracy"]["rmse"] == pytest.approx(0.02, rel=1e-6)
    assert "0.02 is 2 percentage points" in re.sub(r"[\s│]+", " ", run("plan", "--help").out)


def test_with_a_bonus_nothing_is_solved_for(study_file: Path, run: Run) -> None:
    asked = ["plan", "study.toml", "--players", "2000", "--epsilon", "0.1", "--bonus", "0.3", "--flat", "0.2"]
    record = json.loads(run(*asked, "--json").out)
    assert "answer" not in record
    numbers = record["parameters"]
    assert (numbers["epsilon"], numbers["bonus"], numbers["flat"]) == (0.1, 0.3, 0.2)
    text = run(*asked).out
    assert re.search(r"^ bonus +0\.3 +the most that is paid beside it", text, flags=re.MULTILINE)
    assert "more lowers" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bonus", "0.3", "--epsilon", "0.1"], "players is missing: with a bonus nothing is solved for."),
        (["--bonus", "0.3", "--players", "2000"], "epsilon is missing: with a bonus nothing is solved for."),
        (
            ["--bonus", "0.3", "--players", "2000", "--epsilon", "0.1", "--budget", "9"],
            "budget and bonus are both given: then nothing is left to solve for.",
        ),
        (
            ["--players", "2000", "--budget", "500", "--flat", "0.1"],
            "flat is 0.1. Give a bonus too, or leave it out.",
        ),
        (
            ["--players", "2000", "--epsilon", "1", "--score-weight", "1"],
            "score_weight goes with answers that are",
        ),
        (
            ["--players", "2000", "--budget", "500", "--rule", "brier"],
            "rule is 'brier'. It goes with answers that are",
        ),
        (
            ["--players", "2000", "--budget", "500", "--payments", "expected"],
            "payments is 'expected'. It goes with",
        ),
        (
            ["--players", "2000", "--budget", "500", "--clip", "1"],
            "clip is 1.0. It goes with answers that are numbers.",
        ),
        (
            ["--players", "2000", "--budget", "500", "--lie", "2"],
            "lie is 2; of 2 answers a lie is from 1 to 1 steps",
        ),
    ],
)
def test_what_does_not_go_with_yes_and_no_is_refused(
    study_file: Path, run: Run, arguments: list[str], message: str
) -> None:
    told = run("plan", "study.toml", *arguments)
    assert told.code == 2
    assert message in told.err
    assert told.out == ""


@pytest.mark.parametrize("name", ["flat", "bonus", "margin", "tolerance"])
def test_what_goes_with_yes_and_no_alone_is_refused_for_numbers(name: str) -> None:
    given: dict[str, Any] = {name: 0.5}
    with pytest.raises(InputError, match=f"{name} is 0.5; it goes with answers of kind 'yes-no' or 'rating'"):
        design(Study.parse(DESIGNED), players=500, budget=500, **given)


@pytest.mark.parametrize("file", ["answers.svg", "answers.png"])
def test_the_chart_of_a_plan_is_what_answers_pay(study_file: Path, run: Run, file: str) -> None:
    told = run("plan", "study.toml", "--players", "2000", "--budget", "500", "--chart", file)
    assert told.code == 0
    assert f"Drew {file}." in told.out
    drawn = Path(file).read_bytes()
    assert b"cross at the switch point, 24.1%" in drawn


def test_few_values_are_warned_of_and_planned_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """In a place of their own, so that JSON stays JSON."""
    monkeypatch.chdir(tmp_path)
    asked = ["--players", "500", "--epsilon", "2", "--score-weight", "0.5"]
    Path("few.toml").write_text(DESIGNED.replace("high = 200", "high = 1"))
    Path("many.toml").write_text(DESIGNED)
    for more in ([], ["--json"]):
        told = run("plan", "few.toml", *asked, *more)
        assert told.code == 0
        assert told.err.startswith(
            "Warning: The response is a number from 0 to 1. If people answer yes or no"
        )
        assert run("plan", "many.toml", *asked, *more).err == ""
    assert json.loads(told.out)["format"] == "truthful/plan/2"


def test_a_rating_is_planned_from_a_roster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(TRUST)
    pyarrow.csv.write_csv(reports(Study.parse(TRUST), 3000), "people.csv")
    told = run("plan", "study.toml", "--roster", "people.csv", "--budget", "9000", "--lie", "3")
    assert (told.code, told.err) == (0, "")
    assert "3,000 people" in told.out
    assert re.search(r"more than any lie (of [23] steps or more )?on average", " ".join(told.out.split()))
