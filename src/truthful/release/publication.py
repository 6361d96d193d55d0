"""Publish: the public record of a settlement, a function of the private estimates and public numbers alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from truthful.estimators import Estimate
from truthful.mechanism import Estimates, Mechanism
from truthful.plan import Plan
from truthful.release.coefficients import INTERVAL_LEVEL, coefficients
from truthful.release.records import Epsilon, Estimators, Named, Noise, Noises, Payment, Release
from truthful.version import __version__

T = TypeVar("T")
GOOD_RECORDS = (
    "that a record is complete and in range is no secret: bad ones were left out, and the count is public"
)


def publish(
    plan: Plan, estimates: Estimates, counts: tuple[int, int], on_bad: str, rehearsal: bool
) -> Release:
    """The release of these estimates, made from halves of so many players.

    Where bad records were to be dropped, privacy assumes that who had one may be known: it changes the public count.
    """
    study, mechanism, players = plan.study, plan.mechanism, sum(counts)
    declared = study.declaration()
    return Release(
        version=__version__,
        rehearsal=rehearsal,
        study=Named(name=study.name, sha256=study.sha256),
        plan_sha256=plan.sha256,
        players=players,
        groups=counts,
        epsilon=Epsilon(
            total=mechanism.epsilon,
            public=float(mechanism.epsilon_public),
            peer=float(mechanism.epsilon_peer),
        ),
        estimator=_estimators(mechanism),
        noise=Noises(public=_noise(estimates.public), peer=_pair(_noise(peer) for peer in estimates.peers)),
        theta=tuple(estimates.public.theta.tolist()),
        peer_thetas=_pair(tuple(peer.theta.tolist()) for peer in estimates.peers),
        peer_spreads=_pair(tuple(map(tuple, peer.spread.tolist())) for peer in estimates.peers),
        coefficients=coefficients(study, mechanism, estimates.public, players),
        interval_level=INTERVAL_LEVEL,
        invitation=declared.get("invitation"),
        response=declared["response"],
        features=declared["features"],
        intercept=declared["intercept"],
        design=declared["design"],
        beliefs=declared["beliefs"],
        costs=declared["costs"],
        payment=Payment(
            rule=mechanism.rule,
            payments=mechanism.payments,
            a=mechanism.base_payment,
            b=mechanism.score_weight,
            currency=study.currency,
        ),
        guarantees=_guarantees(plan, players, on_bad),
    )


def _guarantees(plan: Plan, players: int, on_bad: str) -> dict[str, Any]:
    record = plan.guarantees_for(players).record()
    if on_bad == "drop":
        record["privacy"]["assumptions"] = [GOOD_RECORDS]
    return record


def _estimators(mechanism: Mechanism) -> Estimators:
    noisy = "noisy-statistics" in (mechanism.estimator, mechanism.peers)
    return Estimators(
        public=mechanism.estimator,
        peer=mechanism.peers,
        regularization=mechanism.regularization,
        peer_regularization=mechanism.peer_regularization,
        gram_share=mechanism.gram_share if noisy else None,
    )


def _noise(estimate: Estimate) -> Noise:
    return Noise(
        scale=estimate.scale,
        lattice=estimate.lattice,
        gram_scale=estimate.gram_scale,
        gram_lattice=estimate.gram_lattice,
    )


def _pair(items: Iterable[T]) -> tuple[T, T]:
    first, second = items
    return first, second
