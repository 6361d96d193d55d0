"""The five guarantees of a plan or a release, always in this order: privacy, truthfulness, accuracy,
participation, budget. Each says what is guaranteed, with what probability and under which assumptions.

All of it follows from public numbers. A number that cannot be promised is None, never a guess.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from truthful import check
from truthful.asked_release import SCALE, AskedRelease, largest_gain, largest_loss
from truthful.bounds import Model, Setting, proved
from truthful.bounds.asked_bounds import AskedSetting, advantage
from truthful.bounds.asked_bounds import gap as asked_gap
from truthful.bounds.asked_bounds import lie_size as asked_lie_size
from truthful.bounds.estimator_bounds import EVENTS, instruments_error
from truthful.bounds.precision import Precision, effect_quantile, error_quantile, precisions
from truthful.bounds.share_bounds import (
    ROUNDING,
    RosterSetting,
    ShareSetting,
    accuracy_setting,
    effect_error,
    gain,
)
from truthful.bounds.share_bounds import tolerated_gap as share_tolerated_gap
from truthful.check import Floats
from truthful.deterrence import (
    Deterrence,
    Typical,
    amplification,
    central_slope,
    largest_belief_gap,
    least_noise,
    likely_answers,
    mean_square_prediction,
    own_predictions,
    representative,
    share_beyond,
    tolerated_gap,
    tolerated_shift,
    typical,
)
from truthful.errors import InputError
from truthful.geometry import Geometry
from truthful.noise import L2Laplace, laplace
from truthful.one_release import OneRelease
from truthful.scoring import PAYMENT_STEPS
from truthful.share_release import ShareRelease
from truthful.study import Study
from truthful.study.credibility import Expected, LevelBeliefs, ShareBeliefs

TRUTHFUL_PEERS = "players tell the truth, all but those with the highest privacy costs (the absent share)"
BELIEFS = "answers follow the declared linear model, prior and noise"
FEATURES = "features are drawn independently from the declared design"
GIVEN_FEATURES = (
    "whether somebody takes part does not depend on how far her answer is from what the model predicts"
)
#: Of so many people it is said how wrong they may be for the truth to pay still, and which lies in an answer do not.
NINE_IN_TEN = 0.9
#: Lies whose cost is told, as parts of the range of answers.
SHADED = (0.2, 0.4)
#: People drawn from a design, for what is said of people on average.
DRAWN = 4_000
BELIEVED = {
    "yes-no": "people believe what is declared: that between {low} and {high} say yes, and more if they do themselves",
    "rating": "people believe what is declared: that the mean rating is between {low} and {high}, and higher if their "
    "own is",
}
AGREED = (
    "people agree on what they expect of the others, whatever it is, and take others to expect what they do; one's own "
    "answer moves it as declared"
)
AGREED_STRICT = (
    "people agree on what they expect of the others, whatever it is, and expect more yes if they would say yes "
    "themselves"
)
LEAST_FAILURE = 1e-12
#: How much larger the lies may be that pay people whose centre is not the declared one.
WIDER = 1.5
COSTS = "privacy costs follow the declared law, whatever the coefficients are"


@dataclass(frozen=True)
class Privacy:
    """ε-joint differential privacy, for every data set, whatever anybody does.

    protects: answers, or whole records; not_protected: what the release may say of people as it is.
    """

    epsilon: float
    probability: float = 1.0
    assumptions: tuple[str, ...] = ()
    protects: str | None = None
    not_protected: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Shading:
    """What a typical person loses on average, in currency, by an answer that is so far off: in raw units, or in steps.

    Everybody else is honest here, and beliefs are as declared. Her features are of typical length, and her answer is
    the one that is expected of people like her. Of yes and no it is the mean over both.
    """

    by: float
    costs: float


@dataclass(frozen=True, kw_only=True)
class Truthfulness:
    """No lie that moves the own prediction by more than `lie` pays; no lie at all gains more than `slack`.

    So it is for all players whose privacy cost is at most a threshold: all but the absent share, with this probability.
    `share` is that of people, at features of typical length, who could tell a lie beyond `lie` at all. `slope` is the
    least ∂q/∂y over the central 90 % of reports there. For nine people in ten, of the design or the roster, every
    answer that is off the truth by more than `lie_in_answer`, in raw units, moves q by more than `lie`; None where more
    than one in ten can give any answer without doing so. `undeterred` is the share of possible answers that move q by
    no more than `lie`, on average over people and their truthful answers: nothing deters those. `typical_length` and
    `typical_noise` are ‖x‖ and the scale of the peers' noise along its unit vector, of a typical person. `shading` is
    what lies cost her on average, beside the `typical_pay` that her honest answer earns.

    Of yes and no, and of ratings, it is said otherwise: no lie of `steps` steps or more pays for a `share` of people,
    and on average the truth earns `gain` more than such a lie, in currency; None where nothing is promised. For the
    average person the lowest and the highest answer pay the same if the share is `switch`, and those who would give the
    highest answer expect the share expects_yes, the others expects_no. lie, slack and slope are those of numbers.

    And if people believe otherwise: centre_tolerance is how far their idea of the average may be from the declared one,
    in raw units, if no lie that moves the own prediction by more than centre_lie is to pay; none then gains more than
    centre_slack. A centre that is wrong by 1 moves the best answer by centre_amplification. With the right centre the
    slope may be wrong by slope_tolerance. For the typical person and answers up to those of 1 % and 99 %; where a
    tolerance is declared, for everybody. Of yes and no, and of ratings, centre_tolerance is how far the share that
    somebody expects, given her answer, may be off if the truth is to pay for centre_share of people.

    Where people are asked what the others will say, slope is how much an answer moves what is expected of them, and no
    lie of `lie_in_answer` or more pays. centre_tolerance is then how far what a person expects may be from what she
    takes others to expect.
    """

    lie: float | None = None
    slack: float | None = None
    share: float
    slope: float
    lie_in_answer: float | None = None
    probability: float
    assumptions: tuple[str, ...] = (TRUTHFUL_PEERS, BELIEFS, FEATURES, COSTS)
    undeterred: float | None = None
    typical_length: float | None = None
    typical_noise: float | None = None
    steps: int | None = None
    gain: float | None = None
    switch: float | None = None
    expects_yes: float | None = None
    expects_no: float | None = None
    centre_tolerance: float | None = None
    centre_lie: float | None = None
    centre_slack: float | None = None
    centre_amplification: float | None = None
    slope_tolerance: float | None = None
    centre_share: float | None = None
    typical_pay: float | None = None
    shading: tuple[Shading, ...] | None = None


@dataclass(frozen=True)
class Accuracy:
    """How far estimates are off: with this probability at most by a quantile, and on average by a root mean square.

    `quantile` is of every prediction at once: as ‖x‖ ≤ 1, of the length of the coefficients' error, in raw units of the
    response. `prediction_quantile` is of the root of the mean square over people whose features follow the design.
    Where answers are shares, `effect_quantile` is of a difference between features' ends or levels, whichever it is.
    `rmse`, `prediction_rmse` and `effect_rmse` are root mean squares of the same over studies in which no more people
    lie than the absent share: a third of errors can be larger. mean_squared_error is the square of the first,
    normalised. `numbers` says how wide intervals will be; `of` is what was asked for, "predictions" or "centre".
    """

    mean_squared_error: float | None
    rmse: float | None
    prediction_rmse: float | None
    probability: float
    assumptions: tuple[str, ...] = (TRUTHFUL_PEERS, BELIEFS, FEATURES, COSTS)
    effect_rmse: float | None = None
    quantile: float | None = None
    prediction_quantile: float | None = None
    effect_quantile: float | None = None
    numbers: tuple[Precision, ...] | None = None
    of: str | None = None


@dataclass(frozen=True)
class Participation:
    """Taking part pays, in expectation, for everybody whose privacy cost is at most the threshold: for this share."""

    share: float | None
    cost_threshold: float | None
    probability: float = 1.0
    assumptions: tuple[str, ...] = (TRUTHFUL_PEERS, BELIEFS, FEATURES, COSTS)


@dataclass(frozen=True)
class Budget:
    """What all payments together cost: never more than `cap`, whatever anybody does; on average at most `expected`.

    `likely` is exceeded with at most twice the failure probability. The assumptions are those of the average and of
    `likely`. `cap` needs none, and is there if payments are never negative.
    """

    expected: float | None
    cap: float | None
    likely: float | None
    probability: float = 1.0
    assumptions: tuple[str, ...] = (TRUTHFUL_PEERS, BELIEFS, FEATURES, COSTS)


ADDED = (
    *("protects", "not_protected", "undeterred", "typical_length", "typical_noise"),
    *("steps", "gain", "switch", "expects_yes", "expects_no", "effect_rmse"),
    *("centre_tolerance", "centre_lie", "centre_slack", "centre_amplification", "slope_tolerance"),
    *("centre_share", "quantile", "prediction_quantile", "effect_quantile", "numbers", "of"),
    *("typical_pay", "shading"),
)


@dataclass(frozen=True)
class Guarantees:
    """The five, in their order."""

    privacy: Privacy
    truthfulness: Truthfulness
    accuracy: Accuracy
    participation: Participation
    budget: Budget

    def asked_of(self, of: str | None) -> Guarantees:
        """The same, of a plan whose accuracy was asked for of predictions, or of the centre."""
        return replace(self, accuracy=replace(self.accuracy, of=None if of == "coefficients" else of))

    def record(self) -> dict[str, Any]:
        """As written in plans and releases. What came with format 2 is left out where it says nothing."""
        return {
            name: {
                key: list(value) if isinstance(value, tuple) else value
                for key, value in group.items()
                if not (key in ADDED and value is None)
            }
            for name, group in asdict(self).items()
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Guarantees:
        """Those of a record as written."""
        groups = (Privacy, Truthfulness, Accuracy, Participation, Budget)
        return cls(
            *(
                group(**{key: _from_record(key, value) for key, value in record[field.name].items()})
                for group, field in zip(groups, fields(cls), strict=True)
            )
        )


def _from_record(key: str, value: Any) -> Any:
    of = {"numbers": Precision, "shading": Shading}.get(key)
    if not isinstance(value, list):
        return value
    return tuple(value) if of is None else tuple(of(**row) for row in value)


@lru_cache(maxsize=32)  # a settlement asks twice, before it draws and to publish
def guarantees(
    study: Study,
    mechanism: OneRelease | ShareRelease | AskedRelease,
    players: int,
    alpha: float,
    beta: float,
    geometry: Geometry | None = None,
    payable: int | None = None,
    precise: bool = True,
) -> Guarantees:
    """What this mechanism promises to and of so many players, an `alpha` share of whom may misreport.

    geometry is that of their features, where answers are protected. `payable` of them at most may have to be paid, of
    shares and where people are asked what the others will say; by default all. Unless precise, quantiles of errors and
    widths of intervals are left out of these: they take most of the time.
    """
    if isinstance(mechanism, OneRelease):
        found = _of_numbers(study, mechanism, setting(study, mechanism, players, alpha, beta, geometry))
    elif geometry is None:
        raise InputError("What is promised of shares follows from people's features, which are not here.")
    elif isinstance(mechanism, ShareRelease):
        shares = share_setting(study, mechanism, players, alpha, beta, geometry)
        found = _of_shares(study, mechanism, shares, payable or players, precise)
    else:
        asked = asked_setting(study, mechanism, players, alpha, beta, geometry)
        found = _of_predictions(study, mechanism, asked, payable or players, precise)
    unit, assumed = study.response_unit, found.truth.assumptions
    expected, cap, likely = map(_finite, found.bill)
    # Features that were assigned at random say nothing of anybody, so that there is nothing of them to protect.
    own_features = mechanism.protects == "answers" and study.features and not study.assigned
    not_protected = ("features", "taking part") if own_features else ("taking part",)
    return Guarantees(
        Privacy(mechanism.epsilon, protects=mechanism.protects, not_protected=not_protected),
        found.truth,
        _accuracy(found.errors, unit, max(0.0, 1 - EVENTS[mechanism.estimator] * beta), assumed),
        Participation(float(study.costs.cdf(found.joining)), _finite(found.joining), assumptions=assumed),
        Budget(expected, cap, likely, assumptions=assumed),
    )


class _Errors(NamedTuple):
    """Normalised: mean squares and quantiles, of all coefficients, of predictions, and of effects where there are some.

    numbers are in raw units.
    """

    squares: tuple[float, float, float | None]
    quantiles: tuple[float, float, float | None]
    numbers: tuple[Precision, ...]


class _Bounds(NamedTuple):
    """What differs between kinds of answers; the bill is what `Budget` says of it."""

    truth: Truthfulness
    joining: float
    bill: tuple[float, float, float]
    errors: _Errors


def _accuracy(errors: _Errors, unit: float, probability: float, assumed: tuple[str, ...]) -> Accuracy:
    """In raw units of the response."""
    rmse, prediction_rmse, effect_rmse = (
        None if square is None else _finite(unit * math.sqrt(square)) for square in errors.squares
    )
    quantile, prediction_quantile, effect_quantile = (
        None if rmse is None or bound is None else _finite(unit * bound) for bound in errors.quantiles
    )
    return Accuracy(
        _finite(errors.squares[0]),
        rmse,
        prediction_rmse,
        probability,
        assumptions=assumed,
        effect_rmse=effect_rmse,
        quantile=quantile,
        prediction_quantile=prediction_quantile,
        effect_quantile=effect_quantile,
        numbers=None if rmse is None else errors.numbers,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def require_failure_probability(beta: float) -> None:
    """Refuse a failure probability that numbers cannot carry, or that promises nothing."""
    if not LEAST_FAILURE <= check.share("failure_probability", beta) < 0.5:
        raise InputError(
            f"failure_probability is {beta:g}; it must lie between {LEAST_FAILURE:g}, as small as can be computed "
            "with, and 0.5, where promises are worth nothing."
        )


def untruthful_because(study: Study, mechanism: OneRelease, alpha: float) -> str:
    """Why no size of lies can be promised not to pay, and what would change that."""
    if not mechanism.score_weight > 0:
        return "score_weight is 0, so payments do not depend on answers"
    if alpha == 0 and math.isinf(study.costs.upper_quantile(0.0)):
        return "absent_share 0 needs a bound on every privacy cost, and the declared law has none"
    return inaccurate_because(study)


def inaccurate_because(study: Study) -> str:
    """Why no accuracy of an estimate from observed features can be promised, and what would change that."""
    if not model(study).least_eigenvalue > 0:
        return "the study does not say how spread out its features are; declare design.least_eigenvalue"
    return "too few players for this epsilon: noise could drown the features' second moments"


# Numbers


def _of_numbers(study: Study, mechanism: OneRelease, s: Setting) -> _Bounds:
    players, geometry = int(s.n), s.geometry
    lie = float(proved.lie_size(s))
    person = typical(study, mechanism, players, geometry)
    undeterred, in_answer = _undeterred_share(study, mechanism, players, lie, person, geometry)
    return _Bounds(
        Truthfulness(
            lie=_finite(lie),
            slack=_finite(float(proved.truthfulness(s))),
            share=share_beyond(study, person, lie),
            slope=central_slope(study, person),
            lie_in_answer=_finite(in_answer * study.response_unit),
            probability=1 - float(s.beta),
            assumptions=(TRUTHFUL_PEERS, BELIEFS, FEATURES if geometry is None else GIVEN_FEATURES, COSTS),
            undeterred=undeterred,
            typical_length=person.length,
            typical_noise=person.scale,
            **_number_shading(study, mechanism, person),
            **_number_tolerances(study, s, person, lie),
        ),
        float(proved.joining_threshold(s)),
        (float(proved.budget(s)), float(proved.budget_cap(s)), float(proved.likely_budget(s))),
        _number_errors(study, mechanism, s),
    )


def _number_errors(study: Study, mechanism: OneRelease, s: Setting) -> _Errors:
    noise = L2Laplace(study.dimension, mechanism.scale(study.beliefs))
    squares = float(proved.accuracy(s)), float(proved.prediction_error(s)), None
    if not math.isfinite(squares[0]):
        return _Errors(squares, (math.inf, math.inf, None), ())
    coefficients, of_people = (error_quantile(study, s, noise, predictions) for predictions in (False, True))
    return _Errors(squares, (coefficients, of_people, None), precisions(study, s, noise))


def _undeterred_share(
    study: Study,
    mechanism: OneRelease,
    players: int,
    lie: float,
    person: Typical,
    geometry: Geometry | None,
) -> tuple[float, float]:
    """The share of answers that nothing deters, and from which size on lies of nine people in ten are deterred."""
    if not math.isfinite(lie):
        return 1.0, math.inf
    scale, Sigma = mechanism.scale(study.beliefs), study.second_moments
    if geometry is not None:
        r, tau = geometry.people
        people = representative(r, tau * (geometry.players / players))
    elif study.assigned and Sigma is not None:
        X = study.normalise(study.sample_features(np.random.default_rng(0), DRAWN), DRAWN)
        along = np.linalg.norm(np.linalg.solve(Sigma, X.T), axis=0)
        people = representative(np.linalg.norm(X, axis=1), along / max(1, players - 1))
    else:  # of these features nothing is known but how far they are spread
        people = np.array([person.length]), np.array([person.scale * person.length / scale])
    found, clip = Deterrence(study.beliefs, *people), mechanism.clip if mechanism.clipped else None
    return found.undeterred_share(lie, clip, scale), found.furthest(lie, clip, scale, NINE_IN_TEN)


def _number_shading(study: Study, mechanism: OneRelease, person: Typical) -> dict[str, Any]:
    """b·(q(y) − q(0))², as who answers what is expected takes the others to predict q(0) = 0 on average."""
    off = np.array(SHADED) * 2 * study.half_range
    costs = mechanism.score_weight * np.square(own_predictions(study, person, off))
    earned = mechanism.score_weight * mean_square_prediction(study, person)
    return {
        "typical_pay": float(mechanism.base(np.array(person.length))) + earned,
        "shading": _shadings(off * study.response_unit, costs),
    }


def _shadings(sizes: Floats, costs: Floats) -> tuple[Shading, ...]:
    return tuple(Shading(by, loss) for by, loss in zip(sizes.tolist(), costs.tolist(), strict=True))


def _steps_told(levels: int) -> Floats:
    """Lies of one step and of two, as parts of the whole scale."""
    return np.arange(1, min(levels, 3)) / (levels - 1)


def _number_tolerances(study: Study, s: Setting, person: Typical, lie: float) -> dict[str, Any]:
    """How wrong beliefs may be: as much as is declared, or else with lies half as large again let pay."""
    if not math.isfinite(lie):
        return {}
    beliefs, answers = study.beliefs, likely_answers(study, person.length)
    moved = amplification(beliefs, person.length, person.scale, person.curve)
    if study.tolerance:
        allowed, gap, shift = lie, float(np.asarray(s.belief_gap)), study.tolerance
        slack = proved.truthfulness(s)
    else:
        allowed = WIDER * lie
        gap = float(tolerated_gap(lie, allowed, float(proved.gap(s))))
        slack = proved.truthfulness(s.at(belief_gap=gap))
        shift = tolerated_shift(
            beliefs, person.length, person.scale, person.curve, answers, gap, 2 * study.half_range
        )
    return {
        "centre_tolerance": shift * study.response_unit,
        "centre_lie": allowed,
        "centre_slack": _finite(float(slack)),
        "centre_amplification": moved,
        # Her answer may be further from her own centre than from the declared one, by the shift.
        "slope_tolerance": gap / (float(answers[-1]) + shift),
    }


def belief_gap(study: Study, mechanism: OneRelease, players: int, geometry: Geometry | None) -> float:
    """Γ: what a centre that is off by the declared tolerance does to anybody's expectation; never more than itself."""
    shift = study.tolerance
    if not shift or not mechanism.clipped:
        return shift
    if geometry is None:
        lengths, noise = least_noise(study)
        noise = noise / max(1, players - 1)
    else:
        lengths, noise = geometry.people
        noise = noise * (geometry.players / players)
    scale = mechanism.scale(study.beliefs)
    return largest_belief_gap(study.beliefs, lengths, noise, shift, mechanism.clip, scale)


