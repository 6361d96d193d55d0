"""Design: from a declared study and what is asked of it to a Plan, the record that a settlement carries out."""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from truthful import check
from truthful.asked_release import AskedRelease
from truthful.bounds import proved
from truthful.check import Floats
from truthful.errors import InputError, Refused, TruthfulError
from truthful.files import pretty_json, sha256, write_atomically
from truthful.geometry import Geometry
from truthful.guarantees import Guarantees, guarantees, require_failure_probability, setting
from truthful.instruments import UNIT
from truthful.intake import read_features
from truthful.moments import GRID
from truthful.noise import NORMS
from truthful.one_release import ESTIMATORS, PROTECTS, OneRelease, SumRelease
from truthful.planner import Answer, Goals, answer
from truthful.planner.asked_planning import AskedSolution, rule_of, solve_asked
from truthful.planner.goals import LEAST_SLOPE, PEERS, PINS
from truthful.planner.panel import Panel, panel_of_design
from truthful.planner.share_planning import ShareSolution, solve_shares, usual_norm, usual_tolerance
from truthful.planner.terms import LeaveOneOutTerms
from truthful.random_halves import EPSILON_RANGE, PUBLIC_ESTIMATORS, Mechanism
from truthful.share_guarantees import share_guarantees
from truthful.share_release import ShareRelease
from truthful.study import Study
from truthful.version import __version__

#: Of plans that score against random halves, as the paper does, and of plans with one release.
HALVES_FORMAT, FORMAT = "truthful/plan/1", "truthful/plan/2"
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
RELEASE_PARAMETERS = (
    "estimator",
    "epsilon",
    "gram_share",
    "rule",
    "payments",
    "clip",
    "base_payment",
    "score_weight",
)
SHARE_PARAMETERS = ("estimator", "epsilon", "flat", "bonus", "margin", "tolerance", "norm")
ASKED_PARAMETERS = (
    "estimator",
    "epsilon",
    "rule",
    "ratio",
    "clip",
    "base_payment",
    "score_weight",
    "prediction_weight",
)
PARAMETERS = (
    *dict.fromkeys((*RELEASE_PARAMETERS, *MECHANISM_PARAMETERS, *SHARE_PARAMETERS, *ASKED_PARAMETERS)),
    "absent_share",
    "failure_probability",
)


@dataclass(frozen=True)
class Roster:
    """The people a plan was made for: how many, and a hash of their features."""

    sha256: str
    players: int


