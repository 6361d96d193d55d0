"""What people read: numbers that never promise too much, names printed as they are, tables that fit the terminal."""

import io
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType
from rich.text import Text
from support.studies import DESIGNED, OBSERVED, RECORDS, RELEASES, people, planned, saved_study

from truthful import cli
from truthful.demo import demonstrate
from truthful.formatting import REHEARSAL, even_odds, money, number, odds, percent, protects, to_within
from truthful.guarantees import Guarantees
from truthful.plan import Plan, design
from truthful.planner.number_planning import NumberSolution
from truthful.promises import promises
from truthful.release import Verdict, verify
from truthful.release.publication import WITHDRAWN
from truthful.settlement import Settlement, settle
from truthful.show.plan_view import compared_table, plan_view
from truthful.show.settlement_view import (
    coefficients_table,
    coverage,
    demo_view,
    payments_chart,
    settlement_view,
    verdict_view,
)
from truthful.show.terminal import guarantees_table, notice, rich_progress, show, symbols_table
from truthful.study import Study
from truthful.symbols import SYMBOLS

FIVE = ["privacy", "truthfulness", "accuracy", "participation", "budget"]


def printed(*views: RenderableType, width: int = 80) -> str:
    """What a terminal of this width shows, without its colours."""
    file = io.StringIO()
    show(
        Console(file=file, width=width, markup=False, emoji=False, highlight=False, force_terminal=True),
        *views,
    )
    return Text.from_ansi(file.getvalue()).plain


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Settlement]:
    directory = tmp_path_factory.mktemp("settled")
    study = saved_study(directory)
    plan = planned(study)
    return plan, settle(plan, people(study).reports, out=directory / "out", seed=1)


@pytest.fixture(scope="module")
def solved() -> Plan:
    return design(Study.parse(DESIGNED), players=20_000, budget=5_000)


# Numbers


@given(epsilon=st.floats(1e-6, 100))
def test_odds_are_never_better_for_the_guesser_than_stated(epsilon: float) -> None:
    guess, against = even_odds(epsilon)
    assert guess + against == pytest.approx(100)
    assert guess / 100 >= 1 / (1 + math.exp(-epsilon)) - 1e-10


def test_odds_beyond_99_to_1_are_no_privacy_and_no_numbers() -> None:
    assert [odds(epsilon) for epsilon in (0.1, 1.0, 4.595)] == ["52.5:47.5", "73.2:26.8", "99.0:1.0"]
    assert protects(4.595)
    assert not any(map(protects, (4.596, 10.0, 100.0)))
    assert odds(4.596) == odds(1000.0) == "more than 99:1"
    none = promises(planned(Study.parse(DESIGNED), epsilon=100.0))[0]
    assert none.words.startswith(
        "practically no privacy: whoever sees the result may tell your answer from any other"
    )
    assert none.words.count("0") == 2  # ε = 100


@given(share=st.floats(0, 1))
def test_a_share_is_rounded_down_and_never_to_all(share: float) -> None:
    told = percent(share)
    assert float(told.rstrip("%")) / 100 <= share + 1e-10
    assert (told == "100%") == (share > 1 - 1e-12)


@pytest.mark.parametrize(
    ("share", "told"), [(0.99999, "99.99%"), (0.29, "29%"), (1.0, "100%"), (0.998, "99.8%")]
)
def test_shares_as_people_write_them(share: float, told: str) -> None:
    assert percent(share) == told


@pytest.mark.parametrize(
    ("amount", "told"),
    [
        (4896, "4,896.00 USD"),
        (0.01471, "1.5 cents"),
        (0.01, "1.0 cents"),
        (0.25, "25 cents"),
        (0.2536, "25.4 cents"),
        (0.994, "99.4 cents"),
        (0.996, "1.00 USD"),
        (0, "0.00 USD"),
        (1e-7, "0.000010 cents"),
        (2.5, "2.50 USD"),
    ],
)
def test_small_amounts_are_told_in_cents_and_none_in_scientific_notation(amount: float, told: str) -> None:
    assert money(amount, "USD") == told
    assert money(amount, "GBP") == told.replace("cents", "pence").replace("USD", "GBP")