def setting(
    study: Study,
    mechanism: OneRelease,
    players: int,
    alpha: float,
    beta: float,
    geometry: Geometry | None = None,
) -> Setting:
    """What the bounds depend on: the study's model, and the mechanism's numbers."""
    return Setting(
        model=model(study),
        costs=study.costs,
        n=players,
        epsilon=mechanism.epsilon,
        alpha=alpha,
        beta=beta,
        a=mechanism.base_payment,
        b=mechanism.score_weight,
        gram_share=mechanism.gram_share,
        estimator=mechanism.estimator,
        rule=mechanism.rule,
        payments=mechanism.payments,
        privacy=study.declared.costs.privacy,
        rounding=1 / PAYMENT_STEPS,
        clip=mechanism.clip,
        geometry=geometry,
        belief_gap=belief_gap(study, mechanism, players, geometry),
    )


@lru_cache(maxsize=64)
def model(study: Study) -> Model:
    """The declared beliefs and design, as the bounds use them.

    tr Cov(Axy) = θᵀ(Σ_w E[(w·x)² x xᵀ] − ΣA²Σ)θ + σ² tr AΣA, w the columns of A: largest at an eigenvector.
    """
    d, Sigma, beliefs, design = study.dimension, study.second_moments, study.beliefs, study.design
    common: dict[str, Any] = {
        "dimension": d,
        "radius": beliefs.radius,
        "noise_bound": beliefs.noise_bound,
        "noise_variance": beliefs.noise_variance,
        "least_eigenvalue": study.least_eigenvalue or 0.0,
        "prior_square": d * beliefs.prior.variance(d),
        "mean_square": beliefs.prior.variance(d) * study.mean_square_norm,
        "mean_square_norm": study.mean_square_norm,
    }
    if Sigma is None:
        return Model(**common)
    inverse: Floats = np.linalg.inv(Sigma).astype(np.float64)
    R2, sigma2 = beliefs.radius**2, beliefs.noise_variance
    values, vectors = np.linalg.eigh(Sigma)
    root: Floats = vectors / np.sqrt(values) @ vectors.T
    return Model(
        **common,
        greatest_eigenvalue=min(1.0, float(values[-1])),
        inverse_square=float(np.sum(inverse**2)),
        inverse_trace=float(np.trace(inverse)),
        sampling_variance=R2 * _spread(study, inverse, np.eye(d)) + sigma2 * float(np.trace(inverse)),
        prediction_variance=R2 * _spread(study, root, Sigma) + sigma2 * d,
        direction_variance=_direction_variance(study, inverse),
        reach=design.reach,
        leverage=design.leverage,
        ball=design.kind == "unit-ball",
    )


