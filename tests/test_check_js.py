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
from browsers import opened
from generators_study import studies
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import CASES, DESIGNED, UNIT_BALL, people, planned

from truthful.beliefs import Clipped, Shrunk
from truthful.mechanism import peer_curve
from truthful.plan import Plan
from truthful.release import Receipt, Release, Verdict, verify
from truthful.settlement import settle
from truthful.study import Study

CHECK = Path(str(resources.files("truthful.service").joinpath("static/check.js")))
RUNNER = Path(__file__).parent / "check_receipts.mjs"
#: What the own predictions of both implementations may differ by; about 1e-15 is found.
AGREEMENT = 1e-12
NORMAL, NARROW = 'prior = "normal"\nprior_sd = 0.2', 'prior = "normal"\nprior_sd = 0.0006'
PRIORS = {"uniform prior": "", "normal prior": NORMAL, "narrow prior": NARROW}
NOISES = {"normal noise": "", "uniform noise": 'noise = "uniform"', "narrow noise": "noise_sd = 0.0004"}
CENTRE = "\n[beliefs.centre]\nintercept = 80\nf0 = -2.5\n'region=north' = 7\n'region=east' = 1.5\n"

Case = tuple[dict[str, Any], dict[str, Any], float]


def written(numbers: int, levels: bool, beliefs: str = "") -> Study:
    """A study of so many numbers in odd ranges, and perhaps a feature of three levels."""
    features = [
        f'[[features]]\nname = "f{i}"\nlow = {-i - 0.3}\nhigh = {2 * i + 7.1}\n' for i in range(numbers)
    ]
    features += ['[[features]]\nname = "region"\nlevels = ["north", "south", "east"]\n'] * levels
    declared, _, rest = DESIGNED.partition("[[features]]")
    return Study.parse(
        declared
        + "".join(features)
        + rest[rest.index("[design]") :].replace("signal = 0.6", f"signal = 0.6\n{beliefs}")
    )


@cache
def released(plan: Plan) -> tuple[Release, list[dict[str, Any]]]:
    reports = people(plan.study, plan.players).reports
    return settle(plan, reports, seed=3).release, reports.to_pylist()


def cases(plan: Plan, some: int = 2) -> list[tuple[Case, Verdict]]:
    """Receipts of some people in either half, with their own answers and with extreme ones; all of them paid right."""
    release, rows = released(plan)
    study, found = plan.study, []
    low, high = study.response.low, study.response.high
    for row in rows[:some]:
        features = {feature.name: row[feature.name] for feature in study.features}
        for report in (row[study.response.name], low, high, (low + high) / 2, low + (high - low) * 1e-4):
            for group in (0, 1):
                found.append(_case(release, study, features, report, group))
    return found


def _case(
    release: Release, study: Study, features: dict[str, Any], report: float, group: int
) -> tuple[Case, Verdict]:
    receipt = Receipt(player="p", features=features, report=report, group=group, payment=0.0)  # type: ignore[arg-type]
    verdict = verify(release, receipt)
    curve = peer_curve(release.mechanism(study), study.beliefs, release.groups[1 - group])
    factor = curve.factor if isinstance(curve, Clipped | Shrunk) else 1.0
    paid = receipt.model_copy(update={"payment": verdict.recomputed})
    return (release.model_dump(mode="json"), paid.model_dump(mode="json"), factor), verdict


