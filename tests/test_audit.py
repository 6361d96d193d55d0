"""The auditor: our product withstands every attack, the attacks are sharp, and their arithmetic is right."""

from __future__ import annotations

import inspect
import io
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from rich.console import Console
from studies import CASES, DESIGNED, planned

from truthful import cli
from truthful.auditor import Audit, Finding, Truthful, audit
from truthful.auditor.checks import SAMPLES
from truthful.auditor.events import attack, lower_bound
from truthful.auditor.loss import exact_loss, spent
from truthful.auditor.neighbours import search, square_distance
from truthful.auditor.noise_law import Noise, independence_finding, law_finding
from truthful.auditor.product import Asked
from truthful.errors import InputError
from truthful.estimators import Query
from truthful.plan import Plan
from truthful.show_audit import audit_view
from truthful.study import Study

CHECKS = [
    "sensitivity, published",
    "sensitivity, halves",
    "privacy loss",
    "composition",
    "noise",
    "independence",
    "estimates",
    "black box, d = 1",
    "black box, d = 2",
    "settlements: reports",
    "settlements: noise",
    "settlements: release",
    "settlements: payments",
    "settlements: others",
    "restart",
    "randomness",
]


def plan_of(name: str, players: int = 20_000) -> Plan:
    text, parameters = CASES[name]
    return planned(Study.parse(text), players, name, **parameters)