def _spread(study: Study, A: Floats, mean: Floats) -> float:
    """The largest eigenvalue of Σ_w E[(w·x)² x xᵀ] − mean, w the columns of A."""
    total = sum(study.weighted_moments(w) for w in A.T) - mean
    return max(0.0, float(np.linalg.eigvalsh(total)[-1]))


def _direction_variance(study: Study, inverse: Floats) -> float:
    """sup over unit e and ‖θ‖ ≤ R of Var(e·Σ⁻¹xy) ≤ (R² + σ²)·λ_max(Σ⁻¹), as ‖x‖ ≤ 1; sharp form for the ball."""
    d, R2, sigma2 = study.dimension, study.beliefs.radius**2, study.beliefs.noise_variance
    if study.design.kind == "unit-ball":
        return (d + 2) * sigma2 + R2 * (3 * (d + 2) / (d + 4) - 1)
    return (R2 + sigma2) * float(np.linalg.eigvalsh(inverse)[-1])


# Yes or no and ratings


def _of_shares(
    study: Study, mechanism: ShareRelease, s: ShareSetting, payable: int, precise: bool
) -> _Bounds:
    most = payable * (mechanism.flat + mechanism.bonus)
    joining = (mechanism.flat + mechanism.bonus / 2 - ROUNDING) / study.privacy_cost(mechanism.epsilon)
    truth, errors = _share_truth(study, mechanism, s), _errors(study, mechanism, s, precise)
    return _Bounds(truth, joining, (most, most, math.inf), errors)


