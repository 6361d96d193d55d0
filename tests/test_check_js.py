"""check.js, the second implementation of a payment: in Node and in a browser it finds what `verify` finds."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support import both_studies, shares
from support.browsers import opened
from support.generators_study import studies
from support.studies import DESIGNED, OBSERVED, UNEQUAL, UNIT_BALL, people

from truthful.errors import TruthfulError
from truthful.plan import Plan, design
from truthful.release import (
    Receipt,
    Release,
    Verdict,
    verify,
)
from truthful.settlement import settle
from truthful.study import Study

CHECK = Path(str(resources.files("truthful.service").joinpath("static/check.js")))
RUNNER = Path(__file__).parent / "support" / "check_receipts.mjs"
#: What the own predictions of both implementations may differ by: `verify`'s are good to 1e-11.
AGREEMENT = 2e-11
NORMAL, NARROW = 'prior = "normal"\nprior_sd = 0.2', 'prior = "normal"\nprior_sd = 0.0006'
PRIORS = {"uniform prior": "", "normal prior": NORMAL, "narrow prior": NARROW}
NOISES = {"normal noise": "", "uniform noise": 'noise = "uniform"', "narrow noise": "noise_sd = 0.0004"}
CENTRE = "\n[beliefs.centre]\nintercept = 80\nf0 = -2.5\n'region=north' = 7\n'region=east' = 1.5\n"
#: A centre that is longer than 1 while no prediction leaves the range; only with a privacy section it may be.
FAR = "\n[beliefs.centre]\nintercept = 45\nf0 = 8.0\n'region=north' = 25\n'region=east' = -10\n"

Case = tuple[dict[str, Any], dict[str, Any]]


def protecting(text: str, what: str, more: str = "") -> str:
    return text.replace("[beliefs]", f'[privacy]\nprotects = "{what}"\n{more}\n[beliefs]', 1)


#: A study for each estimator of one release.
ONE_RELEASE = {
    "instruments": protecting(DESIGNED, "answers"),
    "instruments, sums kept back": protecting(DESIGNED, "answers", "publish_matrix = false"),
    "known-design": protecting(DESIGNED, "records"),
    "known-design on the ball": protecting(UNIT_BALL, "records"),
    "known-design of a matrix": protecting(
        DESIGNED.replace(
            'kind = "uniform"',
            'kind = "covariance"\nmatrix = [[0.25, 0, 0, 0], [0, 0.1, 0, 0], [0, 0, 0.15, 0.08], [0, 0, 0.08, 0.17]]',
        ),
        "records",
    ),
    "noisy-statistics": protecting(OBSERVED, "records"),
    "instruments, unequal": protecting(UNEQUAL, "answers"),
    "known-design, unequal": protecting(UNEQUAL, "records"),
}


@cache
def planned(text: str, players: int = 300, **parameters: Any) -> Plan:
    """A plan with everyday parameters."""
    study = Study.parse(text)
    chosen: dict[str, Any] = {"epsilon": 2.0, "score_weight": 0.5, "absent_share": 0.002}
    if parameters.get("payments") != "expected":
        chosen["clip"] = study.beliefs.radius / 2
    return design(study, players=players, **{**chosen, **parameters})


def written(numbers: int, levels: bool, beliefs: str = "", privacy: str = "") -> str:
    """A study of so many numbers in odd ranges, and perhaps a feature of three levels."""
    features = [
        f'[[features]]\nname = "f{i}"\nlow = {-i - 0.3}\nhigh = {2 * i + 7.1}\n' for i in range(numbers)
    ]
    features += ['[[features]]\nname = "region"\nlevels = ["north", "south", "east"]\n'] * levels
    declared, _, rest = DESIGNED.partition("[[features]]")
    rest = rest[rest.index("[design]") :].replace("signal = 0.6", f"signal = 0.6\n{beliefs}")
    return declared + "".join(features) + (protecting(rest, privacy) if privacy else rest)


@cache
def released(plan: Plan) -> tuple[Release, list[dict[str, Any]]]:
    source = plan.study if plan.study.assigned else Study.parse(DESIGNED)
    reports = people(source, plan.players).reports
    return settle(plan, reports, seed=3, accept_less=True).release, reports.to_pylist()


def cases(plan: Plan, some: int = 2) -> list[tuple[Case, Verdict]]:
    """Receipts of some people, with their own answers and with extreme ones; all of them paid right."""
    release, rows = released(plan)
    study, found = plan.study, []
    low, high = study.response.low, study.response.high
    for row in rows[:some]:
        features = {feature.name: row[feature.name] for feature in study.features}
        for report in (row[study.response.name], low, high, (low + high) / 2, low + (high - low) * 1e-4):
            found.append(_case(release, _receipt(features, report)))
    return found


def _receipt(features: dict[str, Any], report: float) -> Receipt:
    return Receipt(
        player="p",
        features=features,
        report=report,
        leverage=0.02,
        noise_scale=0.05,
        peer_prediction=0.0,
        own_prediction=0.0,
        payment=0.0,
    )


def _case(release: Any, receipt: Any) -> tuple[Case, Verdict]:
    verdict = verify(release, receipt)
    paid = receipt.model_copy(update={"payment": verdict.recomputed})
    return (release.model_dump(mode="json"), paid.model_dump(mode="json")), verdict


class Thrown(Exception):
    """What check.js throws."""


@cache
def _node() -> Any:
    """A process of Node that runs check.js for all tests."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node here, so check.js was not run in it: apt-get install nodejs")
    return subprocess.Popen([node, RUNNER, CHECK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module", autouse=True)
def node_ends() -> Iterator[None]:
    yield
    if _node.cache_info().currsize:
        _node().communicate()
        _node.cache_clear()


def in_node(given: list[Case]) -> list[dict[str, Any]]:
    """What check.js makes of these."""
    node = _node()
    print(json.dumps(given), file=node.stdin, flush=True)
    found = json.loads(node.stdout.readline())
    if "thrown" in found:
        raise Thrown(found["thrown"])
    return list(found)


def require_agreement(computed: list[dict[str, Any]], verdicts: list[Verdict]) -> None:
    assert len(computed) == len(verdicts) > 0
    for here, there in zip(computed, verdicts, strict=True):
        assert abs(here["q"] - there.own_prediction) <= AGREEMENT
        assert here["error"] <= AGREEMENT
        assert abs(here["p"] - there.peer_prediction) <= 1e-14
        assert round(abs(here["payment"] - there.recomputed) * 1e6) <= 1
        assert here["verified"]


def check_in_node(found: list[tuple[Case, Verdict]]) -> list[dict[str, Any]]:
    computed = in_node([case for case, _ in found])
    require_agreement(computed, [verdict for _, verdict in found])
    return computed


# One release


#: Payments that may be negative with each estimator: what else a study is does not matter to them.
EXPECTED = ("instruments", "known-design", "noisy-statistics")


@pytest.mark.parametrize(
    ("kind", "payments"),
    [*((kind, "never-negative") for kind in ONE_RELEASE), *((kind, "expected") for kind in EXPECTED)],
)
def test_it_finds_every_estimators_payments(kind: str, payments: str) -> None:
    computed = check_in_node(cases(planned(ONE_RELEASE[kind], payments=payments)))
    assert all(found["sound"] for found in computed)
    assert {found["taken"] for found in computed} == {"kept back" in kind}


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("prior", PRIORS)
def test_it_finds_payments_under_all_beliefs_in_one_to_ten_dimensions(prior: str, noise: str) -> None:
    """One of four studies for each, so that every prior, and every noise, meets three of them."""
    at = (list(PRIORS).index(prior) + list(NOISES).index(noise)) % 4
    numbers, levels = ((0, False), (1, False), (3, True), (7, True))[at]
    found = cases(planned(written(numbers, levels, f"{PRIORS[prior]}\n{NOISES[noise]}"), 200))
    assert {len(case[0]["theta"]) for case, _ in found} == {(1, 2, 6, 10)[at]}
    check_in_node(found)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A study of any kind, planned in any way that its declaration allows."""
    declared = draw(studies()).declaration()
    beliefs = declared["beliefs"]
    if draw(st.booleans()):
        beliefs |= {"prior": "normal", "prior_sd": beliefs["radius"] * draw(st.floats(0.002, 3))}
    if draw(st.booleans()):
        beliefs["noise"] = "uniform"
    else:
        beliefs["noise_sd"] = beliefs["noise_bound"] * draw(st.floats(0.002, 3))
    declared["privacy"] = {"protects": draw(st.sampled_from(["answers", "records"]))}
    declared["privacy"]["features_public"] = True
    return design(
        Study.from_declaration(declared),
        players=200,
        score_weight=0.5,
        epsilon=10 ** draw(st.floats(-2, 1.9)),
        clip=beliefs["radius"] * draw(st.floats(0.1, 1)),
        rule=draw(st.sampled_from(["quadratic", "brier"])),
        payments=draw(st.sampled_from(["never-negative", "expected"])),
    )


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(plans())
def test_it_finds_payments_of_any_study(plan: Plan) -> None:
    try:
        found = cases(plan, some=1)
    except TruthfulError:  # people who cannot be settled, as one who is alone with her level
        assume(False)
    check_in_node(found)


def test_it_finds_payments_about_a_centre_of_interactions() -> None:
    centre = {
        "price": 3,
        "region=north": 5,
        "price:visits": 0.5,
        "region=east:price": -1,
        "region=north:sex=m": 2,
    }
    lines = "".join(f"'{name}' = {value}\n" for name, value in centre.items())
    text = UNEQUAL.replace("signal = 0.6", f"signal = 0.6\n[beliefs.centre]\nintercept = 90\n{lines}")
    check_in_node(cases(planned(protecting(text, "answers"), 300), some=10))


@pytest.mark.parametrize(("centre", "privacy"), [(CENTRE, ""), (CENTRE, "answers"), (FAR, "answers")])
def test_it_finds_payments_about_a_centre_and_by_the_papers_rule(centre: str, privacy: str) -> None:
    check_in_node(cases(planned(written(2, True, centre, privacy), 200, rule="brier"), some=10))


@pytest.mark.parametrize("kind", ["instruments", "noisy-statistics"])
@pytest.mark.parametrize("epsilon", [0.01, 90.0])
def test_it_finds_payments_where_noise_drowns_everything_and_where_there_is_hardly_any(
    epsilon: float, kind: str
) -> None:
    check_in_node(cases(planned(ONE_RELEASE[kind], 5000, epsilon=epsilon)))


def test_features_on_and_beyond_the_edge_of_the_ball_are_drawn_into_it() -> None:
    points = [(1.0, 0.0), (0.6, 0.8), (3.0, -4.0), (0.0, 0.0), (1e-7, 1e-7), (-0.7, 0.7)]
    for what in ("answers", "records"):
        plan = planned(protecting(UNIT_BALL, what))
        release, _ = released(plan)
        found = []
        for a, b in points:
            for report in (-2.0, 0.3):
                found.append(_case(release, _receipt({"x1": a, "x2": b}, report)))
        check_in_node(found)


def test_where_sums_are_kept_back_leverage_and_noise_are_the_receipts() -> None:
    (release, receipt), verdict = cases(planned(ONE_RELEASE["instruments, sums kept back"]))[0]
    (computed,) = in_node([(release, receipt)])
    require_agreement([computed], [verdict])
    assert computed["taken"]
    assert computed["leverage"] == receipt["leverage"]
    (other,) = in_node([(release, {**receipt, "leverage": 0.4})])
    assert not other["verified"]
    for wrong in ({"leverage": 1.5}, {"leverage": -1.0}, {"noise_scale": -0.1}, {"leverage": None}):
        with pytest.raises(Thrown):
            in_node([(release, {**receipt, **wrong})])


def changed(release: dict[str, Any], *path: str | int, by: float = 1.001) -> dict[str, Any]:
    """The release with one of its numbers changed."""
    copied: dict[str, Any] = json.loads(json.dumps(release))
    target: Any = copied
    for key in path[:-1]:
        target = target[key]
    value = target[path[-1]]
    target[path[-1]] = str(round(int(value) * by)) if isinstance(value, str) else value * by
    return copied


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        *((kind, ("theta", 1)) for kind in ("instruments", "known-design", "noisy-statistics")),
        *((kind, ("inverse", 0, 0)) for kind in ("instruments", "known-design", "noisy-statistics")),
        *((kind, ("statistics", "vector", 0)) for kind in ("instruments", "known-design")),
        *((kind, ("statistics", "matrix", 0, 0)) for kind in ("instruments", "noisy-statistics")),
        *((kind, ("noise", "scale")) for kind in ("instruments", "instruments, sums kept back")),
        *((kind, ("coefficients", 1, "value")) for kind in ("instruments", "instruments, sums kept back")),
        ("known-design", ("players",)),
    ],
)
def test_a_release_whose_numbers_do_not_fit_together_is_not_sound(
    kind: str, path: tuple[str | int, ...]
) -> None:
    (release, receipt), _ = cases(planned(ONE_RELEASE[kind]))[0]
    (computed,) = in_node([(changed(release, *path, by=2 if path == ("players",) else 1.001), receipt)])
    assert not computed["sound"]
    assert not computed["verified"]


def test_a_noisy_matrix_is_floored_as_the_settlement_floors_it() -> None:
    """So few people at so small an epsilon that noise makes eigenvalues negative."""
    plan = planned(ONE_RELEASE["noisy-statistics"], 40, epsilon=0.05)
    computed = check_in_node(cases(plan))
    assert all(found["sound"] for found in computed)


@pytest.mark.parametrize("more", [2e-6, -2e-6, 0.01])
def test_a_payment_of_two_millionths_too_much_or_too_little_is_not_verified(more: float) -> None:
    (release, receipt), _ = cases(planned(DESIGNED))[0]
    (computed,) = in_node([(release, {**receipt, "payment": receipt["payment"] + more})])
    assert not computed["verified"]


# Yes or no, and ratings


@cache
def paid_shares(kind: str, **parameters: Any) -> tuple[dict[str, Any], list[Receipt]]:
    """A release, and everybody's receipt."""
    plan = shares.planned(shares.KINDS[kind], **parameters)
    people = shares.reports(plan.study, plan.players, share=0.3)
    settled = settle(plan, people, seed=4, accept_less=True)
    return settled.release.record(), [
        receipt
        for player in people.column("player").to_pylist()
        if isinstance(receipt := settled.receipt(player), Receipt)
    ]


@cache
def share_cases(kind: str, **parameters: Any) -> list[tuple[Case, Verdict]]:
    """Everybody's receipt, as it was paid and as `verify` finds it."""
    release, receipts = paid_shares(kind, **parameters)
    read = Release.model_validate(release)
    found = []
    for receipt in receipts:
        verdict = verify(read, receipt)
        assert verdict.verified
        found.append(((release, receipt.model_dump(mode="json")), verdict))
    return found


SHARE_PAYMENTS: list[dict[str, Any]] = [
    {"norm": "sup"},
    {"norm": "l2"},
    {"margin": 0.02, "tolerance": 0.01, "epsilon": 0.1},  # noise drives some shares beyond what is plausible
    {"epsilon": 90.0, "flat": 0.0},
]


#: Every kind in the sup norm; all ways to be paid with one share and with several.
SHARE_CASES = [
    *((kind, SHARE_PAYMENTS[0]) for kind in shares.KINDS),
    *((kind, paid) for kind in ("yes or no", "rating, with features") for paid in SHARE_PAYMENTS[1:]),
    ("yes or no, with features", SHARE_PAYMENTS[2]),
]


@pytest.mark.parametrize(("kind", "parameters"), SHARE_CASES, ids=str)
def test_it_finds_everybodys_payment_for_yes_or_no_and_for_ratings(
    kind: str, parameters: dict[str, Any]
) -> None:
    found = share_cases(kind, **parameters)
    computed = check_in_node(found)
    assert len({here["payment"] for here in computed}) > 1 or "tolerance" in parameters
    assert {here["taken"] for here in computed} == {"kept back" in kind}
    for here, ((_, receipt), verdict) in zip(computed, found, strict=True):
        assert here["switch"] == pytest.approx(verdict.switch, abs=1e-14)
        assert here["leverage"] == pytest.approx(receipt["leverage"], abs=1e-14)
        assert here["noise"] == pytest.approx(receipt["noise_scale"], abs=1e-14)
        assert here["sound"]


def test_some_shares_are_implausible_and_then_everybody_is_paid_the_same() -> None:
    computed = check_in_node(share_cases("yes or no, with features", **SHARE_PAYMENTS[2]))
    far = [here for here in computed if not here["plausible"]]
    assert 0 < len(far) < len(computed)
    assert {here["payment"] for here in far} == {0.3}


def test_payments_of_yes_and_no_are_the_published_ones() -> None:
    """Believed 5 to 40 %, of a bonus of 0.25: what the documentation says of four shares."""
    release, receipts = paid_shares("yes or no", flat=0.0, bonus=0.25)
    for share, paid in ((0.30, (0.086472, 0.163527)), (0.10, (0.217294, 0.032705)), (0.4322, (0.0, 0.25))):
        receipt = receipts[0].model_dump(mode="json")
        cases = []
        for report, amount in zip((0.0, 1.0), paid, strict=True):
            # Her own weight is taken from her receipt where sums are kept back: with none, p is (1 + theta)/2.
            one = {"value": share, "low": 0.0, "high": 1.0}
            told = {
                **release,
                "inverse": None,
                "theta": [2 * share - 1],
                "shares": [{"name": "everybody", **one}],
            }
            told["coefficients"] = [{"name": "intercept", **one}]
            cases.append((told, {**receipt, "report": report, "leverage": 0.0, "payment": amount}))
        for here in in_node(cases):
            assert here["verified"]
            assert here["switch"] == pytest.approx(0.2410991637, abs=1e-10)
            assert here["width"] == pytest.approx(0.1910991637, abs=1e-10)


@pytest.mark.parametrize("more", [2e-6, -2e-6])
def test_a_payment_of_two_millionths_too_much_is_not_verified_for_yes_and_no(more: float) -> None:
    (release, receipt), _ = share_cases("yes or no")[0]
    wrong = (release, {**receipt, "payment": receipt["payment"] + more})
    flipped = (release, {**receipt, "report": 1 - receipt["report"]})
    assert [here["verified"] for here in in_node([wrong, flipped])] == [False, False]


@pytest.mark.parametrize(
    "path",
    [
        *(("theta", 1), ("inverse", 0, 0), ("statistics", "vector", 0), ("noise", "scale")),
        *(("coefficients", 2, "value"), ("shares", 0, "value"), ("statistics", "mean", 0)),
    ],
)
def test_a_release_of_shares_whose_numbers_do_not_fit_together_is_not_sound(
    path: tuple[str | int, ...],
) -> None:
    (release, receipt), _ = share_cases("yes or no, with features")[0]
    (computed,) = in_node([(changed(release, *path), receipt)])
    assert (computed["sound"], computed["verified"]) == (False, False)


# Asked what the others will say


@cache
def asked_cases(kind: str, players: int) -> list[tuple[Case, Verdict]]:
    """Everybody's receipt, as it was paid and as `verify` finds it."""
    plan = both_studies.planned(both_studies.KINDS[kind], players)
    people = both_studies.reports(plan.study, players)
    settled = settle(plan, people, seed=4, accept_less=True)
    release, found = settled.release.record(), []
    for player in people.column("player").to_pylist():
        receipt = settled.receipt(player)
        verdict = verify(settled.release, receipt)
        assert verdict.verified
        found.append(((release, receipt.record()), verdict))
    return found


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.slow if "facts" in kind else ()) for kind in both_studies.KINDS],
)
def test_it_finds_everybodys_payment_for_answers_and_predictions(kind: str) -> None:
    found = asked_cases(kind, 400 if "facts" in kind else 60)
    computed = check_in_node(found)
    assert len({here["payment"] for here in computed}) > 4
    for here, ((_, receipt), verdict) in zip(computed, found, strict=True):
        assert here["sound"]
        assert not here["taken"]
        assert here["m"] == verdict.prediction
        assert here["average"] == pytest.approx(receipt["others_answer"], abs=1e-13)
        assert here["predictions"] == pytest.approx(receipt["others_prediction"], abs=1e-14)
        assert here["surprise"] == pytest.approx(receipt["surprise"], abs=1e-12)
        assert here["leverage"] == pytest.approx(receipt["leverage"], abs=1e-14)
        assert here["noise"] == pytest.approx(receipt["noise_scale"], abs=1e-14)
        assert here["forAnswer"] + here["forPrediction"] - here["payment"] < 1.1e-6