@dataclass(frozen=True, eq=False)
class Plan:
    """A study, how many players it is for, and the mechanism that will be run on them.

    absent_share (α) is the share of players who may misreport, failure_probability (β) the probability that
    more do: they enter the guarantees, not the computation. response_share of the players are expected to answer.
    """

    study: Study
    players: int
    mechanism: OneRelease | ShareRelease | AskedRelease | Mechanism
    absent_share: float = ABSENT_SHARE
    failure_probability: float = FAILURE_PROBABILITY
    answer: Answer | None = field(default=None, repr=False)
    """What was asked and compared, if the parameters were solved for. No part of what the plan promises."""
    response_share: float = 1.0
    roster: Roster | None = None
    stated: Guarantees | None = field(default=None, repr=False)
    """What is promised, where it follows from a roster that the plan does not hold."""
    solution: ShareSolution | AskedSolution | None = field(default=None, repr=False)
    """The same as `answer`, where answers are yes and no, or ratings, or people are asked for predictions."""
    panel: Panel | None = field(default=None, repr=False)
    """Who is expected to answer, while that is known: a plan that is read from a file does not know it."""

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
        paid = (
            ("flat", "bonus")
            if isinstance(self.mechanism, ShareRelease)
            else ("base_payment", "score_weight")
        )
        for name in paid:
            if not getattr(self.mechanism, name) <= LARGEST_PAYMENT:
                raise InputError(
                    f"{name} is {getattr(self.mechanism, name):g}; it must be at most {LARGEST_PAYMENT:,}."
                )
        if isinstance(self.mechanism, ShareRelease | AskedRelease):
            return
        if isinstance(self.mechanism, OneRelease):
            self._require_clip()
            return
        self.mechanism.require_payable(self.study.beliefs.radius)
        if self.mechanism.peers == "ridge-free" and self.study.declared.design.kind != "unit-ball":
            raise Refused(
                "Peer estimator 'ridge-free' shrinks by a known factor only for features uniform on the unit ball; "
                f"this study's design is {self.study.declared.design.kind!r}. Choose peer_estimator 'known-design' "
                "or 'noisy-statistics'."
            )

    def _require_clip(self) -> None:
        clip, R = getattr(self.mechanism, "clip", 0.0), self.study.beliefs.radius
        if not clip <= R * (1 + 1e-12):
            raise InputError(
                f"clip is {clip:g}; no prediction is further than the radius {R:g} from the centre. Give {R:g} or less."
            )

    @property
    def number_mechanism(self) -> OneRelease | Mechanism:
        """The mechanism of a study whose answers are numbers; an error for yes and no, and for ratings."""
        if isinstance(self.mechanism, ShareRelease):
            raise InputError(
                f"This is possible for answers that are numbers; those of {self.study.name!r} are of kind "
                f"{self.study.kind!r}."
            )
        if isinstance(self.mechanism, AskedRelease):
            raise InputError(
                f"This is possible where beliefs are declared; {self.study.name!r} asks people what the others will "
                "say."
            )
        return self.mechanism

    @property
    def share_mechanism(self) -> ShareRelease | None:
        """The mechanism of a study whose answers are yes and no, or ratings; None for numbers."""
        return self.mechanism if isinstance(self.mechanism, ShareRelease) else None

    @property
    def asked_mechanism(self) -> AskedRelease | None:
        """The mechanism of a study that asks people what the others will say; None for others."""
        return self.mechanism if isinstance(self.mechanism, AskedRelease) else None

    @property
    def answering(self) -> int:
        """How many players are expected to answer: what is promised is promised for so many."""
        return max(2, round(self.response_share * self.players))

    @cached_property
    def guarantees(self) -> Guarantees:
        """The five guarantees, as planned."""
        return self.stated or self.guarantees_for(self.players)

    def guarantees_for(self, players: int, geometry: Geometry | None = None) -> Guarantees:
        """The five guarantees if so many take part; where answers are protected, people of this geometry."""
        if geometry is None and self.stated is not None and self.mechanism.estimator == "instruments":
            return self.stated
        if isinstance(self.mechanism, ShareRelease | AskedRelease):
            if geometry is None:
                raise InputError(
                    "What is promised of shares follows from people's features, which are not here."
                )
            alpha, beta = self.absent_share, self.failure_probability
            payable = self.players if players == self.answering else players
            return share_guarantees(self.study, self.mechanism, players, alpha, beta, geometry, payable)
        return guarantees(
            self.study, self.mechanism, players, self.absent_share, self.failure_probability, geometry
        )

    def parameters(self) -> dict[str, Any]:
        """The plan's parameters by the names people use, numbers as floats: 2 and 2.0 are the same plan."""
        mechanism = self.mechanism
        if isinstance(mechanism, AskedRelease):
            chosen: dict[str, Any] = {"protects": mechanism.protects}
            chosen |= {name: getattr(mechanism, name) for name in ASKED_PARAMETERS}
            ends = zip(("plausible_low", "plausible_high"), mechanism.plausible, strict=True)
            chosen |= {name: end if math.isfinite(end) else None for name, end in ends}
        elif isinstance(mechanism, ShareRelease):
            chosen = {"protects": mechanism.protects}
            chosen |= {name: getattr(mechanism, name) for name in SHARE_PARAMETERS}
            if math.isinf(mechanism.tolerance):
                chosen["tolerance"] = None
        elif isinstance(mechanism, OneRelease):
            chosen = {"protects": mechanism.protects}
            chosen |= {name: getattr(mechanism, name) for name in RELEASE_PARAMETERS}
            if mechanism.estimator != "noisy-statistics":
                chosen["gram_share"] = None
        else:
            chosen = {name: getattr(mechanism, name) for name in MECHANISM_PARAMETERS}
            chosen["peer_estimator"] = mechanism.peers
        chosen["absent_share"] = self.absent_share
        chosen["failure_probability"] = self.failure_probability
        return {
            name: value if value is None or isinstance(value, str) else float(value)
            for name, value in chosen.items()
        }

    def record(self) -> dict[str, Any]:
        """The plan as it is written. It holds the whole declaration, so that it stands alone."""
        answered = self.answer or self.solution
        return {
            "format": self.format,
            "version": __version__,
            "sha256": self.sha256,
            **self._promise(),
            "guarantees": self.guarantees.record(),
            **({} if answered is None else {"answer": answered.record()}),
            "declaration": self.study.declaration(),
        }

    @property
    def format(self) -> str:
        """The format of the plan's file."""
        return FORMAT if isinstance(self.mechanism, SumRelease) else HALVES_FORMAT

    def _promise(self) -> dict[str, Any]:
        promise = {
            "study": {"name": self.study.name, "sha256": self.study.sha256},
            "players": self.players,
            "parameters": self.parameters(),
        }
        if not isinstance(self.mechanism, SumRelease):
            return promise
        transform = self.mechanism.transform
        return {
            **promise,
            "response_share": float(self.response_share),
            "roster": None if self.roster is None else asdict(self.roster),
            "instruments": None
            if transform is None
            else {"transform": [list(row) for row in transform], "unit": float(UNIT)},
        }

    @cached_property
    def sha256(self) -> str:
        """The hash a release names its plan by: of the study, the players and the parameters.

        What follows from those, or has no part in them (this program's version), is left out. Guarantees are in it
        where they follow from a roster, which the plan does not hold.
        """
        stated = {"guarantees": self.guarantees.record()} if isinstance(self.mechanism, SumRelease) else {}
        return sha256({"format": self.format, **self._promise(), **stated})

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
    roster: Any = None,
    response_share: float = 1.0,
    accuracy_of: str = "coefficients",
    least_slope: float = LEAST_SLOPE,
    peers: str = "leave-one-out",
    score_weight: float | None = None,
    failure_probability: float = FAILURE_PROBABILITY,
    **parameters: Any,
) -> Plan:
    """The best plan for what is given: two of players, budget, accuracy and epsilon, and if need be more.

    With a budget the guaranteed error is the least that the money buys; with an accuracy the cost is the least that it
    needs. Any further parameter is kept as given. Raises Infeasible, with what would help, if there is no such plan.

    roster: the features of everybody who is invited, in a file or a table as of reports; other columns are ignored.
    Then all bounds are computed from it, and players are those on it. response_share of them are expected to answer.
    peers: everybody else, or "halves" for the paper's mechanism.

    With a score_weight nothing is solved for: players, epsilon and the parameters are the plan, and the base payment is
    by default the least with which joining pays.
    """
    unknown = sorted(set(parameters) - set(PARAMETERS))
    if unknown:
        raise InputError(f"Unknown parameter {unknown[0]!r}; the parameters are {', '.join(PARAMETERS)}.")
    given = {name: value for name, value in parameters.items() if value is not None}
    asked = {
        "players": players,
        "budget": budget,
        "accuracy": accuracy,
        "epsilon": epsilon,
        "lie": lie,
        "accuracy_of": accuracy_of,
        "failure_probability": failure_probability,
    }
    if accuracy_of == "centre" and (study.levels is None or study.features):
        raise InputError(
            "accuracy_of is 'centre': what people expect is found by a pilot, which asks them for predictions "
            '(beliefs.centre = "predictions") and has no features. Choose coefficients or predictions.'
        )
    if study.levels is not None:
        of = "coefficients" if accuracy_of == "centre" else accuracy_of
        panel = _people(study, "leave-one-out", roster, response_share, of)
        return _of_predictions(study, panel, asked, given, peers, score_weight)
    if study.shares is not None:
        panel = _people(study, "leave-one-out", roster, response_share, accuracy_of)
        return _of_shares(study, panel, asked, {**given, "score_weight": score_weight, "peers": peers})
    if of_shares := [name for name in SHARE_PARAMETERS[2:] if name in given]:
        raise InputError(
            f"{of_shares[0]} is {given[of_shares[0]]!r}; it goes with answers of kind 'yes-no' or 'rating', and these "
            "are numbers. Give a score_weight, or leave both out."
        )
    _require_fitting(study, check.choice("peers", peers, PEERS), given)
    people = _people(study, peers, roster, response_share, accuracy_of)
    if people is not None and people.size is not None:
        players = _invited(people.size, players)
    if score_weight is not None:
        unmet = {"budget": budget, "accuracy": accuracy, "lie": lie}
        _refuse_goals([name for name, value in unmet.items() if value is not None])
        chosen = {**given, "epsilon": _needed("epsilon", epsilon), "score_weight": score_weight}
        if peers == "halves":
            return _halves(study, _needed("players", players), failure_probability, chosen)
        return _one_release(study, _needed("players", players), failure_probability, chosen, people)
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
        peers=peers,
        panel=people,
        **given,
    )
    return solved(study, goals)


