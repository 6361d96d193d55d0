"""One draw for answers and predictions: how far one person moves it, and that nothing of her own is in her pay."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.asked import plan, reports, size, study

from truthful import InputError, settle
from truthful.asked_release import (
    OWN_CENTRE,
    SERUM,
    AskedPaymaster,
    AskedRelease,
    Level,
    largest_gain,
    largest_loss,
    level_of,
    mean_features,
)
from truthful.check import Floats
from truthful.estimators.sensitivity import cross_sensitivity
from truthful.intake import Intake, report_columns
from truthful.intake.stream import open_reports
from truthful.moments import GRID, grid_responses, instruments_on_grid, sums
from truthful.one_release import LeaveOneOut
from truthful.plan import Plan
from truthful.release import Receipt
from truthful.release.verdict import verify
from truthful.study.credibility import LevelBeliefs

KINDS = [(kind, features) for kind in ("number", "yes-no", "rating") for features in (False, True)]
WITH_ALL = pytest.mark.parametrize(("kind", "features"), KINDS)


def on_grid(kind: str, features: bool) -> tuple[Floats, ...]:
    """Features, answers and predictions of the invented people."""
    declared = study(kind, features)
    intake = Intake(declared)
    with open_reports(reports(kind, features), report_columns(declared)) as source:
        (batch,) = [intake.check(batch, 1) for batch in source.batches()]
    return batch.on_grid()


def paymaster(
    planned: Plan, kx: Floats, ky: Floats, km: Floats, noise: tuple[int, ...]
) -> tuple[AskedPaymaster, AskedRelease]:
    """Who pays these people if this noise is drawn."""
    mechanism, beliefs = planned.asked_mechanism, planned.study.levels
    assert mechanism is not None
    assert beliefs is not None
    found = sums(kx, ky, mechanism.transform)
    weight = round(mechanism.ratio * GRID)
    released = [*(int(k) for k in found.vector), weight * int(km.sum())]
    drawn = [k + e for k, e in zip(released, noise, strict=True)]
    estimate = mechanism.estimate([drawn], len(ky), beliefs, found.matrix)
    return AskedPaymaster(mechanism, beliefs, estimate, level_of(beliefs, found, [kx])), mechanism


@pytest.mark.parametrize("ratio", [0.0625, 0.2998046875, 1.0])
def test_one_person_moves_what_is_released_by_no_more_than_its_sensitivity(ratio: float) -> None:
    mechanism = AskedRelease(
        epsilon=0.5,
        transform=((1 << 20,),),
        rule=OWN_CENTRE,
        ratio=ratio,
        base_payment=1.0,
        score_weight=1.0,
        prediction_weight=1.0,
        clip=1.0,
    )
    beliefs = study().levels
    assert beliefs is not None
    kx = np.full((5, 1), float(GRID))
    answers, predictions = (grid_responses(np.array([1.0, 0.2, -0.3, 0.9, -1.0]), 1.0) for _ in range(2))

    def released(y: float, m: float) -> tuple[int, ...]:
        ky, km = answers.copy(), predictions.copy()
        ky[0], km[0] = y * GRID, m * GRID
        found = sums(kx, ky, mechanism.transform)
        (query,) = mechanism.queries(replace(found, predictions=int(km.sum())), beliefs)
        return query.value

    largest = mechanism.sensitivity(beliefs)
    one, other = released(1.0, 1.0), released(-1.0, -1.0)
    moved = math.isqrt(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)))
    assert 0.99 * largest < moved <= largest
    assert largest < cross_sensitivity(1.0) * (math.sqrt(1 + mechanism.ratio**2) + 1e-9)
    for y, m in [(1.0, -1.0), (0.5, 1.0), (-1.0, 0.0)]:
        near = released(y, m)
        assert sum((a - b) ** 2 for a, b in zip(one, near, strict=True)) <= largest**2


@WITH_ALL
def test_nothing_of_her_own_is_in_what_she_is_compared_with(kind: str, features: bool) -> None:
    planned, (kx, ky, km) = plan(kind, features), on_grid(kind, features)
    noise = tuple(range(10**9, 10**9 + kx.shape[1] + 1))
    master, _ = paymaster(planned, kx, ky, km, noise)
    first = master.score_players(kx, ky, km)
    for i in (0, 3, 17):
        other_y, other_m = ky.copy(), km.copy()
        other_y[i], other_m[i] = -ky[i] or GRID, -km[i] / 2 - 1000
        master, _ = paymaster(planned, kx, other_y, np.trunc(other_m), noise)
        second = master.score_players(kx, other_y, np.trunc(other_m))
        for name in ("peer_prediction", "others_answer", "others_prediction", "surprise"):
            one, two = getattr(first, name)[i], getattr(second, name)[i]
            assert one == pytest.approx(two, abs=1e-11), name


@WITH_ALL
def test_it_is_what_everybody_else_alone_would_give(kind: str, features: bool) -> None:
    """Refit without a row, and the centre from the others' predictions, in floats, by definition."""
    planned, (kx, ky, km) = plan(kind, features), on_grid(kind, features)
    noise = tuple(3 * 10**9 + j for j in range(kx.shape[1] + 1))
    master, mechanism = paymaster(planned, kx, ky, km, noise)
    scored, beliefs = master.score_players(kx, ky, km), master.beliefs
    x, y, m = kx / GRID, ky / GRID, km / GRID
    z = instruments_on_grid(kx, mechanism.transform) / GRID
    e = np.array(noise) / GRID**2
    c = x.mean(axis=0)
    k, o, s = (part(x, c) for part in (beliefs.level_slopes, beliefs.offsets, beliefs.slopes))
    for i in (0, 5, len(y) - 1):
        others = np.arange(len(y)) != i
        theta = np.linalg.solve(z[others].T @ x[others], z[others].T @ y[others] + e[:-1])
        p, average = float(x[i] @ theta), float(c @ theta)
        predicted = (m[others].sum() + e[-1] / mechanism.ratio) / others.sum()
        surprise = p - predicted - o[i]
        if mechanism.rule == OWN_CENTRE:
            centre = predicted - np.mean(k[others] * (x[others] @ theta - o[others]))
            surprise = p - centre / (1 - k[others].mean()) - o[i]
        counted = np.clip(surprise, -mechanism.clip, mechanism.clip)
        score = y[i] * counted / mechanism.clip
        if mechanism.rule == OWN_CENTRE:
            apart = y[i] - np.clip(p, -1, 1)
            score = 2 * s[i] * (1 - s[i]) * apart * counted - (s[i] * apart) ** 2
        paid = mechanism.base_payment + mechanism.score_weight * score
        paid += mechanism.prediction_weight * (4 - (m[i] - np.clip(average, -1, 1)) ** 2)
        assert scored.peer_prediction[i] == pytest.approx(p, abs=1e-9)
        assert scored.others_answer[i] == pytest.approx(average, abs=1e-9)
        assert scored.others_prediction[i] == pytest.approx(predicted, abs=1e-9)
        assert scored.surprise[i] == pytest.approx(counted, abs=1e-5)  # weights are on the grid
        assert scored.payment[i] == pytest.approx(paid, abs=1e-5 * mechanism.score_weight + 2e-6)


