"""Design: from a declared study and explicit parameters to a Plan, the record that a settlement carries out."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from truthful import check
from truthful.errors import InputError, Refused
from truthful.files import pretty_json, sha256, write_atomically
from truthful.guarantees import Guarantees, guarantees
from truthful.mechanism import Mechanism
from truthful.study import Study
from truthful.version import __version__

FORMAT = "truthful/plan/1"
PARAMETERS = (
    "epsilon",
    "public_share",
    "estimator",
    "peer_estimator",
    "regularization",
    "peer_regularization",
    "gram_share",
    "rule",
    "payments",
    "base_payment",
    "score_weight",
)


@dataclass(frozen=True, eq=False)
class Plan:
    """A study, how many players it is for, and the mechanism that will be run on them.

    absent_share (α) is the share of players who may misreport, failure_probability (β) the probability that
    more do: they enter the guarantees, not the computation.
    """

    study: Study
    players: int
    mechanism: Mechanism
    absent_share: float = 0.05
    failure_probability: float = 0.01

    def __post_init__(self) -> None:
        check.integer("players", self.players, least=2)
        if self.absent_share != 0:
            check.share("absent_share", self.absent_share)
        check.share("failure_probability", self.failure_probability)
        self.mechanism.require_payable(self.study.beliefs.radius)
        if self.mechanism.peers == "ridge-free" and self.study.declared.design.kind != "unit-ball":
            raise Refused(
                "Peer estimator 'ridge-free' shrinks by a known factor only for features uniform on the unit ball; this "
                f"study's design is {self.study.declared.design.kind!r}. Choose 'known-design' or 'noisy-statistics'."
            )

    @cached_property
    def guarantees(self) -> Guarantees:
        """The five guarantees at the planned number of players."""
        return self.guarantees_for(self.players)

    def guarantees_for(self, players: int) -> Guarantees:
        """The five guarantees if so many take part."""
        return guarantees(self.study, self.mechanism, players, self.absent_share, self.failure_probability)

    def parameters(self) -> dict[str, Any]:
        """The mechanism's parameters by the names people use."""
        chosen = {name: getattr(self.mechanism, name) for name in PARAMETERS}
        chosen["peer_estimator"] = self.mechanism.peers
        chosen["absent_share"] = self.absent_share
        chosen["failure_probability"] = self.failure_probability
        return chosen

    def record(self) -> dict[str, Any]:
        """The plan as it is written and hashed. It holds the whole declaration, so that it stands alone."""
        return {
            "format": FORMAT,
            "version": __version__,
            "study": {"name": self.study.name, "sha256": self.study.sha256},
            "players": self.players,
            "parameters": self.parameters(),
            "guarantees": self.guarantees.record(),
            "declaration": self.study.declaration(),
        }

    @cached_property
    def sha256(self) -> str:
        """The hash a release names its plan by: of what is promised and how, not of this program's version."""
        named = {key: value for key, value in self.record().items() if key not in ("version", "guarantees")}
        return sha256(named)

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON, with the way from there to the study file, beside which the ledger is kept."""
        path = Path(path)
        record = self.record()
        if self.study.path is not None:
            record["study"]["file"] = _relative(self.study.path, path.parent)
        if not path.parent.is_dir():
            raise InputError(
                f"Directory {str(path.parent)!r} does not exist; create it or save {path.name} elsewhere."
            )
        write_atomically(path, pretty_json(record))

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan. The declaration inside is the one carried out; the study file must still say the same."""
        path = Path(path)
        record = _read(path)
        try:
            study = Study.from_declaration(record["declaration"])
            recorded = record["study"]
            parameters = dict(record["parameters"])
            players = record["players"]
        except (KeyError, TypeError) as error:
            raise InputError(
                f"{path} is not a whole plan: {error} is missing. Write it again with `truthful plan`."
            ) from None
        if study.sha256 != recorded["sha256"]:
            raise InputError(
                f"{path} was changed by hand: its declaration does not match its hash. Plan again."
            )
        if "file" in recorded:
            study = study.at(_study_file(path, recorded))
        return design(study, players=players, **parameters)


def design(
    study: Study,
    *,
    players: int,
    epsilon: float,
    score_weight: float,
    base_payment: float | None = None,
    estimator: str | None = None,
    absent_share: float = 0.05,
    failure_probability: float = 0.01,
    **parameters: Any,
) -> Plan:
    """A plan with these parameters.

    Without an estimator: `known-design` where the study declares the features' law, `noisy-statistics` where they are
    observed. Without a base payment: the least that keeps every payment from being negative.
    """
    unknown = sorted(set(parameters) - set(PARAMETERS))
    if unknown:
        raise InputError(f"Unknown parameter {unknown[0]!r}; the parameters are {', '.join(PARAMETERS)}.")
    Sigma = study.second_moments
    mechanism = Mechanism(
        epsilon=epsilon,
        score_weight=score_weight,
        base_payment=0.0 if base_payment is None else base_payment,
        estimator=estimator or ("noisy-statistics" if Sigma is None else "known-design"),
        design=Sigma,
        **parameters,
    )
    if base_payment is None:
        mechanism = mechanism.with_base_payment(score_weight * mechanism.scoring.loss(study.beliefs.radius))
    return Plan(study, players, mechanism, absent_share, failure_probability)


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"There is no plan at {str(path)!r}. Write one with `truthful plan STUDY --save {path.name}`."
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError, IsADirectoryError) as error:
        raise InputError(
            f"{path} is not a plan: {error}. Write one with `truthful plan STUDY --save plan.json`."
        ) from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        found = record.get("format") if isinstance(record, dict) else None
        raise InputError(f"{path} has format {found!r}; a plan of this version has {FORMAT!r}.")
    return record


def _study_file(path: Path, recorded: dict[str, str]) -> Path:
    """The study file of a plan, still as it was when the plan was made: a changed study needs a new plan."""
    file = (path.parent / recorded["file"]).resolve()
    if file.exists() and Study.load(file).sha256 != recorded["sha256"]:
        raise Refused(
            f"{file.name} was changed after {path.name} was made from it. Plan again with `truthful plan`."
        )
    return file


def _relative(file: Path, directory: Path) -> str:
    """The way from a directory to a file, so that both can be moved together."""
    return Path(os.path.relpath(file.resolve(), directory.resolve())).as_posix()
