"""The auditor attacks real settlements: faults put into the code that settles, and the check that sees each of them.

Real noise is the operating system's, so that these tests cannot be seeded: a check of its law raises a false alarm with
probability 1e-6, and misses a tenth of the noise with less than that.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies import CASES, DESIGNED, planned

from truthful.auditor import Finding, Truthful
from truthful.auditor.invented import in_range, invented_reports, with_absurd_ones
from truthful.auditor.paid import payment_findings
from truthful.auditor.settled import settled_findings
from truthful.auditor.wiring import randomness_finding
from truthful.estimators import Query
from truthful.groups import groups_of, player_hashes
from truthful.lattice import Bits, SeededBits, SystemBits
from truthful.mechanism import Answer, Estimates, Mechanism, private_estimates
from truthful.moments import GRID, grid_features, moments
from truthful.payments import Paymaster, paymaster
from truthful.plan import Plan
from truthful.settlement import Settlement, passes, settlement
from truthful.settlement.passes import Statistics
from truthful.settlement.settlement import Progress
from truthful.study import Study

CENTRED = DESIGNED.replace("signal = 0.6", "signal = 0.6\n[beliefs.centre]\nprice = 20")


def plan_of(name: str = "known-design") -> Plan:
    text, parameters = CASES[name]
    return planned(Study.parse(text), 20_000, name, **parameters)


def broken(findings: Sequence[Finding]) -> set[str]:
    return {finding.name.removeprefix("settlements: ") for finding in findings if not finding.passed}


def without_noise(query: Query, epsilon: Fraction) -> Sequence[int]:
    return query.value


def exact_estimates(plan: Plan, statistics: Statistics) -> Estimates:
    return private_estimates(statistics.halves, plan.mechanism, plan.study.beliefs, without_noise)


# Reports and noise


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_settlements_that_draw_a_tenth_of_the_noise_are_caught(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(name)
    assert broken(settled_findings(Truthful(), plan, 1, 1_000)) == set()

    def bolder(plan: Plan, statistics: Statistics, answer: Answer) -> Estimates:
        mechanism = replace(plan.mechanism, epsilon=10 * plan.mechanism.epsilon)
        return private_estimates(statistics.halves, mechanism, plan.study.beliefs, answer)

    monkeypatch.setattr(settlement, "_estimates", bolder)
    assert broken(settled_findings(Truthful(), plan, 1, 1_000)) == {"noise"}


class NeverRefuses(Truthful):
    """Clips where it was told to refuse."""

    def settle(
        self, plan: Plan, reports: Any, *, out: Path, on_bad: str, seed: int | None, progress: Progress | None
    ) -> Settlement:
        return super().settle(plan, reports, out=out, on_bad="clip", seed=seed, progress=progress)


@pytest.mark.slow
def test_absurd_reports_that_are_settled_instead_of_refused_are_caught() -> None:
    assert broken(settled_findings(NeverRefuses(), plan_of(), 1, 1_000)) == {"reports"}


@pytest.mark.slow
def test_an_absurd_report_in_the_statistics_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def loud(*arguments: Any) -> Statistics:
        statistics = passes.gather(*arguments)
        one, other = statistics.halves
        return replace(statistics, halves=(replace(one, cross=one.cross + 10**9 * GRID**2), other))

    monkeypatch.setattr(settlement, "gather", loud)
    assert broken(settled_findings(Truthful(), plan_of(), 1, 1_000)) == {"reports", "noise"}


@pytest.mark.slow
def test_answers_in_range_that_no_belief_allows_are_caught_if_they_are_not_clipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Around a centre an answer within its range can lie beyond Y: only the grid clips it."""
    plan = planned(Study.parse(CENTRED), 20_000)
    assert broken(settled_findings(Truthful(), plan, 1, 1_000)) == set()
    reports = with_absurd_ones(plan.study, invented_reports(plan, 1))

    def unclipped(source: Any, study: Study, key: bytes, *others: Any) -> Statistics:
        values = in_range(study, reports)
        X = study.normalise(values)
        kx, ky = grid_features(X), np.trunc(study.normalise_response(values["spend"], X) * GRID)
        groups = groups_of(player_hashes(reports["player"], key))
        assert np.abs(ky).max() > study.beliefs.response_bound * GRID
        statistics = passes.gather(source, study, key, *others)
        one, other = (moments(kx[groups == g], ky[groups == g]) for g in (0, 1))
        return replace(statistics, halves=(one, other))

    monkeypatch.setattr(settlement, "gather", unclipped)
    assert "reports" in broken(settled_findings(Truthful(), plan, 1, 1_000))


