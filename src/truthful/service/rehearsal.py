"""A whole study over HTTP, run by bots: from the analyst's sign-in to each participant's check of her own payment.

The analyst signs in, declares, plans, freezes a rehearsal, invites, closes and publishes. Each participant follows her
own link, decides, answers, and checks her payment at the end. Some change their answer, take it back, or say that their
facts are wrong: their answers must not count.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
import re
import secrets
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.parse import urlsplit

import httpx2
import numpy as np

from truthful import check
from truthful.agents import Exaggerator, Honest, OptOut
from truthful.agents.games import Players, game
from truthful.check import Floats
from truthful.errors import InputError, Refused
from truthful.people import invent
from truthful.plan import Plan
from truthful.release import Receipt, Release, read_release, verify
from truthful.service.pages import csv_text
from truthful.service.participant import CODE
from truthful.simulation.population import PopulationRole, assign_roles, read_agents
from truthful.simulation.predictors import predictor_of
from truthful.study import Study
from truthful.study.declaration import PLAYER, PREDICTION

#: In seconds: timeouts for a page and for a settlement, and the pause between looks.
PAGE_SECONDS, SETTLING_SECONDS, LOOK_SECONDS = 120.0, 600.0, 0.2
#: The fewest people to plan for, and the budget for each: enough that the demo study can be planned.
LEAST_PANEL, BUDGET_EACH = 2_000, 5.0
#: The percentage of people that the plan expects to answer.
ANSWERING = 90
INVITATION = """[invitation]
asked_by = "The makers of truthful"
purpose = "To show how a study runs. Everybody in it is invented, and nobody is paid."
contact = "whoever started this service"
"""
#: The line that names the payer, where a study names none.
ASKER_PAYS = "asker_pays = true\n"
BROWSERS = 8
LEAST_PLAYERS = 60  # with fewer, some levels have too few people to publish sums over
#: One in so many changes her answer; withdraws; disputes her facts for good, and another disputes them and then
#: accepts them.
CHANGING, WITHDRAWING, DISPUTING = 20, 50, 50
#: The name for people who do not tell the truth, in a mix of agents.
LIAR = "liar"
#: Agents who tell the truth; all others report the opposite, where there is one.
TRUTHFUL = (Honest.name, OptOut.name)


def demo_study(payer: str | None = None) -> str:
    """The demo study's file, with an invitation."""
    return add_invitation(
        resources.files("truthful").joinpath("demo.toml").read_text(encoding="utf-8"), payer
    )


def add_invitation(text: str, payer: str | None = None) -> str:
    """A study file, with an invitation and a payer added if it has none: this payer, or the asker."""
    if "\n[invitation]" not in text:
        text = text.replace("[response]", f"{INVITATION}\n[response]", 1)
    invitation = Study.parse(text).declared.invitation
    if invitation is None or invitation.payer or invitation.asker_pays:
        return text
    pays = ASKER_PAYS if payer is None else f"payer = {json.dumps(payer, ensure_ascii=False)}\n"
    return text.replace("\n[invitation]\n", f"\n[invitation]\n{pays}", 1)


class Browser(httpx2.Client):
    """An HTTP client with cookies. A refused request raises Refused with the page's message."""

    def __init__(self, url: str) -> None:
        headers = {"Accept-Language": "en"}
        super().__init__(base_url=url, headers=headers, follow_redirects=True, timeout=PAGE_SECONDS)

    def request(self, *asked: Any, **what: Any) -> httpx2.Response:
        try:
            response = super().request(*asked, **what)
        except (httpx2.TransportError, httpx2.InvalidURL) as problem:
            raise InputError(
                f"The service at {self.base_url} does not answer ({problem}). Start it with: truthful serve"
            ) from None
        if response.status_code >= 400:
            alert = complaint(response.text) or "it says no more"
            method, path = response.request.method, response.url.path
            raise Refused(f"{method} {path} was answered by {response.status_code}: {alert}")
        return response


