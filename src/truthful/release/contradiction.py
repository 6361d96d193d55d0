"""Whether what was published contradicts what was declared: both are public, so to compare them costs no privacy."""

from __future__ import annotations

import math

import numpy as np

from truthful.asked_release import AskedRelease, Level
from truthful.check import Floats
from truthful.guarantees import Guarantees
from truthful.moments import Sums
from truthful.noise import L2Laplace
from truthful.one_release import LeaveOneOut
from truthful.release.predictions import average_laws, averages, centre_of
from truthful.release.shares import contradicted
from truthful.study import Study

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