@WITH_ALL
def test_a_payment_does_not_depend_on_who_is_paid_beside_her(kind: str, features: bool) -> None:
    planned, (kx, ky, km) = plan(kind, features), on_grid(kind, features)
    master, _ = paymaster(planned, kx, ky, km, (0,) * (kx.shape[1] + 1))
    whole = master.score_players(kx, ky, km).payment
    parts = [
        master.score_players(kx[s], ky[s], km[s]).payment
        for s in (slice(0, 7), slice(7, 120), slice(120, None))
    ]
    assert np.array_equal(whole, np.concatenate(parts))


@WITH_ALL
def test_what_features_say_of_the_level_is_the_same_in_any_parts(kind: str, features: bool) -> None:
    kx, ky, _ = on_grid(kind, features)
    beliefs = study(kind, features).levels
    assert beliefs is not None
    found = sums(kx, ky, None)
    one = level_of(beliefs, found, [kx])
    other = level_of(beliefs, found, [kx[200:], kx[:3], kx[3:200]])
    assert (one.weight, one.weighted, one.offset) == (other.weight, other.weighted, other.offset)
    assert mean_features(found) == pytest.approx(kx.mean(axis=0) / GRID, abs=1e-15)


@given(
    st.sampled_from([OWN_CENTRE, SERUM]),
    st.floats(0.03, 0.9),
    st.floats(0.05, 2.0),
    st.floats(-3, 3),
    st.floats(-1, 1),
    st.floats(-3, 3),
)
def test_no_score_is_beyond_what_base_payments_cover(
    rule: str, s: float, clip: float, p: float, y: float, surprise: float
) -> None:
    counted, apart = min(max(surprise, -clip), clip), y - min(max(p, -1), 1)
    score = y * counted / clip if rule == SERUM else 2 * s * (1 - s) * apart * counted - (s * apart) ** 2
    slopes = np.array([s])
    assert -float(largest_loss(rule, slopes, clip)[0]) - 1e-9 <= score
    assert score <= float(largest_gain(rule, slopes, clip)[0]) + 1e-9


