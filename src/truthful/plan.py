"""Design: from a declared study and goals to a Plan, the record that a settlement carries out."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from truthful import check
from truthful.asked_release import AskedRelease
from truthful.bounds import proved
from truthful.errors import InputError, Refused, TruthfulError
from truthful.files import pretty_json, sha256, write_atomically
from truthful.formatting import Viewable, as_text, command
from truthful.geometry import Geometry
from truthful.guarantees import Guarantees, guarantees, require_failure_probability, setting
from truthful.moments import TRANSFORM_UNIT
from truthful.noise import NORMS
from truthful.one_release import OneRelease
from truthful.planner.asked_planning import solve_asked
from truthful.planner.goals import (
    ASKED_PARAMETERS,
    PARAMETERS,
    PARAMETERS_OF,
    PINS,
    SHARE_PARAMETERS,
    Goals,
    require_absent_share,
    require_fitting,
    require_only,
    require_usual_epsilon,
)
from truthful.planner.levers import levers, worth_changing
from truthful.planner.number_planning import solve_numbers
from truthful.planner.panel import Panel, Roster, panel_for
from truthful.planner.planning import Infeasible, Solution, with_levers
from truthful.planner.share_planning import solve_shares, usual_rule
from truthful.share_release import ShareRelease
from truthful.study import Study
from truthful.version import __version__

#: Formats of plans: of this version, and of version 0.1, which scored people against random halves.
FORMAT, HALVES_FORMAT = "truthful/plan/2", "truthful/plan/1"
PLAN_AGAIN = "Write one with `truthful plan STUDY --save plan.json`."
#: What an accuracy can be asked of.
ACCURACIES = ("coefficients", "predictions", "centre")
LARGEST_PAYMENT = 1_000_000_000  # a payment counts millionths, exactly
# Liars move an estimate by about 2Y·α/λ_min: one in five hundred leaves promises worth making in a typical design.
ABSENT_SHARE = 0.002
FAILURE_PROBABILITY = 0.01


@dataclass(frozen=True, eq=False)
class Plan(Viewable):
    """A study, how many players it is for, and the mechanism to run on them.

    absent_share (α) is the share of players who may misreport, failure_probability (β) the probability that more do:
    they enter the guarantees, not the computation. response_share of the players are expected to answer.
    """

    study: Study
    players: int
    mechanism: OneRelease | ShareRelease | AskedRelease
    absent_share: float = ABSENT_SHARE
    failure_probability: float = FAILURE_PROBABILITY
    response_share: float = 1.0
    roster: Roster | None = None
    stated: Guarantees | None = field(default=None, repr=False)
    """The promises, where they follow from a roster that the plan does not hold."""
    solution: Solution | None = field(default=None, repr=False)
    """The goals and the solutions compared, if the parameters were solved for. Not part of the plan's promises."""
    panel: Panel | None = field(default=None, repr=False)
    """The people expected to answer, while known: a plan read from a file has none."""

    def __post_init__(self) -> None:
        check.integer("players", self.players, least=2)
        require_absent_share(self.absent_share)
        require_failure_probability(self.failure_probability)
        mechanism = self.mechanism
        require_usual_epsilon(mechanism.epsilon)
        shares = isinstance(mechanism, ShareRelease)
        for name in ("flat", "bonus") if shares else ("base_payment", "score_weight"):
            if not (paid := getattr(mechanism, name)) <= LARGEST_PAYMENT:
                raise InputError(f"{name} is {paid:g}; it must be at most {LARGEST_PAYMENT:,}.")
        if not isinstance(mechanism, OneRelease):
            return
        R = self.study.beliefs.radius
        if not mechanism.clip <= R * (1 + 1e-12):
            raise InputError(
                f"clip is {mechanism.clip:g}; no prediction is further than the radius {R:g} from the centre. Give "
                f"{R:g} or less."
            )

    @property
    def number_mechanism(self) -> OneRelease:
        """The mechanism of a study whose answers are numbers; an error for yes and no and for ratings."""
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
        """The mechanism of a study whose answers are yes and no, or ratings; None for others."""
        return self.mechanism if isinstance(self.mechanism, ShareRelease) else None

    @property
    def asked_mechanism(self) -> AskedRelease | None:
        """The mechanism of a study that asks people what the others will say; None for others."""
        return self.mechanism if isinstance(self.mechanism, AskedRelease) else None

    @property
    def answering(self) -> int:
        """The number of players expected to answer, for whom the promises are made."""
        return max(2, round(self.response_share * self.players))

    @cached_property
    def guarantees(self) -> Guarantees:
        """The five guarantees, as planned."""
        return self.stated or self.guarantees_for(self.players)

    def guarantees_for(self, players: int, geometry: Geometry | None = None) -> Guarantees:
        """The five guarantees if this many take part; where answers are protected, people with this geometry."""
        study, mechanism = self.study, self.mechanism
        if geometry is None and self.stated is not None and mechanism.estimator == "instruments":
            return self.stated
        alpha, beta = self.absent_share, self.failure_probability
        payable = self.players if players == self.answering else players
        found = guarantees(study, mechanism, players, alpha, beta, geometry, payable)
        return found if self.stated is None else found.asked_of(self.stated.accuracy.of)

    def parameters(self) -> dict[str, Any]:
        """The plan's parameters under their public names, numbers as floats: 2 and 2.0 are the same plan."""
        mechanism = self.mechanism
        chosen: dict[str, Any] = {"protects": mechanism.protects}
        chosen |= {name: getattr(mechanism, name) for name in PARAMETERS_OF[type(mechanism)]}
        if isinstance(mechanism, AskedRelease):
            chosen["plausible_low"], chosen["plausible_high"] = mechanism.plausible
        elif isinstance(mechanism, OneRelease) and mechanism.estimator != "noisy-statistics":
            chosen["gram_share"] = None
        chosen["absent_share"] = self.absent_share
        chosen["failure_probability"] = self.failure_probability
        numbers = {name: float(value) for name, value in chosen.items() if not isinstance(value, str | None)}
        # None where there is no bound.
        return chosen | {name: value if math.isfinite(value) else None for name, value in numbers.items()}

    def summary(self) -> str:
        """The text that `truthful plan` prints, without colours."""
        return as_text(self)

    def record(self) -> dict[str, Any]:
        """The plan as written. It holds the whole declaration, so that it stands alone."""
        return {
            "format": FORMAT,
            "version": __version__,
            "sha256": self.sha256,
            **self._promise(),
            "guarantees": self.guarantees.record(),
            **({} if self.solution is None else {"answer": self.solution.record()}),
            "declaration": self.study.declaration(),
        }

    def _promise(self) -> dict[str, Any]:
        transform = self.mechanism.transform
        return {
            "study": {"name": self.study.name, "sha256": self.study.sha256},
            "players": self.players,
            "parameters": self.parameters(),
            "response_share": float(self.response_share),
            "roster": None if self.roster is None else asdict(self.roster),
            "instruments": None
            if transform is None
            else {"transform": [list(row) for row in transform], "unit": float(TRANSFORM_UNIT)},
        }

    @cached_property
    def sha256(self) -> str:
        """The hash by which a release names its plan: of the study, the players, the parameters and the promises.

        This program's version has no part in it.
        """
        return sha256({"format": FORMAT, **self._promise(), "guarantees": self.guarantees.record()})

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON, with the relative path to the study file, beside which the ledger is kept."""
        path = check.path("path", path)
        record = self.record()
        if self.study.path is not None:
            # A relative path, so that both can be moved together.
            way = os.path.relpath(self.study.path.resolve(), path.parent.resolve())
            record["study"]["file"] = Path(way).as_posix()
        try:
            write_atomically(path, pretty_json(record))
        except OSError as problem:
            raise InputError(
                f"The plan cannot be written to {str(path)!r}: {problem.strerror}. Name a file in a directory that "
                "exists."
            ) from None

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan. The declaration inside is carried out; a study file that exists must declare the same.

        The study file only says where the ledger is, beside it: only a settlement needs that.
        """
        path = check.path("path", path)
        record = _read_file(path)
        plan = _checked_plan(record, str(path))
        if "file" not in record["study"]:
            return plan
        return replace(plan, study=plan.study.at(_study_file(path, record["study"])))

    @classmethod
    def parse(cls, text: str) -> Plan:
        """Read a plan from the text of a plan file, with the declaration inside: no other file is read."""
        return _checked_plan(_parse(check.text("text", text), "plan"), "plan")


