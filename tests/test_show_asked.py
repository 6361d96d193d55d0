"""Studies that ask people what the others will say, as people read them in a terminal, and the commands."""

import json
import math
import re
from pathlib import Path

import pyarrow.csv
import pytest
from support.commands import Run
from support.shown_asked import NUMBER, TEXTS, plan_of, released, reports, settled, study_of
from test_show_shares import FIVE, printed

from truthful.errors import Refused
from truthful.formatting import number
from truthful.plan import design
from truthful.planner import worth
from truthful.planner.asked_planning import SMALL_SLOPE
from truthful.promises import caveats, compare_promised, promises, slope_words
from truthful.promises import released_promises as holding
from truthful.release import Receipt, verify
from truthful.release.publication import WITHDRAWN
from truthful.show.plan_view import plan_view
from truthful.show.settlement_view import settlement_view, verdict_view
from truthful.study import Study


def flat(text: str) -> str:
    """In one line."""
    return re.sub(r"\s+", " ", text)


# Plans


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("width", [80, 120])
def test_a_plan_shows_its_guarantees_its_parameters_and_what_they_mean(name: str, width: int) -> None:
    plan = plan_of(name)
    text = printed(*plan_view(plan), width=width)
    assert max(map(len, text.splitlines())) <= width
    places = [text.index(f" {guarantee} ") for guarantee in FIVE]
    assert places == sorted(places)
    for parameter, value in plan.parameters().items():
        assert (re.search(rf"^ {parameter} +\S", text, flags=re.MULTILINE) is not None) == (value is not None)
    for word in ("paper", "published", "Estimators compared", "switch"):
        assert word not in text.replace("sums over everybody's are published as they are", "")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("number", ["none of 20.0 (of 100) or more gains at all", "the average answer is off by at most"]),
        ("features", ["none of 20.0 (of 100) or more gains at all", "predictions of people like these are"]),
        (
            "yes-no",
            ["people agree on what to expect", "more than the other answer", "the share of yes is off by"],
        ),
        ("rating", ["any lie of", "each difference between people is off by"]),
    ],
)
def test_the_truth_is_promised_wherever_people_expect_the_average(name: str, words: list[str]) -> None:
    told = " ".join(promise.words for promise in promises(plan_of(name)))
    for sentence in (*words, "they are asked for it", "your answer and prediction from any others"):
        assert sentence in told


@pytest.mark.parametrize("name", TEXTS)
def test_a_plan_prints_how_much_an_answer_says_of_the_others(name: str) -> None:
    plan = plan_of(name)
    k = plan.guarantees.truthfulness.slope
    text = flat(printed(*plan_view(plan)))
    assert f"An answer moves what its giver expects of the others by {k:.2g} of it." in text
    assert ("that is little" in text) == (k < SMALL_SLOPE)


def test_a_small_slope_is_warned_of_and_a_tiny_one_refused() -> None:
    small = design(Study.parse(NUMBER.replace("sure = 10", "sure = 4.9")), players=20_000, budget=200_000)
    assert small.guarantees.truthfulness.slope < SMALL_SLOPE
    assert "Ask about people of whom they know less" in flat(printed(*plan_view(small)))
    with pytest.raises(Refused, match=r"An answer moves .* by 0\.017"):
        design(Study.parse(NUMBER.replace("sure = 10", "sure = 2")), players=20_000, budget=200_000)


def test_the_limits_are_told_in_numbers_of_the_study() -> None:
    """k = 4/13: a lie of 20 pays from k·20/(2(1 − k)) on; a tenth off by 30 moves the best answer by 3/k."""
    personal, careless, level = caveats(plan_of("number"))
    assert "off by 4.44 or more, a lie of 20.0 can pay" in personal
    assert "with one in ten too high by 30.0" in careless
    assert "an answer 9.75 too low" in careless
    assert "if all moved their answers and predictions by the same" in level
    assert "alike" not in level
    assert "Declare beliefs.plausible" in flat(printed(*plan_view(plan_of("number"))))


def test_plausible_averages_are_told_where_others_pay_all_alike() -> None:
    plan = plan_of("features")
    assert plan.asked_mechanism is not None
    low, high = (50 + 50 * end for end in plan.asked_mechanism.plausible)
    assert low < 5
    assert high > 70
    ends = f"above {number(high)}" if low < 0 else f"below {number(low)} or above {number(high)}"
    assert f"Only where the average answer is {ends} do all answers pay alike." in caveats(plan)[-1]


