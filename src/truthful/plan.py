"""Design: from a declared study and what is asked of it to a Plan, the record that a settlement carries out."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from truthful import check
from truthful.errors import InputError, Refused, TruthfulError
from truthful.files import pretty_json, sha256, write_atomically
from truthful.guarantees import Guarantees, guarantees, require_failure_probability
from truthful.mechanism import EPSILON_RANGE, Mechanism
from truthful.planner import Answer, Goals, answer
from truthful.planner.goals import LEAST_SLOPE, PINS
from truthful.study import Study
from truthful.version import __version__

FORMAT = "truthful/plan/1"
PLAN_AGAIN = "Write one with `truthful plan STUDY --save plan.json`."
MECHANISM_PARAMETERS = (
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
LARGEST_PAYMENT = 1_000_000_000  # a payment counts millionths, exactly
# Liars move an estimate by about 2Y·α/λ_min: one in five hundred leaves promises worth making in a typical design.
ABSENT_SHARE = 0.002
FAILURE_PROBABILITY = 0.01
PARAMETERS = (*MECHANISM_PARAMETERS, "absent_share", "failure_probability")


@dataclass(frozen=True, eq=False)
class Plan:
    """A study, how many players it is for, and the mechanism that will be run on them.

    absent_share (α) is the share of players who may misreport, failure_probability (β) the probability that
    more do: they enter the guarantees, not the computation.
    """

    study: Study
    players: int
    mechanism: Mechanism
    absent_share: float = ABSENT_SHARE
    failure_probability: float = FAILURE_PROBABILITY
    answer: Answer | None = field(default=None, repr=False)
    """What was asked and compared, if the parameters were solved for. No part of what the plan promises."""

    def __post_init__(self) -> None:
        check.integer("players", self.players, least=2)
        if not 0 <= check.finite("absent_share", self.absent_share) < 1:
            raise InputError(f"absent_share is {self.absent_share!r}; it must be 0 or above, and below 1.")
        require_failure_probability(self.failure_probability)
        low, high = EPSILON_RANGE
        if not low <= self.mechanism.epsilon <= high:
            raise InputError(
                f"epsilon is {self.mechanism.epsilon:g}; it must lie between {low:g}, where noise drowns everything, "
                f"and {high:g}, where nobody is protected."
            )
        for name in ("base_payment", "score_weight"):
            if not getattr(self.mechanism, name) <= LARGEST_PAYMENT:
                raise InputError(
                    f"{name} is {getattr(self.mechanism, name):g}; it must be at most {LARGEST_PAYMENT:,}."
                )
        self.mechanism.require_payable(self.study.beliefs.radius)
        if self.mechanism.peers == "ridge-free" and self.study.declared.design.kind != "unit-ball":
            raise Refused(
                "Peer estimator 'ridge-free' shrinks by a known factor only for features uniform on the unit ball; "
                f"this study's design is {self.study.declared.design.kind!r}. Choose peer_estimator 'known-design' "
                "or 'noisy-statistics'."
            )

    @cached_property
    def guarantees(self) -> Guarantees:
        """The five guarantees at the planned number of players."""
        return self.guarantees_for(self.players)

    def guarantees_for(self, players: int) -> Guarantees:
        """The five guarantees if so many take part."""
        return guarantees(self.study, self.mechanism, players, self.absent_share, self.failure_probability)

    def parameters(self) -> dict[str, Any]:
        """The plan's parameters by the names people use, numbers as floats: 2 and 2.0 are the same plan."""
        chosen = {name: getattr(self.mechanism, name) for name in MECHANISM_PARAMETERS}
        chosen["peer_estimator"] = self.mechanism.peers
        chosen["absent_share"] = self.absent_share
        chosen["failure_probability"] = self.failure_probability
        return {
            name: value if value is None or isinstance(value, str) else float(value)
            for name, value in chosen.items()
        }

    def record(self) -> dict[str, Any]:
        """The plan as it is written. It holds the whole declaration, so that it stands alone."""
        return {
            "format": FORMAT,
            "version": __version__,
            "sha256": self.sha256,
            **self._promise(),
            "guarantees": self.guarantees.record(),
            **({} if self.answer is None else {"answer": self.answer.record()}),
            "declaration": self.study.declaration(),
        }

    def _promise(self) -> dict[str, Any]:
        return {
            "study": {"name": self.study.name, "sha256": self.study.sha256},
            "players": self.players,
            "parameters": self.parameters(),
        }

    @cached_property
    def sha256(self) -> str:
        """The hash a release names its plan by: of the study, the players and the parameters.

        What follows from those (the guarantees), or has no part in them (this program's version), is left out.
        """
        return sha256({"format": FORMAT, **self._promise()})

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON, with the way from there to the study file, beside which the ledger is kept."""
        path = Path(path)
        record = self.record()
        if self.study.path is not None:
            record["study"]["file"] = _relative(self.study.path, path.parent)
        try:
            write_atomically(path, pretty_json(record))
        except OSError as problem:
            raise InputError(
                f"The plan cannot be written to {str(path)!r}: {problem.strerror}. Name a file in a directory that "
                "exists."
            ) from None

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan. The declaration inside is the one carried out; the study file must still say the same."""
        path = Path(path)
        record = _read(path)
        plan = _planned(record, str(path))
        if "file" not in record["study"]:
            return plan
        return replace(plan, study=plan.study.at(_study_file(path, record["study"])))

    @classmethod
    def parse(cls, text: str) -> Plan:
        """The plan in the text of a plan's file, with the declaration inside: no other file is read."""
        return _planned(_record(text, "plan"), "plan")