@pytest.fixture(scope="module")
def audited() -> Audit:
    return audit(plan_of("known-design"), seed=1, samples=1_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_our_product_withstands_every_attack(name: str) -> None:
    """False alarm below 8e-6 an estimator."""
    found = audit(plan_of(name), seed=2, samples=1_000)
    assert [finding.name for finding in found.findings] == CHECKS
    assert [finding.name for finding in found.findings if not finding.passed] == []
    assert found.passed
    # The searches are no straw men: they find nearly all that is allowed.
    assert all(0.97 < finding.figures["share_of_sensitivity"] <= 1 for finding in found.findings[:2])


@pytest.mark.slow
def test_an_audit_is_repeated_by_its_seed(audited: Audit) -> None:
    assert audit(plan_of("known-design"), seed=1, samples=1_000) == audited


def test_an_audit_is_a_record_for_machines(audited: Audit) -> None:
    record = json.loads(json.dumps(audited.record()))
    assert record["format"] == "truthful/audit/1"
    assert record["passed"] is True
    assert [finding["name"] for finding in record["findings"]] == CHECKS
    assert record["plan_sha256"] == plan_of("known-design").sha256


def test_one_failure_fails_an_audit(audited: Audit) -> None:
    broken = Finding("x", "y", "z", "certain", passed=False)
    assert not replace(audited, findings=(*audited.findings, broken)).passed


@pytest.mark.parametrize(("option", "value"), [("samples", 10), ("samples", 0.5), ("seed", -1)])
def test_impossible_audits_are_refused(option: str, value: float) -> None:
    with pytest.raises(InputError, match=option):
        audit(plan_of("known-design"), **{"seed": 1, option: value})  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_plan_whose_payments_may_be_negative_can_be_audited() -> None:
    plan = planned(Study.parse(DESIGNED), 500, payments="expected", base_payment=0.1)
    assert audit(plan, seed=1, samples=1_000).passed


@pytest.mark.slow
def test_a_plan_for_two_can_be_audited() -> None:
    assert audit(planned(Study.parse(DESIGNED), 2), seed=1, samples=1_000).passed


def test_the_search_attains_the_sensitivity_of_sums() -> None:
    plan = plan_of("noisy-statistics")
    estimator = plan.mechanism.public_estimator(plan.study.beliefs)
    worst = search(Truthful(), estimator, plan.study.beliefs, 100, 1.0, seed=1)
    assert worst.within
    assert worst.share == pytest.approx(1, abs=1e-9)


def test_the_defaults_of_the_command_are_those_of_the_library() -> None:
    assert inspect.signature(cli.audit).parameters["samples"].default == SAMPLES


def shown(found: Audit, width: int = 120) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    for view in audit_view(found):
        console.print(view)
    printed = console.file
    assert isinstance(printed, io.StringIO)
    return printed.getvalue()


def test_a_verdict_names_what_broke_and_what_to_do(audited: Audit) -> None:
    assert "Passed: 16 attacks" in shown(audited)
    assert "BROKEN" not in shown(audited)
    findings = (replace(found, passed=found.name != "noise") for found in audited.findings)
    broken = replace(audited, findings=tuple(findings))
    assert "BROKEN" in shown(broken)
    assert "FAILED: noise. Do not settle" in shown(broken)
    assert "--seed 1 --samples 1000" in shown(broken)


def test_a_verdict_says_what_would_have_been_seen_and_what_missed(audited: Audit) -> None:
    words = " ".join(shown(audited).split())
    noise, settled = (
        next(finding.figures["scale_error_caught"] for finding in audited.findings if finding.name == name)
        for name in ("noise", "settlements: noise")
    )
    assert f"Would have seen: a scale of noise off by {noise:.0%} in the sampler, by {settled:.0%}" in words
    assert "Would have missed: smaller errors" in words


# The exact loss


def asked(value: tuple[int, ...], epsilon: Fraction, sensitivity: int = 5) -> Asked:
    return Asked(Query(value, Fraction(1), Fraction(sensitivity), (1,) * len(value), Fraction(1)), epsilon)


def test_the_exact_loss_is_the_largest_over_all_lattice_points() -> None:
    """By brute force: every point of a square of 41 × 41 around the two values."""
    epsilon, f, g = 0.7, np.array([0, 0]), np.array([3, 4])
    points = np.stack(np.meshgrid(range(-20, 21), range(-20, 21)), axis=-1).reshape(-1, 2)
    losses = (np.linalg.norm(points - g, axis=1) - np.linalg.norm(points - f, axis=1)) * epsilon / 5
    exact = exact_loss([asked((0, 0), Fraction(epsilon))], [asked((3, 4), Fraction(epsilon))])
    assert losses.max() == pytest.approx(float(exact), rel=1e-14)
    assert exact == Fraction(epsilon)


def test_losses_of_several_queries_add_up_and_irrational_ones_are_rounded_up() -> None:
    one, other = (
        [asked((0, 0), Fraction(1)), asked((0,), Fraction(2))],
        [
            asked((1, 1), Fraction(1)),
            asked((5,), Fraction(2)),
        ],
    )
    loss = exact_loss(one, other)
    assert (loss - 2) ** 2 * 25 > 2
    assert float(loss) == pytest.approx(2 + math.sqrt(2) / 5)


def test_the_halves_spend_one_allowance() -> None:
    spending = [asked((0,), Fraction(share, 10)) for share in (3, 2, 1, 4, 1, 1)]
    assert spent(spending, public=2) == Fraction(5 + 5, 10)


def test_distances_are_weighted() -> None:
    one = Query((0, 0), Fraction(1), Fraction(1), (1, 2), Fraction(1))
    assert square_distance(one, replace(one, value=(3, 10**30))) == 9 + 2 * 10**60


# Laws and independence


def laplace(rng: np.random.Generator, draws: int, d: int) -> Noise:
    directions = rng.normal(size=(draws, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return Noise(rng.gamma(d, size=draws), directions, rng.integers(0, 16, (draws, d)).astype(np.float64))


@pytest.mark.parametrize("d", [1, 2, 6])
def test_the_promised_law_passes_and_its_neighbours_do_not(d: int) -> None:
    """False alarm 1e-6 for the sound noise."""
    rng = np.random.default_rng(d)
    sound = laplace(rng, 4_000, d)
    leaning = sound.directions.copy()
    leaning[:1_000, 0] = np.abs(leaning[:1_000, 0])
    faulty = {
        "scale": replace(sound, lengths=1.25 * sound.lengths),
        "lengths": replace(sound, lengths=np.full(4_000, float(d))),
        "mean direction": replace(sound, directions=leaning),
        "lowest bits": replace(sound, low_bits=sound.low_bits // 2 * 2),
    }
    if d > 1:
        flat = sound.directions * np.linspace(1, 2, d)
        faulty["directions"] = replace(sound, directions=flat / np.linalg.norm(flat, axis=1, keepdims=True))
    assert law_finding([sound]).passed
    for name, noise in faulty.items():
        finding = law_finding([sound, noise])
        assert not finding.passed
        assert f"({name})" in finding.found


def test_noises_that_know_of_each_other_are_told_from_those_that_do_not() -> None:
    """False alarm 1e-6 for the sound ones."""
    rng = np.random.default_rng(5)
    one, other = laplace(rng, 2_000, 3), laplace(rng, 2_000, 2)
    assert independence_finding([one, other]).passed
    assert not independence_finding([one, other, one]).passed
    assert not independence_finding([one, replace(other, lengths=one.lengths)]).passed
    stuck = replace(one, directions=np.repeat(one.directions[::2], 2, axis=0))
    assert not independence_finding([stuck]).passed


def test_a_release_without_exact_noise_passes_no_test_of_it() -> None:
    assert not law_finding([]).passed
    assert not independence_finding([]).passed


# Lower bounds


@pytest.mark.parametrize(
    ("hits", "other_hits", "draws", "epsilon"),
    [
        (2642, 1007, 5_000, 0.7630417230572327),
        (386, 61, 1_000, 1.0826511108312564),
        (900, 0, 1_000, 4.073728446177853),
        (50, 60, 1_000, 0.0),
        (4990, 2500, 5_000, 4.188476943948707),
        (12_000, 7_000, 50_000, 0.44595764391971554),
    ],
)
def test_the_lower_bound_is_that_of_privacy_estimates(
    hits: int, other_hits: int, draws: int, epsilon: float
) -> None:
    """Microsoft's privacy-estimates 0.1.0, compute_eps_lo(δ = 0, α = 1e-6, 'beta'), which tries the complement too."""
    bounds = lower_bound(
        np.array([hits, draws - other_hits]), np.array([other_hits, draws - hits]), draws, risk=1e-6
    )
    assert max(0.0, *bounds.tolist()) == pytest.approx(epsilon, rel=1e-9)


def test_no_hits_bound_nothing() -> None:
    assert lower_bound(0, 10, 100) == -math.inf
    assert lower_bound(100, 100, 100) < 0


def test_the_attack_shows_most_of_a_laplace_epsilon_and_not_more() -> None:
    """The bound exceeds the true ε = 1 with probability 1e-6 at most, on a lattice. In floats the same noise leaks."""
    rng = np.random.default_rng(6)
    one, other = (value + rng.laplace(size=(40_000, 1, 1)) for value in (0.0, 1.0))
    lattice, other_lattice = (np.rint(draws * 2**20) / 2**20 for draws in (one, other))
    assert 0.85 < attack(lattice, other_lattice).epsilon <= 1
    assert attack(one, other).epsilon > 5


def test_the_attack_measures_on_draws_it_has_not_chosen_the_event_on() -> None:
    """A leak in the first half of the draws only must not count."""
    rng = np.random.default_rng(7)
    one, other = rng.laplace(size=(2, 4_000, 1, 1))
    other[:2_000] += 5
    bound = attack(one, other)
    assert bound.draws == 2_000
    assert bound.epsilon < 0.1