def test_amounts_of_currencies_without_cents_are_told_in_units() -> None:
    assert money(0.01471, "JPY") == "0.0147 JPY"
    assert money(0.01471, "USD", 4) == "0.0147 USD"


@given(value=st.floats(-1e15, 1e15).filter(lambda value: abs(value) > 1e-9))
def test_a_number_is_near_what_is_told(value: float) -> None:
    told = number(value)
    assert "e" not in told
    assert float(told.replace(",", "")) == pytest.approx(value, rel=0.005)


def test_a_coefficient_is_as_precise_as_its_interval() -> None:
    assert [to_within(x, 77.4) for x in (601.6, 563.1)] == ["602", "563"]
    assert [to_within(x, 1.685) for x in (1.2977, 0.457)] == ["1.30", "0.46"]
    assert to_within(0.0123, 0.0) == "0.0123"


# Guarantees


def test_a_plan_shows_the_five_guarantees_in_their_order() -> None:
    text = printed(*plan_view(planned(Study.parse(DESIGNED), 20_000)))
    places = [text.index(f" {name} ") for name in FIVE]
    assert places == sorted(places)


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(
    width: int, settled: tuple[Plan, Settlement], solved: Plan, tmp_path: Path
) -> None:
    plan, settlement = settled
    assert settlement.directory is not None
    demo = demonstrate(tmp_path / "demo", players=100, seed=1, tell=lambda message: None)
    few = people(plan.study).reports.slice(0, 300)
    less = settle(plan, few, seed=1, accept_less=True)
    views = [
        *plan_view(planned(Study.parse(RELEASES["noisy-statistics"]))),
        *plan_view(solved),
        *settlement_view(settlement, plan),
        *settlement_view(less, plan),
        *demo_view(demo),
        symbols_table(),
    ]
    # Commands are left whole, so that they can be copied.
    lines = [line for line in printed(*views, width=width).splitlines() if not line.startswith("  truthful ")]
    paths = (str(settlement.directory), str(demo.directory))
    assert [line for line in lines if len(line) > width and not any(path in line for path in paths)] == []


def test_an_empty_promise_says_so_and_has_no_probability() -> None:
    vacuous = promises(planned(Study.parse(DESIGNED), absent_share=0.3, base_payment=0.0))
    told = {promise.name: promise for promise in vacuous}
    for name in ("truthfulness", "accuracy", "participation"):
        assert told[name].words.startswith("nothing is promised")
        assert told[name].probability == ""
        assert told[name].assumptions == ()
    assert told["privacy"].probability == told["budget"].probability == "certain"


def privacy_of(text: str, **parameters: Any) -> str:
    plan = design(Study.parse(text), players=500, epsilon=2.0, score_weight=0.5, **parameters)
    return promises(plan)[0].words


def test_what_is_protected_and_what_is_not_is_told() -> None:
    """Features that were assigned by lot are no facts about anybody; people's own are, and are protected or not."""
    own = OBSERVED + RECORDS.replace("records", "answers")
    told = privacy_of(own, roster=people(Study.parse(own)).reports)
    assert told.endswith("; your features are not protected: sums over everybody's are published as they are")
    assert privacy_of(OBSERVED + RECORDS).endswith(", nor your features from any others")
    assert privacy_of(DESIGNED).endswith("(ε = 2)")


@pytest.mark.parametrize("width", [80, 120])
def test_the_cap_assumes_nothing_and_the_average_does(width: int) -> None:
    plan = planned(Study.parse(DESIGNED), 20_000, epsilon=0.1)
    lines = [line.rstrip() for line in printed(guarantees_table(promises(plan)), width=width).splitlines()]
    (first,) = [i for i, line in enumerate(lines) if line.startswith(" budget")]
    assert lines[first].endswith("cap: nothing")
    assert lines[first + 1].endswith("others: 1 2 3 4")


def test_the_accuracy_of_what_was_asked_for_stands_first_also_where_it_is_read_from_a_file(
    tmp_path: Path,
) -> None:
    study = Study.parse(DESIGNED)
    plan = design(study, players=20_000, budget=5_000, accuracy_of="predictions")
    plan.save(tmp_path / "plan.json")
    for one in (plan, Plan.load(tmp_path / "plan.json")):
        told, accuracy = promises(one)[2].words, one.guarantees.accuracy
        assert told.startswith(
            "predictions of people like these are, taken together, off by at most "
            f"{number(accuracy.prediction_quantile or 0.0)} (of 200)"
        )
        assert (
            f"(and the coefficients, in normalised units) is off by at most {number(accuracy.quantile or 0.0)}"
            in told
        )


