"""A whole study over HTTP, by programs alone: from the analyst's sign-in to everybody's check of her own payment.

The analyst signs in, declares, plans, freezes a rehearsal, invites, closes and publishes. Each participant follows her
own link, decides, answers, and checks her payment at the end.
"""

from __future__ import annotations

import csv
import enum
import io
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from statistics import fmean
from types import MappingProxyType, TracebackType
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2
import numpy as np

from truthful import check
from truthful.agents import Exaggerator, Honest, OptOut
from truthful.agents.games import Players, game
from truthful.errors import InputError, Refused
from truthful.people import invent
from truthful.plan import Plan
from truthful.release import Receipt, Release, read_release, verify
from truthful.simulation.population import PopulationRole, assign_roles, read_agents
from truthful.simulation.predictors import predictors
from truthful.study import Study
from truthful.study.features import sample_uniform

PATIENCE_SECONDS = 120.0
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass
class Form:
    """Where a form is sent (nowhere: to its own page), how, and with which fields as they stand."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Button:
    """A button of a form: what it adds to the fields, and where it sends them, which may be its own matter."""

    action: str
    method: str
    form: Form
    adds: dict[str, str]


class Page(HTMLParser):
    """A page's buttons, and its complaint: what is to be read out at once."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.buttons: list[Button] = []
        self.complaint = ""
        self._forms: dict[str | None, Form] = {}
        self._form: Form | None = None
        self._alert: str | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if given.get("role") == "alert":
            self._alert = tag
        if tag == "form":
            self._form = Form(given.get("action", ""), given.get("method", "get"))
            self._forms[given.get("id")] = self._form
        elif tag == "input" and self._form is not None and "name" in given:
            if given.get("type") not in ("radio", "checkbox", "file") or "checked" in given:
                self._form.fields[given["name"]] = given.get("value", "")
        elif tag == "button":
            self._press(given)

    def _press(self, given: dict[str, str]) -> None:
        form = self._forms[given["form"]] if "form" in given else self._form
        if form is not None:
            adds = {given["name"]: given.get("value", "")} if "name" in given else {}
            action, method = given.get("formaction", form.action), given.get("formmethod", form.method)
            self.buttons.append(Button(action, method, form, adds))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        if tag == self._alert:
            self._alert = None

    def handle_data(self, data: str) -> None:
        if self._alert is not None:
            self.complaint = f"{self.complaint} {data}".strip()


class Browser:
    """One browser, on one page at a time. A page that refuses ends everything, with what it says."""

    def __init__(self, url: str) -> None:
        headers = {"Accept-Language": "en"}
        self._client = httpx2.Client(
            base_url=url, headers=headers, follow_redirects=True, timeout=PATIENCE_SECONDS
        )
        self.address, self.page = url, Page("")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._client.close()

    def open(self, address: str) -> Page:
        return self._show(self._request("GET", address))

    def read(self, address: str) -> str:
        """A file; the page stays the one it was."""
        return self._request("GET", address).text

    def press(
        self, end: str, values: Mapping[str, str] = NOTHING, file: tuple[str, str] | None = None
    ) -> Page:
        """Fill in a form of this page and press the button that sends it to an address with this end."""
        return self._show(self._send(end, values, file))

    def cookie(self, name: str, path: str) -> str:
        """What this browser was given to keep for the pages below a path; nothing if it was not."""
        kept = (cookie for cookie in self._client.cookies.jar if cookie.path == path)
        return next((cookie.value or "" for cookie in kept if cookie.name == name), "")

    def button(self, end: str) -> Button | None:
        """The button of this page that sends its form to an address with this end."""
        for button in self.page.buttons:
            if button.method == "post" and urlsplit(self._at(button.action)).path.endswith(end):
                return button
        return None

    def fetch(self, end: str) -> str:
        """Press a button that gives a file instead of a page."""
        return self._send(end, NOTHING, None).text

    def _send(self, end: str, values: Mapping[str, str], file: tuple[str, str] | None) -> httpx2.Response:
        button = self.button(end)
        if button is None:
            raise Refused(
                f"The page {self.address} has no button for {end!r}. Is it a service of this version?"
            )
        fields = {**button.form.fields, **button.adds, **values}
        files = None if file is None else {"file": file}
        return self._request("POST", button.action, data=fields, files=files)

    def _show(self, response: httpx2.Response) -> Page:
        self.address, self.page = str(response.url), Page(response.text)
        return self.page

    def _at(self, address: str) -> str:
        return urljoin(self.address, address)

    def _request(self, method: str, address: str, **what: object) -> httpx2.Response:
        try:
            response = self._client.request(method, self._at(address), **what)  # type: ignore[arg-type]
        except (httpx2.TransportError, httpx2.InvalidURL) as problem:
            raise InputError(
                f"The service at {self._client.base_url} does not answer ({problem}). Start it with: truthful serve"
            ) from None
        if response.status_code >= 400:
            said = Page(response.text).complaint or "it says no more"
            raise Refused(f"{method} {response.url.path} was answered by {response.status_code}: {said}")
        return response