def _of_predictions(
    study: Study,
    panel: Panel | None,
    asked: dict[str, Any],
    given: dict[str, Any],
    peers: str,
    score_weight: float | None,
) -> Plan:
    """A plan that asks people what the others will say. It is always solved for."""
    if peers == "halves" or panel is None or study.levels is None:
        raise InputError(
            "Predictions are compared with everybody else's answers. Leave peers = 'halves' out, and declare protects "
            "= 'answers'."
        )
    unfit = sorted(set(given) - {"absent_share"}) + ([] if score_weight is None else ["score_weight"])
    if unfit:
        raise InputError(f"{unfit[0]} is solved for where people are asked for predictions. Leave it out.")
    if panel.size is not None:
        asked = {**asked, "players": _invited(panel.size, asked["players"])}
    found = solve_asked(study, Goals(**asked, pins=dict(given)), panel)
    mechanism = AskedRelease(
        estimator="instruments",
        transform=panel.transform(found.shortening),
        rule=rule_of(study.levels),
        plausible=found.plausible,
        **{name: getattr(found, name) for name in ASKED_PARAMETERS if hasattr(found, name)},
    )
    plan = Plan(
        study,
        found.players,
        mechanism,
        found.absent_share,
        found.goals.failure_probability,
        None,
        panel.response_share,
        _roster(panel),
    )
    stated = plan.guarantees_for(plan.answering, panel.geometry(found.players, found.shortening))
    return replace(plan, stated=stated, panel=panel, solution=found)


