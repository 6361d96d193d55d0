"""Beliefs from an analyst's statements about answers, from an earlier study, or from a pilot; and how a plan depends on
them.

Statements are in units of the answer: nine in ten answers lie between two numbers; the average between two others; and
features change it by at most this much. The signal is then the largest norm of θ that fits them: with u the units of
the answer per normalised unit, half the width of the average gives the intercept, and an effect e of a feature

    a number, e from one end of its range to the other          √d·e/2u
    K levels, e between the highest and the lowest              √d·e/u·max over m of √(m(K−m)/K − (min(m, K−m)/K)²)

the second being attained where m levels are high and the others low. Norms add as squares. If only the difference
between the best-placed and the worst-placed person is known, one feature is assumed to make all of it: no other way of
sharing it out has a larger norm. Signal and noise must fit into the range of answers; if not, it is widened.

Where a main wave can ask only one question, the centre of people's beliefs must be declared. A pilot asks some of them
both, and its private release estimates the centre: μ̂ = (m̄ − kp)/(1 − k), with p the average answer, m̄ the average
prediction and k how much an answer moves a prediction. With N people whose centres have variance v_c

    Var μ̂ ≈ v_c/N + (noise of m̄ + k²·noise of p)/(1 − k)²

where v_c is not released; it is taken to be `sure`²: people differ no more than each is unsure. The main wave's study
declares μ̂ and its standard error. It asks different people, so that the ε of both waves do not add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from truthful import check
from truthful.check import Floats
from truthful.errors import InputError, Refused
from truthful.noise import L2Laplace
from truthful.plan import Plan, design
from truthful.planner import Infeasible
from truthful.release import Release
from truthful.study import Study
from truthful.study.credibility import REACH, LevelBeliefs
from truthful.study.features import Column, Interaction, Levels
from truthful.study.parser import to_toml

#: The distance between the 5 % and the 95 % quantile of a normal distribution, in standard deviations.
NINE_IN_TEN = 3.29
#: Noise is declared normal, cut off no closer than this many standard deviations.
TAILS = 2.0
#: A part of the room for signal and noise, left for rounding.
SPARE = 1e-9
#: How far the average may be off the middle of most answers, as a part of their width, if nothing is stated.
AVERAGE_OFF = 0.25
#: How much the share may differ from an earlier study's, as a part of it.
SHARE_OFF = 0.5
#: Standard errors added to effects found in an earlier study.
ERRORS = 2.0
#: Factors by which beliefs and costs may be off.
FACTORS = (0.5, 2.0)

Ends = tuple[float, float]


@dataclass(frozen=True)
class Statements:
    """Statements about answers: where most lie, where their average lies, and what features change.

    scatter: their standard deviation about what features predict, in place of mostly, where known.
    """

    mostly: Ends | None = None
    average: Ends | None = None
    difference: float | None = None
    effects: Mapping[str, float] | None = None
    scatter: float | None = None


@dataclass(frozen=True)
class ElicitedBeliefs:
    """Beliefs for the study file, a wider range of answers if the declared one is too narrow, and reasons, by name."""

    beliefs: dict[str, Any]
    because: dict[str, str]
    response: Ends | None = None

    def toml(self) -> str:
        """The sections for the study file, each number with its reason."""
        ends = (
            {} if self.response is None else {"response": {"low": self.response[0], "high": self.response[1]}}
        )
        lines = to_toml({**ends, "beliefs": self.beliefs}).strip().splitlines()
        width = 2 + max(len(line) for line in lines)
        reasons = (self.because.get(line.partition(" = ")[0]) for line in lines)
        return "\n".join(f"{a:{width}}# {b}" if b else a for a, b in zip(lines, reasons, strict=True))

    def apply(self, study: Study) -> Study:
        """The study with these beliefs in place of its own."""
        record = study.declaration()
        if self.response is not None:
            record["response"] |= {"low": self.response[0], "high": self.response[1]}
        return Study.from_declaration({**record, "beliefs": self.beliefs})


def elicit(study: Study, said: Statements) -> ElicitedBeliefs:
    """The beliefs that follow from statements, for the study's kind of answers."""
    least, most = (0.0, 1.0) if study.kind == "yes-no" else (study.response.low, study.response.high)
    _require_range("mostly", said.mostly, least, most)
    _require_range("average", said.average, least, most)
    effects = _effects(study, said)
    if study.shares is not None:
        return _shares(study, said, effects)
    if study.levels is not None:
        return _elicit_with_predictions(study, said, effects)
    return _numbers(study, said, effects)


