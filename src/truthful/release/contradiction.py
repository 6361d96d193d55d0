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

#: What is declared is contradicted by coefficients further out than this share of those it allows.
BEYOND = 0.99
DRAWS = 20_000
#: Standard deviations by which answers may differ from what people expected.
SURPRISE = 3.0
#: How a sentence begins with which truthfulness and accuracy are withdrawn.
WITHDRAWN = "The result contradicts the declared beliefs"


def contradictions(study: Study, estimate: LeaveOneOut, found: Guarantees) -> tuple[str, ...]:
    """Sentences that say so, if the length of θ̂ is beyond that of 99 % of what the beliefs and the noise would give."""
    seen, most = float(np.linalg.norm(estimate.theta)), _most(study, estimate, found)
    if seen <= most:
        return ()
    return (
        f"{WITHDRAWN}: in normalised units the coefficients have the length {seen:.3g}, and where these beliefs hold "
        f"it is below {most:.3g} in {BEYOND:.0%} of studies. So what was promised of truthfulness and accuracy does "
        "not hold; privacy, and the cap on what is paid, do.",
    )


def share_contradictions(study: Study, estimate: LeaveOneOut, sums: Sums) -> tuple[str, ...]:
    """The same of shares: of everybody's, and of every effect, against the largest that was thought possible."""
    said = contradicted(study, estimate, sums)
    if not said:
        return ()
    return (
        f"{WITHDRAWN}: {'; '.join(said)}. So what was promised of truthfulness and accuracy does not hold; privacy, "
        "and the cap on what is paid, do.",
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


def _most(study: Study, estimate: LeaveOneOut, found: Guarantees) -> float:
    """The quantile of ‖θ + sampling error + M⁻¹N‖ under the prior: draws from a fixed seed, the same each time."""
    rng, d = np.random.default_rng(0), study.dimension
    theta = study.beliefs.prior.sample(rng, d, DRAWS)
    noise = L2Laplace(d, estimate.scale).sample(rng, DRAWS) @ estimate.inverse.T
    total = theta + noise + _sampling(estimate, found, rng)
    return float(np.quantile(np.linalg.norm(total, axis=1), BEYOND))


def _sampling(estimate: LeaveOneOut, found: Guarantees, rng: np.random.Generator) -> Floats:
    """What people differ by and a few lies are no more than the guaranteed error, in every direction alike."""
    d = len(estimate.theta)
    error = found.accuracy.mean_squared_error
    spread = 0.0 if error is None else math.sqrt(error / d)
    return np.asarray(spread * rng.standard_normal((DRAWS, d)))
