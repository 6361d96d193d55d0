"""The participants among the bots: each follows her own link, decides, answers, and checks her payment at the end."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np

from truthful.agents.game import Players, game
from truthful.bots.browser import Browser
from truthful.people import invent
from truthful.plan import Plan
from truthful.release import AnyRelease, Receipt, verify
from truthful.simulation.cast import Role
from truthful.simulation.predictors import predictors


class Manner(enum.Enum):
    """What somebody does besides answering."""

    PLAIN = "answers"
    CHANGES = "answers, and then changes her answer"
    WITHDRAWS = "answers, and then takes her answer back"
    DISPUTES = "says that her features are wrong"
    CORRECTS = "says so, then that they are right after all, and answers"


#: How many of a hundred do what besides answering.
SHARES = {Manner.CHANGES: 0.05, Manner.WITHDRAWS: 0.02, Manner.DISPUTES: 0.01, Manner.CORRECTS: 0.02}


@dataclass
class Bot:
    """One participant: who she is, what she will say, and what came of it."""

    kind: str
    features: dict[str, Any]
    answer: float | None
    manner: Manner = Manner.PLAIN
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
        if self.manner == Manner.CHANGES:
            self._say(browser, round(self.answer / 2, 2))
            browser.open(f"{self.link}/answer")
        self._say(browser, self.answer)
        if self.manner == Manner.WITHDRAWS:
            browser.open(f"{self.link}/withdraw")
            browser.press("/withdraw")

    def _say(self, browser: Browser, answer: float) -> None:
        browser.press("/review", {"answer": repr(answer)})
        browser.press("/submit")

    def check(self, browser: Browser, release: AnyRelease) -> None:
        """Recompute her payment from the public release and her own receipt, of what she said and nothing else."""
        browser.open(self.link)
        browser.press("/code", {"code": self.code})
        receipt = Receipt.model_validate_json(browser.read(f"{self.link}/receipt.json"))
        self.paid = receipt.payment
        self.verified = (
            receipt.report == self.answer
            and dict(receipt.features) == self.features
            and verify(release, receipt).verified
        )


def invented(plan: Plan, roles: tuple[Role, ...], seed: int) -> dict[str, Bot]:
    """Participants by name, in their roles, who answer as their kind does."""
    study, rng = plan.study, np.random.default_rng(seed)
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
    kinds = [role.agent.name for role in roles for _ in range(role.count)]
    manners = rng.choice(
        np.array([*SHARES, Manner.PLAIN], dtype=object),
        size=count,
        p=[*SHARES.values(), 1 - sum(SHARES.values())],
    )
    return {
        player: Bot(kind, row, None if np.isnan(answer) else float(answer), manner)
        for (player, row), kind, answer, manner in zip(features.items(), kinds, answers, manners, strict=True)
    }
