"""Publish: the public record of a settlement, a function of what was released and of public numbers alone."""

from __future__ import annotations

import math
from typing import Any

from truthful.asked_release import AskedRelease, Level
from truthful.check import Floats
from truthful.files import sha256
from truthful.guarantees import Guarantees
from truthful.instruments import UNIT
from truthful.moments import Sums
from truthful.one_release import SUM_UNIT, LeaveOneOut, OneRelease
from truthful.plan import Plan
from truthful.release.coefficients import INTERVAL_LEVEL, released_coefficients
from truthful.release.contradiction import asked_contradictions, contradictions, share_contradictions
from truthful.release.predictions import released_predictions
from truthful.release.records import (
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
from truthful.release.shares import released_shares
from truthful.share_release import SWITCH, ShareRelease
from truthful.study import Study
from truthful.version import __version__

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