def test_careless_predictions_of_yes_are_told_in_people_of_100() -> None:
    plan = plan_of("yes-no")
    tolerance = plan.guarantees.truthfulness.centre_tolerance or math.nan
    assert f"one in ten too high by {1000 * tolerance:.2g} of 100" in caveats(plan)[1]


@pytest.mark.parametrize("name", ["number", "yes-no"])
def test_what_more_buys_is_what_a_plan_with_more_has(name: str) -> None:
    plan = plan_of(name)
    assert plan.solution is not None
    found = worth(plan.solution)
    budget = plan.solution.goals.budget or math.nan
    before, richer, larger = (
        one.guarantees.accuracy.rmse or math.nan
        for one in (
            plan,
            plan_of(name, budget=1.05 * budget),
            plan_of(name, players=round(1.05 * plan.players)),
        )
    )
    assert found.currency_unit == pytest.approx((richer - before) / (0.05 * budget), rel=1e-6)
    assert found.player == pytest.approx((larger - before) / (0.05 * plan.players), rel=1e-6)
    assert (found.currency_unit or 0.0) < 0
    assert "1 USD more lowers the error by" in printed(*plan_view(plan))


def test_more_money_never_makes_a_plan_worse() -> None:
    errors = [
        plan_of("number", budget=budget).guarantees.accuracy.rmse or math.nan
        for budget in (1500.0, 1600.0, 1700.0, 1800.0, 1900.0, 2000.0)
    ]
    assert errors == sorted(errors, reverse=True)


# Settlements


@pytest.mark.parametrize("name", TEXTS)
def test_a_settlement_shows_both_averages_and_what_was_expected(name: str) -> None:
    plan, settlement = settled(name)
    _, release = released(name)
    assert release.predictions is not None
    text = printed(*settlement_view(settlement, plan))
    for label, row in (
        ("answers", release.predictions.answer),
        ("predictions", release.predictions.prediction),
    ):
        told = re.search(rf"^ {label} +(-?[\d.]+) +(-?[\d.]+) +(-?[\d.]+)", text, flags=re.MULTILINE)
        assert told
        assert [float(end) for end in told.groups()] == pytest.approx(
            [row.value, row.low, row.high], abs=0.06 * (row.high - row.low)
        )
    assert ("expected beforehand" in text) == (name != "yes-no")
    assert ("Coefficients" in text) == (name == "features")
    assert ("The average answer is" in text) == (name in ("number", "features"))


@pytest.mark.parametrize("name", ["yes-no", "rating"])
def test_one_number_has_one_interval(name: str) -> None:
    _, release = released(name)
    assert release.predictions is not None
    (share,) = release.shares or ()
    times = 100 if name == "yes-no" else 1
    average = release.predictions.answer
    assert [average.value, average.low, average.high] == [
        times * end for end in (share.value, share.low, share.high)
    ]


def test_a_surprise_beyond_all_that_people_allow_withdraws_truthfulness() -> None:
    """People are sure to within 10, and the average is 45 beyond what they expected."""
    plan, settlement = settled("number", 45.0)
    _, release = released("number", 45.0)
    (warning,) = release.warnings
    assert warning.startswith(WITHDRAWN)
    assert "surer than they should be, or predictions were careless" in warning
    for promise in holding(release, plan)[1:3]:
        assert promise.words == "nothing is promised: the result contradicts the declared beliefs"
    assert holding(release, plan)[0].probability == "certain"
    assert "surer than they should be" in flat(printed(*settlement_view(settlement, plan)).replace("│", " "))
    assert released("number")[1].warnings == ()


@pytest.mark.parametrize("name", TEXTS)
def test_what_was_promised_stands_beside_what_holds(name: str) -> None:
    plan, release = released(name)
    rows = {words: (promised, now) for words, promised, now in compare_promised(release, plan)}
    assert ("Lies from which on none pays" in rows) == (name in ("number", "features"))
    assert ("Error of the average, root mean square" in rows) == (name == "number")
    cap = plan.guarantees.budget.cap
    promised, now = rows["Most that all payments can cost"]
    assert promised == f"{cap:,.2f} USD"
    # A plan allows for features that are somewhat further from their mean than those of whoever answers.
    assert 0.98 * (cap or 0.0) < float(now.removesuffix(" USD").replace(",", "")) <= (cap or 0.0) + 0.01