def test_a_plan_prints_the_intervals_to_expect(solved: Plan) -> None:
    text = printed(*plan_view(solved))
    for one in solved.guarantees.accuracy.numbers or ():
        effect = "" if one.smallest_effect is None else number(one.smallest_effect)
        assert re.search(
            rf"{re.escape(one.name)} +± {re.escape(number(one.half_width))} *{re.escape(effect)}", text
        )


def test_an_earlier_release_without_quantiles_is_still_put_in_words(solved: Plan) -> None:
    record = solved.guarantees.record()
    for part, names in {
        "accuracy": ("quantile", "prediction_quantile", "numbers"),
        "truthfulness": ("shading",),
    }.items():
        for name in names:
            del record[part][name]
    told = promises(replace(solved, stated=Guarantees.from_record(record)))
    assert told[1].words.startswith(
        "Counting also what privacy is worth to people, and that a few lie, for 99"
    )
    assert told[2].words.startswith("on average over studies any prediction")


def test_where_the_average_is_no_less_than_the_cap_nothing_is_assumed() -> None:
    told = promises(planned(Study.parse(DESIGNED), score_weight=0.0))[-1]
    assert (told.name, told.probability, told.assumptions) == ("budget", "certain", ())


def test_a_promise_that_means_something_names_its_size(solved: Plan) -> None:
    told = {promise.name: promise.words for promise in promises(solved)}
    truthfulness, accuracy, budget = (
        getattr(solved.guarantees, name) for name in ("truthfulness", "accuracy", "budget")
    )
    assert f"by more than {number(100 * truthfulness.lie)} (of 200)" in told["truthfulness"]
    pay, (fifth, two) = truthfulness.typical_pay, truthfulness.shading
    assert told["truthfulness"].startswith(
        "if nearly everybody else is honest and the declared beliefs hold, honesty pays best on average: shading an "
        f"answer by 40 (of 200) costs a typical person {money(fifth.costs, 'USD')} of {money(pay, 'USD', 2)}, by 80 "
        f"it costs {money(two.costs, 'USD')}. "
    )
    assert (
        f"no lie gains over {money(truthfulness.slack, 'USD')}, and for nine in ten" in told["truthfulness"]
    )
    assert f"none of more than {number(truthfulness.lie_in_answer)} gains at all" in told["truthfulness"]
    assert f"{percent(truthfulness.undeterred, 0)} are not deterred" in told["truthfulness"]
    assert f"off by at most {number(accuracy.quantile)} (of 200); " in told["accuracy"]
    assert f"taken together, off by at most {number(accuracy.prediction_quantile)}. " in told["accuracy"]
    averages = f"{number(accuracy.rmse)} and {number(accuracy.prediction_rmse)}"
    assert told["accuracy"].endswith(f"On average over studies it is {averages}, root mean square")
    cap = f"at most {money(budget.cap, 'USD')} ({money(budget.cap / 20_000, 'USD')} per person)"
    assert told["budget"].startswith(f"{cap}, whatever anybody does")


def test_parameters_that_play_no_part_are_not_shown() -> None:
    designed, noisy = (planned(Study.parse(RELEASES[name])) for name in ("known-design", "noisy-statistics"))
    assert "gram_share" not in printed(*plan_view(designed))
    assert "gram_share" in printed(*plan_view(noisy))


def test_estimators_are_compared_by_name(solved: Plan) -> None:
    assert isinstance(solved.solution, NumberSolution)
    head = printed(compared_table(solved.solution)).splitlines()[2]
    assert re.sub(r"\s+", " ", head).strip() == "estimator error cost ε"


# Settlements