def design(
    study: Study,
    *,
    players: int | None = None,
    budget: float | None = None,
    accuracy: float | None = None,
    epsilon: float | None = None,
    lie: float | None = None,
    roster: Any = None,
    columns: Mapping[str, str] | None = None,
    response_share: float = 1.0,
    accuracy_of: str = "coefficients",
    score_weight: float | None = None,
    failure_probability: float = FAILURE_PROBABILITY,
    **parameters: Any,
) -> Plan:
    """The best plan for the goals given: two of players, budget, accuracy and epsilon, and if need be more.

    With a budget the guaranteed error is the least that the money buys; with an accuracy the cost is the least that it
    needs. Any further parameter is kept as given. Raises Infeasible, with what would help, if there is no such plan.

    roster: the features of everybody invited, in a file or a table like that of reports; other columns are ignored, and
    `columns` maps names to headers that differ. All bounds are then computed from it, and the players are the people on
    it. response_share of them are expected to answer.

    With a score_weight nothing is solved for: players, epsilon and the parameters are the plan, and the base payment is
    by default the least with which joining pays.
    """
    check.instance("study", study, Study, "Read one with Study.load(path).")
    unknown = sorted(set(parameters) - set(PARAMETERS))
    if unknown:
        raise InputError(f"Unknown parameter {unknown[0]!r}; the parameters are {', '.join(PARAMETERS)}.")
    given = {name: value for name, value in parameters.items() if value is not None}
    if score_weight is not None:
        given["score_weight"] = score_weight
    asked = {
        "players": players,
        "budget": budget,
        "accuracy": accuracy,
        "epsilon": epsilon,
        "lie": lie,
        "accuracy_of": accuracy_of,
        "failure_probability": failure_probability,
    }
    check.choice("accuracy_of", accuracy_of, ACCURACIES)
    if accuracy_of == "centre" and (study.levels is None or study.features):
        raise InputError(
            "accuracy_of is 'centre': what people expect is found by a pilot, which asks them for predictions "
            '(beliefs.centre = "predictions") and has no features. Choose coefficients or predictions.',
            argument="accuracy_of",
        )
    numbers = study.levels is None and study.shares is None
    if numbers:
        require_fitting(study, given)
    of = "coefficients" if accuracy_of == "centre" else accuracy_of
    panel = panel_for(study, roster, check.finite("response_share", response_share), of, columns)
    if panel is not None:
        asked["players"] = panel.invite(players)
    plan = _design(study, panel, asked, given)
    return replace(plan, stated=plan.guarantees.asked_of(accuracy_of))