def _errors(study: Study, mechanism: ShareRelease | AskedRelease, s: RosterSetting, precise: bool) -> _Errors:
    """Errors of the coefficients, of predictions, and, where answers are shares, of differences."""
    accuracy, effects = accuracy_setting(s), effect_error(s)
    asked = isinstance(mechanism, AskedRelease)
    noise = laplace(mechanism.norm, study.dimension + asked, mechanism.scale(study.believed))
    error, of_people = (
        float(instruments_error(accuracy, predictions).item()) for predictions in (False, True)
    )
    squares = error, of_people, None if effects is None else float(effects.item())
    if not (precise and math.isfinite(error)):
        return _Errors(squares, (math.inf, math.inf, None), ())
    one = accuracy.at(alpha=float(s.alpha[0]), epsilon=float(s.answers_epsilon[0]))
    coefficients, of_people = (
        error_quantile(study, one, noise, predictions) for predictions in (False, True)
    )
    quantiles = coefficients, of_people, effect_quantile(study, s, noise)
    return _Errors(squares, quantiles, precisions(study, one, noise))


def share_setting(
    study: Study, mechanism: ShareRelease, players: int, alpha: float, beta: float, geometry: Geometry
) -> ShareSetting:
    """What the bounds of shares depend on."""
    if study.shares is None:
        raise InputError("The study asks for numbers.")
    return ShareSetting(
        study=study,
        beliefs=study.shares,
        geometry=geometry,
        n=players,
        alpha=np.array([alpha]),
        epsilon=np.array([mechanism.epsilon]),
        beta=beta,
        margin=mechanism.margin,
        tolerance=mechanism.tolerance,
        belief_gap=study.tolerance,
    )


