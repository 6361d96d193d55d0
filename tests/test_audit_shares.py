"""The audit of plans for yes and no and for ratings: ours withstands it, and products with a fault do not.

All attacks run from fixed seeds. A sound product fails a statistical check with a probability below 8e-6.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.laboratory import NUMBER, pinned
from test_audit import CHECKS
from test_audit_mutants import (
    EvenNoise,
    LeavesOut,
    LessNoise,
    LongInstruments,
    NoiseUsedTwice,
    NothingClipped,
    failed,
    findings,
)
from test_audit_settlements import pay_from_exact_sums, rescore

from truthful.agents.games import share_mechanism
from truthful.auditor import Product, audit
from truthful.auditor.attack_surface import AnyScored, Attacked, Believed
from truthful.auditor.attacks import crowd
from truthful.auditor.noise_tests import black_box_finding
from truthful.auditor.settlements import (
    checks_finding,
    drawn_findings,
    exact_predictions,
    on_grid,
    settled_findings,
)
from truthful.auditor.trial_settlements import invented_reports
from truthful.check import Floats
from truthful.estimators.sensitivity import AddNoise
from truthful.lattice import Bits, SeededBits
from truthful.moments import GRID, Sums
from truthful.one_release import LeaveOneOut, Scored
from truthful.plan import Plan
from truthful.settlement import Settlement
from truthful.settlement.draw import Drawing, replay
from truthful.share_release import ShareRelease
from truthful.show.terminal import audit_view

MIXED = {"share": (0.2, 0.5), "columns": 1, "more": NUMBER}
PLANS = {
    "no features": pinned(2_000, 0.5, bonus=0.5, flat=0.1, tolerance=0.05),
    "features": pinned(2_000, 0.5, bonus=0.5, flat=0.1, norm="sup", **MIXED),
    "features, L2": pinned(2_000, 0.5, bonus=0.5, flat=0.1, norm="l2", **MIXED),
    "ratings": pinned(2_000, 0.5, bonus=0.5, levels=5, norm="sup", **MIXED),
}


#: Faults are tried in both norms, on yes or no and on ratings.
@pytest.fixture(params=("features, L2", "ratings"))
def plan(request: pytest.FixtureRequest) -> Plan:
    return PLANS[request.param]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["no features", "ratings"])
def test_our_product_withstands_every_attack(name: str) -> None:
    """All attacks on numbers, one on the range of payments and, where there are no features, none on these."""
    found = audit(PLANS[name], seed=1, samples=1_000)
    assert [finding.name for finding in found.findings if not finding.passed] == []
    names = [finding.name for finding in found.findings]
    wanted = [check for check in CHECKS if check != "features" or PLANS[name].study.features]
    assert [check for check in names if check != "payments"] == wanted
    assert names.count("payments") == 1
    figures = {finding.name: finding.figures for finding in found.findings}
    assert 0.999 < figures["sensitivity"]["share_of_sensitivity"] <= 1
    assert 0.999 * 0.5 < figures["privacy loss"]["loss"] <= 0.5
    assert (found.protects, found.epsilon) == ("answers", 0.5)
    assert len(audit_view(found)) == 4


@pytest.mark.parametrize("name", ["features", "features, L2"])
def test_ours_passes_without_settlements(name: str) -> None:
    assert failed(Product(), PLANS[name]) == set()


# Her own answer


def test_a_flipped_answer_moves_the_sum_and_nothing_of_what_others_predict() -> None:
    """In rational numbers to the bit, and in floats but for their rounding; by hand, a sum over the others."""
    mechanism, beliefs = share_mechanism(PLANS["features"])
    X, y = crowd(beliefs, 3)
    noise = [int(k) for k in np.random.default_rng(2).integers(-(2**44), 2**44, beliefs.dimension)]
    for i in range(len(y)):
        exact, floats, vectors = [], [], []
        for answer in (-1.0, 1.0):
            said = y.copy()
            said[i] = answer
            sums = Product().statistics(X, said, mechanism, beliefs)
            vector = tuple(int(k) + n for k, n in zip(sums.vector, noise, strict=True))
            estimate = Product().release(sums, mechanism, beliefs, replay((vector,)))
            exact += exact_predictions(estimate, mechanism, beliefs, X, said, i)
            floats.append(Product().score_players(estimate, mechanism, beliefs, X, said).peer_prediction[i])
            vectors.append(vector)
        kz = on_grid(X, y, mechanism, beliefs)[i][1]
        assert [b - a for a, b in zip(*vectors, strict=True)] == [2 * k * GRID for k in kz]
        assert exact[0] == exact[1]
        assert floats == pytest.approx([float(exact[0])] * 2, abs=1e-12)
        people = [record for j, record in enumerate(on_grid(X, y, mechanism, beliefs)) if j != i]
        M = sum(np.outer(kz, kx) for kx, kz, _ in people) / GRID**2
        b = (sum(np.array(kz) * ky for _, kz, ky in people) + np.array(noise)) / GRID**2
        assert float(exact[0]) == pytest.approx((1 + X[i] @ np.linalg.solve(M, b)) / 2, abs=1e-5)


def own_answer_kept(found: Scored, y: Floats) -> dict[str, Floats]:
    """Everybody is scored against all answers, her own included."""
    h = found.leverage
    return {"peer_prediction": found.peer_prediction * (1 - h) + h * (1 + y) / 2}


@pytest.mark.slow
def test_an_own_answer_that_is_left_in_is_caught(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rescore(own_answer_kept, plan, monkeypatch) == {"own report"}


@pytest.mark.slow
def test_payments_that_follow_from_exact_sums_are_caught(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pay_from_exact_sums(plan, monkeypatch) == {"payments", "own report", "others"}


# Payments


class Unbounded(Product):
    """Payments that go on with the share, as far as that goes."""

    def score_players(
        self, estimate: LeaveOneOut, mechanism: Attacked, beliefs: Believed, X: Floats, y: Floats
    ) -> AnyScored:
        found = super().score_players(estimate, mechanism, beliefs, X, y)
        assert isinstance(mechanism, ShareRelease)
        return replace(found, payment=mechanism.flat + mechanism.bonus * (0.5 + found.peer_prediction * y))


class Mean(Product):
    """A millionth less than the flat fee for whoever earns no more."""

    def score_players(
        self, estimate: LeaveOneOut, mechanism: Attacked, beliefs: Believed, X: Floats, y: Floats
    ) -> AnyScored:
        found = super().score_players(estimate, mechanism, beliefs, X, y)
        return replace(found, payment=found.payment - 1e-6)


@pytest.mark.parametrize("product", [Unbounded(), Mean()])
def test_payments_out_of_their_range_are_caught(product: Product, plan: Plan) -> None:
    assert failed(product, plan) == {"payments"}


# Noise and sensitivity


@pytest.mark.parametrize(
    ("product", "check"),
    [
        (LessNoise(Fraction(1, 2)), "noise"),
        (EvenNoise(), "noise"),
        (NoiseUsedTwice(), "independence"),
        (NothingClipped(), "sensitivity"),
        (LongInstruments(), "sensitivity"),
        (LeavesOut(), "without noise"),
    ],
)
def test_the_faults_of_numbers_are_caught_here_too(product: Product, check: str, plan: Plan) -> None:
    assert check in failed(product, plan, payments=False)


class CutInTheOtherNorm(Product):
    """Instruments that are at most 1 long in the sup norm, and so up to √d long in L2."""

    def statistics(self, X: Floats, y: Floats, mechanism: Attacked, beliefs: Believed) -> Sums:
        return super().statistics(X, y, replace(mechanism, norm="sup"), beliefs)


class DrawnInTheOtherNorm(Product):
    """L2 noise, of the promised scale, for a sensitivity in the sup norm: too little, as L2 distances are larger."""

    def answer(self, bits: Bits) -> AddNoise:
        return lambda query, epsilon: Drawing(bits)(replace(query, norm="l2"), epsilon)


class ScaledInTheOtherNorm(Product):
    """Noise by the sup norm at 1/√d of its scale, as if instruments were at most 1 long in L2."""

    def answer(self, bits: Bits) -> AddNoise:
        return lambda query, epsilon: Drawing(bits)(
            query, epsilon * round(100 * len(query.value) ** 0.5) / 100
        )


@pytest.mark.parametrize(
    ("product", "norm", "checks"),
    [
        (CutInTheOtherNorm(), "l2", {"sensitivity", "privacy loss"}),
        (DrawnInTheOtherNorm(), "sup", {"noise"}),
        (ScaledInTheOtherNorm(), "sup", {"noise"}),
    ],
)
def test_a_norm_that_is_mistaken_for_the_other_is_caught(
    product: Product, norm: str, checks: set[str]
) -> None:
    assert failed(product, PLANS["features" if norm == "sup" else "features, L2"], payments=False) >= checks


def test_in_the_sup_norm_the_worst_neighbours_use_all_of_the_sensitivity() -> None:
    found = {finding.name: finding for finding in findings(Product(), PLANS["features"])}
    assert found["sensitivity"].figures["share_of_sensitivity"] == 1
    assert found["privacy loss"].figures["loss"] == 0.5


class LeavesOutNo(Product):
    """Who says no is not counted: then the matrix of features says who did."""

    def statistics(self, X: Floats, y: Floats, mechanism: Attacked, beliefs: Believed) -> Sums:
        kept = (y > 0) | (np.arange(len(y)) > 0)
        return super().statistics(X[kept], y[kept], mechanism, beliefs)


def test_a_count_of_those_who_say_yes_is_caught(plan: Plan) -> None:
    assert "without noise" in failed(LeavesOutNo(), plan, payments=False)


def test_the_worst_neighbours_turn_a_yes_into_a_no() -> None:
    """They are told apart by all of ε: nothing of the sensitivity is wasted on answers that there are not."""
    found = {finding.name: finding for finding in findings(Product(), PLANS["no features"])}
    assert found["sensitivity"].figures["share_of_sensitivity"] == 1
    assert found["privacy loss"].figures["loss"] == 0.5


@pytest.mark.slow
@pytest.mark.parametrize(("dimension", "samples"), [(1, 2_000), (2, 4_000)])
def test_half_the_noise_is_seen_from_outside(dimension: int, samples: int) -> None:
    """At ε = 1 the releases of LessNoise spend 2; with so many draws 1.2 or more is seen. Ours passes."""
    mechanism, beliefs = share_mechanism(PLANS["features"])
    for product, sound in ((LessNoise(Fraction(1, 2)), False), (Product(), True)):
        found = black_box_finding(product, mechanism, beliefs, dimension, SeededBits(1), samples)
        assert found.passed == sound


# Settlements


def faults(product: Product, plan: Plan) -> set[str]:
    """What is found wrong of settlements, of which as few as can be are made."""
    found = (
        checks_finding(product, plan, seed=1),
        *drawn_findings(product, plan, 1, 40),
        *settled_findings(product, plan, 1),
    )
    return {finding.name for finding in found if not finding.passed}


class Settles(Product):
    """Ours, but for what is settled, or with which plan."""

    def altered(self, plan: Plan, reports: Any) -> tuple[Plan, Any]:
        return plan, reports

    def settle(self, plan: Plan, reports: Any, *, out: Path, on_bad: str, **more: Any) -> Settlement:
        plan, reports = self.altered(plan, reports)
        return super().settle(plan, reports, out=out, on_bad=on_bad, **more)


class Corrects(Settles):
    """Answers that nobody can have given are taken for the lowest that there is."""

    def altered(self, plan: Plan, reports: Any) -> tuple[Plan, Any]:
        response = plan.study.response
        answers = np.array(reports[response.name].to_pylist(), dtype=np.float64)
        answers[(answers < response.low) | (answers > response.high)] = response.low
        at = reports.column_names.index(response.name)
        return plan, reports.set_column(at, response.name, [answers.tolist()])


class Flips(Settles):
    """The answer of the third player is turned round."""

    def altered(self, plan: Plan, reports: Any) -> tuple[Plan, Any]:
        response = plan.study.response
        answers = np.array(reports[response.name].to_pylist(), dtype=np.float64)
        answers[2] = response.low + response.high - answers[2]
        at = reports.column_names.index(response.name)
        return plan, reports.set_column(at, response.name, [answers.tolist()])


def test_settlements_that_correct_answers_are_caught() -> None:
    """Without features, all that shouts are answers: these must be refused."""
    assert faults(Corrects(), PLANS["no features"]) == {"settlements: reports"}


def test_settlements_of_other_answers_are_caught() -> None:
    """Draws that are planted for the true answers it refuses, too: so only its own are looked at."""
    reports, noise = drawn_findings(Flips(), PLANS["features"], 1, 40)
    assert not reports.passed
    assert noise.passed


@pytest.mark.slow
def test_ours_settles_as_it_should() -> None:
    """In the L2 norm, as without features and in the sup norm by the audits above."""
    assert faults(Product(), PLANS["features, L2"]) == set()


@pytest.mark.parametrize("name", PLANS)
def test_invented_reports_have_every_answer(name: str) -> None:
    study = PLANS[name].study
    reports = invented_reports(PLANS[name], 1)
    found = set(reports[study.response.name].to_pylist())
    assert found == ({0.0, 1.0} if study.kind == "yes-no" else {1.0, 2.0, 3.0, 4.0, 5.0})