def design(
    study: Study,
    *,
    players: int | None = None,
    budget: float | None = None,
    accuracy: float | None = None,
    epsilon: float | None = None,
    lie: float | None = None,
    accuracy_of: str = "coefficients",
    least_slope: float = LEAST_SLOPE,
    score_weight: float | None = None,
    failure_probability: float = FAILURE_PROBABILITY,
    **parameters: Any,
) -> Plan:
    """The best plan for what is given: two of players, budget, accuracy and epsilon, and if need be more.

    With a budget the guaranteed error is the least that the money buys; with an accuracy the cost is the least that it
    needs. Any further parameter is kept as given. Raises Infeasible, with what would help, if there is no such plan.

    With a score_weight nothing is solved for: players, epsilon and the parameters are the plan. Then the estimator is
    by default `known-design` where the study declares the features' law, `noisy-statistics` where they are observed,
    and the base payment the least that keeps every payment from being negative.
    """
    unknown = sorted(set(parameters) - set(PARAMETERS))
    if unknown:
        raise InputError(f"Unknown parameter {unknown[0]!r}; the parameters are {', '.join(PARAMETERS)}.")
    given = {name: value for name, value in parameters.items() if value is not None}
    if score_weight is not None:
        unmet = {"budget": budget, "accuracy": accuracy, "lie": lie}
        _refuse_goals([name for name, value in unmet.items() if value is not None])
        return _explicit(
            study,
            _needed("players", players),
            _needed("epsilon", epsilon),
            score_weight,
            failure_probability,
            given,
        )
    if "base_payment" in given:
        raise InputError(
            f"base_payment is {given['base_payment']!r}, without a score_weight. Give both, with players and epsilon, "
            "or leave both to be solved for."
        )
    goals = Goals(
        players=players,
        budget=budget,
        accuracy=accuracy,
        epsilon=epsilon,
        lie=lie,
        accuracy_of=accuracy_of,
        least_slope=least_slope,
        failure_probability=failure_probability,
        pins={name: given.pop(name) for name in PINS if name in given},
        **given,
    )
    return solved(study, goals)


def solved(study: Study, goals: Goals) -> Plan:
    """The best plan for these goals; Infeasible if there is none."""
    answered = answer(study, goals)
    found = {name: value for name, value in answered.best.parameters().items() if value is not None}
    own = {name: found.pop(name) for name in ("epsilon", "score_weight", "failure_probability")}
    return replace(_explicit(study, answered.players, **own, parameters=found), answer=answered)