def _of_shares(study: Study, panel: Panel | None, asked: dict[str, Any], given: dict[str, Any]) -> Plan:
    """A plan for yes or no or for ratings: solved for, or with the bonus that is given."""
    if given.pop("peers") == "halves" or panel is None:
        raise InputError(
            f"Answers of kind {study.kind!r} are paid against everybody else's, and protected as answers. Leave "
            "peers = 'halves' out, and declare protects = 'answers'."
        )
    if given.pop("score_weight") is not None:
        raise InputError("score_weight goes with answers that are numbers. Give a bonus, or leave both out.")
    allowed = {"estimator", "absent_share", "norm", *(SHARE_PARAMETERS if "bonus" in given else ())}
    if unfit := sorted(set(given) - allowed):
        known = SHARE_PARAMETERS if "bonus" not in given else ()
        told = (
            "Give a bonus too, or leave"
            if unfit[0] in known
            else "It goes with answers that are numbers. Leave"
        )
        raise InputError(f"{unfit[0]} is {given[unfit[0]]!r}. {told} it out.")
    if panel.size is not None:
        asked = {**asked, "players": _invited(panel.size, asked["players"])}
    given.pop("estimator", None)
    if "bonus" in given:
        _refuse_goals([name for name in ("budget", "accuracy", "lie") if asked[name] is not None], "bonus")
        alpha = given.pop("absent_share", ABSENT_SHARE)
        chosen = {"flat": 0.0, **given, "epsilon": _needed_with_bonus("epsilon", asked["epsilon"])}
        players, beta = _needed_with_bonus("players", asked["players"]), asked["failure_probability"]
        level = check.positive("epsilon", chosen["epsilon"])
        if "norm" not in chosen:
            chosen["norm"] = usual_norm(study, panel, players, alpha, beta, level)
        if "tolerance" not in chosen:
            margin, norm = check.nonnegative("margin", chosen.get("margin", 0.0)), chosen["norm"]
            chosen["tolerance"] = usual_tolerance(study, panel, players, alpha, beta, margin, level, norm)
        return _share_plan(study, panel, players, alpha, beta, chosen)
    pins = {"absent_share": given["absent_share"]} if "absent_share" in given else {}
    goals = Goals(**asked, pins=pins, norm=given.get("norm"))
    found = solve_shares(study, goals, panel)
    chosen = {name: getattr(found, name) for name in SHARE_PARAMETERS[1:]}
    beta, alpha = goals.failure_probability, found.absent_share
    plan = _share_plan(study, panel, found.players, alpha, beta, chosen, found.shortening)
    return replace(plan, solution=found)


