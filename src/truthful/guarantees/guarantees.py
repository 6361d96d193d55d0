"""The five guarantees of a plan or a release, whichever kind of answer its mechanism takes."""

from __future__ import annotations

import math
from functools import lru_cache

from truthful import check
from truthful.asked_release import AskedRelease
from truthful.bounds.estimator_bounds import EVENTS
from truthful.errors import InputError
from truthful.geometry import Geometry
from truthful.guarantees.asked_guarantees import asked_setting, promise_predictions
from truthful.guarantees.number_guarantees import promise_numbers, setting
from truthful.guarantees.records import (
    Accuracy,
    Budget,
    ErrorBounds,
    Guarantees,
    Participation,
    Privacy,
    finite_or_none,
)
from truthful.guarantees.share_guarantees import promise_shares, share_setting
from truthful.one_release import OneRelease
from truthful.share_release import ShareRelease
from truthful.study import Study

#: The least failure probability that floats can carry.
LEAST_FAILURE = 1e-12


@lru_cache(maxsize=32)  # a settlement asks twice: before the draw and for publication
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
    """The promises of this mechanism to this many players, an `alpha` share of whom may misreport.

    geometry: that of their features, where answers are protected. payable: at most this many may have to be paid, for
    shares and where people are asked what the others will say; by default all. Unless precise, quantiles of errors and
    widths of intervals are left out there: they take most of the time.
    """
    if isinstance(mechanism, OneRelease):
        found = promise_numbers(study, mechanism, setting(study, mechanism, players, alpha, beta, geometry))
    elif geometry is None:
        raise InputError("What is promised of shares follows from people's features, which are not here.")
    elif isinstance(mechanism, ShareRelease):
        shares = share_setting(study, mechanism, players, alpha, beta, geometry)
        found = promise_shares(study, mechanism, shares, payable or players, precise)
    else:
        asked = asked_setting(study, mechanism, players, alpha, beta, geometry)
        found = promise_predictions(study, mechanism, asked, payable or players, precise)
    unit, assumed = study.response_unit, found.truth.assumptions
    expected, cap, likely = map(finite_or_none, found.bill)
    # Features assigned at random say nothing about anybody, so nothing in them needs protection.
    own_features = mechanism.protects == "answers" and study.features and not study.assigned
    not_protected = ("features", "taking part") if own_features else ("taking part",)
    return Guarantees(
        Privacy(mechanism.epsilon, protects=mechanism.protects, not_protected=not_protected),
        found.truth,
        _accuracy(found.errors, unit, max(0.0, 1 - EVENTS[mechanism.estimator] * beta), assumed),
        Participation(
            float(study.costs.cdf(found.joining)), finite_or_none(found.joining), assumptions=assumed
        ),
        Budget(expected, cap, likely, assumptions=assumed),
    )


def _accuracy(errors: ErrorBounds, unit: float, probability: float, assumed: tuple[str, ...]) -> Accuracy:
    """Convert error bounds to raw units."""
    rmse, prediction_rmse, effect_rmse = (
        None if square is None else finite_or_none(unit * math.sqrt(square)) for square in errors.squares
    )
    quantile, prediction_quantile, effect_quantile = (
        None if rmse is None or bound is None else finite_or_none(unit * bound) for bound in errors.quantiles
    )
    return Accuracy(
        finite_or_none(errors.squares[0]),
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


def require_failure_probability(beta: float) -> None:
    """Refuse a failure probability that floats cannot carry, or that promises nothing."""
    if not LEAST_FAILURE <= check.share("failure_probability", beta) < 0.5:
        raise InputError(
            f"failure_probability is {beta:g}; it must lie between {LEAST_FAILURE:g}, as small as can be computed "
            "with, and 0.5, where promises are worth nothing.",
            argument="failure_probability",
        )