def _explicit(
    study: Study,
    players: int,
    epsilon: float,
    score_weight: float,
    failure_probability: float,
    parameters: dict[str, Any],
) -> Plan:
    """A plan with these parameters."""
    chosen, Sigma = dict(parameters), study.second_moments
    absent_share = chosen.pop("absent_share", ABSENT_SHARE)
    base_payment = chosen.pop("base_payment", None)
    estimator = chosen.pop("estimator", None) or ("noisy-statistics" if Sigma is None else "known-design")
    mechanism = Mechanism(
        epsilon=check.positive("epsilon", epsilon),
        score_weight=check.nonnegative("score_weight", score_weight),
        base_payment=0.0 if base_payment is None else check.nonnegative("base_payment", base_payment),
        estimator=estimator,
        design=Sigma,
        **chosen,
    )
    if base_payment is None:
        mechanism = mechanism.with_base_payment(score_weight * mechanism.scoring.loss(study.beliefs.radius))
    return Plan(
        study, check.integer("players", players, least=2), mechanism, absent_share, failure_probability
    )


def _needed(name: str, value: Any) -> Any:
    if value is None:
        raise InputError(
            f"{name} is missing: with a score_weight nothing is solved for. Give {name}, or leave score_weight out and "
            "give a budget or an accuracy."
        )
    return value


def _refuse_goals(names: list[str]) -> None:
    if names:
        raise InputError(
            f"{names[0]} and score_weight are both given: then nothing is left to solve for. Leave one of them out."
        )


def _read(path: Path) -> dict[str, Any]:
    try:
        return _record(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        raise InputError(
            f"There is no plan at {str(path)!r}. Write one with `truthful plan STUDY --save {path.name}`."
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a plan, not even JSON. {PLAN_AGAIN}") from None
    except OSError as problem:
        raise InputError(f"The plan {str(path)!r} cannot be read: {problem.strerror}.") from None


def _record(text: str, source: str) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except ValueError:
        raise InputError(f"{source} is not a plan, not even JSON. {PLAN_AGAIN}") from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        found = record.get("format") if isinstance(record, dict) else None
        raise InputError(
            f"{source} has format {found!r}; a plan of this version has {FORMAT!r}. {PLAN_AGAIN}"
        )
    return record


def _planned(record: dict[str, Any], source: str) -> Plan:
    """The plan of a record, which must be just what its parameters promise."""
    try:
        study = Study.from_declaration(record["declaration"])
        recorded = record["study"]
        plan = design(study, players=record["players"], **record["parameters"])
        whole = study.sha256 == recorded["sha256"] and plan.sha256 == record["sha256"]
        promised = record["version"] != __version__ or _close(record["guarantees"], plan.guarantees.record())
    except (AttributeError, KeyError, TypeError) as problem:
        raise InputError(
            f"{source} is not a whole plan ({problem} is wrong or missing). {PLAN_AGAIN}"
        ) from None
    except TruthfulError as problem:
        raise InputError(f"{source} is not a plan that can be carried out: {problem} {PLAN_AGAIN}") from None
    if not whole or not promised:
        what = "its guarantees are not those" if whole else "its hash is not that"
        raise InputError(f"{source} was changed by hand: {what} of its parameters. {PLAN_AGAIN}")
    return plan


def _study_file(path: Path, recorded: dict[str, str]) -> Path:
    """The study file of a plan, still as it was when the plan was made: a changed study needs a new plan."""
    file = (path.parent / recorded["file"]).resolve()
    if not file.exists():
        raise InputError(
            f"There is no {str(file)!r}, from which {path.name} was made. The ledger of releases is kept beside it: "
            "put the two back as they were, or plan again."
        )
    if Study.load(file).sha256 != recorded["sha256"]:
        raise Refused(
            f"{file.name} was changed after {path.name} was made from it. Plan again with `truthful plan`."
        )
    return file


def _relative(file: Path, directory: Path) -> str:
    """The way from a directory to a file, so that both can be moved together."""
    return Path(os.path.relpath(file.resolve(), directory.resolve())).as_posix()


def _close(one: Any, other: Any) -> bool:
    """Whether two records say the same, numbers up to what another machine may compute differently."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_close(one[key], other[key]) for key in one)
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
    return bool(one == other)