def test_a_settlement_shows_coefficients_guarantees_payments_files_and_the_next_step(
    settled: tuple[Plan, Settlement],
) -> None:
    plan, settlement = settled
    text = printed(*settlement_view(settlement, plan))
    assert "REHEARSAL" in text
    for name in plan.study.coefficient_names:
        assert name in text
    for name in (*FIVE, "release.json", "receipts.parquet", "settlement.json"):
        assert name in text
    assert f"Paid {settlement.summary['total_in_coins']:,.2f} USD to 500 players" in text
    assert "truthful verify" in text
    assert "Of " not in text.split("Paid")[1].split("Written")[0]


def test_a_rehearsal_is_told_in_the_words_of_the_report() -> None:
    assert REHEARSAL in printed(notice(REHEARSAL), width=120)


def test_what_was_done_to_bad_records_is_told() -> None:
    study, records = Study.parse(DESIGNED), Study.parse(RELEASES["known-design"])
    table = people(study).reports
    spend = table.column("spend").to_numpy().copy()
    spend[:3] = 1000.0
    columns = {name: table.column(name) for name in table.column_names if name != "spend"}
    for plan, on_bad, words in (
        (planned(study), "clip", "3 values were moved into their range"),
        (planned(records, 497), "drop", "3 records were left out"),
    ):
        settlement = settle(plan, {**columns, "spend": spend}, seed=1, on_bad=on_bad)
        assert f"Of 500 records: {words}." in printed(*settlement_view(settlement, plan))


def test_less_than_was_promised_is_shown_beside_what_was(settled: tuple[Plan, Settlement]) -> None:
    plan, whole = settled
    less = settle(plan, people(plan.study).reports.slice(0, 300), seed=1, accept_less=True)
    text = re.sub(r" +", " ", printed(*settlement_view(less, plan), width=200))
    for found in (less.release.promised, less.release.guarantees):
        assert number(found["accuracy"]["rmse"]) in text
    assert "As promised, and for those who answered" in text
    same = replace(whole, release=whole.release.model_copy(update={"guarantees": whole.release.promised}))
    assert "As promised" not in printed(*settlement_view(same, plan))


def test_what_the_result_contradicts_and_what_sums_give_away_is_told(
    settled: tuple[Plan, Settlement],
) -> None:
    plan, settlement = settled
    loud = settlement.release.model_copy(update={"warnings": (f"{WITHDRAWN}: by far.",)})
    summary = {**settlement.summary, "warnings": ["Fewer than 3 people share something."]}
    text = printed(*settlement_view(replace(settlement, release=loud, summary=summary), plan), width=200)
    assert f"{WITHDRAWN}: by far." in text
    assert text.count("nothing is promised: the result contradicts the declared beliefs") == 2
    assert "Fewer than 3 people share something." in text
    calm = printed(*settlement_view(settlement, plan), width=200)
    assert "the result contradicts" not in calm.lower()


def test_what_privacy_assumes_is_what_the_release_says_it_assumes() -> None:
    study = Study.parse(RELEASES["known-design"])
    plan, reports = planned(study), people(study).reports
    for on_bad, assumed in (("drop", "1"), ("error", "nothing")):
        settlement = settle(plan, reports, seed=1, on_bad=on_bad)
        text = printed(*settlement_view(settlement, plan), width=400)
        privacy = next(line for line in text.splitlines() if line.startswith(" privacy"))
        assert privacy.split()[-2:] == ["certain", assumed]
        for words in settlement.release.guarantees["privacy"]["assumptions"]:
            assert f" 1 {words}" in text


def test_the_truth_is_shown_inside_or_outside_as_it_is(settled: tuple[Plan, Settlement]) -> None:
    _, settlement = settled
    release = settlement.release
    inside = {row.name: row.value for row in release.coefficients}
    outside = {row.name: row.high + 1 for row in release.coefficients}
    assert printed(coefficients_table(release, inside)).count("inside") == len(inside)
    assert printed(coefficients_table(release, outside)).count("outside") == len(outside)
    half = {**outside, "intercept": inside["intercept"]}
    assert coverage(release, half).startswith(f"1 of {len(inside)} intervals hold the truth")


def test_differences_between_people_stand_below_the_coefficients(settled: tuple[Plan, Settlement]) -> None:
    plan, settlement = settled
    lines = [line.strip() for line in printed(*settlement_view(settlement, plan), width=100).splitlines()]
    title = lines.index("Differences in spend")
    assert title > lines.index("Coefficients (effects on spend)")
    shown = [line.split("  ")[0].strip() for line in lines[title + 4 : title + 7]]
    assert shown == ["price, from 1 to 5", "region: south, not north", "region: east, not north"]
    assert lines[title + 8] == "The coefficient of a level is its difference from the mean of all levels."