def _design(study: Study, panel: Panel | None, asked: dict[str, Any], given: dict[str, Any]) -> Plan:
    """Choose by the kind of answer, and by whether people are asked what the others will say."""
    if study.levels is None and study.shares is None:
        return _design_numbers(study, panel, asked, given)
    if panel is None:
        reason = (
            "Predictions are compared with everybody else's answers."
            if study.levels is not None
            else f"Answers of kind {study.kind!r} are paid against everybody else's, and protected as answers."
        )
        raise InputError(f"{reason} Declare protects = 'answers'.")
    if study.levels is not None:
        return _design_asked(study, panel, asked, given)
    return _design_shares(study, panel, asked, given)


def _design_numbers(study: Study, panel: Panel | None, asked: dict[str, Any], given: dict[str, Any]) -> Plan:
    """A plan for numeric answers: solved for, or with the given score_weight."""
    if "score_weight" in given:
        require_only("score_weight", asked)
        chosen = {**given, "epsilon": asked["epsilon"]}
        return _one_release(study, asked["players"], asked["failure_probability"], chosen, panel)
    if "base_payment" in given:
        raise InputError(
            f"base_payment is {given['base_payment']!r}, without a score_weight. Give both, with players and epsilon, "
            "or leave both to be solved for."
        )
    pins = {name: given.pop(name) for name in PINS if name in given}
    goals = Goals(**asked, pins=pins, panel=panel, **given)
    with _advice(study, goals, panel):
        found = solve_numbers(study, goals)
    beta, shortening = goals.failure_probability, found.terms.shortening
    plan = _one_release(study, found.players, beta, found.parameters(), panel, shortening)
    return replace(plan, solution=found)


