"""Publish: the public record of a settlement, a function of the release and of public numbers alone.

The release and the declarations are both public, so stating where one contradicts the other costs no privacy.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from truthful.asked_release import AskedRelease, Level, mean_features
from truthful.check import Floats
from truthful.files import sha256
from truthful.guarantees import Guarantees
from truthful.moments import TRANSFORM_UNIT, Sums
from truthful.noise import L2Laplace
from truthful.one_release import SUM_UNIT, LeaveOneOut, OneRelease
from truthful.release.coefficients import (
    BEYOND,
    INTERVAL_LEVEL,
    average_laws,
    averages,
    centre_of,
    contradicted_shares,
    released_numbers,
    released_predictions,
)
from truthful.release.release import (
    DECLARED,
    Epsilon,
    Instruments,
    Named,
    Payment,
    Release,
    ReleasedNoise,
    ReleasedStatistics,
)
from truthful.share_release import SWITCH, ShareRelease
from truthful.study import Study
from truthful.version import __version__

if TYPE_CHECKING:
    from truthful.plan import Plan

#: The assumption of privacy where bad records were dropped.
GOOD_RECORDS = (
    "that a record is complete and in range is no secret: bad ones were left out, and the count is public"
)


def publish(
    plan: Plan,
    mechanism: OneRelease | ShareRelease | AskedRelease,
    estimate: LeaveOneOut,
    sums: Sums,
    found: Guarantees,
    on_bad: str,
    features: Floats | None,
    level: Level | None,
    salt: str,
    rehearsal: bool,
) -> Release:
    """The release of this estimate; `found` are the guarantees for those who answered, features theirs on the grid.

    A withheld matrix is named by a hash with a secret salt: without it nobody can test whose features fit.
    """
    study, transform = plan.study, mechanism.transform
    guarantees = found.record()
    if on_bad == "drop":
        # It may become known who had a bad record: it changes the public count.
        guarantees["privacy"]["assumptions"] = [GOOD_RECORDS]
    shown = mechanism.protects == "records" or study.publishes_matrix
    parts: dict[str, Any] = {name: study.declaration().get(name) for name in DECLARED}
    parts |= what_follows(study, mechanism, estimate, sums, found, features, level)
    return Release(
        version=__version__,
        rehearsal=rehearsal,
        study=Named(name=study.name, sha256=study.sha256),
        plan_sha256=plan.sha256,
        protects="answers" if mechanism.protects == "answers" else "records",
        players=sums.count,
        epsilon=Epsilon(
            answers=float(mechanism.vector_epsilon),
            records=mechanism.epsilon if mechanism.protects == "records" else None,
        ),
        estimator=mechanism.estimator,
        gram_share=mechanism.gram_share if mechanism.estimator == "noisy-statistics" else None,
        instruments=None
        if transform is None
        else Instruments(transform=transform, unit=float(TRANSFORM_UNIT)),
        statistics=_statistics(
            estimate, mean_features(sums) if _tells_mean(study, shown) else None, shown, salt
        ),
        inverse=tuple(map(tuple, estimate.inverse.tolist())) if shown else None,
        noise=ReleasedNoise(
            scale=estimate.scale,
            matrix_scale=estimate.matrix_scale,
            norm=mechanism.norm if isinstance(mechanism, ShareRelease) else None,
        ),
        theta=tuple(estimate.theta.tolist()),
        interval_level=INTERVAL_LEVEL,
        payment=payment_terms(mechanism, study.currency),
        guarantees=guarantees,
        promised=plan.guarantees.record(),
        **parts,
    )


def what_follows(
    study: Study,
    mechanism: OneRelease | ShareRelease | AskedRelease,
    estimate: LeaveOneOut,
    sums: Sums,
    found: Guarantees,
    features: Floats | None,
    level: Level | None,
) -> dict[str, Any]:
    """All statements about answers that follow from the released statistics, by their name in a release."""
    parts = released_numbers(study, mechanism, estimate, sums, features)
    if isinstance(mechanism, AskedRelease) and level is not None:
        predictions = released_predictions(study, mechanism, estimate, sums, level)
        if study.shares is not None:
            # The share of everybody in the units of predictions: a single number has a single interval.
            everybody, times = parts["shares"][0], 100 if study.kind == "yes-no" else 1
            ends = {name: times * getattr(everybody, name) for name in ("value", "low", "high")}
            answer = predictions.answer.model_copy(update=ends)
            predictions = predictions.model_copy(update={"answer": answer})
        said = _contradicted_predictions(study, mechanism, estimate, sums, level)
        return parts | {"predictions": predictions, "warnings": _withdraw(said)}
    if isinstance(mechanism, OneRelease):
        return parts | {"warnings": contradictions(study, estimate, found)}
    return parts | {"warnings": _withdraw(contradicted_shares(study, estimate, sums))}


def payment_terms(mechanism: OneRelease | ShareRelease | AskedRelease, currency: str) -> Payment:
    """The payment rule, with its numbers, in the terms of a release."""
    terms: dict[str, Any]
    if isinstance(mechanism, ShareRelease):
        terms = {
            "rule": SWITCH,
            "a": mechanism.flat,
            "b": mechanism.bonus,
            "margin": mechanism.margin,
            "tolerance": None if math.isinf(mechanism.tolerance) else mechanism.tolerance,
        }
    else:
        terms = {
            "rule": mechanism.rule,
            "a": mechanism.base_payment,
            "b": mechanism.score_weight,
            "clip": mechanism.clip,
        }
    if isinstance(mechanism, AskedRelease):
        terms |= {
            "ratio": mechanism.ratio,
            "prediction": mechanism.prediction_weight,
            "plausible": mechanism.plausible if math.isfinite(mechanism.plausible[1]) else None,
        }
    return Payment(payments=mechanism.payments, currency=currency, **terms)


def _tells_mean(study: Study, shown: bool) -> bool:
    """Whether the mean of features is published with other sums of them: the share of everybody follows from it."""
    return shown and study.shares is not None and study.levels is None and bool(study.features)


def _statistics(estimate: LeaveOneOut, mean: Floats | None, shown: bool, salt: str) -> ReleasedStatistics:
    matrix = None
    if estimate.matrix is not None:
        matrix = tuple(tuple(str(int(k)) for k in row) for row in estimate.matrix)
    return ReleasedStatistics(
        matrix=matrix if shown else None,
        matrix_sha256=None if shown else sha256([salt, *(list(row) for row in matrix or ())]),
        vector=tuple(str(k) for k in estimate.vector),
        unit=float(SUM_UNIT),
        mean=None if mean is None else tuple(mean.tolist()),
    )


DRAWS = 20_000
#: The standard deviations by which answers may differ from what people expected.
SURPRISE = 3.0
#: The beginning of the sentence that withdraws truthfulness and accuracy.
WITHDRAWN = "The result contradicts the declared beliefs"


def _withdraw(said: list[str], unlikely: str = "") -> tuple[str, ...]:
    """The sentence on what contradicts the declared beliefs, if anything does."""
    if not said:
        return ()
    hence = "So what was promised of truthfulness and accuracy does not hold; privacy, and the cap on what is paid, do."
    return (f"{WITHDRAWN}: {'; '.join(said)}. {unlikely}{hence}",)


def contradictions(study: Study, estimate: LeaveOneOut, found: Guarantees) -> tuple[str, ...]:
    """Sentences on contradictions: θ̂ is further from the centre than in 99 % of draws from the beliefs and the noise.

    Compared are the average answer, the middle of all features, and with features the length of all coefficients.
    """
    theta, expected, said = estimate.theta, _prior_draws(study, estimate, found), []
    of_average, of_length = study.declared.intercept, study.dimension > 1 or not study.declared.intercept
    surely = 1 - (1 - BEYOND) / (of_average + of_length)
    if of_average:
        unit, scale = study.response_unit, study.declared.encoding.scale
        declared = (study.response.low + study.response.high) / 2 + unit * float(study.centre[0]) / scale
        off = unit * float(np.quantile(np.abs(expected[:, 0]), surely)) / scale
        seen = declared + unit * float(theta[0]) / scale
        if not abs(seen - declared) <= off:
            at = " at the middle of all features" if study.features else ""
            between = f"not between {declared - off:.4g} and {declared + off:.4g}"
            said.append(f"the average answer{at} is {seen:.4g}, {between}")
    if of_length:
        length = float(np.linalg.norm(theta))
        most = float(np.quantile(np.linalg.norm(expected, axis=1), surely))
        if not length <= most:
            said.append(
                f"in normalised units the coefficients have the length {length:.3g}, not below {most:.3g} (declared is "
                f"{study.beliefs.radius:.3g} at most)"
            )
    return _withdraw(
        said, f"Where these beliefs hold that happens in fewer than {1 - BEYOND:.0%} of studies. "
    )


def _contradicted_predictions(
    study: Study, mechanism: AskedRelease, estimate: LeaveOneOut, sums: Sums, level: Level
) -> list[str]:
    """Contradictions where people were asked what the others will say: also whether answers surprised them more than
    declared.

    For numbers and ratings the centre of their beliefs is compared with the average answer, within three standard
    deviations; for yes and no the mean prediction, which is nearer to it.
    """
    said = contradicted_shares(study, estimate, sums)
    average, predicted = averages(mechanism, estimate, level)
    centre = centre_of(mechanism, estimate, level)
    expected = predicted if centre is None else centre
    sure = 0.0 if study.levels is None else study.levels.sure
    noise = sum(law.whole_variance for law in average_laws(study, mechanism, estimate, sums, level))
    if not abs(average - expected) <= SURPRISE * math.sqrt(sure**2 + noise):
        low, high = study.prediction_range
        found, before = (low + (high - low) / 2 * (value + 1) for value in (average, expected))
        said.append(
            f"answers average {found:.3g} where people expected {before:.3g}, which is a greater surprise than they "
            "are declared to allow: they are surer than they should be, or predictions were careless"
        )
    return said


def _prior_draws(study: Study, estimate: LeaveOneOut, found: Guarantees) -> Floats:
    """θ + sampling error + M⁻¹N under the prior: draws from a fixed seed, the same each time, one a row.

    Sampling and a few lies make up the guaranteed error beside the noise, equally in every direction.
    """
    d, error = study.dimension, found.accuracy.mean_squared_error
    theta, noise, normal = _standard_draws(study)
    drawn = L2Laplace(d, estimate.scale).marginal_variance * float(np.sum(estimate.inverse**2))
    spread = 0.0 if error is None else math.sqrt(max(0.0, error - drawn) / d)
    return np.asarray(theta + noise @ (estimate.scale * estimate.inverse.T) + spread * normal)


@lru_cache(maxsize=4)  # all releases of a study share it
def _standard_draws(study: Study) -> tuple[Floats, Floats, Floats]:
    """Draws of θ, and noise and normal numbers of scale 1."""
    rng, d = np.random.default_rng(0), study.dimension
    theta, noise = study.beliefs.prior.sample(rng, d, DRAWS), L2Laplace(d, 1.0).sample(rng, DRAWS)
    return theta, noise, rng.standard_normal((DRAWS, d))