def test_where_an_average_was_thought_impossible_all_answers_are_paid_alike() -> None:
    far = both_studies.NUMBER.replace(
        "spread = 15", 'spread = 15\nplausible = [80, 95]\nimplausible = "flat"'
    )
    plan = both_studies.planned(far, 60)
    settled = settle(plan, both_studies.reports(plan.study, 60), seed=4, accept_less=True)
    receipts = [settled.receipt(f"p-{i:02d}") for i in range(1, 21)]
    given = [(settled.release.record(), receipt.model_dump(mode="json")) for receipt in receipts]
    found = [(case, verify(settled.release, receipt)) for case, receipt in zip(given, receipts, strict=True)]
    computed = check_in_node(found)
    assert {here["plausible"] for here in computed} == {False}
    assert {here["forAnswer"] for here in computed} == {settled.release.payment.a}


@pytest.mark.parametrize("change", ["payment", "report", "prediction"])
def test_another_answer_prediction_or_payment_is_not_verified(change: str) -> None:
    (release, receipt), _ = asked_cases("number", 60)[0]
    wrong = {**receipt, change: receipt[change] + (2e-6 if change == "payment" else 3)}
    (computed,) = in_node([(release, wrong)])
    assert (computed["sound"], computed["verified"]) == (True, False)
    with pytest.raises(Thrown):
        in_node([(release, {**receipt, "prediction": None})])


