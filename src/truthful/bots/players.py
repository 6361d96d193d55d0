"""The participants among the bots: each follows her own link, decides, answers, and checks her payment at the end."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np

from truthful.agents import Honest, OptOut
from truthful.agents.games import Players, game
from truthful.bots.browser import Browser
from truthful.people import invent
from truthful.plan import Plan
from truthful.release import AnyRelease, Receipt, verify
from truthful.simulation.population import Role
from truthful.simulation.predictors import predictors
from truthful.study import Study
from truthful.study.features import sample_uniform


class Manner(enum.Enum):
    """What somebody does besides answering."""

    PLAIN = "answers"
    CHANGES = "answers, and then changes her answer"
    WITHDRAWS = "answers, and then takes her answer back"
    DISPUTES = "says that her features are wrong"
    CORRECTS = "says so, then that they are right after all, and answers"


#: How many of a hundred do what besides answering.
SHARES = {Manner.CHANGES: 0.05, Manner.WITHDRAWS: 0.02, Manner.DISPUTES: 0.01, Manner.CORRECTS: 0.02}

#: Agents who say what is true; all others say the opposite, where there is one.
TRUTHFUL = (Honest.name, OptOut.name)


@dataclass
class Bot:
    """One participant: who she is, what she will say, and what came of it."""

    kind: str
    features: dict[str, Any]
    answer: float | None
    manner: Manner = Manner.PLAIN
    first: float | None = None
    """What she says first, if she changes her answer."""
    prediction: float | None = None
    """What she thinks the others will say, if she is asked."""
    link: str = ""
    code: str = ""
    paid: float | None = None
    verified: bool = False

    @property
    def stays(self) -> bool:
        """Whether she has an answer in the end."""
        return self.answer is not None and self.manner not in (Manner.WITHDRAWS, Manner.DISPUTES)

    def visit(self, browser: Browser) -> None:
        """From her invitation to her answer, or away from it."""
        browser.open(self.link)
        if self.answer is None:
            return
        if self.manner in (Manner.DISPUTES, Manner.CORRECTS):
            browser.press("/dispute")
            if self.manner == Manner.DISPUTES:
                return
            browser.press("/undispute")
        browser.press("/consent")
        self.code = browser.cookie("code", self.link)
        if self.manner == Manner.CHANGES and self.first is not None:
            self._say(browser, self.first)
            browser.open(f"{self.link}/answer")
        self._say(browser, self.answer)
        if self.manner == Manner.WITHDRAWS:
            browser.open(f"{self.link}/withdraw")
            browser.press("/withdraw")

    def _say(self, browser: Browser, answer: float) -> None:
        asked = {} if self.prediction is None else {"prediction": repr(self.prediction)}
        browser.press("/review", {"answer": repr(answer), **asked})
        browser.press("/submit")

    def check(self, browser: Browser, release: AnyRelease) -> None:
        """Recompute her payment from the public release and her own receipt, of what she said and nothing else."""
        browser.open(self.link)
        browser.press("/code", {"code": self.code})
        receipt = Receipt.model_validate_json(browser.read(f"{self.link}/receipt.json"))
        self.paid = receipt.payment
        self.verified = (
            receipt.report == self.answer
            and receipt.prediction == self.prediction
            and dict(receipt.features) == self.features
            and verify(release, receipt).verified
        )


def invented(plan: Plan, roles: tuple[Role, ...], seed: int) -> dict[str, Bot]:
    """Participants by name, in their roles, who answer as their kind does."""
    study, rng = plan.study, np.random.default_rng(seed)
    declared = study.shares is None and study.levels is None
    features, answers = (_of_numbers if declared else _of_levels)(plan, roles, rng)
    predictions = _predictions(study, answers, rng)
    kinds = [role.agent.name for role in roles for _ in range(role.count)]
    shares = SHARES if study.features else {Manner.CHANGES: 0.05, Manner.WITHDRAWS: 0.02}
    manners = rng.choice(
        np.array([*shares, Manner.PLAIN], dtype=object),
        size=len(kinds),
        p=[*shares.values(), 1 - sum(shares.values())],
    )
    return {
        player: Bot(kind, row, answer, manner, _another(study, answer), prediction=prediction)
        for (player, row), kind, answer, manner, prediction in zip(
            features.items(), kinds, answers, manners, predictions, strict=True
        )
    }


def _predictions(
    study: Study, answers: list[float | None], rng: np.random.Generator
) -> list[float] | list[None]:
    """What people think the others will say: what these say, with errors of the size that is declared."""
    if study.levels is None:
        return [None] * len(answers)
    (low, high), response = study.prediction_range, study.response
    said = np.array([answer for answer in answers if answer is not None])
    level = (said.mean() - response.low) / (response.high - response.low)
    off = rng.normal(0.0, study.levels.sure / 2, len(answers))
    found: list[float] = (low + (high - low) * np.clip(level + off, 0.0, 1.0)).round(1).tolist()
    return found


def _another(study: Study, answer: float | None) -> float | None:
    """What somebody says before she changes her mind."""
    if answer is None:
        return None
    if study.shares is None:
        return round((answer + study.response.low) / 2, 2)
    return answer - 1 if answer > study.response.low else answer + 1


Invented = tuple[dict[str, dict[str, Any]], list[float | None]]


def _of_numbers(plan: Plan, roles: tuple[Role, ...], rng: np.random.Generator) -> Invented:
    """Features by name, and what is said; nothing by those who stay away."""
    study = plan.study
    count = max(role.players.stop for role in roles)
    rows = invent(study, count, rng).reports.to_pylist()
    features = {row.pop("player"): row for row in rows}
    raw = [row.pop(study.response.name) for row in rows]
    columns = {feature.name: [row[feature.name] for row in rows] for feature in study.features}
    x = study.normalise(columns, count)
    people = Players(x, study.normalise_response(raw, x), study.costs.sample(rng, count))
    rules = game(plan, predictors(plan, count)(max(1, plan.players // 2)))
    said = np.full(count, np.nan)
    for role in roles:
        said[role.players] = role.agent.reports(people[role.players], rules, rng)
    answers = np.clip(study.raw_response(said, x), study.response.low, study.response.high).round(2)
    return features, [None if np.isnan(answer) else float(answer) for answer in answers]


def _of_levels(plan: Plan, roles: tuple[Role, ...], rng: np.random.Generator) -> Invented:
    """The same of yes and no, and ratings, and where people are asked what the others will say.

    Whatever their features, and who does not tell the truth says the opposite.
    """
    study, response, beliefs = plan.study, plan.study.response, plan.study.declared.beliefs
    count = max(role.players.stop for role in roles)
    columns = sample_uniform(rng, count, study.declared.encoding.features)
    if study.shares is None:
        level = rng.uniform(*(beliefs.plausible or (response.low, response.high)))
        said = np.clip(rng.normal(level, beliefs.spread or 0.0, count), response.low, response.high).round(2)
    else:
        said = response.low + rng.binomial(
            response.values - 1, rng.uniform(*(beliefs.share or (0.0, 1.0))), count
        )
    for role in roles:
        if role.agent.name not in TRUTHFUL:
            said[role.players] = response.low + response.high - said[role.players]
    names = [f"p-{i:0{len(str(count))}d}" for i in range(1, count + 1)]
    plain = {name: values.tolist() for name, values in columns.items()}
    features = {player: {name: plain[name][i] for name in plain} for i, player in enumerate(names)}
    return features, [float(answer) for answer in said]
