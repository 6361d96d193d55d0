"""A whole study over HTTP, by programs alone: from the analyst's sign-in to everybody's check of her own payment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.parse import urlsplit

from truthful import check
from truthful.agents import Exaggerator
from truthful.bots.analyst import Analyst, demo_study, inviting
from truthful.bots.browser import Browser
from truthful.bots.players import Bot, invented
from truthful.errors import InputError, Refused
from truthful.release import read_release
from truthful.simulation.population import cast, read_agents
from truthful.study import Study

BROWSERS = 8
LEAST_PLAYERS = 60  # fewer would leave too few people to each level, and sums over these are published
#: A word for those who do not tell the truth, and which of the agents they are.
LIAR = "liar"

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """What came of a rehearsal."""

    url: str
    players: int
    answered: int
    paid: int
    verified: int
    mean_payments: dict[str, float]
    currency: str
    seconds: float

    @property
    def whole(self) -> bool:
        """Whether everybody who answered was paid, and found her payment right."""
        return self.answered == self.paid == self.verified

    def words(self) -> str:
        """A short report."""
        means = ", ".join(f"{kind} {mean:.4f} {self.currency}" for kind, mean in self.mean_payments.items())
        return (
            f"{self.answered:,} answered, {self.paid:,} were paid, {self.verified:,} found their payment right.\n"
            f"Mean payment: {means}.\n{self.url} in {self.seconds:.0f} seconds."
        )

    def record(self) -> dict[str, Any]:
        return {**vars(self), "whole": self.whole}


def rehearse(
    url: str,
    *,
    players: int,
    mix: str,
    name: str,
    password: str | None,
    seed: int,
    tell: Tell,
    study_file: Path | None = None,
) -> Outcome:
    """Run a study, by default the packaged one, as a rehearsal on the service at this URL, or sign-in link."""
    started = time.perf_counter()
    check.integer("players", players, least=LEAST_PLAYERS)
    roles = cast(read_agents(mix.replace(LIAR, Exaggerator.name)), players)
    home, text = _home(url), demo_study() if study_file is None else inviting(_read(study_file))
    with Browser(home) as browser:
        analyst = Analyst(browser)
        said = analyst.sign_in(url, name, password)
        tell("Signed in." if password else f"Signed in; the analyst's password is now {said}")
        analyst.declare(text)
        plan = analyst.plan(players)
        study = plan.study
        analyst.freeze()
        tell(f"Froze {study.name!r} as a rehearsal, at epsilon {plan.mechanism.epsilon:.3g}.")
        bots = invented(plan, roles, seed)
        links = analyst.invite([{"player": player, **bot.features} for player, bot in bots.items()])
        for player, link in links.items():
            bots[player].link = urlsplit(link).path
        _together(home, bots.values(), Bot.visit)
        stayed = [bot for bot in bots.values() if bot.stays]
        tell(f"{len(stayed):,} of {players:,} answered.")
        analyst.close(study.name)
        release = read_release(analyst.publish().encode())
    if not release.rehearsal:
        raise Refused(
            "The release is not marked a rehearsal, though the study was frozen as one. Report this."
        )
    _together(home, stayed, lambda bot, browser: bot.check(browser, release))
    return Outcome(
        url=f"{home}/s/{analyst.survey_id}",
        players=players,
        answered=release.players if release.players == len(stayed) else -1,
        paid=sum(bot.paid is not None for bot in stayed),
        verified=sum(bot.verified for bot in stayed),
        mean_payments=_means(stayed),
        currency=study.currency,
        seconds=time.perf_counter() - started,
    )


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"The study file {str(path)!r} cannot be read: {problem}.") from None
    study = Study.parse(text)
    if study.features and study.design.kind in ("observed", "covariance"):
        raise InputError(
            f"The facts of {study.name!r} are people's own, so it is planned from people, and programs have none. "
            "Declare design.kind = 'uniform', or leave the features out."
        )
    return text


def _home(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(
            f"The URL is {url!r}; give the service's, as http://127.0.0.1:8000, or a sign-in link."
        )
    return f"{parts.scheme}://{parts.netloc}"


def _together(home: str, bots: Iterable[Bot], act: Callable[[Bot, Browser], None]) -> None:
    """All of them, in several browsers at a time."""
    everybody = list(bots)

    def some(k: int) -> None:
        with Browser(home) as browser:
            for bot in everybody[k::BROWSERS]:
                act(bot, browser)

    with ThreadPoolExecutor(BROWSERS) as pool:
        list(pool.map(some, range(BROWSERS)))


def _means(bots: list[Bot]) -> dict[str, float]:
    """The mean payment of each kind."""
    kinds = dict.fromkeys(bot.kind for bot in bots)
    return {kind: fmean(bot.paid or 0.0 for bot in bots if bot.kind == kind) for kind in kinds}
