"""The analyst among the bots: signs in, declares, plans, freezes a rehearsal, invites, closes and publishes."""

from __future__ import annotations

import csv
import io
import secrets
import time
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

from truthful.bots.browser import Browser
from truthful.errors import Refused
from truthful.plan import Plan

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
    def survey_id(self) -> str:
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
        return self._browser.read(f"/s/{self.survey_id}/release.json")
