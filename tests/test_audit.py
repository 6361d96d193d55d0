"""The auditor: our product withstands every attack, the attacks are sharp, and their arithmetic is right."""

from __future__ import annotations

import inspect
import io
import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from support.studies import DESIGNED, OBSERVED, UNIT_BALL

from truthful import cli
from truthful.auditor import Audit, Finding, Product, audit
from truthful.auditor.attack_surface import SpentQuery, unprotected_parts
from truthful.auditor.attacks import SAMPLES, crowd
from truthful.auditor.neighbours import exact_loss, square_distance, worst_neighbours
from truthful.auditor.noise_tests import (
    DrawnNoise,
    attack,
    black_box_finding,
    independence_finding,
    law_finding,
    lower_bound,
)
from truthful.auditor.settlements import on_grid, recover_features, settled_findings, without_her
from truthful.auditor.trial_settlements import invented_reports, outcome, plant_answers
from truthful.errors import InputError, Refused, TruthfulError, WorseThanPromised
from truthful.estimators.sensitivity import Query, cross_sensitivity
from truthful.lattice import SeededBits
from truthful.moments import GRID, grid_features, instruments_on_grid, sums
from truthful.one_release import OneRelease
from truthful.plan import Plan, design
from truthful.settlement.draw import Drawing
from truthful.show.terminal import audit_view
from truthful.study import Study

RECORDS = '[privacy]\nprotects = "records"\n[costs]'
STUDIES = {
    "instruments": DESIGNED,
    "known-design": DESIGNED.replace("[costs]", RECORDS),
    "noisy-statistics": OBSERVED.replace("[costs]", RECORDS),
}
CHECKS = [
    "sensitivity",
    "without noise",
    "privacy loss",
    "composition",
    "noise",
    "independence",
    "black box, d = 1",
    "black box, d = 2",
    "settlements: checks",
    "settlements: reports",
    "settlements: noise",
    "settlements: release",
    "settlements: payments",
    "settlements: own report",
    "settlements: others",
    "features",
    "restart",
    "randomness",
]


@cache
def plan_of(study: str = "instruments", players: int = 20_000, **parameters: float | str) -> Plan:
    """A plan with one release: of the study for this estimator, or in this text."""
    chosen = {"epsilon": 2.0, "score_weight": 0.5, **parameters}
    return design(Study.parse(STUDIES.get(study, study)), players=players, **chosen)  # type: ignore[arg-type]


def mechanism_of(plan: Plan) -> OneRelease:
    assert isinstance(plan.mechanism, OneRelease)
    return plan.mechanism


@pytest.fixture(scope="module")
def audited() -> Audit:
    return audit(plan_of(), seed=1, samples=1_000)


def test_our_product_withstands_every_attack(audited: Audit) -> None:
    """False alarm below 8e-6."""
    assert [finding.name for finding in audited.findings] == CHECKS
    assert [finding.name for finding in audited.findings if not finding.passed] == []
    assert audited.passed
    # The attacks are no straw men: they find nearly all that is allowed.
    figures = {finding.name: finding.figures for finding in audited.findings}
    assert 0.999 < figures["sensitivity"]["share_of_sensitivity"] <= 1
    assert 0.999 * 2 < figures["privacy loss"]["loss"] <= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["known-design", "noisy-statistics"])
def test_plans_that_protect_records_withstand_every_attack(name: str) -> None:
    """False alarm below 8e-6 an estimator."""
    found = audit(plan_of(name), seed=2, samples=1_000)
    assert [finding.name for finding in found.findings] == [check for check in CHECKS if check != "features"]
    assert [finding.name for finding in found.findings if not finding.passed] == []
    assert found.findings[0].figures["share_of_sensitivity"] > 0.999


def test_an_audit_is_a_record_for_machines(audited: Audit) -> None:
    record = json.loads(json.dumps(audited.record()))
    assert record["format"] == "truthful/audit/2"
    assert record["passed"] is True
    assert record["protects"] == "answers"
    assert [finding["name"] for finding in record["findings"]] == CHECKS
    assert [finding["name"] for finding in record["findings"] if finding["informational"]] == ["features"]
    assert record["plan_sha256"] == plan_of().sha256


def test_one_failure_fails_an_audit(audited: Audit) -> None:
    broken = Finding("x", "y", "z", "certain", passed=False)
    assert not replace(audited, findings=(*audited.findings, broken)).passed


