"""A calibrating pilot: a small wave is asked both questions, and sets the centre of the main wave's beliefs.

Where a main wave can ask one question only, the centre of people's beliefs must be declared. A pilot asks some of them
both, and its private release tells the centre: μ̂ = (m̄ − kp)/(1 − k), with p the average answer, m̄ the average
prediction and k how much an answer moves a prediction. With N people whose centres scatter by v_c

    Var μ̂ ≈ v_c/N + (noise of m̄ + k²·noise of p)/(1 − k)²

where v_c is not released; it is taken to be `sure`², that people differ no more than each is unsure. The main wave's
study declares μ̂ and its standard error. Different people, so that the ε of both waves do not add up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from truthful.check import Floats
from truthful.errors import InputError, Refused
from truthful.noise import L2Laplace
from truthful.plan import Plan
from truthful.release import Release
from truthful.study import Study
from truthful.study.credibility import REACH, LevelBeliefs
from truthful.study.parser import to_toml

#: Bounds of the main wave's beliefs, in standard deviations.
TAILS = 2.0
#: Steps toward the centre of shares, on which the slope depends; each leaves less than a fifth of the error.
STEPS = 60

Numbers = float | Floats


NOTE = """\
# The main wave of {name}, with one question. What people expect comes from a pilot that asked {players} people both
# questions, release {release}: about {centre}, standard error {error}.
# Ask other people than those of the pilot, and do not publish it before these have answered: a precise pilot makes the
# truth expensive.

"""


@dataclass(frozen=True)
class Calibration:
    """What a pilot found of people's beliefs, in units of predictions, and the text of the main wave's study file."""

    centre: float
    error: float
    players: int
    study: str


def calibrate(plan: Plan, release: Release) -> Calibration:
    """The main wave's study, from the release of a pilot."""
    beliefs, found = require_pilot(plan.study), release.predictions
    if found is None or release.plan_sha256 != plan.sha256:
        raise InputError(
            f"The release was made with plan {release.plan_sha256[:12]}…, and this is plan {plan.sha256[:12]}…."
        )
    study, (low, high) = plan.study, plan.study.prediction_range
    unit = (high - low) / 2
    p, m = ((end.value - low) / unit - 1 for end in (found.answer, found.prediction))
    centre, k = _centre(beliefs, p, m)
    error = _standard_error(release, beliefs, k)
    raw = low + unit * (centre + 1)
    if not low < raw < high:
        raise Refused(
            f"The pilot puts what people expect at {raw:.4g}, outside {low:g} to {high:g}: its noise is too large. Ask "
            "more people, or pay them more. Its ε is spent on them, and not on anybody else."
        )
    note = NOTE.format(
        name=" ".join(study.name.split()),
        players=f"{release.players:,}",
        release=release.sha256[:12],
        centre=f"{raw:.4g}",
        error=f"{unit * error:.3g}",
    )
    main = to_toml(_main_wave(study, beliefs, centre, error))
    return Calibration(raw, unit * error, release.players, note + main)


def require_pilot(study: Study) -> LevelBeliefs:
    """What is declared of beliefs, if the study can be a pilot."""
    if study.levels is None or study.features:
        raise InputError(
            f"Study {study.name!r} cannot be a pilot: that asks people for predictions (beliefs.centre = "
            '"predictions"), and has no features. Leave them out of the pilot; the main wave may have them.'
        )
    return study.levels


def _centre(beliefs: LevelBeliefs, p: float, m: float) -> tuple[float, float]:
    """μ̂ and k; of yes and no k depends on the centre, k = v/(μ(1 − μ))."""
    k = beliefs.slope
    if not beliefs.strict:
        return (m - k * p) / (1 - k), k
    centre = m
    for _ in range(STEPS):
        share = min(max((1 + centre) / 2, 0.01), 0.99)
        k = min(0.5, beliefs.sure**2 / 4 / (share * (1 - share)))
        centre = (m - k * p) / (1 - k)
    return centre, k