# Verdicts


def shown_number(text: str, letter: str) -> float:
    return float(re.findall(rf" {letter} +(-?[\d.]+)[,:]", text)[0])


@pytest.mark.parametrize("name", ["number", "features", "rating"])
@pytest.mark.parametrize("player", [f"p-{k}" for k in range(4)])
def test_a_payment_can_be_done_by_hand(name: str, player: str) -> None:
    """a + b(2s(1−s)(y − p)Δ − s²(y − p)²) + w(4 − (m − p₀)²) with the numbers as they are shown."""
    _, settlement = settled(name)
    receipt, release = settlement.receipt(player), settlement.release
    text = printed(*verdict_view(verify(release, receipt), release.payment))
    assert f"Verified: the payment of player {player}" in text
    p, average, predicted, delta, s = (shown_number(text, letter) for letter in ("p", "p₀", "m₀", "Δ", "s"))
    y, m = (float(part) for part in re.findall(r"y, m +(-?[\d.]+), (-?[\d.]+):", text)[0])
    a, b = (float(part) for part in re.findall(r"for the answer +([\d.]+) \+ ([\d.]+) ×", text)[0])
    (w,) = (float(part) for part in re.findall(r"for the prediction +([\d.]+) ×", text))
    answer = a + b * (2 * s * (1 - s) * (y - p) * delta - (s * (y - p)) ** 2)
    assert answer + w * (4 - (m - average) ** 2) == pytest.approx(receipt.payment, abs=2e-5)
    assert isinstance(receipt, Receipt)
    assert predicted == pytest.approx(receipt.others_prediction, abs=1e-6)


@pytest.mark.parametrize("player", [f"p-{k}" for k in range(4)])
def test_a_payment_for_yes_or_no_can_be_done_by_hand(player: str) -> None:
    _, settlement = settled("yes-no")
    receipt, release = settlement.receipt(player), settlement.release
    text = printed(*verdict_view(verify(release, receipt), release.payment))
    a, b, clip = (
        float(part) for part in re.findall(r"for the answer +([\d.]+) \+ ([\d.]+) × yΔ/([\d.]+)", text)[0]
    )
    (w,) = (float(part) for part in re.findall(r"for the prediction +([\d.]+) ×", text))
    y, m = (float(part) for part in re.findall(r"y, m +(-?[\d.]+), (-?[\d.]+):", text)[0])
    delta, average = shown_number(text, "Δ"), shown_number(text, "p₀")
    assert a + b * y * delta / clip + w * (4 - (m - average) ** 2) == pytest.approx(receipt.payment, abs=2e-5)
    assert re.search(r"^│ s ", text, flags=re.MULTILINE) is None


# The commands


@pytest.fixture
def study_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """We are in a directory with the study study.toml and reports.csv of its people."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "study.toml"
    path.write_text(NUMBER)
    pyarrow.csv.write_csv(reports(study_of("number"), 2000), tmp_path / "reports.csv")
    return path


def test_a_study_that_asks_is_planned_settled_checked_and_reported(study_file: Path, run: Run) -> None:
    told = run(
        *("plan", "study.toml", "--players", "2000", "--budget", "2000", "--save", "plan.json"),
        *("--chart", "plan.svg"),
    )
    assert (told.code, told.err) == (0, "")
    assert "An answer moves what its giver expects of the others by 0.31 of it." in flat(told.out)
    assert "What an answer pays" in Path("plan.svg").read_text(encoding="utf-8")
    told = run("settle", "plan.json", "reports.csv", "--out", "out", "--seed", "1")
    assert (told.code, told.err) == (0, "")
    assert "people predicted" in told.out
    told = run("verify", "out/release.json", "out/receipts.parquet", "--player", "p-7", "--json")
    record = json.loads(told.out)
    assert told.code == 0
    assert record["slope"] == pytest.approx(4 / 13)
    assert -1 <= record["answer"] <= 1
    made = Path("out/report.html").read_text(encoding="utf-8")
    assert run("report", "out/release.json", "plan.json", "--out", "again.html").code == 0
    assert Path("again.html").read_text(encoding="utf-8") == made
    assert "How people were paid" in made
    assert slope_words(plan_of("number")) in made