def _belief_told(study: Study, beliefs: ShareBeliefs) -> str:
    """Of the average person's kind, in the words of the question."""
    ends = (beliefs.low, beliefs.high)
    if study.kind == "yes-no":
        low, high = (f"{100 * end:g}%" for end in ends)
    else:
        low, high = (f"{study.response.low + 2 * study.response_unit * end:g}" for end in ends)
    return BELIEVED[study.kind].format(low=low, high=high)


def _share_truth(study: Study, mechanism: ShareRelease, s: ShareSetting) -> Truthfulness:
    """The fewest steps of a lie that does not pay for the share of people who are not among the liars."""
    beliefs, worth, saved = s.beliefs, study.privacy_cost(mechanism.epsilon), float(s.saved[0, 0])
    average = beliefs.expects(np.eye(1, study.dimension) / beliefs.scale)
    steps, earned = None, 0.0
    for j in range(1, beliefs.levels):
        earned = mechanism.bonus * float(gain(s, j)[0, 0])
        if earned >= saved * (1 - 1e-9):
            steps = j
            break
    expects_yes, expects_no = (float((average.switch + average.advantage * y)[0]) for y in (1.0, -1.0))
    share = float(study.costs.cdf(max(0.0, earned - ROUNDING) / worth)) if steps else 0.0
    return Truthfulness(
        slope=0.0,
        share=share,
        gain=earned if steps else None,
        steps=steps,
        switch=float(average.switch[0]),
        expects_yes=expects_yes,
        expects_no=expects_no,
        probability=1 - s.beta,
        assumptions=(TRUTHFUL_PEERS, _belief_told(study, beliefs), GIVEN_FEATURES, COSTS),
        **_share_shading(mechanism, beliefs.levels, average),
        **_share_tolerances(study, mechanism, s, steps, share),
    )