def _require_range(name: str, ends: Ends | None, least: float, most: float) -> None:
    if ends is not None and not least <= check.finite(name, ends[0]) < check.finite(name, ends[1]) <= most:
        raise InputError(
            f"{name} is {ends[0]:g} to {ends[1]:g}. Give two numbers between {least:g} and {most:g}, the smaller first."
        )


def _effects(study: Study, said: Statements) -> dict[str, float]:
    """The most that each feature changes an answer, in its units."""
    names = [term.name for term in study.declared.encoding.terms]
    if said.effects is not None:
        if unknown := [name for name in said.effects if name not in names]:
            raise InputError(f"There is no feature {unknown[0]!r}; they are {', '.join(names) or 'none'}.")
        if missing := [name for name in names if name not in said.effects]:
            raise InputError(
                f"The effect of {missing[0]!r} is missing. Say what it changes at most: --effect {missing[0]}=…"
            )
        return {name: abs(check.finite(name, said.effects[name])) for name in names}
    if not names:
        return {}
    if said.difference is None:
        raise InputError(
            "difference is missing. Say by how much the best-placed person's answer can differ from the "
            "worst-placed one's, or what each feature changes at most (--effect NAME=…)."
        )
    return dict.fromkeys(names, check.positive("difference", said.difference))


def _numbers(study: Study, said: Statements, effects: dict[str, float]) -> ElicitedBeliefs:
    average, sd = _level(said)
    centre, off = sum(average) / 2, (average[1] - average[0]) / 2
    lengths = [_length(term, effects[term.name]) for term in study.declared.encoding.terms]
    # Of a difference between people one feature may make all.
    together = max(lengths, default=0.0) if said.effects is None else math.hypot(*lengths)
    length = study.declared.encoding.scale * math.hypot(off, together)
    because = {
        "signal": f"the average may be off by {off:.3g}, and features change answers by up to {_list(effects, said)}",
        "noise_sd": f"answers scatter by {sd:.3g}",
        "centre": f"the average is between {average[0]:.4g} and {average[1]:.4g}",
    }
    low, high, widened = study.response.low, study.response.high, None
    unit = _unit(study, centre, (low, high))
    while (more := length + TAILS * sd - unit) > SPARE * unit:
        ends = widened or (low, high)
        widened = _round(ends[0] - more, math.floor), _round(ends[1] + more, math.ceil)
        unit = _unit(study, centre, widened)
        because["low"] = f"{low:g} to {high:g} has no room for both signal and noise; ask as before"
    beliefs = {"signal": _up(length / unit), "noise_sd": _up(sd / unit), "centre": float(f"{centre:.4g}")}
    return ElicitedBeliefs(beliefs, because, widened)


def _level(said: Statements) -> tuple[Ends, float]:
    """The range of the average, and the standard deviation of answers about it."""
    if said.scatter is not None and said.average is not None:
        return said.average, said.scatter
    if said.mostly is None:
        raise InputError(
            "mostly is missing. Say between what nine in ten answers lie, such as --mostly 20 60."
        )
    middle, width = sum(said.mostly) / 2, said.mostly[1] - said.mostly[0]
    return said.average or (middle - AVERAGE_OFF * width, middle + AVERAGE_OFF * width), width / NINE_IN_TEN


def _unit(study: Study, centre: float, response: Ends) -> float:
    """Units of the answer per normalised unit, with this centre and range of answers."""
    return (
        ElicitedBeliefs({"signal": 0.5, "centre": float(f"{centre:.4g}")}, {}, response)
        .apply(study)
        .response_unit
    )


def _list(effects: dict[str, float], said: Statements) -> str:
    if effects and said.effects is None:
        return f"{max(effects.values()):.4g}, one feature making all of it"
    return ", ".join(f"{effect:.3g} ({name})" for name, effect in effects.items()) or "nothing"


def _elicit_with_predictions(study: Study, said: Statements, effects: dict[str, float]) -> ElicitedBeliefs:
    """Beliefs where people are asked for the level: how sure they are of it, and how answers scatter."""
    beliefs = study.declared.beliefs.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    (low, high), sd = _level(said)
    beliefs |= {"sure": _up((high - low) / NINE_IN_TEN), "spread": _up(sd)}
    if effects:
        beliefs["effect"] = effects
    because = {
        "sure": f"nine in ten people expect the average within a width of {high - low:.4g}",
        "spread": f"answers scatter by {sd:.3g}",
    }
    return ElicitedBeliefs(beliefs, because)


