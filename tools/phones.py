"""A participant's pages as pictures for the documentation: as they are on a phone, two side by side.

Links, codes and noise differ from run to run. So a picture holds the hash of what its pages are made of, and is taken
again when a template, a text or the style has changed.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from support import both_studies
from support.browsers import keep, opened, program, shown_in
from support.listening import listening
from support.participant_pages import ASKING
from support.serving import PAYER, PLAYERS, WHO, answer_all, bring, close, settle_with_less
from support.studies import people

from truthful.plan import Plan, design
from truthful.service.pages import Service
from truthful.service.settle_study import freeze
from truthful.store import accounts, studies
from truthful.store.tables import Role
from truthful.study import Study

if TYPE_CHECKING:
    from playwright.sync_api import Page

PICTURES = (
    *("participant-asked.png", "participant-answered.png", "participant-paid.png"),
    "participant-both.png",
)
PAYS = "Accounts office"
NAMED = (
    ASKING.replace("Designed", "Weekly groceries")
    .replace(PAYER, PAYS)
    .replace('kind = "uniform"', 'kind = "observed"')
    .replace("[beliefs]", '[privacy]\nprotects = "answers"\n[beliefs]')
)
BOTH = both_studies.NUMBER.replace("scale = 0.0005", "scale = 0.05").replace(
    "[invitation]\n", f'[invitation]\npayer = "{PAYS}"\n'
)
WIDTH, HEIGHT, GAP = 390, 780, 24
BETWEEN = (200, 204, 208)
MADE_OF = ("static/style.css", "templates/base.html", "templates/participant", "texts/en/participant.toml")


def made_of() -> str:
    """The hash of all that decides how the pages look."""
    service = resources.files("truthful.service")
    parts = b"".join(_read(service.joinpath(*name.split("/"))) for name in MADE_OF)
    return hashlib.sha256(parts).hexdigest()


def _read(place: Traversable) -> bytes:
    if place.is_file():
        return place.read_bytes()
    return b"".join(_read(part) for part in sorted(place.iterdir(), key=lambda part: part.name))


def take(directory: Path) -> None:
    """All pictures; nothing without a browser, or if they are of these pages."""
    shown = made_of()
    paths = [directory / name for name in PICTURES]
    if program() is None or all(path.exists() and shown_in(path) == shown for path in paths):
        return
    with (
        tempfile.TemporaryDirectory() as scratch,
        opened() as browser,
        listening(Path(scratch)) as (url, its),
    ):
        view = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        for views, path in zip(_views(view, url, its), paths, strict=True):
            keep(_side_by_side(views), path, shown)


def _views(view: Page, url: str, service: Service) -> Iterator[list[bytes]]:
    """The invitation, and what it says of privacy; an answer, and its receipt; the payment, and its check.

    And where she is also asked what the others will say, both questions, and the steps of what she is paid.
    """
    listed = Study.parse(NAMED)
    study = bring(
        service,
        _frozen(service, NAMED, design(listed, roster=people(listed, 1_000).reports, budget=8_000)),
        PLAYERS,
    )
    player, link = next(iter(study.links.items()))
    view.goto(f"{url}/a/{link}")
    asked = view.screenshot()
    view.click("summary:has-text('What others can learn')")
    yield [asked, _from(view, "summary:has-text('What others can learn')")]
    view.click("button:has-text('I take part')")
    view.fill("#answer", f"{study.answers[player]:.0f}")
    view.click("button:has-text('Continue')")
    view.wait_for_selector("h1:has-text('Is this right?')")
    review = view.screenshot()
    view.click("button:has-text('Send my answer')")
    view.wait_for_selector("h1:has-text('Your answer counts')")
    yield [review, view.screenshot()]
    answer_all(
        service, replace(study, links={who: other for who, other in study.links.items() if who != player})
    )
    close(service, study.study_id)
    settle_with_less(service, study.study_id)
    view.goto(f"{url}/a/{link}")
    paid = view.screenshot()
    view.click("#check-run")
    view.wait_for_selector("[data-said=agrees]:not([hidden])")
    yield [paid, _from(view, "#check")]
    yield _both(view, url, service)


def _both(view: Page, url: str, service: Service) -> list[bytes]:
    plan = design(Study.parse(BOTH), players=2_000, budget=2_000)
    study = bring(service, _frozen(service, BOTH, plan), 2_000)
    player, link = next(iter(study.links.items()))
    view.goto(f"{url}/a/{link}")
    view.click("button:has-text('I take part')")
    view.fill("#answer", f"{study.answers[player]:.0f}")
    view.fill("#prediction", f"{study.predictions[player]:.0f}")
    asked = view.screenshot()
    view.click("button:has-text('Continue')")
    view.click("button:has-text('Send my answers')")
    view.wait_for_selector("h1:has-text('Your answer counts')")
    answer_all(
        service, replace(study, links={who: other for who, other in study.links.items() if who != player})
    )
    close(service, study.study_id)
    settle_with_less(service, study.study_id)
    view.goto(f"{url}/a/{link}")
    view.click("summary:has-text('Show every step')")
    return [asked, _from(view, "h2:has-text('How it was computed')")]


def _frozen(service: Service, text: str, plan: Plan) -> str:
    """A study of some thousand people, as its analyst planned it."""
    with service.database.writing() as session:
        stored = studies.create(session, WHO, tomllib.loads(text))
        stored.name, stored.declaration, stored.plan = plan.study.name, text, json.dumps(plan.record())
        study_id = stored.id
        accounts.account(session, PAYS, Role.PAYER, WHO)
    freeze(service.database, service.locations, study_id, WHO, rehearsal=False)
    return study_id


def _from(view: Page, selector: str) -> bytes:
    """What a phone shows when one has scrolled to this."""
    view.locator(selector).evaluate(
        "part => window.scrollTo(0, part.getBoundingClientRect().top + scrollY - 4)"
    )
    return view.screenshot()


def _side_by_side(views: list[bytes]) -> Image.Image:
    pictures = [Image.open(io.BytesIO(view)) for view in views]
    sheet = Image.new("RGB", (len(pictures) * (WIDTH + GAP) + GAP, HEIGHT + 2 * GAP), BETWEEN)
    for at, picture in enumerate(pictures):
        sheet.paste(picture, (GAP + at * (WIDTH + GAP), GAP))
    return sheet
