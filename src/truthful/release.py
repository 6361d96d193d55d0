"""Publish and verify: the public Release, a player's Receipt, and the Verdict on one payment.

A release holds the private estimates and public parameters, nothing else: with it, whoever holds her own record
can recompute her payment, and nobody can recompute anybody else's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from truthful.check import Floats
from truthful.coefficients import INTERVAL_LEVEL, Coefficient, coefficients
from truthful.errors import InputError
from truthful.estimators import Estimate
from truthful.files import pretty_json, sha256, write_atomically
from truthful.mechanism import Estimates, Mechanism, peer_curve
from truthful.moments import GRID, grid_features, grid_responses
from truthful.payments import PAYMENT_STEPS, lengths, noise_along, payable, peer_prediction
from truthful.plan import Plan
from truthful.study import Study
from truthful.version import __version__

T = TypeVar("T")
RecordType = TypeVar("RecordType", bound="Record")


class Record(BaseModel):
    """A part of a release: frozen, and strict about its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Named(Record):
    """What a record came from."""

    name: str
    sha256: str


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


class PublishedCoefficient(Record):
    """A coefficient in raw units with its interval."""

    name: str
    value: float
    low: float
    high: float


class Payment(Record):
    """How payments follow from predictions."""

    rule: str
    payments: str
    a: float
    b: float
    currency: str


class Release(Record):
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
    coefficients: tuple[PublishedCoefficient, ...]
    interval_level: float
    response: dict[str, Any]
    features: list[dict[str, Any]]
    intercept: bool
    design: dict[str, Any]
    beliefs: dict[str, Any]
    costs: dict[str, Any]
    payment: Payment
    guarantees: dict[str, Any]

    @property
    def sha256(self) -> str:
        """The hash that names this release."""
        return sha256(self.model_dump(mode="json"))

    def save(self, path: str | Path) -> None:
        """Write the release as JSON, whole or not at all."""
        write_atomically(Path(path), pretty_json(self.model_dump(mode="json")))

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a release."""
        return _load(cls, Path(path), "release")

    def declared_study(self) -> Study:
        """The study as it was declared, rebuilt from the release, and of the same hash."""
        study = Study.from_declaration(
            {
                "name": self.study.name,
                "currency": self.payment.currency,
                "response": self.response,
                "features": self.features,
                "intercept": self.intercept,
                "design": self.design,
                "beliefs": self.beliefs,
                "costs": self.costs,
            }
        )
        if study.sha256 != self.study.sha256:
            raise InputError(
                f"The release names study {self.study.sha256[:12]}…, but the declaration in it has hash "
                f"{study.sha256[:12]}…: it was changed. Get the release again from where it was published."
            )
        return study

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


class Receipt(Record):
    """What one player alone may see: her record as it was used, her group and her payment."""

    format: Literal["truthful/receipt/1"] = "truthful/receipt/1"
    player: str
    features: dict[str, float | str]
    report: float
    group: Literal[0, 1]
    payment: float

    def save(self, path: str | Path) -> None:
        """Write the receipt as JSON."""
        write_atomically(Path(path), pretty_json(self.model_dump(mode="json")))

    @classmethod
    def load(cls, path: str | Path) -> Receipt:
        """Read a receipt."""
        return _load(cls, Path(path), "receipt")


@dataclass(frozen=True)
class Verdict:
    """Whether a payment is what the release says it must be, with the arithmetic."""

    verified: bool
    player: str
    paid: float
    recomputed: float
    peer_prediction: float
    own_prediction: float
    rehearsal: bool


def verify(release: Release, receipt: Receipt) -> Verdict:
    """Recompute one payment from the public release and one's own record.

    The own prediction is integrated directly, not read from the settlement's table: an independent check.
    """
    study = release.declared_study()
    mechanism, beliefs = release.mechanism(study), study.beliefs
    x, y = _grid_point(study, receipt)
    r, peer = lengths(x), release.peer(receipt.group)
    curve = peer_curve(mechanism, beliefs, release.groups[1 - receipt.group])
    p = peer_prediction(mechanism, beliefs, peer, x, r)
    q = beliefs.prediction(r, y, curve, noise_along(peer, x, r))
    recomputed = float(payable(mechanism, beliefs, p, q)[0])
    # The table behind a payment is good to 1e-9, so the last rounding may differ by one step.
    verified = abs(recomputed - receipt.payment) < 1.5 / PAYMENT_STEPS
    return Verdict(
        verified, receipt.player, receipt.payment, recomputed, float(p[0]), float(q[0]), release.rehearsal
    )


def publish(plan: Plan, estimates: Estimates, counts: tuple[int, int], rehearsal: bool) -> Release:
    """The public record of a settlement: a function of the private estimates and public numbers alone."""
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
        coefficients=tuple(map(_published, coefficients(study, mechanism, estimates.public, players))),
        interval_level=INTERVAL_LEVEL,
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
        guarantees=plan.guarantees_for(players).record(),
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


def _noise(estimate: Estimate) -> Noise:
    return Noise(
        scale=estimate.scale,
        lattice=estimate.lattice,
        gram_scale=estimate.gram_scale,
        gram_lattice=estimate.gram_lattice,
    )


def _published(coefficient: Coefficient) -> PublishedCoefficient:
    return PublishedCoefficient(
        name=coefficient.name, value=coefficient.value, low=coefficient.low, high=coefficient.high
    )


def _pair(items: Iterable[T]) -> tuple[T, T]:
    first, second = items
    return first, second


def _grid_point(study: Study, receipt: Receipt) -> tuple[Floats, Floats]:
    """One player's normalised record, on the grid: just what the settlement computed with."""
    missing = [feature.name for feature in study.features if feature.name not in receipt.features]
    if missing:
        raise InputError(
            f"The receipt of player {receipt.player!r} has no feature {missing[0]!r}; the study does."
        )
    X = study.normalise({name: np.array([value]) for name, value in receipt.features.items()})
    y = study.normalise_response(np.array([receipt.report]), X)
    kx, ky = grid_features(X), grid_responses(y, study.beliefs.response_bound)
    return kx / GRID, ky / GRID


def _load(kind: type[RecordType], path: Path, noun: str) -> RecordType:
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"There is no {noun} at {str(path)!r}.") from None
    except (ValidationError, json.JSONDecodeError, UnicodeDecodeError) as error:
        reason = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
        where = ".".join(map(str, reason["loc"])) or "the file"
        raise InputError(f"{path} is not a {noun}: {where}: {reason['msg']}.") from None
