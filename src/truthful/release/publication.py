"""Publish: the public record of a settlement, a function of what was released and of public numbers alone.

Both that and what was declared are public, so that to say where one contradicts the other costs no privacy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from truthful.asked_release import AskedRelease, Level
from truthful.check import Floats
from truthful.files import sha256
from truthful.guarantees import Guarantees
from truthful.instruments import UNIT
from truthful.moments import Sums
from truthful.noise import L2Laplace
from truthful.one_release import SUM_UNIT, LeaveOneOut, OneRelease
from truthful.plan import Plan
from truthful.release.coefficients import (
    INTERVAL_LEVEL,
    average_laws,
    averages,
    centre_of,
    contradicted,
    released_coefficients,
    released_predictions,
    released_shares,
)
from truthful.release.release import (
    GOOD_RECORDS,
    OF_SHARES,
    Coefficient,
    Epsilon,
    Instruments,
    Named,
    Noise,
    Payment,
    Release,
    Statistics,
)
from truthful.share_release import SWITCH, ShareRelease
from truthful.study import Study
from truthful.version import __version__


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

    A matrix that is kept back is named by a hash with a secret salt: without it nobody can try out whose features fit.

    Where bad records were to be dropped, privacy assumes that who had one may be known: it changes the public count.
    """
    study = plan.study
    declared = study.declaration()
    shown = mechanism.protects == "records" or study.publishes_matrix
    transform = mechanism.transform
    extra: dict[str, Any] = {}
    if isinstance(mechanism, AskedRelease) and level is not None:
        coefficients, extra = _asked_estimates(study, mechanism, estimate, sums, features, level)
        warnings = asked_contradictions(study, mechanism, estimate, sums, level)
        payment = Payment(
            rule=mechanism.rule,
            payments=mechanism.payments,
            a=mechanism.base_payment,
            b=mechanism.score_weight,
            clip=mechanism.clip,
            ratio=mechanism.ratio,
            prediction=mechanism.prediction_weight,
            plausible=mechanism.plausible if math.isfinite(mechanism.plausible[1]) else None,
            currency=study.currency,
        )
    elif isinstance(mechanism, ShareRelease):
        of_shares = released_shares(study, mechanism, estimate, sums, features, INTERVAL_LEVEL)
        coefficients, extra = of_shares.coefficients, {name: getattr(of_shares, name) for name in OF_SHARES}
        warnings = share_contradictions(study, estimate, sums)
        payment = Payment(
            rule=SWITCH,
            payments=mechanism.payments,
            a=mechanism.flat,
            b=mechanism.bonus,
            margin=mechanism.margin,
            tolerance=None if math.isinf(mechanism.tolerance) else mechanism.tolerance,
            currency=study.currency,
        )
    elif isinstance(mechanism, OneRelease):
        coefficients = released_coefficients(study, mechanism, estimate, sums)
        warnings = contradictions(study, estimate, found)
        payment = Payment(
            rule=mechanism.rule,
            payments=mechanism.payments,
            a=mechanism.base_payment,
            b=mechanism.score_weight,
            clip=mechanism.clip,
            currency=study.currency,
        )
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
        instruments=None if transform is None else Instruments(transform=transform, unit=float(UNIT)),
        statistics=_statistics(estimate, shown, salt),
        inverse=tuple(map(tuple, estimate.inverse.tolist())) if shown else None,
        noise=Noise(
            scale=estimate.scale,
            matrix_scale=estimate.matrix_scale,
            norm=mechanism.norm if isinstance(mechanism, ShareRelease) else None,
        ),
        theta=tuple(estimate.theta.tolist()),
        coefficients=coefficients,
        interval_level=INTERVAL_LEVEL,
        invitation=declared.get("invitation"),
        response=declared["response"],
        features=declared["features"],
        intercept=declared["intercept"],
        design=declared["design"],
        privacy=declared.get("privacy"),
        beliefs=declared["beliefs"],
        costs=declared["costs"],
        payment=payment,
        guarantees=_guarantees(found, on_bad),
        promised=plan.guarantees.record(),
        warnings=warnings,
        **extra,
    )


def _asked_estimates(
    study: Study,
    mechanism: AskedRelease,
    estimate: LeaveOneOut,
    sums: Sums,
    features: Floats | None,
    level: Level,
) -> tuple[tuple[Coefficient, ...], dict[str, Any]]:
    """Coefficients, and what else is published where people are asked what the others will say."""
    predictions = released_predictions(study, mechanism, estimate, sums, level)
    extra: dict[str, Any] = {"predictions": predictions, "payments": study.declaration().get("payments")}
    if study.shares is None:
        return released_coefficients(study, mechanism, estimate, sums), extra
    of_shares = released_shares(study, mechanism, estimate, sums, features, INTERVAL_LEVEL)
    extra["predictions"] = predictions.model_copy(update={"answer": _everybody(study, of_shares.shares[0])})
    return of_shares.coefficients, extra | {name: getattr(of_shares, name) for name in OF_SHARES}


def _everybody(study: Study, share: Coefficient) -> Coefficient:
    """The share of everybody in the units of predictions: one number has one interval."""
    times = 100 if study.kind == "yes-no" else 1
    return Coefficient(
        name="answers", value=times * share.value, low=times * share.low, high=times * share.high
    )


def _statistics(estimate: LeaveOneOut, shown: bool, salt: str) -> Statistics:
    matrix = None
    if estimate.matrix is not None:
        matrix = tuple(tuple(str(int(k)) for k in row) for row in estimate.matrix)
    return Statistics(
        matrix=matrix if shown else None,
        matrix_sha256=None if shown else sha256([salt, *(list(row) for row in matrix or ())]),
        vector=tuple(str(k) for k in estimate.vector),
        unit=float(SUM_UNIT),
    )


