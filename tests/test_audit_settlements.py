"""The auditor attacks real settlements: faults put into the code that settles, and the check that sees each of them.

Real keys are the operating system's, so that these tests cannot be seeded: a check of its law raises a false alarm with
probability 1e-6, and misses a tenth of the noise with less than that.
"""

from __future__ import annotations

import hashlib
import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.studies import DESIGNED
from test_audit import STUDIES, mechanism_of, plan_of

from truthful.auditor import Finding, Product
from truthful.auditor.settlements import (
    checks_finding,
    drawn_findings,
    randomness_finding,
    restart_finding,
    settled_findings,
)
from truthful.auditor.trial_settlements import absurd_reports, clip_reports
from truthful.beliefs import Beliefs
from truthful.check import Floats
from truthful.errors import Refused
from truthful.lattice import KEY_BYTES
from truthful.moments import GRID, grid_features, sums
from truthful.one_release import (
    LeaveOneOut,
    NumberPaymaster,
    OneRelease,
    Paymaster,
    Scored,
    payable,
    paymaster,
    peer_predictions,
)
from truthful.plan import Plan
from truthful.release import Release, publish
from truthful.settlement import Settlement, atomic_release, checks, passes, settlement
from truthful.settlement.atomic_release import LedgerAccount, OpenRelease
from truthful.settlement.draw import Chance, Draw, destroy_key, key_path, keyed_chance, seeded_chance
from truthful.settlement.passes import Statistics
from truthful.study import Study

CENTRED = DESIGNED.replace("signal = 0.6", "signal = 0.6\n[beliefs.centre]\nprice = 20")
SAMPLES = 1_000


def broken(findings: Sequence[Finding]) -> set[str]:
    return {finding.name.removeprefix("settlements: ") for finding in findings if not finding.passed}


# Reports and noise