@pytest.mark.parametrize(
    "path",
    [
        *(("theta", 0), ("inverse", 0, 0), ("statistics", "vector", 0), ("noise", "scale")),
        *(("predictions", "total"), ("predictions", "weight"), ("predictions", "weighted", 0)),
        *(("predictions", "mean", 0), ("predictions", "answer", "value"), ("payment", "ratio")),
        ("coefficients", 0, "value"),
    ],
)
def test_a_release_of_predictions_whose_numbers_do_not_fit_together_is_not_sound(
    path: tuple[str | int, ...],
) -> None:
    (release, receipt), _ = asked_cases("number", 60)[0]
    (computed,) = in_node([(changed(release, *path), receipt)])
    assert (computed["sound"], computed["verified"]) == (False, False)


# In a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened() as found:
        yield found


@pytest.mark.slow
def test_a_browser_finds_the_same(browser: Any) -> None:
    found = [case for text in ONE_RELEASE.values() for case in cases(planned(text))]
    page = browser.new_page()
    page.add_script_tag(content=f"{CHECK.read_text()}\nwindow.check = check;", type="module")
    page.wait_for_function("typeof window.check === 'function'")
    computed = page.evaluate(
        "cases => cases.map(([release, receipt]) => window.check(release, receipt))",
        [list(case) for case, _ in found],
    )
    page.close()
    require_agreement(computed, [verdict for _, verdict in found])
