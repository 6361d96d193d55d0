"""Releases and receipts of format 1: of plans that score people against random halves, as the paper does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from truthful.files import pretty_json, sha256, write_atomically
from truthful.release.records import Coefficient, Named, Record, load_record, restored_study
from truthful.study import Study

if TYPE_CHECKING:
    from truthful.estimators import Estimate
    from truthful.mechanism import Mechanism


class Epsilon(Record):
    """The privacy level: total = public + peer."""

    total: float
    public: float
    peer: float


class Noise(Record):
    """The noise of one private vector: L2-Laplace of this scale on a lattice of this step."""

    scale: float
    lattice: float
    gram_scale: float | None = None
    gram_lattice: float | None = None


class Noises(Record):
    """The noise of the public estimate and of the two peer estimates."""

    public: Noise
    peer: tuple[Noise, Noise]


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


class ReleaseOfHalves(Record):
    """What everybody may see. Only theta, peer_thetas, spreads and what follows from them depend on people's data."""

    format: Literal["truthful/release/1"] = "truthful/release/1"
    version: str
    rehearsal: bool
    study: Named
    plan_sha256: str
    players: int
    groups: tuple[int, int]
    epsilon: Epsilon
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

    @property
    def sha256(self) -> str:
        """The hash that names this release."""
        return sha256(self.record())

    def record(self) -> dict[str, Any]:
        """As it is written."""
        record = self.model_dump(mode="json")
        if self.privacy is None:
            del record["privacy"]
        return record

    def save(self, path: str | Path) -> None:
        """Write the release as JSON, whole or not at all."""
        write_atomically(Path(path), pretty_json(self.record()))

    @classmethod
    def load(cls, path: str | Path) -> ReleaseOfHalves:
        """Read a release."""
        return load_record(cls, Path(path), "release")

    def declared_study(self) -> Study:
        """The study as it was declared, rebuilt from the release, and of the same hash."""
        names = ("invitation", "response", "features", "intercept", "design", "privacy", "beliefs", "costs")
        declared = {name: getattr(self, name) for name in names}
        return restored_study(self.study, {**declared, "currency": self.payment.currency})

    def mechanism(self, study: Study) -> Mechanism:
        """The mechanism that was run."""
        from truthful.mechanism import Mechanism

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
        from truthful.estimators import Estimate

        other = 1 - group
        return Estimate(
            theta=np.array(self.peer_thetas[other]),
            spread=np.array(self.peer_spreads[other]),
            scale=self.noise.peer[other].scale,
        )


class ReceiptOfHalves(Record):
    """What one player alone may see: her record as it was used, her group and her payment."""

    format: Literal["truthful/receipt/1"] = "truthful/receipt/1"
    player: str
    features: dict[str, float | str]
    report: float
    group: Literal[0, 1]
    payment: float

    def save(self, path: str | Path) -> None:
        """Write the receipt as JSON."""
        write_atomically(Path(path), pretty_json(self.record()))

    def record(self) -> dict[str, Any]:
        """As it is written."""
        return self.model_dump(mode="json")

    @classmethod
    def load(cls, path: str | Path) -> ReceiptOfHalves:
        """Read a receipt."""
        return load_record(cls, Path(path), "receipt")