def _one_release(
    study: Study,
    players: int,
    beta: float,
    parameters: dict[str, Any],
    panel: Panel | None,
    shortening: float = 1.0,
) -> Plan:
    """A plan with these parameters and one release; the default base payment is the least with which joining pays."""
    chosen = {"clip": study.beliefs.radius, **parameters}
    alpha, a = chosen.pop("absent_share", ABSENT_SHARE), chosen.pop("base_payment", None)
    best = "noisy-statistics" if study.second_moments is None else "known-design"
    estimator = chosen.pop("estimator", None) or ("instruments" if panel is not None else best)
    players = check.integer("players", players, least=2)
    # As floats, whatever their type: the plan must not depend on it.
    chosen |= {n: check.finite(n, value) for n, value in chosen.items() if n not in ("rule", "payments")}
    mechanism = OneRelease(
        estimator=estimator,
        transform=None if panel is None else panel.transform(shortening),
        design=study.second_moments,
        base_payment=0.0 if a is None else check.finite("base_payment", a),
        **chosen,
    )
    plan = _plan_for(study, players, mechanism, alpha, beta, panel)
    if a is None:
        geometry = None if panel is None else panel.geometry(players, shortening)
        joining = float(
            proved.participation(setting(study, mechanism, plan.answering, alpha, beta, geometry))
        )
        b = mechanism.score_weight
        enough = joining if math.isfinite(joining) else b * mechanism.scoring.loss(mechanism.clip)
        plan = replace(plan, mechanism=replace(mechanism, base_payment=enough))
    return _promise(plan, shortening)


def _design_shares(study: Study, panel: Panel, asked: dict[str, Any], given: dict[str, Any]) -> Plan:
    """A plan for yes or no or for ratings: solved for, or with the given bonus."""
    if "score_weight" in given:
        raise InputError("score_weight goes with answers that are numbers. Give a bonus, or leave both out.")
    fixed = "bonus" in given
    allowed = {"estimator", "absent_share", "norm", *(SHARE_PARAMETERS if fixed else ())}
    if unfit := sorted(set(given) - allowed):
        lacks_bonus = unfit[0] in SHARE_PARAMETERS and not fixed
        told = "Give a bonus too, or leave" if lacks_bonus else "It goes with answers that are numbers. Leave"
        raise InputError(f"{unfit[0]} is {given[unfit[0]]!r}. {told} it out.")
    given.pop("estimator", None)
    beta = asked["failure_probability"]
    if fixed:
        require_only("bonus", asked)
        players, alpha = asked["players"], given.pop("absent_share", ABSENT_SHARE)
        margin = check.nonnegative("margin", given.get("margin", 0.0))
        goals = Goals(**asked, pins={"absent_share": alpha}, norm=given.get("norm"))
        usual = usual_rule(study, panel, players, goals, margin)
        chosen = {"flat": 0.0, **usual, **given, "epsilon": asked["epsilon"]}
        return _share_plan(study, panel, players, alpha, beta, chosen)
    norm = given.pop("norm", None)
    goals = Goals(**asked, pins=given, norm=norm)
    with _advice(study, goals, panel):
        found = solve_shares(study, goals, panel)
    chosen = {name: getattr(found, name) for name in SHARE_PARAMETERS[1:]}
    plan = _share_plan(study, panel, found.players, found.absent_share, beta, chosen, found.shortening)
    return replace(plan, solution=found)


def _share_plan(
    study: Study,
    panel: Panel,
    players: int,
    alpha: float,
    beta: float,
    chosen: dict[str, Any],
    shortening: float = 1.0,
) -> Plan:
    norm = check.choice("norm", chosen.pop("norm"), NORMS)
    numbers: dict[str, Any] = {
        name: value if value == math.inf else check.finite(name, value) for name, value in chosen.items()
    }
    transform = panel.transform(shortening, norm)
    mechanism = ShareRelease(estimator="instruments", transform=transform, norm=norm, **numbers)
    return _promise(_plan_for(study, players, mechanism, alpha, beta, panel), shortening)


def _design_asked(study: Study, panel: Panel, asked: dict[str, Any], given: dict[str, Any]) -> Plan:
    """A plan that asks people what the others will say; always solved for."""
    if unfit := sorted(set(given) - {"absent_share"}):
        raise InputError(f"{unfit[0]} is solved for where people are asked for predictions. Leave it out.")
    goals = Goals(**asked, pins=given)
    with _advice(study, goals, panel):
        found = solve_asked(study, goals, panel)
    mechanism = AskedRelease(
        estimator="instruments",
        transform=panel.transform(found.shortening),
        plausible=found.plausible,
        **{name: getattr(found, name) for name in ASKED_PARAMETERS[1:]},
    )
    alpha, beta = found.absent_share, asked["failure_probability"]
    plan = _plan_for(study, found.players, mechanism, alpha, beta, panel)
    return replace(_promise(plan, found.shortening), solution=found)