def test_payments_that_are_all_the_same_have_a_chart() -> None:
    assert "500" in printed(payments_chart(np.full(500, 0.25), "USD"))


# Verdicts


def a_verdict(verified: bool = True, player: str = "p-1", rehearsal: bool = False) -> Verdict:
    return Verdict(
        *(verified, player, 1.0, 0.5, 0.1, 0.2, rehearsal),
        base=0.9,
        leverage=0.01,
        x=(1.0,),
        answer=0.3,
        noise=0.1,
    )


def test_a_verdict_shows_arithmetic_that_can_be_done_by_hand(settled: tuple[Plan, Settlement]) -> None:
    _, settlement = settled
    verdict, payment = verify(settlement.release, settlement.receipt("p-001")), settlement.release.payment
    text = printed(*verdict_view(verdict, payment))
    assert "Verified: the payment of player p-001" in text
    assert f"{verdict.base:g} + {payment.b:g} × (2pq − q²)" in text
    p, q, h = (
        float(f"{x:.6f}") for x in (verdict.peer_prediction, verdict.own_prediction, verdict.leverage or 0.0)
    )
    assert 0 < h < 0.5
    for letter, value in zip("pqh", (p, q, h), strict=True):
        assert re.search(rf"{letter} +{value:.6f}, ", text)
    assert "what everybody else's answers predict here" in text
    assert verdict.base + payment.b * (2 * p * q - q * q) == pytest.approx(verdict.paid, abs=5e-6)


def test_the_verdict_on_a_rehearsal_says_that_it_is_one(settled: tuple[Plan, Settlement]) -> None:
    payment = settled[1].release.payment
    for verified in (True, False):
        real, seeded = (a_verdict(verified, rehearsal=rehearsal) for rehearsal in (False, True))
        assert REHEARSAL in printed(*verdict_view(seeded, payment)).splitlines()
        assert "REHEARSAL" not in printed(*verdict_view(real, payment))


def test_a_payment_that_is_wrong_says_what_to_do(settled: tuple[Plan, Settlement]) -> None:
    text = printed(*verdict_view(a_verdict(verified=False), settled[1].release.payment))
    assert "NOT verified" in text
    assert "ask whoever paid it" in text


# Names


def test_names_that_look_like_markup_or_emoji_are_printed_as_they_are(tmp_path: Path) -> None:
    text = DESIGNED.replace('"price"', '"[bold]price[/]"').replace('"north"', '":smile:"')
    study = Study.parse(text)
    settlement = settle(planned(study), people(study).reports, seed=1)
    shown = printed(coefficients_table(settlement.release))
    assert "[bold]price[/]" in shown
    assert "region=:smile:" in shown
    verdict = a_verdict(player="[red]p[/]")
    assert "[red]p[/]" in printed(*verdict_view(verdict, settlement.release.payment))


def test_the_notation_is_shown_whole() -> None:
    text = printed(symbols_table(), width=200)
    for symbol in SYMBOLS:
        assert symbol.meaning in text
        assert symbol.door in text


def test_lines_away_from_a_terminal_end_where_their_text_ends(capsys: pytest.CaptureFixture[str]) -> None:
    show(Console(width=80, markup=False), symbols_table(), "plain")
    out = capsys.readouterr().out
    assert out.endswith("plain\n")
    assert all(line == line.rstrip() for line in out.splitlines())


# Progress


def test_a_bar_appears_after_a_second_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("truthful.show.terminal.time.monotonic", lambda: now)
    file = io.StringIO()
    with rich_progress(Console(file=file, force_terminal=True, width=80)) as tell:
        tell("statistics", 10, 100)
        assert file.getvalue() == ""
        now = 1.5
        tell("statistics", 50, 100)
        tell("payments", 10, None)
    assert "Reading answers" in file.getvalue()
    assert "Computing payments" in file.getvalue()


def test_no_progress_is_nothing_to_call() -> None:
    with cli._progress(False) as tell:
        assert tell is None
