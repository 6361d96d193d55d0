"""The public Release and a player's Receipt, as they are written and read.

A release holds the private estimates and public parameters, nothing else: with it, whoever holds her own record
can recompute her payment, and nobody can recompute anybody else's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from truthful.errors import InputError
from truthful.estimators import Estimate
from truthful.files import pretty_json, sha256, write_atomically
from truthful.mechanism import Mechanism
from truthful.study import Study

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


class Coefficient(Record):
    """One coefficient in raw units, and the interval that covers the truth with the stated probability."""

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
    coefficients: tuple[Coefficient, ...]
    interval_level: float
    invitation: dict[str, Any] | None = None
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
                "invitation": self.invitation,
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


def _load(kind: type[RecordType], path: Path, noun: str) -> RecordType:
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"There is no {noun} at {str(path)!r}.") from None
    except (ValidationError, json.JSONDecodeError, UnicodeDecodeError) as error:
        reason = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
        where = ".".join(map(str, reason["loc"])) or "the file"
        raise InputError(f"{path} is not a {noun}: {where}: {reason['msg']}.") from None