@contextmanager
def _advice(study: Study, goals: Goals, panel: Panel | None) -> Iterator[None]:
    """If nothing is feasible, add changes of the study to the remedies."""
    try:
        yield
    except Infeasible as problem:
        if not worth_changing(study, goals):
            raise
        raise with_levers(problem, partial(levers, problem, study, goals, panel)) from None


def _plan_for(
    study: Study,
    players: int,
    mechanism: OneRelease | ShareRelease | AskedRelease,
    alpha: float,
    beta: float,
    panel: Panel | None,
) -> Plan:
    share, roster = (1.0, None) if panel is None else (panel.response_share, panel.hashed_roster)
    return Plan(study, players, mechanism, alpha, beta, response_share=share, roster=roster, panel=panel)


def _promise(plan: Plan, shortening: float) -> Plan:
    """State the promises in the plan: they follow from people's features, which a plan file does not hold."""
    norm = plan.mechanism.norm
    geometry = None if plan.panel is None else plan.panel.geometry(plan.players, shortening, norm)
    return replace(plan, stated=plan.guarantees_for(plan.answering, geometry))


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return _parse(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        raise InputError(
            f"There is no plan at {str(path)!r}. Write one with "
            f"`{command('plan', 'STUDY', '--save', path.name)}`."
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a plan, not even JSON. {PLAN_AGAIN}") from None
    except OSError as problem:
        raise InputError(f"The plan {str(path)!r} cannot be read: {problem.strerror}.") from None


def _parse(text: str, source: str) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except ValueError:
        raise InputError(f"{source} is not a plan, not even JSON. {PLAN_AGAIN}") from None
    found = record.get("format") if isinstance(record, dict) else None
    if found == HALVES_FORMAT:
        raise InputError(
            f"{source} is a plan of version 0.1, which scored people against random halves, as the paper does. "
            "Plan the study again: `truthful plan STUDY --save plan.json`."
        )
    if found != FORMAT:
        raise InputError(
            f"{source} has format {found!r}; a plan of this version has {FORMAT!r}. {PLAN_AGAIN}"
        )
    return dict(record)


def _checked_plan(record: dict[str, Any], source: str) -> Plan:
    """The plan of a record, which must match its hash."""
    try:
        study = Study.from_declaration(record["declaration"])
        plan = _rebuild(study, record)
        whole = study.sha256 == record["study"]["sha256"] and plan.sha256 == record["sha256"]
    except (AttributeError, KeyError, TypeError) as problem:
        raise InputError(
            f"{source} is not a whole plan ({problem} is wrong or missing). {PLAN_AGAIN}"
        ) from None
    except TruthfulError as problem:
        raise InputError(f"{source} is not a plan that can be carried out: {problem} {PLAN_AGAIN}") from None
    if not whole:
        raise InputError(
            f"{source} was changed by hand: its hash is not that of its parameters. {PLAN_AGAIN}"
        )
    return plan


def _rebuild(study: Study, record: dict[str, Any]) -> Plan:
    """Rebuild a plan from its record, exactly: nothing is planned again."""
    chosen = {name: value for name, value in record["parameters"].items() if value is not None}
    alpha, beta = chosen.pop("absent_share"), chosen.pop("failure_probability")
    protects, instruments, roster = chosen.pop("protects"), record["instruments"], record["roster"]
    transform = None if instruments is None else tuple(map(tuple, instruments["transform"]))
    mechanism: OneRelease | ShareRelease | AskedRelease
    if study.levels is not None:
        ends = chosen.pop("plausible_low", -math.inf), chosen.pop("plausible_high", math.inf)
        mechanism = AskedRelease(**chosen, plausible=ends, transform=transform)
    elif study.shares is not None:
        mechanism = ShareRelease(**chosen, transform=transform)
    else:
        mechanism = OneRelease(**chosen, design=study.second_moments, transform=transform)
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
    """Find a plan's study file, present or not: the ledger's place. A study that declares something else needs a new
    plan.
    """
    file = (path.parent / recorded["file"]).resolve()
    if file.exists() and Study.load(file).sha256 != recorded["sha256"]:
        raise Refused(
            f"{file.name} was changed after {path.name} was made from it. Plan again with `truthful plan`."
        )
    return file
