"""The audit of plans that ask what the others will say: ours withstands it, and products with a fault do not.

All attacks run from fixed seeds. A sound product fails a statistical check with a probability below 8e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from support.asked import planned
from support.shown_asked import plan_of
from test_audit import CHECKS
from test_audit_mutants import EvenNoise, LessNoise, NoiseUsedTwice, failed, findings
from test_audit_settlements import pay_from_exact_sums, rescore

from truthful.asked_release import AskedRelease, AskedScored
from truthful.auditor import Product, audit
from truthful.auditor.attack_surface import AnyScored, Attacked, Believed
from truthful.auditor.attacks import crowd
from truthful.auditor.noise_tests import black_box_finding
from truthful.auditor.settlements import checks_finding, exact_predictions, settled_findings
from truthful.auditor.trial_settlements import invented_reports, normalise_reports, replace_answers
from truthful.check import Floats
from truthful.estimators.sensitivity import AddNoise, Query
from truthful.lattice import Bits, SeededBits
from truthful.moments import GRID, Sums, grid_responses
from truthful.one_release import LeaveOneOut
from truthful.plan import Plan
from truthful.settlement.draw import Drawing, replay
from truthful.study.credibility import LevelBeliefs


#: Faults are tried on numbers with features and on yes or no: ratings and no features are those with less in them.
@pytest.fixture(params=("features", "yes-no"))
def plan(request: pytest.FixtureRequest) -> Plan:
    return plan_of(request.param)


def asked(plan: Plan) -> tuple[AskedRelease, LevelBeliefs]:
    mechanism, beliefs = plan.asked_mechanism, plan.study.levels
    assert mechanism is not None
    assert beliefs is not None
    return mechanism, beliefs


@pytest.mark.slow
def test_our_product_withstands_every_attack(plan: Plan) -> None:
    """All attacks on numbers, and one on the range of payments; neighbours differ in both, and by all of ε."""
    found = audit(plan, seed=1, samples=1_000)
    assert [finding.name for finding in found.findings if not finding.passed] == []
    names = [finding.name for finding in found.findings]
    wanted = [check for check in CHECKS if check != "features" or plan.study.features]
    assert [check for check in names if check != "payments"] == wanted
    assert names.count("payments") == 1
    figures = {finding.name: finding.figures for finding in found.findings}
    assert 0.999 < figures["sensitivity"]["share_of_sensitivity"] <= 1
    assert 0.999 * found.epsilon < figures["privacy loss"]["loss"] <= found.epsilon


@pytest.mark.parametrize("name", ["number", "rating"])
def test_ours_passes_without_settlements(name: str) -> None:
    assert failed(Product(), plan_of(name)) == set()


def test_the_worst_neighbours_differ_in_the_answer_and_the_prediction() -> None:
    """Of the answer alone less than all of the sensitivity is used: by √(1 + ρ²) less."""
    plan = plan_of("number")
    mechanism, beliefs = asked(plan)
    found = {finding.name: finding for finding in findings(Product(), plan, payments=False)}
    assert found["sensitivity"].claim.startswith("one answer and prediction, whatever is in it")
    moved = [
        Product().statistics(np.ones((1, 1)), np.array([said]), mechanism, beliefs)
        for said in ((1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0))
    ]
    first, answer, both = (mechanism.queries(sums, beliefs)[0] for sums in moved)
    assert abs(first.value[0] - answer.value[0]) < 0.97 * first.sensitivity
    length = math.dist(first.value, both.value)
    assert 0.999999 * float(first.sensitivity) < length <= float(first.sensitivity)


# What is her own


def test_her_own_answer_and_prediction_move_the_release_and_nothing_of_what_others_say() -> None:
    """In rational numbers to the bit, and equal to what is left when her row is left out."""
    mechanism, beliefs = asked(plan_of("features"))
    X, y = crowd(beliefs, 3)
    ratio = Fraction(mechanism.ratio)
    for i in range(len(y)):
        found = set()
        for said in ((-1.0, 1.0), (0.25, -1.0), (1.0, 0.5)):
            reports = y.copy()
            reports[i] = said
            sums = Product().statistics(X, reports, mechanism, beliefs)
            point = tuple(int(k) for k in mechanism.queries(sums, beliefs)[0].value)
            estimate = Product().release(sums, mechanism, beliefs, replay((point,)))
            found.add(exact_predictions(estimate, mechanism, beliefs, X, reports, i)[1])
        others = np.delete(y, i, axis=0)
        total = int(grid_responses(others[:, 1], 1.0).sum())
        assert found == {Fraction(total, GRID * len(others))}
    assert (ratio * GRID).denominator == 1


def own_prediction_kept(found: AskedScored, y: Floats, m: Floats) -> dict[str, Floats]:
    """Everybody is scored against all predictions, her own included."""
    return {"others_prediction": (found.others_prediction * (len(m) - 1) + m) / len(m)}


def own_prediction_paid(found: AskedScored, y: Floats, m: Floats) -> dict[str, Floats]:
    """The surprise that is paid for has her own prediction in it."""
    return {"surprise": found.surprise - m / len(m)}


def own_answer_kept(found: AskedScored, y: Floats, m: Floats) -> dict[str, Floats]:
    """Everybody is scored against all answers, her own included."""
    h = found.leverage
    return {"peer_prediction": found.peer_prediction * (1 - h) + h * y}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("features", own_prediction_kept),
        ("features", own_answer_kept),
        ("yes-no", own_prediction_paid),
        ("yes-no", own_answer_kept),
    ],
)
def test_what_is_her_own_and_left_in_is_caught(
    name: str, fault: Callable[..., dict[str, Floats]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rescore(fault, plan_of(name), monkeypatch) - {"payments"} == {"own report"}


@pytest.mark.slow
def test_payments_that_follow_from_exact_sums_are_caught(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pay_from_exact_sums(plan, monkeypatch) == {"payments", "own report", "others"}


# Noise and sensitivity


class BarePredictions(Product):
    """Answers have their noise, and the sum of predictions has none."""

    def answer(self, bits: Bits) -> AddNoise:
        def answer(query: Query, epsilon: Fraction) -> Sequence[int]:
            return [*Drawing(bits)(query, epsilon)[:-1], query.value[-1]]

        return answer


class BareAnswers(Product):
    """Predictions have their noise, and the first sum of answers has none."""

    def answer(self, bits: Bits) -> AddNoise:
        def answer(query: Query, epsilon: Fraction) -> Sequence[int]:
            return [query.value[0], *Drawing(bits)(query, epsilon)[1:]]

        return answer


class SensitivityOfAnswers(Product):
    """Noise as if people gave an answer alone: without the factor √(1 + ρ²)."""

    def release(self, sums: Sums, mechanism: Attacked, beliefs: Believed, answer: AddNoise) -> LeaveOneOut:
        assert isinstance(mechanism, AskedRelease)
        both = Fraction(math.sqrt(1 + mechanism.ratio**2))

        def less(query: Query, epsilon: Fraction) -> Sequence[int]:
            return answer(replace(query, sensitivity=Fraction(int(query.sensitivity / both))), epsilon)

        return super().release(sums, mechanism, beliefs, less)


class BoundlessPredictions(Product):
    """Predictions that are beyond the scale are added up as they are."""

    def statistics(self, X: Floats, y: Floats, mechanism: Attacked, beliefs: Believed) -> Sums:
        found = super().statistics(X, y, mechanism, beliefs)
        return replace(found, predictions=int(np.trunc(y[:, 1] * GRID).sum()))


@pytest.mark.parametrize(
    ("product", "check", "names"),
    [
        (LessNoise(Fraction(1, 2)), "noise", ("yes-no",)),
        (EvenNoise(), "noise", ("features",)),
        (NoiseUsedTwice(), "independence", ("yes-no",)),
        (BarePredictions(), "noise", ("features", "yes-no")),
        (BareAnswers(), "noise", ("features", "yes-no")),
        (SensitivityOfAnswers(), "privacy loss", ("features", "yes-no")),
        (BoundlessPredictions(), "sensitivity", ("features", "yes-no")),
    ],
)
def test_faults_of_noise_and_sensitivity_are_caught(
    product: Product, check: str, names: tuple[str, ...]
) -> None:
    for name in names:
        assert check in failed(product, plan_of(name), payments=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("product", "samples", "sound"),
    [(BarePredictions(), 500, False), (LessNoise(Fraction(1, 2)), 2_500, False), (Product(), 2_500, True)],
)
def test_faults_of_noise_are_seen_from_outside(product: Product, samples: int, sound: bool) -> None:
    """At the whole of ε = 1, over (answer, prediction): half the noise spends 2, and an exact sum all there is."""
    mechanism, beliefs = asked(plan_of("number"))
    found = black_box_finding(product, mechanism, beliefs, 1, SeededBits(1), samples)
    assert found.passed == sound
    assert found.figures["epsilon_shown"] > 0.3


@pytest.mark.parametrize("kind", ["number", "rating"])
def test_releases_of_features_with_levels_are_seen_from_outside_too(kind: str) -> None:
    """What is believed of effects has no part in it, nor in how many draws there are."""
    mechanism, beliefs = asked(planned(kind, 1))
    assert black_box_finding(Product(), mechanism, beliefs, 1, SeededBits(1), 200).passed


# Payments


class Unbounded(Product):
    """Payments that go on with the surprise, as far as that goes."""

    def score_players(
        self, estimate: LeaveOneOut, mechanism: Attacked, beliefs: Believed, X: Floats, y: Floats
    ) -> AnyScored:
        found = super().score_players(estimate, mechanism, beliefs, X, y)
        assert isinstance(found, AskedScored)
        return replace(found, payment=found.payment + found.peer_prediction * y[:, 0])


class Mean(Product):
    """A little less than what was promised, for everybody."""

    def score_players(
        self, estimate: LeaveOneOut, mechanism: Attacked, beliefs: Believed, X: Floats, y: Floats
    ) -> AnyScored:
        found = super().score_players(estimate, mechanism, beliefs, X, y)
        assert isinstance(mechanism, AskedRelease)
        return replace(found, payment=found.payment - mechanism.base_payment)


@pytest.mark.parametrize("product", [Unbounded(), Mean()])
def test_payments_out_of_their_range_are_caught(product: Product, plan: Plan) -> None:
    assert failed(product, plan) == {"payments"}


# Settlements


def test_invented_reports_have_predictions_in_their_range(plan: Plan) -> None:
    reports = invented_reports(plan, 1)
    low, high = plan.study.prediction_range
    predictions = np.array(reports["prediction"].to_pylist())
    assert low <= predictions.min() < predictions.max() <= high
    X, y = normalise_reports(plan.study, reports)
    assert y.shape == (len(X), 2)
    assert np.abs(y).max() <= 1
    changed = replace_answers(plan.study, reports, plan.study.response.high, 3)
    moved = np.flatnonzero((normalise_reports(plan.study, changed)[1] != y).any(axis=1))
    assert set(moved.tolist()) <= {3}
    assert normalise_reports(plan.study, changed)[1][3].tolist() == [1.0, 1.0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["number", "rating"])
def test_ours_settles_as_it_should(name: str) -> None:
    """As the other two do, by the audits above."""
    plan = plan_of(name)
    found = (checks_finding(Product(), plan, seed=1), *settled_findings(Product(), plan, 1))
    assert [finding.name for finding in found if not finding.passed] == []