@pytest.mark.parametrize(("option", "value"), [("samples", 10), ("samples", 0.5), ("seed", -1)])
def test_impossible_audits_are_refused(option: str, value: float) -> None:
    with pytest.raises(InputError, match=option):
        audit(plan_of(), **{"seed": 1, option: value})  # type: ignore[arg-type]


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
    assert "Passed: 17 attacks" in shown(audited)
    assert "BROKEN" not in shown(audited)
    findings = (replace(found, passed=found.name != "noise") for found in audited.findings)
    broken = replace(audited, findings=tuple(findings))
    assert "BROKEN" in shown(broken)
    assert "FAILED: noise. Do not settle" in shown(broken)
    assert "--seed 1 --samples 1000" in shown(broken)


def test_a_verdict_says_what_is_not_protected(audited: Audit) -> None:
    words = " ".join(shown(audited).split())
    assert "none broke a claim. The plan protects answers, not features." in words
    assert "not protected" in shown(audited, width=200)


def test_a_verdict_says_what_would_have_been_seen_and_what_missed(audited: Audit) -> None:
    words = " ".join(shown(audited).split())
    noise, settled = (
        next(finding.figures["scale_error_caught"] for finding in audited.findings if finding.name == name)
        for name in ("noise", "settlements: noise")
    )
    assert f"Would have seen: a scale of noise off by {noise:.0%} in the sampler, by {settled:.0%}" in words
    assert "Would have missed: smaller errors" in words


# Neighbours


@pytest.mark.parametrize("name", STUDIES)
def test_the_worst_neighbours_attain_the_sensitivity_and_do_not_exceed_it(name: str) -> None:
    plan = plan_of(name)
    worst = worst_neighbours(Product(), mechanism_of(plan), plan.study.beliefs, 100, seed=1)
    assert worst.within
    assert worst.unmoved
    assert 0.999 < worst.share <= 1


def test_neighbours_in_an_answer_share_all_features_and_move_the_vector_alone() -> None:
    plan = plan_of()
    mechanism, beliefs = mechanism_of(plan), plan.study.beliefs
    old, new = worst_neighbours(Product(), mechanism, beliefs, 100, seed=1).neighbours
    assert unprotected_parts(old, mechanism) == unprotected_parts(new, mechanism)
    moved = sum(int(k) ** 2 for k in old.vector - new.vector)
    bound = cross_sensitivity(beliefs.response_bound)
    assert 0.998 * bound**2 < moved <= bound**2


# The black box


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_the_black_box_shows_no_more_than_is_spent(name: str) -> None:
    """False alarm 2e-6 each. At ε = 1 every audit does it."""
    plan = plan_of(name)
    found = black_box_finding(Product(), mechanism_of(plan), plan.study.beliefs, 1, SeededBits(3), 1_000, 0.1)
    assert found.passed
    assert found.figures["epsilon_shown"] <= 0.1
    assert "releases at ε = 0.1" in found.claim


# Everybody else


def test_without_her_is_a_refit_without_her() -> None:
    """The rational prediction against a float fit of the sums from which her row is missing, for everybody."""
    plan = plan_of()
    mechanism, beliefs = mechanism_of(plan), plan.study.beliefs
    X, y = crowd(beliefs, seed=3)
    exact = Product().statistics(X, y, mechanism, beliefs)
    estimate = Product().release(exact, mechanism, beliefs, Drawing(SeededBits(4)))
    noise = np.array([float(k - v) for k, v in zip(estimate.vector, exact.vector, strict=True)])
    scored = Product().score_players(estimate, replace(mechanism, payments="expected"), beliefs, X, y)
    for i, (kx, kz, ky) in enumerate(on_grid(X, y, mechanism, beliefs)):
        rest = Product().statistics(np.delete(X, i, 0), np.delete(y, i), mechanism, beliefs)
        fit = np.linalg.solve(rest.matrix.astype(float), rest.vector.astype(float) + noise)
        p = float(without_her(estimate, kx, kz, ky))
        assert p == pytest.approx(fit @ np.array(kx) / GRID, rel=1e-9)
        assert scored.peer_prediction[i] == pytest.approx(p, rel=1e-12, abs=1e-12)


@given(report=st.floats(-2, 2), other=st.floats(-2, 2), player=st.integers(0, 9))
def test_an_own_report_does_not_move_the_rational_prediction_by_a_bit(
    report: float, other: float, player: int
) -> None:
    beliefs = Study.parse(UNIT_BALL).beliefs
    mechanism = OneRelease(
        epsilon=1.0, base_payment=1.0, score_weight=0.1, clip=0.5, transform=((2048, 100), (-50, 900))
    )
    X, y = crowd(beliefs, seed=5)
    noise, exact, vectors = (12_345_678_901, -98_765_432_109), set(), set()
    for value in (report, other):
        y[player] = value
        found = Product().release(
            Product().statistics(X, y, mechanism, beliefs),
            mechanism,
            beliefs,
            lambda query, epsilon: [k + n for k, n in zip(query.value, noise, strict=True)],
        )
        kx, kz, ky = on_grid(X, y, mechanism, beliefs)[player]
        exact.add(without_her(found, kx, kz, ky))
        vectors.add((found.vector, ky))
    assert len(exact) == 1
    assert len({vector for vector, _ in vectors}) == len(vectors)