@WITH_ALL
def test_nobody_owes_and_the_cap_holds_whatever_people_say(kind: str, features: bool) -> None:
    planned, (kx, ky, _) = plan(kind, features), on_grid(kind, features)
    rng, cap = np.random.default_rng(3), planned.guarantees.budget.cap
    assert cap is not None
    for scale in (0, 10**12, 10**14):
        extreme = rng.choice([-1.0, 1.0], (2, len(ky))) * GRID
        master, _ = paymaster(
            planned,
            kx,
            extreme[0],
            extreme[1],
            tuple(int(v) for v in rng.normal(0, scale + 1, kx.shape[1] + 1)),
        )
        paid = master.score_players(kx, extreme[0], extreme[1]).payment
        assert paid.min() >= 0
        assert paid.sum() <= cap + 1e-6
        assert paid.max() <= cap / size(features) + 1e-6


@WITH_ALL
def test_everybody_can_compute_her_payment_again(kind: str, features: bool) -> None:
    settled = settle(plan(kind, features), reports(kind, features), seed=7)
    for i in (0, 1, 2, 50, 333):
        found = verify(settled.release, settled.receipt(f"p{i}"))
        assert found.verified, found
        assert found.others_answer is not None
        assert found.others_prediction is not None


@WITH_ALL
def test_a_changed_prediction_is_seen(kind: str, features: bool) -> None:
    settled = settle(plan(kind, features), reports(kind, features), seed=7)
    receipt = settled.receipt("p4")
    assert isinstance(receipt, Receipt)
    assert receipt.prediction is not None
    low, high = study(kind, features).prediction_range
    changed = receipt.model_copy(update={"prediction": low + high - receipt.prediction})
    assert not verify(settled.release, changed).verified


def test_an_implausible_average_pays_everybody_alike() -> None:
    planned, (kx, ky, km) = plan("yes-no"), on_grid("yes-no", False)
    all_no, said = np.full_like(ky, -float(GRID)), np.full_like(km, -float(GRID))
    master, mechanism = paymaster(planned, kx, all_no, said, (0, 0))
    assert mechanism.plausible[0] > -1
    paid = master.score_players(kx, all_no, said)
    assert set(paid.surprise) == {0.0}
    alike = mechanism.base_payment + mechanism.prediction_payment
    assert paid.payment == pytest.approx(alike, abs=2e-6)


def test_a_ratio_that_is_not_whole_is_refused() -> None:
    with pytest.raises(InputError, match=r"ratio is 0\.3; it must be a multiple of 1/1024"):
        AskedRelease(
            epsilon=0.5,
            transform=((1,),),
            rule=SERUM,
            ratio=0.3,
            base_payment=1.0,
            score_weight=1.0,
            prediction_weight=1.0,
            clip=1.0,
        )


def test_the_centre_of_people_who_agree_is_found_whatever_it_is() -> None:
    """Without noise μ̂ is exact where everybody predicts by the declared slope: Theorem 1's identity."""
    beliefs = LevelBeliefs(0.2, 0.3, (0.0,), (0.0,), (), (), 1.0, -1.0, 1.0)
    rng = np.random.default_rng(5)
    kx = np.full((50, 1), float(GRID))
    for centre in (-0.7, 0.0, 0.4):
        y = np.trunc(np.clip(centre + 0.1 + 0.2 * rng.standard_normal(50), -1, 1) * GRID)
        m = (
            np.array([float(Fraction(beliefs.slope) * int(k)) for k in y])
            + (1 - beliefs.slope) * centre * GRID
        )
        mechanism = AskedRelease(
            epsilon=1.0,
            transform=((1 << 11,),),
            rule=OWN_CENTRE,
            ratio=1.0,
            base_payment=1.0,
            score_weight=1.0,
            prediction_weight=0.0,
            clip=5.0,
        )
        found = sums(kx, y, mechanism.transform)
        estimate = mechanism.estimate(
            [[int(found.vector[0]), GRID * round(m.sum())]], 50, beliefs, found.matrix
        )
        master = AskedPaymaster(mechanism, beliefs, estimate, level_of(beliefs, found, [kx]))
        scored = master.score_players(kx, y, m)
        assert scored.peer_prediction - scored.surprise == pytest.approx(centre, abs=1e-5)


def test_records_of_the_level_are_exact_integers() -> None:
    level = Level(3, np.ones(1), 5, (7,), 0)
    assert all(isinstance(part, int) for part in (level.count, level.weight, *level.weighted, level.offset))
    assert (
        LeaveOneOut(np.zeros(1), np.ones((1, 1)), 1.0, None, None, None, (1,), predictions=3).noise_dimension
        == 2
    )