#: What a plan allows for at least, and what each participant may cost: enough that the demo study can be planned.
LEAST_PANEL, BUDGET_EACH = 2_000, 5.0
#: Percent of them who will answer: some withdraw, or say that their features are wrong.
ANSWERING = 90
INVITATION = """[invitation]
asked_by = "Programs that rehearse"
purpose = "To see that the service works from the invitation to the payment. Nobody is asked and nobody is paid."
contact = "whoever started these programs"

[response]"""
WELCOME = "/welcome/"
LOOK_SECONDS, PATIENCE_SECONDS = 0.2, 600.0


def demo_study() -> str:
    """The packaged study, with an invitation."""
    return inviting(resources.files("truthful").joinpath("demo.toml").read_text(encoding="utf-8"))


def inviting(text: str) -> str:
    """A study's file, with an invitation if it has none."""
    return text if "\n[invitation]" in text else text.replace("[response]", INVITATION, 1)


class Analyst:
    """One study in the hands of one analyst."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._path = ""

    def sign_in(self, url: str, name: str, password: str | None) -> str:
        """By a one-time link, which sets the password, or by name and password; the password."""
        if urlsplit(url).path.startswith(WELCOME):
            password = password or secrets.token_urlsafe(12)
            self._browser.open(url)
            self._browser.press(urlsplit(url).path, {"password": password})
            return password
        if password is None:
            raise Refused("Give the analyst's --password, or the sign-in link that `truthful serve` prints.")
        self._browser.open("/sign-in")
        self._browser.press("/sign-in", {"name": name, "password": password})
        return password

    def declare(self, text: str) -> None:
        self._browser.open("/studies")
        self._browser.press("/studies/upload", file=("study.toml", text))
        self._path = urlsplit(self._browser.address).path

    @property
    def study_id(self) -> str:
        return self._path.rsplit("/", 1)[-1]

    def plan(self, players: int) -> Plan:
        panel = max(players, LEAST_PANEL)
        wishes = f"players={panel}&budget={BUDGET_EACH * panel:.0f}&response_share={ANSWERING}"
        self._browser.open(f"{self._path}/plan?{wishes}")
        self._browser.press("/plan")
        return Plan.parse(self._browser.read(f"{self._path}/plan.json"))

    def freeze(self) -> None:
        """As a rehearsal: nobody is asked."""
        self._browser.open(f"{self._path}/freeze")
        self._browser.press("/freeze", {"for": "rehearsal"})

    def invite(self, people: list[dict[str, Any]]) -> dict[str, str]:
        """Bring a roster; everybody's link."""
        roster = io.StringIO()
        writer = csv.DictWriter(roster, list(people[0]))
        writer.writeheader()
        writer.writerows(people)
        self._browser.open(self._path)
        self._browser.press("/roster", file=("roster.csv", roster.getvalue()))
        links = csv.DictReader(io.StringIO(self._browser.fetch("/links").removeprefix("\ufeff")))
        return {row["player"]: row["link"] for row in links}

    def close(self, name: str) -> None:
        self._browser.open(f"{self._path}/close")
        self._browser.press("/close", {"name": name})

    def publish(self) -> str:
        """Wait for the settlement and make it public; the release as everybody sees it.

        With far fewer participants than a plan needs, less can be guaranteed than it promises: that is accepted.
        """
        given_up = time.monotonic() + PATIENCE_SECONDS
        self._browser.open(self._path)
        while self._browser.button("/publish") is None:
            if self._browser.button("/accept") is not None:
                self._browser.press("/accept")
            if (complaint := self._browser.page.complaint) or time.monotonic() > given_up:
                raise Refused(f"The study was not settled: {complaint or 'it takes too long'}")
            time.sleep(LOOK_SECONDS)
            self._browser.open(self._path)
        self._browser.press("/publish")
        return self._browser.read(f"/s/{self.study_id}/release.json")


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

    def check(self, browser: Browser, release: Release) -> None:
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


def invent_bots(plan: Plan, roles: tuple[PopulationRole, ...], seed: int) -> dict[str, Bot]:
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


def _of_numbers(plan: Plan, roles: tuple[PopulationRole, ...], rng: np.random.Generator) -> Invented:
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


def _of_levels(plan: Plan, roles: tuple[PopulationRole, ...], rng: np.random.Generator) -> Invented:
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


BROWSERS = 8
LEAST_PLAYERS = 60  # fewer would leave too few people to each level, and sums over these are published
#: A word for those who do not tell the truth, and which of the agents they are.
LIAR = "liar"

Tell = Callable[[str], None]


@dataclass(frozen=True)
class RehearsalOutcome:
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
) -> RehearsalOutcome:
    """Run a study, by default the packaged one, as a rehearsal on the service at this URL, or sign-in link."""
    started = time.perf_counter()
    check.integer("players", players, least=LEAST_PLAYERS)
    roles = assign_roles(read_agents(mix.replace(LIAR, Exaggerator.name)), players)
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
        bots = invent_bots(plan, roles, seed)
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
    return RehearsalOutcome(
        url=f"{home}/s/{analyst.study_id}",
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