# What is not protected


def test_whoever_knows_all_features_but_hers_reads_hers_from_the_matrix() -> None:
    """Every plan that protects answers says so: this documents what is not protected."""
    plan = plan_of()
    study, mechanism = plan.study, mechanism_of(plan)
    assert mechanism.transform is not None
    reports = invented_reports(plan, 1)
    names = [feature.name for feature in study.features]
    X = study.normalise({name: np.array(reports[name].to_pylist()) for name in names}, reports.num_rows)
    kx = grid_features(X)
    kz = instruments_on_grid(kx, mechanism.transform)
    people = [(tuple(map(int, x)), tuple(map(int, z))) for x, z in zip(kx, kz, strict=True)]
    matrix = sums(kx, np.zeros(len(kx)), mechanism.transform).matrix
    for victim in range(len(people)):
        found = recover_features(
            matrix, [pair for i, pair in enumerate(people) if i != victim], mechanism.transform
        )
        assert found is not None
        # The intercept is positive, so that the sign is known too.
        assert (found if found[0] > 0 else tuple(-k for k in found)) == people[victim][0]


@given(
    x=st.lists(st.floats(-1, 1), min_size=2, max_size=2),
    entries=st.lists(st.integers(-(2**22), 2**22), min_size=4, max_size=4),
)
def test_features_are_recovered_whatever_the_transform(x: list[float], entries: list[int]) -> None:
    T = ((entries[0], entries[1]), (entries[2], entries[3]))
    kx = grid_features(np.array([x]))
    kz = instruments_on_grid(kx, T)
    found = recover_features(sums(kx, np.zeros(1), T).matrix, [], T)
    if not kz.any():
        assert found is None
    else:
        assert found is not None
        again = instruments_on_grid(np.array([found], dtype=np.float64), T)
        # Up to the sign; if T leaves next to nothing of x, somebody else may have the same sums.
        assert np.array_equal(np.outer(again[0], found), np.outer(kz[0], kx[0]))


@pytest.mark.slow
def test_of_a_matrix_that_is_kept_back_no_guess_can_be_tried_out() -> None:
    kept = '[privacy]\nprotects = "answers"\npublish_matrix = false\n[costs]'
    found = settled_findings(Product(), plan_of(DESIGNED.replace("[costs]", kept)), 1)
    assert [finding.name for finding in found if not finding.passed] == []
    assert [
        "no guess of them can be tried out" in finding.found for finding in found if finding.informational
    ] == [True]


# Checks before a draw


@pytest.mark.parametrize(
    ("people", "refusal"), [("few", Refused), ("alike", TruthfulError), ("all", WorseThanPromised)]
)
def test_the_people_whom_checks_are_tried_on_are_refused(people: str, refusal: type[Exception]) -> None:
    plan = plan_of()
    reports = invented_reports(plan, 1)
    tried = {
        "few": reports.slice(0, 3),
        "alike": reports.take([0] * reports.num_rows).set_column(0, "player", reports["player"]),
        "all": reports,
    }[people]
    found = outcome(Product(), plan, tried, plant_answers(Product(), plan, reports), people != "all")
    assert isinstance(found[0], type)
    assert issubclass(found[0], refusal)


# The exact loss


def asked(value: tuple[int, ...], epsilon: Fraction, sensitivity: int = 5) -> SpentQuery:
    return SpentQuery(
        Query(value, Fraction(1), Fraction(sensitivity), (1,) * len(value), Fraction(1)), epsilon
    )


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


def test_distances_are_weighted() -> None:
    one = Query((0, 0), Fraction(1), Fraction(1), (1, 2), Fraction(1))
    assert square_distance(one, replace(one, value=(3, 10**30))) == 9 + 2 * 10**60


# Laws and independence


def laplace(rng: np.random.Generator, draws: int, d: int) -> DrawnNoise:
    directions = rng.normal(size=(draws, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return DrawnNoise(
        rng.gamma(d, size=draws), directions, rng.integers(0, 16, (draws, d)).astype(np.float64)
    )


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
    bounds = lower_bound(np.array([hits, draws - other_hits]), np.array([other_hits, draws - hits]), draws)
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