def _shares(study: Study, said: Statements, effects: dict[str, float]) -> ElicitedBeliefs:
    if said.average is None:
        raise InputError(
            "average is missing. Say between what the share or the average can lie, such as 0.05 0.4."
        )
    low, high = study.response.low, study.response.high
    share = [(end - low) / (high - low) for end in said.average]
    beliefs = study.declared.beliefs.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    beliefs |= {"share": [float(f"{end:.3g}") for end in share]}
    if effects:
        beliefs["effect"] = {name: _up(effect / (high - low)) for name, effect in effects.items()}
    if study.levels is not None:
        beliefs["sure"] = math.floor(1e3 * (share[1] - share[0]) / math.sqrt(12)) / 1e3
    because = {"share": "between what it can lie", "effect": "what each feature changes at most"}
    return ElicitedBeliefs(beliefs, because)


def _length(column: Column | Interaction, effect: float) -> float:
    """The largest norm of coefficients of a feature's codes that change an answer by at most this much.

    For an interaction each product of codes may do that.
    """
    if not isinstance(column, Levels):
        return effect / 2 * math.sqrt(column.columns)
    K = len(column.levels)
    return effect * math.sqrt(max(m * (K - m) / K - (min(m, K - m) / K) ** 2 for m in range(1, K)))


def _up(value: float) -> float:
    """Round up to two digits: a declared bound must not be too small."""
    return _round(value * (1 - 1e-9), math.ceil)


def _round(value: float, direction: Callable[[float], int]) -> float:
    """Round to two digits."""
    digit = 10.0 ** (math.floor(math.log10(abs(value))) - 1) if value else 1.0
    return float(f"{direction(value / digit) * digit:.4g}")


# From an earlier study


def earlier_study(study: Study, X: Floats, y: Floats) -> Statements:
    """Statements from the normalised features and the answers of an earlier study: least squares, and caution.

    The next study asks other people. Their average may differ from the earlier one as much as if only the range of most
    answers were known; shares by half of the smaller side.
    """
    n, d = X.shape
    if n < 2 * d + 2:
        raise InputError(
            f"There are {n} earlier answers; from fewer than {2 * d + 2} nothing can be told of {d} effects."
        )
    inverse = np.linalg.pinv(X.T @ X)
    theta = inverse @ (X.T @ y)
    variance = float(np.sum((y - X @ theta) ** 2)) / (n - d)
    effects = {}
    for column in study.declared.encoding.terms:
        place = study.declared.encoding.places[column.name]
        rows = np.eye(column.columns) * 2 if not isinstance(column, Levels) else _contrasts(column.effects)
        rows = rows / study.declared.encoding.scale
        errors = np.sqrt(variance * np.einsum("ij,jk,ik->i", rows, inverse[place, place], rows))
        effects[column.name] = float((np.abs(rows @ theta[place]) + ERRORS * errors).max())
    mean, low, high = float(y.mean()), study.response.low, study.response.high
    if study.shares is not None:
        off = max(SHARE_OFF * min(mean - low, high - mean), ERRORS * math.sqrt(variance / n))
        return Statements(average=(max(low, mean - off), min(high, mean + off)), effects=effects)
    scatter = math.sqrt(variance)
    off = AVERAGE_OFF * NINE_IN_TEN * scatter
    return Statements(average=(max(low, mean - off), min(high, mean + off)), effects=effects, scatter=scatter)


def _contrasts(codes: Floats) -> Floats:
    """The difference of each pair of levels."""
    return np.array([code - earlier for i, code in enumerate(codes) for earlier in codes[:i]])


# How a plan depends on beliefs and costs


@dataclass(frozen=True)
class PlanVariant:
    """The plan for the same goals if one declared number is off by a factor; None: there is none."""

    what: str
    factor: float
    currency: str
    plan: Plan | None

    def record(self) -> dict[str, Any]:
        """The part that is shown."""
        record: dict[str, Any] = {"what": self.what, "factor": self.factor, "feasible": self.plan is not None}
        if self.plan is not None:
            promised = self.plan.guarantees
            error = promised.accuracy.effect_rmse or promised.accuracy.rmse
            record |= {"epsilon": promised.privacy.epsilon, "error": error, "cost": promised.budget.cap}
            record["undeterred"] = promised.truthfulness.undeterred
        return record


def vary(study: Study, goals: Mapping[str, Any]) -> Iterator[PlanVariant]:
    """Plan as declared, and with each belief and the costs halved and doubled, where that is possible."""
    yield PlanVariant("as declared", 1.0, study.currency, design(study, **goals))
    for belief, factor, variant in _variants(study):
        try:
            yield PlanVariant(belief, factor, study.currency, design(variant, **goals))
        except Infeasible:
            yield PlanVariant(belief, factor, study.currency, None)


