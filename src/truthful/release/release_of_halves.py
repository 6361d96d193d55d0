"""Releases and receipts of format 1: of plans that score people against random halves, as the paper does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from truthful.estimators.private import Estimate
from truthful.random_halves import Estimates, Mechanism
from truthful.release.coefficients import INTERVAL_LEVEL, coefficients
from truthful.release.release import (
    Coefficient,
    Document,
    Named,
    PublicRecord,
    Record,
    declared_parts,
    guarantees_record,
)
from truthful.study import Study
from truthful.version import __version__

if TYPE_CHECKING:
    from truthful.plan import Plan


class HalvesEpsilon(Record):
    """The privacy level: total = public + peer."""

    total: float
    public: float
    peer: float


class HalvesNoise(Record):
    """The noise of one private vector: L2-Laplace of this scale on a lattice of this step."""

    scale: float
    lattice: float
    gram_scale: float | None = None
    gram_lattice: float | None = None


class Noises(Record):
    """The noise of the public estimate and of the two peer estimates."""

    public: HalvesNoise
    peer: tuple[HalvesNoise, HalvesNoise]


class Estimators(Record):
    """Which estimators were run, and their public parameters."""

    public: str
    peer: str
    regularization: float | None = None
    peer_regularization: float | None = None
    gram_share: float | None = None


class HalvesPayment(Record):
    """How payments follow from predictions."""

    rule: str
    payments: str
    a: float
    b: float
    currency: str


class ReleaseOfHalves(PublicRecord):
    """What everybody may see. Only theta, peer_thetas, spreads and what follows from them depend on people's data."""

    format: Literal["truthful/release/1"] = "truthful/release/1"
    players: int
    groups: tuple[int, int]
    epsilon: HalvesEpsilon
    estimator: Estimators
    noise: Noises
    theta: tuple[float, ...]
    peer_thetas: tuple[tuple[float, ...], tuple[float, ...]]
    peer_spreads: tuple[tuple[tuple[float, ...], ...], tuple[tuple[float, ...], ...]]
    coefficients: tuple[Coefficient, ...]
    interval_level: float
    invitation: dict[str, Any] | None = None
    response: dict[str, Any]
    features: list[dict[str, Any]]
    intercept: bool
    design: dict[str, Any]
    privacy: dict[str, Any] | None = None
    """As declared since version 0.2; a release without it is written as it was before."""
    beliefs: dict[str, Any]
    costs: dict[str, Any]
    payment: HalvesPayment
    guarantees: dict[str, Any]

    @property
    def total_epsilon(self) -> float:
        """The level at which records are protected."""
        return self.epsilon.total

    def record(self) -> dict[str, Any]:
        """As it is written."""
        record = super().record()
        if self.privacy is None:
            del record["privacy"]
        return record

    def mechanism(self, study: Study) -> Mechanism:
        """The mechanism that was run."""
        estimator = self.estimator
        return Mechanism(
            epsilon=self.epsilon.total,
            public_share=self.epsilon.public / self.epsilon.total,
            base_payment=self.payment.a,
            score_weight=self.payment.b,
            estimator=estimator.public,
            peer_estimator=estimator.peer,
            regularization=estimator.regularization,
            peer_regularization=estimator.peer_regularization,
            gram_share=0.5 if estimator.gram_share is None else estimator.gram_share,
            rule=self.payment.rule,
            payments=self.payment.payments,
            design=study.second_moments,
        )

    def peer(self, group: int) -> Estimate:
        """The estimate that players of this group are scored against: the other half's."""
        other = 1 - group
        return Estimate(
            theta=np.array(self.peer_thetas[other]),
            spread=np.array(self.peer_spreads[other]),
            scale=self.noise.peer[other].scale,
        )


class ReceiptOfHalves(Document):
    """What one player alone may see: her record as it was used, her group and her payment."""

    noun = "receipt"
    format: Literal["truthful/receipt/1"] = "truthful/receipt/1"
    player: str
    features: dict[str, float | str]
    report: float
    group: Literal[0, 1]
    payment: float


def publish_halves(
    plan: Plan, estimates: Estimates, counts: tuple[int, int], on_bad: str, rehearsal: bool
) -> ReleaseOfHalves:
    """The release of these estimates, made from halves of so many players."""
    study, mechanism, players = plan.study, plan.mechanism, sum(counts)
    if not isinstance(mechanism, Mechanism):
        raise TypeError("Only a plan with random halves has three estimates to publish.")
    first, second = estimates.peers
    return ReleaseOfHalves(
        version=__version__,
        rehearsal=rehearsal,
        study=Named(name=study.name, sha256=study.sha256),
        plan_sha256=plan.sha256,
        players=players,
        groups=counts,
        epsilon=HalvesEpsilon(
            total=mechanism.epsilon,
            public=float(mechanism.epsilon_public),
            peer=float(mechanism.epsilon_peer),
        ),
        estimator=_estimators(mechanism),
        noise=Noises(public=_noise(estimates.public), peer=(_noise(first), _noise(second))),
        theta=tuple(estimates.public.theta.tolist()),
        peer_thetas=(tuple(first.theta.tolist()), tuple(second.theta.tolist())),
        peer_spreads=(tuple(map(tuple, first.spread.tolist())), tuple(map(tuple, second.spread.tolist()))),
        coefficients=coefficients(study, mechanism, estimates.public, players),
        interval_level=INTERVAL_LEVEL,
        payment=HalvesPayment(
            rule=mechanism.rule,
            payments=mechanism.payments,
            a=mechanism.base_payment,
            b=mechanism.score_weight,
            currency=study.currency,
        ),
        guarantees=guarantees_record(plan.guarantees_for(players), on_bad),
        **declared_parts(study, ReleaseOfHalves),
    )


def _estimators(mechanism: Mechanism) -> Estimators:
    noisy = "noisy-statistics" in (mechanism.estimator, mechanism.peers)
    return Estimators(
        public=mechanism.estimator,
        peer=mechanism.peers,
        regularization=mechanism.regularization,
        peer_regularization=mechanism.peer_regularization,
        gram_share=mechanism.gram_share if noisy else None,
    )


def _noise(estimate: Estimate) -> HalvesNoise:
    return HalvesNoise(
        scale=estimate.scale,
        lattice=estimate.lattice,
        gram_scale=estimate.gram_scale,
        gram_lattice=estimate.gram_lattice,
    )