def complaint(page: str) -> str:
    """The alerts of a page, as plain text."""
    alerts = re.findall(r'<(p|div)[^>]* role="alert"[^>]*>(.*?)</\1>', page, re.DOTALL)
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", alert)).strip() for _, alert in alerts)


@dataclass
class Bot:
    """One simulated participant: her features, her planned moves, and their outcome."""

    kind: str
    features: dict[str, Any]
    answer: float | None
    """None if she stays away."""
    prediction: float | None
    """Her prediction of the others' answers, if one is asked for."""
    first: float | None = None
    """The answer she gives first, if she changes it later."""
    disputes: tuple[str, ...] = ()
    """Her disputes, in order: "dispute", then perhaps "undispute"."""
    withdraws: bool = False
    link: str = ""
    code: str = ""
    paid: float | None = None
    verified: bool = False

    @property
    def stays(self) -> bool:
        """Whether her answer counts in the end."""
        return self.answer is not None and not self.withdraws and self.disputes[-1:] != ("dispute",)

    def visit(self, browser: Browser) -> None:
        """Open the invitation and carry out her moves."""
        browser.cookies.clear()  # of whoever used this browser before her
        browser.get(self.link)
        if self.answer is None:
            return
        for step in self.disputes:
            browser.post(f"{self.link}/{step}")
        if self.disputes and not self.stays:
            return
        browser.post(f"{self.link}/consent")
        self.code = next(cookie.value or "" for cookie in browser.cookies.jar if CODE in cookie.name)
        for answer in (self.first, self.answer):
            values = {"answer": answer, "prediction": self.prediction}
            sent = {name: repr(value) for name, value in values.items() if value is not None}
            for step in ("review", "submit") if answer is not None else ():
                browser.post(f"{self.link}/{step}", data=sent)
        if self.withdraws:
            browser.post(f"{self.link}/withdraw")

    def check(self, browser: Browser, release: Release) -> None:
        """Recompute her payment from the public release and her receipt, which must match her answer and features."""
        browser.cookies.clear()
        browser.post(f"{self.link}/code", data={"code": self.code})
        receipt = Receipt.model_validate_json(browser.get(f"{self.link}/receipt.json").text)
        self.paid = receipt.payment
        self.verified = (
            receipt.report == self.answer
            and receipt.prediction == self.prediction
            and dict(receipt.features) == self.features
            and verify(release, receipt).verified
        )


def invent_bots(plan: Plan, roles: tuple[PopulationRole, ...], seed: int) -> dict[str, Bot]:
    """Bots by player id, which answer as the agents of their roles do."""
    study, rng = plan.study, np.random.default_rng(seed)
    rows = invent(study, max(role.players.stop for role in roles), rng).reports.to_pylist()
    true = np.array([row.pop(study.response.name) for row in rows])
    declared = study.shares is None and study.levels is None
    answers = _reports(plan, roles, rows, true, rng) if declared else _opposites(study, roles, true)
    kinds = [role.agent.name for role in roles for _ in range(role.count)]
    bots: dict[str, Bot] = {}
    for kind, row, value in zip(kinds, rows, answers, strict=True):
        answer, prediction = None if np.isnan(value) else round(float(value), 2), row.pop(PREDICTION, None)
        first = study.response.low if len(bots) % CHANGING == 0 else None
        moves = {1: ("dispute",), 2: ("dispute", "undispute")} if study.features else {}
        disputes, withdraws = moves.get(len(bots) % DISPUTING, ()), len(bots) % WITHDRAWING == 3
        bots[row.pop(PLAYER)] = Bot(kind, row, answer, prediction, first, disputes, withdraws)
    return bots