def _standard_error(release: Release, beliefs: LevelBeliefs, k: float) -> float:
    """That of the centre, half the scale being 1."""
    estimate, ratio, n = release.estimate(), release.payment.ratio, release.players
    if estimate is None or ratio is None:
        raise InputError("The release does not say how predictions were released.")
    # Without features x = 1, and ζ = ±1 but for the grid, so that p is a sum over n.
    answers, predictions = (
        L2Laplace(estimate.noise_dimension, scale).marginal_variance
        for scale in (estimate.scale * abs(float(estimate.inverse[0, 0])), estimate.scale / (ratio * n))
    )
    return math.sqrt(beliefs.sure**2 / n + (predictions + k * k * answers) / (1 - k) ** 2)


def _main_wave(study: Study, beliefs: LevelBeliefs, centre: float, error: float) -> dict[str, Any]:
    """The study of the main wave: the same question alone, and the beliefs that the pilot found."""
    record = study.declared.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    record.pop("payments", None)
    if study.shares is None:
        record["beliefs"] = _numbers(study, record, centre, error)
    else:
        record["beliefs"] = _shares(beliefs, centre, error)
    return record


def _shares(beliefs: LevelBeliefs, centre: float, error: float) -> dict[str, object]:
    """Of yes and no, and of ratings: the share is uniform with this mean and standard deviation."""
    spread = REACH * math.hypot(beliefs.sure, error) / 2
    share = (1 + centre) / 2
    section: dict[str, object] = {
        "share": [round(max(0.0, share - spread), 4), round(min(1.0, share + spread), 4)]
    }
    if beliefs.shares is not None and beliefs.shares.levels > 2:
        section["agreement"] = beliefs.shares.agreement
    return section


def _numbers(
    study: Study, record: dict[str, dict[str, object]], centre: float, error: float
) -> dict[str, object]:
    """Beliefs about the centre, of which people are so sure and the pilot so unsure, and noise as wide as answers are.

    Beliefs reach equally far to both sides, by two standard deviations at least: where the declared range ends before,
    it is widened.
    """
    response, beliefs = study.response, study.declared.beliefs
    half = (response.high - response.low) / 2
    middle = _to_four_digits(response.low + half * (centre + 1))
    wide, spread = math.hypot(beliefs.sure or 0.0, half * error), beliefs.spread or 0.0
    reach, step = TAILS * (wide + spread), 10 ** math.floor(math.log10(half)) / 10
    low = min(response.low, step * math.floor((middle - reach) / step))
    high = max(response.high, step * math.ceil((middle + reach) / step))
    record["response"] |= {"low": low, "high": high}
    room = min(middle - low, high - middle)
    return {
        "signal": _to_four_digits(wide / (wide + spread)),
        "noise_sd": _to_four_digits(spread / room),
        "centre": middle,
        "sure": beliefs.sure,
        "unsure": _to_four_digits(half * error),
    }


def _to_four_digits(value: float) -> float:
    return float(f"{value:.4g}")


# What a published pilot would do


def pilot_size(people: Numbers, epsilon: Numbers, *, noise_variance: float, bound: float) -> Numbers:
    """N_eff = σ²/(σ²/N + 8Y²/(Nε)²): how many answers without noise a pilot of N people at ε is worth.

    One sum of answers in ±bound, released with Laplace noise of scale 2Y/ε.
    """
    return noise_variance / (noise_variance / people + 8 * bound**2 / (people * epsilon) ** 2)


def pilot_cost(people: Numbers, *, variance: float, noise_variance: float) -> Numbers:
    """(1 + ω)²/4ω, ω = v_p/σ²: the cost of deterring a lie after a published pilot worth so many answers.

    The least there can be is 1, at v_p = σ². Predictions range over R = z√v_p, payments over 4bR², and a lie Δ is
    deterred by b = τh(ε)/(sΔ)²: a precise pilot makes R small like √v_p, but s like v_p.
    """
    omega = 1 / (noise_variance / variance + people)
    return (1 + omega) ** 2 / (4 * omega)
