"""Publish and check payments with random halves: format 1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from truthful.beliefs.curves import Clipped, Shrunk
from truthful.estimators import Estimate
from truthful.mechanism import Estimates, Mechanism, peer_curve
from truthful.payments import lengths, noise_along, payable, peer_prediction
from truthful.plan import Plan
from truthful.release.coefficients import INTERVAL_LEVEL, coefficients
from truthful.release.halves import (
    Epsilon,
    Estimators,
    HalvesPayment,
    Noise,
    Noises,
    ReceiptOfHalves,
    ReleaseOfHalves,
)
from truthful.release.publication import GOOD_RECORDS
from truthful.release.recomputed import Steps, record_on_grid
from truthful.release.records import Named
from truthful.version import __version__

T = TypeVar("T")


def publish_halves(
    plan: Plan, estimates: Estimates, counts: tuple[int, int], on_bad: str, rehearsal: bool
) -> ReleaseOfHalves:
    """The release of these estimates, made from halves of so many players.

    Where bad records were to be dropped, privacy assumes that who had one may be known: it changes the public count.
    """
    study, mechanism, players = plan.study, plan.mechanism, sum(counts)
    if not isinstance(mechanism, Mechanism):
        raise TypeError("Only a plan with random halves has three estimates to publish.")
    declared = study.declaration()
    return ReleaseOfHalves(
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
        privacy=declared.get("privacy"),
        beliefs=declared["beliefs"],
        costs=declared["costs"],
        payment=HalvesPayment(
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


def halves_steps(release: ReleaseOfHalves, receipt: ReceiptOfHalves) -> Steps:
    study = release.declared_study()
    mechanism, beliefs = release.mechanism(study), study.beliefs
    X, x, y = record_on_grid(study, receipt)
    r, peer = lengths(x), release.peer(receipt.group)
    curve = peer_curve(mechanism, beliefs, release.groups[1 - receipt.group])
    noise = noise_along(peer, x, r)
    p = peer_prediction(mechanism, beliefs, peer, x, r)
    q = beliefs.prediction(r, y, curve, noise)
    return Steps(
        x=tuple(x[0].tolist()),
        y=float(y[0]),
        length=float(r[0]),
        leverage=None,
        noise=float(noise[0]),
        shrinkage=curve.factor if isinstance(curve, Clipped | Shrunk) else 1.0,
        peer_prediction=float(p[0]),
        own_prediction=float(q[0]),
        base=mechanism.base_payment,
        score=float(mechanism.scoring(p, q, a=0.0, b=1.0)[0]),
        payment=float(payable(mechanism, beliefs, p, q)[0]),
        peer_answer=float(study.raw_response(p, X)[0]),
        own_answer=float(study.raw_response(q, X)[0]),
    )