def _share_shading(mechanism: ShareRelease, levels: int, average: Expected) -> dict[str, Any]:
    """(B/4)(δ/w)(y − y')², as who answers y takes the others' share to be δy above the switch point on average."""
    part, steps = float((average.advantage / average.width(mechanism.margin))[0]), _steps_told(levels)
    answers = np.linspace(-1, 1, levels)
    earned = mechanism.bonus / 2 * (1 + part / 2 * (1 + float(np.mean(answers**2))))
    return {
        "typical_pay": mechanism.flat + earned,
        "shading": _shadings(steps * (levels - 1), mechanism.bonus * part * steps**2),
    }


def _share_tolerances(
    study: Study, mechanism: ShareRelease, s: ShareSetting, steps: int | None, share: float
) -> dict[str, Any]:
    """How far the share that somebody expects may be off, given her answer: as declared, or for nine people in ten."""
    if steps is None:
        return {}
    if study.tolerance:
        return {"centre_tolerance": study.tolerance, "centre_share": share}
    cost = float(study.costs.quantile(NINE_IN_TEN))
    needed = (cost * study.privacy_cost(mechanism.epsilon) + ROUNDING) / mechanism.bonus
    found = float(share_tolerated_gap(s, steps, needed)[0, 0])
    return {"centre_tolerance": found, "centre_share": NINE_IN_TEN} if found > 0 else {}