@pytest.mark.slow
@pytest.mark.parametrize("name", ["instruments", "noisy-statistics"])
def test_settlements_that_draw_a_tenth_of_the_noise_are_caught(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = settlement._draw

    def bolder(plan: Plan, mechanism: OneRelease, statistics: Statistics, opened: OpenRelease) -> Draw:
        return drawn(plan, replace(mechanism, epsilon=10 * mechanism.epsilon), statistics, opened)

    monkeypatch.setattr(settlement, "_draw", bolder)
    assert broken(drawn_findings(Product(), plan_of(name), 1, SAMPLES)) == {"noise"}


class NeverRefuses(Product):
    """Clips where it was told to refuse."""

    def settle(self, plan: Plan, reports: Any, *, on_bad: str, **options: Any) -> Settlement:
        return super().settle(plan, reports, on_bad="clip", **options)


@pytest.mark.slow
def test_absurd_reports_that_are_settled_instead_of_refused_are_caught() -> None:
    assert broken(drawn_findings(NeverRefuses(), plan_of(), 1, SAMPLES)) == {"reports"}


@pytest.mark.slow
def test_people_left_out_for_their_answers_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is published of everybody's features would say who they are."""
    monkeypatch.setattr(checks, "require_no_dropping", lambda mechanism, on_bad: None)
    finding, _ = drawn_findings(Product(), plan_of(), 1, SAMPLES)
    assert "on_bad = 'drop'" in finding.found


@pytest.mark.slow
def test_an_absurd_report_in_the_statistics_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def loud(*arguments: Any) -> Statistics:
        found = passes.gather(*arguments)
        return replace(found, sums=replace(found.sums, vector=found.sums.vector + 10**9 * GRID**2))

    monkeypatch.setattr(settlement, "gather", loud)
    assert broken(drawn_findings(Product(), plan_of(), 1, SAMPLES)) == {"reports", "noise"}


@pytest.mark.slow
def test_answers_in_range_that_no_belief_allows_are_caught_if_they_are_not_clipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Around a centre an answer within its range can lie beyond Y: only the grid clips it."""
    plan = plan_of(CENTRED)
    reports = absurd_reports(plan, 1)

    def unclipped(source: Any, study: Study, *others: Any) -> Statistics:
        values = clip_reports(study, reports)
        X = study.normalise(values)
        ky = np.trunc(study.normalise_response(values["spend"], X) * GRID)
        assert np.abs(ky).max() > study.beliefs.response_bound * GRID
        found = passes.gather(source, study, *others)
        return replace(found, sums=sums(grid_features(X), ky, mechanism_of(plan).transform))

    monkeypatch.setattr(settlement, "gather", unclipped)
    assert "reports" in broken(drawn_findings(Product(), plan, 1, SAMPLES))


# The release


def without_noise(plan: Plan, mechanism: OneRelease, statistics: Statistics, draw: Draw) -> LeaveOneOut:
    queries = mechanism.queries(statistics.sums, plan.study.beliefs)
    exact = replace(draw, answers=tuple(query.value for query in queries))
    return mechanism.estimate(exact.answers, statistics.players, plan.study.beliefs, statistics.sums.matrix)


def noise_in_floats(plan: Plan, mechanism: OneRelease, statistics: Statistics, draw: Draw) -> LeaveOneOut:
    """Textbook noise, Gamma radius times direction, added to the estimate in floats; the draw is thrown away."""
    estimate, rng = without_noise(plan, mechanism, statistics, draw), np.random.default_rng(1)
    direction = rng.normal(size=len(estimate.theta))
    v = rng.gamma(len(direction), estimate.scale) * direction / np.linalg.norm(direction)
    return replace(estimate, theta=estimate.theta + estimate.inverse @ v)


def exact_matrix(plan: Plan, mechanism: OneRelease, statistics: Statistics, draw: Draw) -> LeaveOneOut:
    """XᵀX is used without its noise."""
    matrix, _ = mechanism.queries(statistics.sums, plan.study.beliefs)
    answers = (matrix.value, draw.answers[-1])
    return mechanism.estimate(answers, statistics.players, plan.study.beliefs, statistics.sums.matrix)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("instruments", without_noise),
        ("known-design", noise_in_floats),
        ("noisy-statistics", without_noise),
        ("noisy-statistics", exact_matrix),
    ],
)
def test_an_estimate_without_the_noise_of_its_draw_is_caught(
    name: str,
    fault: Callable[[Plan, OneRelease, Statistics, Draw], LeaveOneOut],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settlement, "_estimate", fault)
    assert broken(settled_findings(Product(), plan_of(name), 1)) >= {"release", "others"}


@pytest.mark.slow
def test_intervals_that_follow_from_answers_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but what the draw decides may be published: not a last digit of an interval either."""

    def leaky(
        plan: Plan, mechanism: OneRelease, estimate: LeaveOneOut, totals: Any, *others: Any, **more: Any
    ) -> Release:
        release = publish(plan, mechanism, estimate, totals, *others, **more)
        first, *rest = release.coefficients
        wider = first.model_copy(update={"high": first.high + 1e-9 * float(totals.vector[0]) / GRID**2})
        return release.model_copy(update={"coefficients": (wider, *rest)})

    monkeypatch.setattr(settlement, "publish", leaky)
    assert broken(settled_findings(Product(), plan_of(), 1)) == {"others"}
    assert not checks_finding(Product(), plan_of(), 1).passed


# Payments


@dataclass(frozen=True, eq=False)
class Faulty(NumberPaymaster):
    """Pays for other predictions than those of everybody else."""

    fault: Callable[[NumberPaymaster, Floats, Floats, Floats, Floats], Floats] | None = None

    def score_players(self, kx: Floats, ky: Floats, *km: Floats) -> Scored:
        assert self.fault is not None
        r, y, h, p, noise, along = peer_predictions(self.estimate, kx, ky, self.mechanism.reach)
        limit, q = self.mechanism.clip * r, self.predictor(r, y, along)
        p = np.clip(self.fault(self, r, y, h, p), -limit, limit)
        return Scored(h, noise, p, q, payable(self.mechanism, r, p, q))


def own_report_kept(master: NumberPaymaster, r: Floats, y: Floats, h: Floats, p: Floats) -> Floats:
    kept = master.estimate.kept or 1 - h
    return kept * p + h * y


def wrong_scale(master: NumberPaymaster, r: Floats, y: Floats, h: Floats, p: Floats) -> Floats:
    """x̂y/(n − 1) is taken out instead of hy."""
    return p + (h - r**2 / (len(y) - 1)) * y


def noise_for_each(master: NumberPaymaster, r: Floats, y: Floats, h: Floats, p: Floats) -> Floats:
    return p + np.random.default_rng().laplace(scale=0.01, size=len(p))


def floor_by_answer(master: NumberPaymaster, r: Floats, y: Floats, h: Floats, p: Floats) -> Floats:
    """What the matrix without her keeps is raised for those who answer little."""
    return np.where(y < 0, 0.97, 1.0) * p


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        *((name, own_report_kept) for name in STUDIES),
        *(("instruments", fault) for fault in (wrong_scale, noise_for_each, floor_by_answer)),
    ],
)
def test_payments_for_other_predictions_are_caught(
    name: str,
    fault: Callable[[NumberPaymaster, Floats, Floats, Floats, Floats], Floats],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def faulty(mechanism: OneRelease, beliefs: Beliefs, estimate: LeaveOneOut, count: int) -> NumberPaymaster:
        sound = paymaster(mechanism, beliefs, estimate, count)
        return Faulty(mechanism, estimate, sound.predictor, fault)

    monkeypatch.setattr(settlement, "paymaster", faulty)
    found = broken(settled_findings(Product(), plan_of(name), 1))
    assert found == {"payments", "own report"} | ({"others"} if fault is noise_for_each else set())


@dataclass(frozen=True)
class Rescoring:
    """Pays as a sound paymaster does, but for what a fault makes of what was scored."""

    sound: Paymaster
    fault: Callable[..., dict[str, Floats]]

    def score_players(self, kx: Floats, ky: Floats, *km: Floats) -> Any:
        found: Any = self.sound.score_players(kx, ky, *km)
        return replace(found, **self.fault(found, ky / GRID, *(m / GRID for m in km)))


def rescore(fault: Callable[..., dict[str, Floats]], plan: Plan, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What is found of settlements whose scores have a fault: of what was scored, reports and predictions."""
    sound = settlement._paymaster
    monkeypatch.setattr(settlement, "_paymaster", lambda *found: Rescoring(sound(*found), fault))
    return broken(settled_findings(Product(), plan, 1))


def pay_from_exact_sums(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What is found of settlements that pay by an estimate without noise: what others are paid shows what she said."""
    kept, estimated, master = list[LeaveOneOut](), settlement._estimate, settlement._paymaster

    def listen(plan: Plan, mechanism: Any, statistics: Statistics, draw: Draw) -> LeaveOneOut:
        exact = tuple(query.value for query in mechanism.queries(statistics.sums, plan.study.believed))
        kept.append(estimated(plan, mechanism, statistics, replace(draw, answers=exact)))
        return estimated(plan, mechanism, statistics, draw)

    monkeypatch.setattr(settlement, "_estimate", listen)
    monkeypatch.setattr(settlement, "_paymaster", lambda p, m, estimate, *more: master(p, m, kept[-1], *more))
    return broken(settled_findings(Product(), plan, 1))


@pytest.mark.slow
def test_payments_from_an_estimate_without_noise_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pay_from_exact_sums(plan_of(), monkeypatch) == {"payments", "own report", "others"}


# Checks that look at answers


def extreme(statistics: Statistics) -> bool:
    """Whether the answers are high on the whole: the intercept's sum says so."""
    return bool(statistics.sums.vector[0] > 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["instruments", "known-design"])
def test_a_refusal_that_depends_on_answers_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = settlement._check_people

    def nosy(plan: Plan, statistics: Statistics, *others: Any) -> Any:
        if extreme(statistics):
            raise Refused("Such answers are hard to believe.")
        return checked(plan, statistics, *others)

    monkeypatch.setattr(settlement, "_check_people", nosy)
    assert "outcomes for people who are good" in checks_finding(Product(), plan_of(name), 1).found


@pytest.mark.slow
def test_a_word_in_a_message_that_depends_on_answers_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    require = checks.require_people
    looked = list[Statistics]()

    def gather(*arguments: Any) -> Statistics:
        looked.append(passes.gather(*arguments))
        return looked[-1]

    def chatty(plan: Plan, players: int) -> None:
        try:
            require(plan, players)
        except Refused as refusal:
            raise Refused(f"{refusal} Answers are {'high' if extreme(looked[-1]) else 'low'}.") from None

    monkeypatch.setattr(settlement, "gather", gather)
    monkeypatch.setattr(checks, "require_people", chatty)
    assert checks_finding(Product(), plan_of(), 1).found == "2 outcomes for people who are few"


@pytest.mark.slow
def test_what_is_printed_because_of_answers_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = settlement._check_people

    def loud(plan: Plan, statistics: Statistics, *others: Any) -> Any:
        if extreme(statistics):
            print("Answers are high.")
        return checked(plan, statistics, *others)

    monkeypatch.setattr(settlement, "_check_people", loud)
    assert not checks_finding(Product(), plan_of(), 1).passed


# Exactly once


class Redraws(Product):
    """A settlement that starts again draws again."""

    def settle(self, plan: Plan, reports: Any, *, out: Path, **options: Any) -> Settlement:
        destroy_key(key_path(out.parent, plan.sha256))
        return super().settle(plan, reports, out=out, **options)


def test_a_second_draw_after_an_interruption_is_caught() -> None:
    assert "another draw" in restart_finding(Redraws(), plan_of(), 1).found


def test_a_second_release_and_a_ledger_that_forgets_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    assert restart_finding(Product(), plan_of(), 1).passed
    monkeypatch.setattr(LedgerAccount, "enter", lambda self, draw, directory: None)
    found = restart_finding(Product(), plan_of(), 1)
    assert "a second release" in found.found
    assert "a ledger that does not count" in found.found


# Chance


def hashed(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()


KEYS: dict[str, tuple[Callable[[int], bytes], str]] = {
    "a constant": (lambda size: hashed(7), "repeats"),
    "the clock": (lambda size: hashed(time.time_ns() // 1_000), "not the operating system's"),
    "the generator of the process": (
        lambda size: hashed(random.getrandbits(256)),
        "not the operating system's",
    ),
    "numpy's": (lambda size: hashed(int(np.random.randint(2**31))), "not the operating system's"),
    "few bits": (lambda size: hashed(secrets.randbits(64)), "fewer than 256 random bits"),
}


@pytest.mark.parametrize("source", KEYS)
def test_a_key_that_does_not_come_from_the_operating_system_is_caught(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token_bytes, (key, complaint) = secrets.token_bytes, KEYS[source]
    monkeypatch.setattr(
        secrets, "token_bytes", lambda size: key(size) if size == KEY_BYTES else token_bytes(size)
    )
    finding = randomness_finding(Product(), plan_of(), 1)
    assert not finding.passed
    assert complaint in finding.found


@pytest.mark.parametrize(
    ("derive", "complaint"),
    [
        (lambda key, plan, statistics: keyed_chance(hashed(7), plan, statistics), "repeats"),
        (lambda key, plan, statistics: keyed_chance(key, plan, ""), "other reports have too"),
        (lambda key, plan, statistics: keyed_chance(secrets.token_bytes(32), plan, statistics), None),
        (lambda key, plan, statistics: seeded_chance(7, plan, statistics), "repeats"),
    ],
    ids=["the key is not used", "statistics are not bound", "a key for each draw", "a seed instead"],
)
def test_a_derivation_that_forgets_the_key_or_the_statistics_is_caught(
    derive: Callable[[bytes, str, str], Chance], complaint: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic_release, "keyed_chance", derive)
    found = randomness_finding(Product(), plan_of(), 1).found
    assert (complaint or "the same bytes and reports") in found
    # Bytes that are fresh each time are the operating system's, but a draw is not finished with them.
    assert restart_finding(Product(), plan_of(), 1).passed == (complaint is not None)


def test_the_operating_system_s_chance_passes_and_is_put_back() -> None:
    finding = randomness_finding(Product(), plan_of(), 1)
    assert finding.passed
    assert finding.figures == {"keys": 1}
    assert secrets.token_bytes(16) != secrets.token_bytes(16)
    assert randomness_finding(Product(), plan_of(), 1) == finding