# The release and the payments


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_halves_published_without_noise_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(name)
    assert broken(payment_findings(Truthful(), plan, 1)) == set()

    def bare(plan: Plan, statistics: Statistics, answer: Answer) -> Estimates:
        noisy = private_estimates(statistics.halves, plan.mechanism, plan.study.beliefs, answer)
        return replace(noisy, peers=exact_estimates(plan, statistics).peers)

    monkeypatch.setattr(settlement, "_estimates", bare)
    assert broken(payment_findings(Truthful(), plan, 1)) == {"release", "others"}


@pytest.mark.slow
def test_payments_from_estimates_without_noise_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of()
    gathered: list[Statistics] = []

    def listen(*arguments: Any) -> Statistics:
        gathered.append(passes.gather(*arguments))
        return gathered[-1]

    def leaky(mechanism: Mechanism, beliefs: Any, estimates: Estimates, counts: tuple[int, int]) -> Paymaster:
        return paymaster(mechanism, beliefs, exact_estimates(plan, gathered[-1]), counts)

    monkeypatch.setattr(settlement, "gather", listen)
    monkeypatch.setattr(settlement, "paymaster", leaky)
    assert broken(payment_findings(Truthful(), plan, 1)) == {"payments", "others"}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_players_scored_against_their_own_half_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def own(mechanism: Mechanism, beliefs: Any, estimates: Estimates, counts: tuple[int, int]) -> Paymaster:
        one, other = estimates.peers
        return paymaster(mechanism, beliefs, replace(estimates, peers=(other, one)), counts)

    monkeypatch.setattr(settlement, "paymaster", own)
    assert broken(payment_findings(Truthful(), plan_of(name), 1)) == {"payments"}


# Chance


class KnownKey(SystemBits):
    """The operating system's noise, but halves that everybody can predict."""

    def bits(self, n: int) -> int:
        return 12_345 if n == 128 else super().bits(n)


GENERATORS: dict[str, tuple[Callable[[], Bits], str]] = {
    "a constant": (lambda: SeededBits(7), "repeats"),
    "the clock": (lambda: SeededBits(time.time_ns() // 1_000), "not the operating system's"),
    "the generator of the process": (
        lambda: SeededBits(random.getrandbits(64)),
        "not the operating system's",
    ),
    "numpy's": (lambda: SeededBits(int(np.random.randint(2**31))), "not the operating system's"),
    "few bits": (lambda: SeededBits(secrets.randbits(64)), "random bits for a draw"),
    "a known key": (KnownKey, "repeats"),
}


@pytest.mark.parametrize("source", GENERATORS)
def test_chance_that_does_not_come_from_the_operating_system_is_caught(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator, complaint = GENERATORS[source]
    monkeypatch.setattr(settlement, "SystemBits", generator)
    finding = randomness_finding(Truthful(), plan_of(), 1)
    assert not finding.passed
    assert complaint in finding.found


def test_the_operating_system_s_chance_passes_and_is_put_back() -> None:
    finding = randomness_finding(Truthful(), plan_of(), 1)
    assert finding.passed
    assert finding.figures["random_bits"] > finding.figures["needed_bits"]
    assert secrets.token_bytes(16) != secrets.token_bytes(16)
    assert randomness_finding(Truthful(), plan_of(), 1) == finding