# Predictions of what the others will say


def _of_predictions(
    study: Study, mechanism: AskedRelease, s: AskedSetting, payable: int, precise: bool
) -> _Bounds:
    truth = (_strict_truth if s.beliefs.strict else _asked_truth)(study, mechanism, s)
    average, most = (payable * each for each in _asked_payments(s, mechanism))
    least = max(0.0, _least_expected(s, mechanism) - ROUNDING)
    joining = least / study.privacy_cost(mechanism.epsilon)
    return _Bounds(truth, joining, (average, most, math.inf), _errors(study, mechanism, s, precise))


def asked_setting(
    study: Study, mechanism: AskedRelease, players: int, alpha: float, beta: float, geometry: Geometry
) -> AskedSetting:
    """What the bounds of answers with predictions depend on."""
    if study.levels is None:
        raise InputError("The study does not ask what the others will say.")
    return AskedSetting(
        study=study,
        beliefs=study.levels,
        geometry=geometry,
        n=players,
        alpha=np.array([alpha]),
        epsilon=np.array([mechanism.epsilon]),
        beta=beta,
        ratio=mechanism.ratio,
        clip=np.array([mechanism.clip]),
        judged=math.isfinite(mechanism.plausible[1]),
        tolerance=study.level_tolerance,
    )


def payable_to_all(mechanism: AskedRelease, slopes: object) -> bool:
    """Whether base payments cover what scores can take away, at these slopes: then nobody can owe."""
    lost = mechanism.score_weight * largest_loss(mechanism.rule, np.asarray(slopes), mechanism.clip)
    return bool(lost.max() <= mechanism.base_payment * (1 + 1e-9))


def _asked_payments(s: AskedSetting, mechanism: AskedRelease) -> tuple[float, float]:
    """What somebody is paid on average and at most, at most."""
    base, asked = mechanism.base_payment, mechanism.prediction_payment
    gained = largest_gain(mechanism.rule, s.believed[:, :2], mechanism.clip)
    head = base + mechanism.score_weight * float(gained.max()) + asked
    average = base + asked + float(s.alpha[0]) * (head - base)
    return head if s.beliefs.strict else min(average, head), head