def _needed_with_bonus(name: str, value: Any) -> Any:
    if value is None:
        raise InputError(
            f"{name} is missing: with a bonus nothing is solved for. Give it, or leave the bonus out."
        )
    return value


def _share_plan(
    study: Study,
    panel: Panel,
    players: int,
    alpha: float,
    beta: float,
    chosen: dict[str, Any],
    shortening: float = 1.0,
) -> Plan:
    norm = check.choice("norm", chosen["norm"], NORMS)
    numbers: dict[str, Any] = {
        name: value if value == math.inf else check.finite(name, value)
        for name, value in chosen.items()
        if name != "norm"
    }
    transform = panel.transform(shortening, norm)
    mechanism = ShareRelease(estimator="instruments", transform=transform, norm=norm, **numbers)
    geometry = panel.geometry(players, shortening, norm)
    plan = Plan(study, players, mechanism, alpha, beta, None, panel.response_share, _roster(panel))
    return replace(plan, stated=plan.guarantees_for(plan.answering, geometry), panel=panel)


def _require_fitting(study: Study, peers: str, given: dict[str, Any]) -> None:
    """Refuse parameters of the other mechanism, and an estimator that protects something else."""
    estimator = given.get("estimator")
    if peers == "halves":
        if "clip" in given:
            raise InputError(f"clip is {given['clip']!r}, but random halves have none. Leave it out.")
        return
    for name in ("public_share", "peer_estimator", "regularization", "peer_regularization"):
        if name in given:
            raise InputError(
                f"{name} is {given[name]!r}, but it is one of random halves. Say peers='halves', or leave it out."
            )
    if estimator in set(PUBLIC_ESTIMATORS) - set(ESTIMATORS):
        raise InputError(
            f"Estimator {estimator!r} scores people against random halves. Say peers='halves' to have it, or choose "
            f"{', '.join(ESTIMATORS)}."
        )
    if estimator is not None and PROTECTS[check.choice("estimator", estimator, ESTIMATORS)] != study.protects:
        raise InputError(
            f"Estimator {estimator!r} protects {PROTECTS[estimator]}, and the study declares that it protects "
            f"{study.protects}. Leave the estimator out to have one that fits, or change privacy.protects."
        )