def _variants(study: Study) -> Iterator[tuple[str, float, Study]]:
    record = study.declaration()
    for name in ("signal", "noise_sd", "sure", "spread", "share", "effect", "costs"):
        for factor in FACTORS:
            changed = _scale(record, name, factor)
            if changed is None:
                continue
            try:
                yield name, factor, Study.from_declaration(changed)
            except InputError:
                continue  # impossible beliefs, such as a share above 1


def _scale(record: dict[str, Any], name: str, factor: float) -> dict[str, Any] | None:
    """A declaration with one of its parts multiplied by a factor; None if it has no such part."""
    if name == "costs":
        costs = record["costs"]
        scaled = {key: _times(costs[key], factor) for key in ("scale", "median", "values") if key in costs}
        return {**record, "costs": {**costs, **scaled}}
    beliefs = record["beliefs"]
    if name == "share" and "share" in beliefs:
        low, high = beliefs["share"]
        middle, half = (low + high) / 2, factor * (high - low) / 2
        return {**record, "beliefs": {**beliefs, "share": [max(0.0, middle - half), min(1.0, middle + half)]}}
    if name not in beliefs:
        return None
    return {**record, "beliefs": {**beliefs, name: _times(beliefs[name], factor)}}


def _times(value: Any, factor: float) -> Any:
    if isinstance(value, Mapping):
        return {name: factor * entry for name, entry in value.items()}
    return [factor * entry for entry in value] if isinstance(value, list | tuple) else factor * value


# Pilots

#: Steps toward the centre for shares, where the slope depends on it; each leaves less than a fifth of the error.
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
    """A pilot's estimate of people's centre, in units of predictions, and the text of the main wave's study file."""

    centre: float
    error: float
    players: int
    study: str


def calibrate(plan: Plan, release: Release) -> Calibration:
    """The main wave's study, from a pilot's release."""
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
    """The declared beliefs, if the study can be a pilot; else refuse."""
    if study.levels is None or study.features:
        raise InputError(
            f"Study {study.name!r} cannot be a pilot: that asks people for predictions (beliefs.centre = "
            '"predictions"), and has no features. Leave them out of the pilot; the main wave may have them.'
        )
    return study.levels


def _centre(beliefs: LevelBeliefs, p: float, m: float) -> tuple[float, float]:
    """μ̂ and k; for yes and no k depends on the centre, k = v/(μ(1 − μ))."""
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
    """The standard error of the centre, half the scale being 1."""
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
    """The study of the main wave: the answer alone is asked for, with the pilot's centre as its belief."""
    record = study.declared.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    record.pop("payments", None)
    if study.shares is None:
        record["beliefs"] = _main_numbers(study, record, centre, error)
    else:
        record["beliefs"] = _main_shares(beliefs, centre, error)
    return record


def _main_shares(beliefs: LevelBeliefs, centre: float, error: float) -> dict[str, object]:
    """Beliefs for yes and no and for ratings: the share is uniform with this mean and standard deviation."""
    spread = REACH * math.hypot(beliefs.sure, error) / 2
    share = (1 + centre) / 2
    section: dict[str, object] = {
        "share": [round(max(0.0, share - spread), 4), round(min(1.0, share + spread), 4)]
    }
    if beliefs.shares is not None and beliefs.shares.levels > 2:
        section["agreement"] = beliefs.shares.agreement
    return section


def _main_numbers(
    study: Study, record: dict[str, dict[str, object]], centre: float, error: float
) -> dict[str, object]:
    """Beliefs about the centre, as sure as people and the pilot are, and noise as wide as answers scatter.

    Beliefs reach equally far to both sides, at least two standard deviations: a declared range that ends earlier is
    widened.
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


# The value of a published pilot


def pilot_size(people: Numbers, epsilon: Numbers, *, noise_variance: float, bound: float) -> Numbers:
    """N_eff = σ²/(σ²/N + 8Y²/(Nε)²): the number of noiseless answers that a pilot of N people at ε is worth.

    One sum of answers in ±bound, released with Laplace noise of scale 2Y/ε.
    """
    return noise_variance / (noise_variance / people + 8 * bound**2 / (people * epsilon) ** 2)


def pilot_cost(people: Numbers, *, variance: float, noise_variance: float) -> Numbers:
    """(1 + ω)²/4ω, ω = v_p/σ²: the relative cost of deterring a lie after a published pilot worth this many answers.

    Its minimum is 1, at v_p = σ². Predictions range over R = z√v_p, payments over 4bR², and a lie Δ is deterred by b =
    τh(ε)/(sΔ)²: a precise pilot makes R small like √v_p, but s like v_p.
    """
    omega = 1 / (noise_variance / variance + people)
    return (1 + omega) ** 2 / (4 * omega)