def _guarantees(found: Guarantees, on_bad: str) -> dict[str, Any]:
    record = found.record()
    if on_bad == "drop":
        record["privacy"]["assumptions"] = [GOOD_RECORDS]
    return record


#: What is declared is contradicted by a result further out than this share of those it allows.
BEYOND = 0.99
DRAWS = 20_000
#: Standard deviations by which answers may differ from what people expected.
SURPRISE = 3.0
#: How a sentence begins with which truthfulness and accuracy are withdrawn.
WITHDRAWN = "The result contradicts the declared beliefs"
#: And how it ends.
HENCE = "So what was promised of truthfulness and accuracy does not hold; privacy, and the cap on what is paid, do."


def contradictions(study: Study, estimate: LeaveOneOut, found: Guarantees) -> tuple[str, ...]:
    """A sentence that says so, if θ̂ is further from the centre than in 99 % of what the beliefs and the noise give.

    Looked at is the average answer, the middle of all features, and with features the length of all coefficients.
    """
    expected = _expected(study, estimate, found)
    tests = [_average] if study.declared.intercept else []
    tests += [_length] if study.dimension > 1 or not tests else []
    surely = 1 - (1 - BEYOND) / len(tests)
    said = [words for test in tests if (words := test(study, estimate.theta, expected, surely))]
    if not said:
        return ()
    return (
        f"{WITHDRAWN}: {'; '.join(said)}. Where these beliefs hold that happens in fewer than {1 - BEYOND:.0%} of "
        f"studies. {HENCE}",
    )


def share_contradictions(study: Study, estimate: LeaveOneOut, sums: Sums) -> tuple[str, ...]:
    """The same of shares: of everybody's, and of every effect, against the largest that was thought possible."""
    said = contradicted(study, estimate, sums)
    return (f"{WITHDRAWN}: {'; '.join(said)}. {HENCE}",) if said else ()


def _average(study: Study, theta: Floats, expected: Floats, surely: float) -> str:
    """The average answer, in its own units."""
    unit, scale = study.response_unit, study.declared.encoding.scale
    declared = (study.response.low + study.response.high) / 2 + unit * float(study.centre[0]) / scale
    off = unit * float(np.quantile(np.abs(expected[:, 0]), surely)) / scale
    seen = declared + unit * float(theta[0]) / scale
    if abs(seen - declared) <= off:
        return ""
    at = " at the middle of all features" if study.features else ""
    return f"the average answer{at} is {seen:.4g}, not between {declared - off:.4g} and {declared + off:.4g}"


def _length(study: Study, theta: Floats, expected: Floats, surely: float) -> str:
    seen, most = (
        float(np.linalg.norm(theta)),
        float(np.quantile(np.linalg.norm(expected, axis=1), surely)),
    )
    if seen <= most:
        return ""
    return (
        f"in normalised units the coefficients have the length {seen:.3g}, not below {most:.3g} (declared is "
        f"{study.beliefs.radius:.3g} at most)"
    )


def asked_contradictions(
    study: Study, mechanism: AskedRelease, estimate: LeaveOneOut, sums: Sums, level: Level
) -> tuple[str, ...]:
    """Where people were asked what the others will say: whether answers surprised them more than they declared.

    Of numbers and ratings the centre of their beliefs is compared with the average answer, three standard deviations
    being what they allow; of yes and no the mean prediction, which is nearer to it.
    """
    said = list(contradicted(study, estimate, sums)) if study.shares is not None else []
    beliefs = study.levels
    if beliefs is None:
        return ()
    average, predicted = averages(mechanism, estimate, level)
    centre = centre_of(mechanism, estimate, level)
    expected = predicted if centre is None else centre
    noise = sum(
        law.noise_variance + law.sampling for law in average_laws(study, mechanism, estimate, sums, level)
    )
    if not abs(average - expected) <= SURPRISE * math.sqrt(beliefs.sure**2 + noise):
        low, high = study.prediction_range
        found, before = (low + (high - low) / 2 * (value + 1) for value in (average, expected))
        said.append(
            f"answers average {found:.3g} where people expected {before:.3g}, which is a greater surprise than they "
            "are declared to allow: they are surer than they should be, or predictions were careless"
        )
    if not said:
        return ()
    return (
        f"{WITHDRAWN}: {'; '.join(said)}. So what was promised of truthfulness and accuracy does not hold; privacy, "
        "and the cap on what is paid, do.",
    )


def _expected(study: Study, estimate: LeaveOneOut, found: Guarantees) -> Floats:
    """θ + sampling error + M⁻¹N under the prior: draws from a fixed seed, the same each time, one a row."""
    rng, d = np.random.default_rng(0), study.dimension
    theta = study.beliefs.prior.sample(rng, d, DRAWS)
    noise = L2Laplace(d, estimate.scale).sample(rng, DRAWS) @ estimate.inverse.T
    return np.asarray(theta + noise + _sampling(estimate, found, rng))


def _sampling(estimate: LeaveOneOut, found: Guarantees, rng: np.random.Generator) -> Floats:
    """What people differ by and a few lies: what noise leaves of the guaranteed error, in every direction alike."""
    d = len(estimate.theta)
    error = found.accuracy.mean_squared_error
    drawn = (d + 1) * estimate.scale**2 * float(np.sum(estimate.inverse**2))
    spread = 0.0 if error is None else math.sqrt(max(0.0, error - drawn) / d)
    return np.asarray(spread * rng.standard_normal((DRAWS, d)))