def _people(study: Study, peers: str, roster: Any, response_share: float, accuracy_of: str) -> Panel | None:
    """Who is expected to answer, where answers are protected: only then may a plan say anything of a roster."""
    if peers == "leave-one-out" and study.protects == "answers":
        if roster is None:
            return panel_of_design(study, response_share, accuracy_of)
        return Panel(study, _features(study, roster), response_share, accuracy_of)
    if roster is not None:
        raise InputError(
            "A roster is given, but the study protects records, and numbers of a plan that come from people's features "
            "would give these away. Leave the roster out, or declare protects = 'answers'."
            if peers == "leave-one-out"
            else "A roster is given, but random halves are planned from the declared design alone. Leave it out."
        )
    if response_share != 1.0:
        raise InputError(
            f"response_share is {response_share!r}, which only plans that protect answers know. Plan for the number of "
            "people whom you expect to answer."
        )
    return None


def _features(study: Study, roster: Any) -> Floats:
    if isinstance(roster, np.ndarray):
        return check.matrix("roster", roster, study.dimension)
    return read_features(study, roster)


def _invited(listed: int, players: int | None) -> int:
    if players is not None and players > listed:
        raise InputError(f"players is {players:,}, but there are {listed:,} people on the roster.")
    return listed if players is None else players


def solved(study: Study, goals: Goals) -> Plan:
    """The best plan for these goals; Infeasible if there is none."""
    answered = answer(study, goals)
    found = {name: value for name, value in answered.best.parameters().items() if value is not None}
    beta = found.pop("failure_probability")
    if isinstance(answered.best.terms, LeaveOneOutTerms):
        shortening = answered.best.terms.shortening
        plan = _one_release(study, answered.players, beta, found, goals.panel, shortening)
    else:
        plan = _halves(study, answered.players, beta, found)
    return replace(plan, answer=answered)


def _one_release(
    study: Study,
    players: int,
    beta: float,
    parameters: dict[str, Any],
    panel: Panel | None,
    shortening: float = 1.0,
) -> Plan:
    """A plan with these parameters and one release."""
    chosen, R = dict(parameters), study.beliefs.radius
    alpha, a = chosen.pop("absent_share", ABSENT_SHARE), chosen.pop("base_payment", None)
    best = "noisy-statistics" if study.second_moments is None else "known-design"
    estimator = chosen.pop("estimator", None) or ("instruments" if panel is not None else best)
    players = check.integer("players", players, least=2)
    # As floats, whatever kind of numbers they are given as: a plan is the same for all of them.
    numbers = {
        name: check.finite(name, value)
        for name, value in {"clip": R, **chosen, "base_payment": 0.0 if a is None else a}.items()
        if name not in ("rule", "payments")
    }
    mechanism = OneRelease(
        estimator=estimator,
        transform=None if panel is None else panel.transform(shortening),
        design=study.second_moments,
        **{**chosen, **numbers},
    )
    geometry = None if panel is None else panel.geometry(players, shortening)
    share = 1.0 if panel is None else panel.response_share
    plan = Plan(study, players, mechanism, alpha, beta, None, share, _roster(panel))
    if a is None:
        s = setting(study, mechanism, plan.answering, alpha, beta, geometry)
        joining = float(proved.participation(s))
        enough = (
            joining
            if math.isfinite(joining)
            else mechanism.score_weight * mechanism.scoring.loss(mechanism.clip)
        )
        plan = replace(plan, mechanism=mechanism.with_payments(enough, mechanism.score_weight))
    return replace(plan, stated=plan.guarantees_for(plan.answering, geometry), panel=panel)


def _roster(panel: Panel | None) -> Roster | None:
    """People's features on the grid, hashed in the order of the roster."""
    if panel is None or panel.roster is None:
        return None
    steps = np.ascontiguousarray(np.rint(panel.roster * GRID), dtype="<i4")
    return Roster(hashlib.sha256(steps.tobytes()).hexdigest(), len(steps))