def _reports(
    plan: Plan, roles: tuple[PopulationRole, ...], rows: list[dict[str, Any]], true: Floats, rng: Any
) -> Floats:
    """The agents' answers where those are numbers and no predictions are asked for; NaN if they stay away."""
    study, count = plan.study, len(rows)
    x = study.normalise({f.name: [row[f.name] for row in rows] for f in study.features}, count)
    people = Players(x, study.normalise_response(true, x), study.costs.sample(rng, count))
    rules = game(plan, predictor_of(plan, count))
    reported = np.full(count, np.nan)
    for role in roles:
        reported[role.players] = role.agent.reports(people[role.players], rules, rng)
    return np.clip(study.raw_response(reported, x), study.response.low, study.response.high)


def _opposites(study: Study, roles: tuple[PopulationRole, ...], true: Floats) -> Floats:
    """True answers, except that agents who do not tell the truth report the opposite."""
    reported = true.copy()
    for role in roles:
        if role.agent.name not in TRUTHFUL:
            reported[role.players] = study.response.low + study.response.high - reported[role.players]
    return reported


@dataclass(frozen=True)
class RehearsalOutcome:
    """The outcome of a rehearsal."""

    url: str
    players: int
    answered: int
    paid: int
    verified: int
    taken: int
    mean_payments: dict[str, float]
    currency: str
    seconds: float

    @property
    def whole(self) -> bool:
        """Whether everybody who answered was paid, verified her payment, and is in the payer's file."""
        return self.answered == self.paid == self.verified == self.taken

    def words(self) -> str:
        means = ", ".join(f"{kind} {mean:.4f} {self.currency}" for kind, mean in self.mean_payments.items())
        return (
            f"{self.answered:,} answered, {self.paid:,} were paid, {self.verified:,} found their payment right.\n"
            f"The payer's file has {self.taken:,} of these payments, in coins.\n"
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
    tell: Callable[[str], None],
    study_file: Path | None = None,
    payer_link: str | None = None,
) -> RehearsalOutcome:
    """Run a study, by default the demo's, as a rehearsal on the service at this URL or sign-in link."""
    started = time.perf_counter()
    check.integer("players", players, least=LEAST_PLAYERS)
    roles = assign_roles(read_agents(mix.replace(LIAR, Exaggerator.name)), players)
    home = _home(url)
    with Browser(home) as analyst, Browser(home) as payer:
        pays = None if payer_link is None else _sign_in_payer(payer, payer_link)
        text = demo_study(pays) if study_file is None else add_invitation(_read(study_file), pays)
        used_password = _sign_in(analyst, url, name, password)
        tell("Signed in." if password else f"Signed in; the analyst's password is now {used_password}")
        page = analyst.post("/studies/upload", files={"file": ("study.toml", text)}).url.path
        plan = _plan(analyst, page, max(players, LEAST_PANEL))
        study = plan.study
        analyst.post(f"{page}/freeze", data={"for": "rehearsal"})
        tell(f"Froze {study.name!r} as a rehearsal, at epsilon {plan.mechanism.epsilon:.3g}.")
        bots = invent_bots(plan, roles, seed)
        _invite(analyst, page, bots)
        _act_all(home, bots.values(), Bot.visit)
        stayed = [bot for bot in bots.values() if bot.stays]
        tell(f"{len(stayed):,} of {players:,} answered.")
        analyst.post(f"{page}/close", data={"name": study.name})
        public = f"/s/{page.rsplit('/', 1)[-1]}"
        release = _publish(analyst, page, public)
        _act_all(home, stayed, lambda bot, browser: bot.check(browser, release))
        owed = _take_payments(analyst if payer_link is None else payer, page)
    return RehearsalOutcome(
        url=home + public,
        players=players,
        answered=release.players if release.players == len(stayed) else -1,
        paid=sum(bot.paid is not None for bot in stayed),
        verified=sum(bot.verified for bot in stayed),
        taken=sum(_in_coins(owed.get(player), bots[player].paid) for player in bots if bots[player].stays),
        mean_payments={
            kind: fmean(bot.paid or 0.0 for bot in stayed if bot.kind == kind)
            for kind in dict.fromkeys(bot.kind for bot in stayed)
        },
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


def _sign_in(analyst: Browser, url: str, name: str, password: str | None) -> str:
    """Sign in by a one-time link, which sets a password, or by name and password; the password."""
    path = urlsplit(url).path
    if path.startswith("/welcome/"):
        password = password or secrets.token_urlsafe(12)
        analyst.post(path, data={"password": password})
    elif password is None:
        raise Refused("Give the analyst's --password, or the sign-in link that `truthful serve` prints.")
    else:
        analyst.post("/sign-in", data={"name": name, "password": password})
    return password


def _sign_in_payer(payer: Browser, link: str) -> str:
    """Sign the payer in by her one-time link; her name, for the study's invitation."""
    path = urlsplit(link).path
    shown = re.search(r'<input id="name" value="([^"]*)"', payer.get(path).text)
    payer.post(path, data={"password": secrets.token_urlsafe(12)})
    if shown is None:
        raise Refused(
            f"{link} is not a payer's sign-in link. Make one: truthful account add DIRECTORY NAME --role payer"
        )
    return html.unescape(shown[1])


def _take_payments(payer: Browser, page: str) -> dict[str, Decimal]:
    """Everybody's amount in the payer's file, by player."""
    file = payer.post(f"/payments/{page.rsplit('/', 1)[-1]}/payments.csv").text
    return {row[PLAYER]: Decimal(row["amount"]) for row in csv.DictReader(io.StringIO(file))}


def _in_coins(coins: Decimal | None, exact: float | None) -> bool:
    """Whether an amount in coins is a valid rounding of an exact one: less than a coin away."""
    if coins is None or exact is None:
        return False
    return abs(float(coins) - exact) < math.pow(10.0, float(coins.as_tuple().exponent))


def _plan(analyst: Browser, page: str, panel: int) -> Plan:
    wishes = {"players": str(panel), "budget": f"{BUDGET_EACH * panel:.0f}", "response_share": str(ANSWERING)}
    if analyst.post(f"{page}/plan", data=wishes).url.path != page:
        raise Refused(f"No plan for {panel:,} people was found. See why at {page}/plan.")
    return Plan.parse(analyst.get(f"{page}/plan.json").text)


def _invite(analyst: Browser, page: str, bots: dict[str, Bot]) -> None:
    """Upload a roster, and give each bot its link."""
    names = [PLAYER, *next(iter(bots.values())).features]
    roster = csv_text(names, *([player, *bot.features.values()] for player, bot in bots.items()))
    analyst.post(f"{page}/roster", files={"file": ("roster.csv", roster)})
    for row in csv.DictReader(io.StringIO(analyst.post(f"{page}/links").text)):
        bots[row[PLAYER]].link = urlsplit(row["link"]).path


def _publish(analyst: Browser, page: str, public: str) -> Release:
    """Wait for the settlement and publish it; the public release.

    With far fewer participants than planned the guarantees are weaker than promised, which is accepted.
    """
    given_up = time.monotonic() + SETTLING_SECONDS
    while f'{page}/publish"' not in (shown := analyst.get(page).text):
        if f'{page}/accept"' in shown:
            analyst.post(f"{page}/accept")
        elif (alert := complaint(shown)) or time.monotonic() > given_up:
            raise Refused(f"The study was not settled: {alert or 'it takes too long'}")
        time.sleep(LOOK_SECONDS)
    analyst.post(f"{page}/publish")
    release = read_release(analyst.get(f"{public}/release.json").content)
    if not release.rehearsal:
        raise Refused(
            "The release is not marked a rehearsal, though the study was frozen as one. Report this."
        )
    return release


def _act_all(home: str, bots: Iterable[Bot], act: Callable[[Bot, Browser], None]) -> None:
    """Let all bots act, in several browsers at a time."""
    all_bots = list(bots)

    def act_in_turn(k: int) -> None:
        with Browser(home) as browser:
            for bot in all_bots[k::BROWSERS]:
                act(bot, browser)

    with ThreadPoolExecutor(BROWSERS) as pool:
        list(pool.map(act_in_turn, range(BROWSERS)))