def in_node(given: list[Case]) -> list[dict[str, Any]]:
    """What check.js makes of these."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node here, so check.js was not run in it: apt-get install nodejs")
    ran = subprocess.run(
        [node, RUNNER, CHECK], input=json.dumps(given), capture_output=True, text=True, check=True
    )
    found: list[dict[str, Any]] = json.loads(ran.stdout)
    return found


def require_agreement(computed: list[dict[str, Any]], verdicts: list[Verdict]) -> None:
    assert len(computed) == len(verdicts) > 0
    for here, there in zip(computed, verdicts, strict=True):
        assert abs(here["q"] - there.own_prediction) <= AGREEMENT
        assert here["error"] <= AGREEMENT
        assert here["p"] == there.peer_prediction
        assert round(abs(here["payment"] - there.recomputed) * 1e6) <= 1
        assert here["verified"]


@pytest.mark.parametrize("payments", ["never-negative", "expected"])
@pytest.mark.parametrize("estimator", CASES)
def test_it_finds_every_estimators_payments(estimator: str, payments: str) -> None:
    text, parameters = CASES[estimator]
    found = cases(planned(Study.parse(text), 300, estimator, payments=payments, **parameters))
    require_agreement(in_node([case for case, _ in found]), [verdict for _, verdict in found])


@pytest.mark.slow
@pytest.mark.parametrize("beliefs", [f"{p}, {n}" for p in PRIORS for n in NOISES])
def test_it_finds_payments_under_all_beliefs_in_one_to_ten_dimensions(beliefs: str) -> None:
    prior, noise = beliefs.split(", ")
    found = []
    for numbers, levels in ((0, False), (1, False), (3, True), (7, True)):
        study = written(numbers, levels, f"{PRIORS[prior]}\n{NOISES[noise]}")
        found += cases(planned(study, 200))
    assert {len(case[0]["theta"]) for case, _ in found} == {1, 2, 6, 10}
    require_agreement(in_node([case for case, _ in found]), [verdict for _, verdict in found])


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
    return planned(
        Study.from_declaration(declared),
        60,
        draw(st.sampled_from(["known-design", "noisy-statistics"])),
        epsilon=10 ** draw(st.floats(-2, 1.9)),
        rule=draw(st.sampled_from(["quadratic", "brier"])),
        payments=draw(st.sampled_from(["never-negative", "expected"])),
    )


@pytest.mark.slow
@settings(max_examples=25)
@given(plans())
def test_it_finds_payments_of_any_study(plan: Plan) -> None:
    found = cases(plan, some=1)
    require_agreement(in_node([case for case, _ in found]), [verdict for _, verdict in found])


def test_it_finds_payments_about_a_centre_and_by_the_papers_rule() -> None:
    found = cases(planned(written(2, True, CENTRE), 200, rule="brier"), some=10)
    require_agreement(in_node([case for case, _ in found]), [verdict for _, verdict in found])


@pytest.mark.parametrize("epsilon", [0.01, 90.0])
def test_it_finds_payments_where_noise_drowns_everything_and_where_there_is_hardly_any(
    epsilon: float,
) -> None:
    found = cases(planned(Study.parse(DESIGNED), 5000, epsilon=epsilon))
    require_agreement(in_node([case for case, _ in found]), [verdict for _, verdict in found])


def test_features_on_and_beyond_the_edge_of_the_ball_are_drawn_into_it() -> None:
    plan = planned(Study.parse(UNIT_BALL), 300, "known-design")
    release, _ = released(plan)
    points = [(1.0, 0.0), (0.6, 0.8), (3.0, -4.0), (0.0, 0.0), (1e-7, 1e-7), (-0.7, 0.7)]
    found = [
        _case(release, plan.study, {"x1": a, "x2": b}, report, group)
        for a, b in points
        for report in (-2.0, 0.3)
        for group in (0, 1)
    ]
    require_agreement(in_node([case for case, _ in found]), [verdict for _, verdict in found])


def test_shrinkage_is_computed_where_a_formula_gives_it() -> None:
    """Whatever the service says of it."""
    text, parameters = CASES["ridge-free"]
    (release, receipt, _), verdict = cases(planned(Study.parse(text), 300, "ridge-free", **parameters))[0]
    (computed,) = in_node([(release, receipt, 0.123)])
    require_agreement([computed], [verdict])
    assert not computed["taken"]


@pytest.mark.parametrize("gamma", [0.05, 3.0, 500.0])
@pytest.mark.parametrize("players", [10, 1000])
def test_shrinkage_with_one_feature_is_computed_for_any_number_of_people(players: int, gamma: float) -> None:
    text = UNIT_BALL.replace('[[features]]\nname = "x2"\n', "")
    (case, verdict), *_ = cases(planned(Study.parse(text), players, "ridge-free", regularization=gamma))
    (computed,) = in_node([case])
    assert not computed["taken"]
    assert computed["factor"] == pytest.approx(case[2], rel=1e-9)
    assert computed["q"] == pytest.approx(verdict.own_prediction, abs=1e-9)
    assert computed["verified"]


def test_shrinkage_of_very_few_is_taken_from_the_service_if_it_can_be_right() -> None:
    plan = planned(Study.parse(UNIT_BALL), 40, "ridge-free", regularization=2.0)
    case, verdict = cases(plan)[0]
    (computed,) = in_node([case])
    require_agreement([computed], [verdict])
    assert computed["taken"]
    for wrong in (1.02 * case[2], 1.5, 0.0):
        with pytest.raises(subprocess.CalledProcessError):
            in_node([(case[0], case[1], wrong)])


@pytest.mark.parametrize("more", [2e-6, -2e-6, 0.01])
def test_a_payment_of_two_millionths_too_much_or_too_little_is_not_verified(more: float) -> None:
    (release, receipt, factor), _ = cases(planned(Study.parse(DESIGNED), 300))[0]
    (computed,) = in_node([(release, {**receipt, "payment": receipt["payment"] + more}, factor)])
    assert not computed["verified"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened() as found:
        yield found


@pytest.mark.slow
def test_a_browser_finds_the_same(browser: Any) -> None:
    found = []
    for estimator, (text, parameters) in CASES.items():
        found += cases(planned(Study.parse(text), 300, estimator, **parameters))
    page = browser.new_page()
    page.add_script_tag(content=f"{CHECK.read_text()}\nwindow.check = check;", type="module")
    page.wait_for_function("typeof window.check === 'function'")
    computed = page.evaluate(
        "cases => cases.map(([release, receipt, factor]) => window.check(release, receipt, factor))",
        [list(case) for case, _ in found],
    )
    page.close()
    require_agreement(computed, [verdict for _, verdict in found])