def _least_expected(s: AskedSetting, mechanism: AskedRelease) -> float:
    """What somebody who tells the truth earns on average, at least, predictions left out.

    Of numbers: a − b(s²E[t²] + 2s(1−s)√(E[t²]E[Δ²])), t = y − p. Of yes and no: a, and more.
    """
    a, b = mechanism.base_payment, mechanism.score_weight
    if s.beliefs.strict:
        return a
    slope, v = float(s.believed[:, 1].max()), float(s.believed[:, 3].max())
    noise = (s.beliefs.dimension + 2) * (float(s.scale[0]) * s.worst[0]) ** 2
    apart = s.beliefs.variance * (1 + s.worst[1]) + v + noise
    square = min(mechanism.clip**2, v + noise)
    return max(0.0, a - b * (slope**2 * apart + 2 * slope * (1 - slope) * math.sqrt(apart * square)))


def _asked_truth(study: Study, mechanism: AskedRelease, s: AskedSetting) -> Truthfulness:
    """From which size on no lie pays; of ratings, from how many steps on."""
    lie, b, k = (
        float(asked_lie_size(s, mechanism.score_weight)[0, 0]),
        mechanism.score_weight,
        s.beliefs.slope,
    )
    worth, saved, off = study.privacy_cost(mechanism.epsilon), float(s.saved[0, 0]), asked_gap(s)[:, 0, 0]
    steps, earned, told = None, None, lie
    if study.shares is not None and math.isfinite(lie):
        levels = study.shares.levels
        step = SCALE / (levels - 1)
        least = math.ceil(lie / step * (1 - 1e-9))
        if least < levels:
            steps, told = least, least * SCALE / (levels - 1)
            moved = s.believed[:, 0] * steps * step
            earned = b * float((moved**2 - 2 * moved * off).min())
    promised = math.isfinite(told) and told < SCALE
    return Truthfulness(
        slack=b * (float(off.max()) ** 2) + saved if promised else None,
        share=float(study.costs.cdf(max(0.0, saved - ROUNDING) / worth)) if promised else 0.0,
        slope=k,
        lie_in_answer=told * study.response_unit if promised else None,
        probability=1 - s.beta,
        assumptions=(TRUTHFUL_PEERS, AGREED, GIVEN_FEATURES, COSTS),
        steps=steps,
        gain=earned,
        **_asked_shading(study, mechanism, s.beliefs),
        centre_tolerance=k * told / (2 * (1 - k)) * study.response_unit if promised else None,
    )


def _strict_truth(study: Study, mechanism: AskedRelease, s: AskedSetting) -> Truthfulness:
    """Of yes and no: what the truth earns more than the other answer."""
    found, worth = float(advantage(s)[0, 0]), study.privacy_cost(mechanism.epsilon)
    earned = 2 * mechanism.score_weight * found / mechanism.clip
    paid = earned >= float(s.saved[0, 0]) * (1 - 1e-9)
    return Truthfulness(
        slope=s.beliefs.slope,
        share=float(study.costs.cdf(max(0.0, earned - ROUNDING) / worth)) if paid else 0.0,
        probability=1 - s.beta,
        assumptions=(TRUTHFUL_PEERS, AGREED_STRICT, GIVEN_FEATURES, COSTS),
        steps=1 if paid else None,
        gain=earned if paid else None,
        **_asked_shading(study, mechanism, s.beliefs),
        centre_tolerance=found * study.response_unit if paid else None,
    )


def _asked_shading(study: Study, mechanism: AskedRelease, beliefs: LevelBeliefs) -> dict[str, Any]:
    """b·s²ℓ² of numbers and ratings; of yes and no 2b·E[yΔ]/C, E[yΔ] = 4v(1 − k) with v and k those of shares."""
    b, pay = mechanism.score_weight, mechanism.base_payment + mechanism.prediction_payment
    if not beliefs.strict or beliefs.shares is None:
        levels = None if beliefs.shares is None else beliefs.shares.levels
        steps = np.array(SHADED) if levels is None else _steps_told(levels)
        unit = SCALE * study.response_unit if levels is None else levels - 1
        return {
            "typical_pay": pay,
            "shading": _shadings(steps * unit, b * (beliefs.slope * SCALE * steps) ** 2),
        }
    v, middle = beliefs.sure**2 / 4, (beliefs.shares.low + beliefs.shares.high) / 2
    surprise = 4 * v * (1 - v / (middle * (1 - middle))) / mechanism.clip
    return {"typical_pay": pay + b * surprise, "shading": _shadings(np.ones(1), np.array([2 * b * surprise]))}