def _halves(study: Study, players: int, beta: float, parameters: dict[str, Any]) -> Plan:
    """A plan with these parameters and random halves."""
    chosen, Sigma = dict(parameters), study.second_moments
    absent_share = chosen.pop("absent_share", ABSENT_SHARE)
    base_payment = chosen.pop("base_payment", None)
    estimator = chosen.pop("estimator", None) or ("noisy-statistics" if Sigma is None else "known-design")
    mechanism = Mechanism(
        epsilon=check.positive("epsilon", chosen.pop("epsilon")),
        score_weight=(score_weight := check.nonnegative("score_weight", chosen.pop("score_weight"))),
        base_payment=0.0 if base_payment is None else check.nonnegative("base_payment", base_payment),
        estimator=estimator,
        design=Sigma,
        **chosen,
    )
    if base_payment is None:
        mechanism = mechanism.with_base_payment(score_weight * mechanism.scoring.loss(study.beliefs.radius))
    return Plan(study, check.integer("players", players, least=2), mechanism, absent_share, beta)


def _needed(name: str, value: Any) -> Any:
    if value is None:
        raise InputError(
            f"{name} is missing: with a score_weight nothing is solved for. Give {name}, or leave score_weight out and "
            "give a budget or an accuracy."
        )
    return value


def _refuse_goals(names: list[str], weight: str = "score_weight") -> None:
    if names:
        raise InputError(
            f"{names[0]} and {weight} are both given: then nothing is left to solve for. Leave one of them out."
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
    found = record.get("format") if isinstance(record, dict) else None
    if found not in (FORMAT, HALVES_FORMAT):
        raise InputError(
            f"{source} has format {found!r}; a plan of this version has {FORMAT!r}. {PLAN_AGAIN}"
        )
    return dict(record)


def _planned(record: dict[str, Any], source: str) -> Plan:
    """The plan of a record, which must be just what its hash says; of halves also what its parameters promise."""
    try:
        study = Study.from_declaration(record["declaration"])
        plan = _recorded(study, record)
        whole = study.sha256 == record["study"]["sha256"] and plan.sha256 == record["sha256"]
        promised = (
            plan.stated is not None
            or record["version"] != __version__
            or _close(record["guarantees"], plan.guarantees.record())
        )
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


def _recorded(study: Study, record: dict[str, Any]) -> Plan:
    """What a record says, as it says it: nothing is solved for again."""
    parameters = dict(record["parameters"])
    if record["format"] == HALVES_FORMAT:
        return design(study, players=record["players"], peers="halves", **parameters)
    protects, alpha, beta = (
        parameters.pop(name) for name in ("protects", "absent_share", "failure_probability")
    )
    instruments, roster = record["instruments"], record["roster"]
    transform = None if instruments is None else tuple(map(tuple, instruments["transform"]))
    mechanism: OneRelease | ShareRelease | AskedRelease
    if study.levels is not None:
        ends = [parameters.pop(name) for name in ("plausible_low", "plausible_high")]
        plausible = (-math.inf, math.inf) if None in ends else (ends[0], ends[1])
        mechanism = AskedRelease(**parameters, plausible=plausible, transform=transform)
    elif study.shares is not None:
        tolerance = math.inf if parameters["tolerance"] is None else parameters["tolerance"]
        mechanism = ShareRelease(**{**parameters, "tolerance": tolerance}, transform=transform)
    else:
        if parameters["gram_share"] is None:
            del parameters["gram_share"]
        mechanism = OneRelease(**parameters, design=study.second_moments, transform=transform)
    if mechanism.protects != protects:
        raise InputError(f"Estimator {mechanism.estimator!r} protects {mechanism.protects}, not {protects}.")
    return Plan(
        study,
        record["players"],
        mechanism,
        alpha,
        beta,
        response_share=record["response_share"],
        roster=None if roster is None else Roster(**roster),
        stated=Guarantees.from_record(record["guarantees"]),
    )


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
