"""The pages of yes or no, of ratings, and of both questions, in a real browser: accessible, usable without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from support import both_studies
from support.accessibility import GERMAN_ZOOMED, LAYOUT, PHONE, violations, violations_anywhere
from support.analyst_pages import NAME, sign_up
from support.browsers import Windows, opened, unfold
from support.listening import listening
from support.participant_pages import ASKING, settled
from support.serving import PASSWORD, Asked, asked, code_of, draft
from support.shares import KINDS, RATING, WITH_FEATURES, YES_NO
from support.windows import DECIDING, SCREENS, screens_to_decide

from truthful.service.pages import Service

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
STUDIES = {"yes or no": YES_NO, "rating": RATING, "facts": WITH_FEATURES}
ASKED = {"number, asked": both_studies.NUMBER, "yes or no, asked": both_studies.YES_NO}
#: What axe looks at, in studies whose pages are not made of the same elements: of participants, ...
HERS = {
    "invited": ("facts", "number, asked", "yes or no, asked"),
    "question": ("yes or no", "rating", "number, asked", "yes or no, asked"),
    "refused": ("rating", "number, asked", "yes or no, asked"),
    "review": ("rating", "number, asked"),
    "paid": ("facts", "number, asked", "yes or no, asked"),
}
#: ... of the analyst, ...
DRAFTED = {
    "edit/question": ("yes or no", "rating"),
    "edit/people": ("facts", "number, asked"),
    "edit/beliefs": ("facts", "number, asked", "yes or no, asked"),
    "plan": ("rating", "facts", "number, asked"),
    "freeze": ("rating", "facts", "number, asked"),
}
#: ... and of everybody, while a study is open and when it is published.
PUBLIC = ("rating", "facts", "number, asked", "yes or no, asked")
#: The least that a finger hits.
TARGET = 48


@dataclass(frozen=True)
class Site:
    """A browser, and a service with studies that are open, planned and published."""

    windows: Windows
    url: str
    service: Service
    open: dict[str, Asked]
    ended: dict[str, Asked]
    drafts: dict[str, str]
    signed_in: Any

    def hers(self, name: str, kind: str, **settings: Any) -> Page:
        """A participant's page, reached as she reaches it, with all unfolded."""
        study = (self.ended if name == "paid" else self.open)[kind]
        link = next(iter(study.links.values()))
        view = self.windows.window(**settings)
        code = code_of(self.service, link)
        path = f"/a/{link}"
        if code and name != "invited":
            view.context.add_cookies([{"name": "code", "value": code, "domain": "127.0.0.1", "path": path}])
        view.goto(self.url + path)
        if name in ("question", "refused", "review") and view.locator("form[action$=consent]").count():
            view.click("form[action$=consent] button")
        if name == "review":
            answer(view)
        if name == "refused":  # browsers ask for a choice; those that do not are told
            view.locator("form[action$=review]").evaluate("form => { form.noValidate = true }")
        if name in ("refused", "review"):
            view.click("form[action$=review] button")
        return unfold(view)

    def others(self, path: str, **settings: Any) -> Page:
        """A page of the analyst's or of everybody's."""
        view = self.windows.window(storage_state=self.signed_in, **settings)
        view.goto(self.url + path)
        return unfold(view)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with opened() as browser, listening(tmp_path_factory.mktemp("site")) as (url, service):
        service.settler.stop()
        sign_up(service)
        view = browser.new_page()
        view.goto(f"{url}/sign-in")
        view.fill("#name", NAME)
        view.fill("#password", PASSWORD)
        view.click("main button")
        yield Site(
            Windows(browser),
            url,
            service,
            {kind: asked(service, text, tolerance=0.04) for kind, text in STUDIES.items()}
            | {kind: asked(service, text) for kind, text in ASKED.items()},
            {kind: settled(service, text, published=True) for kind, text in (STUDIES | ASKED).items()},
            {kind: draft(service, text) for kind, text in (STUDIES | ASKED).items()},
            view.context.storage_state(),
        )


def answer(view: Page) -> None:
    """Say something in every field of hers."""
    if view.locator(".options").count():
        view.locator(".options label").nth(1).click()
    else:
        view.fill("#answer", "12")
    if view.locator("#prediction").count():
        view.fill("#prediction", "37")


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in HERS.items() for kind in kinds])
def test_no_page_of_hers_breaks_a_rule(site: Site, name: str, kind: str) -> None:
    assert violations_anywhere(site.hers(name, kind), zoomed=True) == {}
    assert site.windows.complaints == []
    german = site.hers(name, kind, **GERMAN_ZOOMED)
    assert german.get_attribute("html", "lang") == "de"
    assert violations(german, **LAYOUT) == []


@pytest.mark.parametrize("locale", ["en-GB", "de-DE"])
@pytest.mark.parametrize("text", [ASKING, YES_NO, RATING, both_studies.NUMBER])
def test_the_decision_takes_one_screen_of_a_phone_and_a_fifth_at_most(
    site: Site, text: str, locale: str
) -> None:
    link = next(iter(asked(site.service, text).links.values()))
    view = site.windows.window(viewport=DECIDING, locale=locale)
    view.goto(f"{site.url}/a/{link}")
    assert view.get_attribute("html", "lang") == locale[:2]
    assert screens_to_decide(view) <= SCREENS


def check_other_page(site: Site, path: str) -> None:
    assert violations_anywhere(site.others(path), zoomed=True) == {}
    assert site.windows.complaints == []
    german = site.others(path, **GERMAN_ZOOMED)
    assert german.get_attribute("html", "lang") == "de"
    assert violations(german, **LAYOUT) == []


@pytest.mark.parametrize(
    ("page", "kind"), [(page, kind) for page, kinds in DRAFTED.items() for kind in kinds]
)
def test_no_page_of_a_draft_breaks_a_rule(site: Site, page: str, kind: str) -> None:
    check_other_page(site, f"/studies/{site.drafts[kind]}/{page}")


@pytest.mark.parametrize("kind", PUBLIC)
def test_no_public_page_breaks_a_rule(site: Site, kind: str) -> None:
    for study in (site.open[kind], site.ended[kind]):
        check_other_page(site, f"/s/{study.study_id}")


@pytest.mark.parametrize("levels", [None, 5, 7, 10])
def test_every_choice_is_large_enough_for_a_finger_and_nothing_is_chosen(
    site: Site, levels: int | None
) -> None:
    text = YES_NO if levels is None else RATING.replace("levels = 5", f"levels = {levels}")
    link = next(iter(asked(site.service, text).links.values()))
    view = site.windows.window(viewport={"width": PHONE, "height": 800})
    view.goto(f"{site.url}/a/{link}")
    view.click("form[action$=consent] button")
    view.locator(".options label").first.wait_for()
    boxes = [label.bounding_box() for label in view.locator(".options label").all()]
    assert len(boxes) == (levels or 2)
    assert all(box and box["width"] >= TARGET and box["height"] >= TARGET for box in boxes)
    assert view.locator(".options input:checked").count() == 0


def test_yes_is_said_with_the_keyboard_alone_and_without_scripts(site: Site) -> None:
    view = site.windows.window(java_script_enabled=False)
    study = asked(site.service, YES_NO)
    view.goto(f"{site.url}/a/{next(iter(study.links.values()))}")

    def press(button: str) -> None:
        view.get_by_role("button", name=button).focus()
        view.keyboard.press("Enter")

    press("I take part")
    view.get_by_role("radio", name="Yes").focus()
    view.keyboard.press("Space")
    view.keyboard.press("Enter")
    view.get_by_text("You answer: Yes").wait_for()
    press("Send my answer")
    view.get_by_role("heading", name="Your answer counts.").wait_for()


def test_both_questions_are_answered_with_the_keyboard_alone_and_without_scripts(site: Site) -> None:
    view = site.windows.window(java_script_enabled=False)
    study = asked(site.service, both_studies.YES_NO)
    view.goto(f"{site.url}/a/{next(iter(study.links.values()))}")
    view.get_by_role("button", name="I take part").focus()
    view.keyboard.press("Enter")
    view.get_by_role("radio", name="No").focus()
    view.keyboard.press("Space")
    view.keyboard.press("Tab")
    view.keyboard.type("37")
    view.keyboard.press("Enter")
    view.get_by_text("You answer: No").wait_for()
    assert view.get_by_text("37", exact=True).count() == 1
    view.get_by_role("button", name="Send my answers").focus()
    view.keyboard.press("Enter")
    view.get_by_role("heading", name="Your answer counts.").wait_for()


def test_the_wizard_shows_what_goes_with_asking_or_with_declaring(site: Site) -> None:
    view = site.others(f"/studies/{site.drafts['number, asked']}/edit/beliefs")
    shown = {True: ("#sure", "#spread"), False: ("#signal",)}
    for ticked in (True, False, True):
        view.set_checked("[name=predictions]", ticked)
        for which, fields in shown.items():
            assert [view.is_visible(field) for field in fields] == [which == ticked] * len(fields)


@pytest.mark.parametrize("kind", [*STUDIES, *ASKED, "yes or no, sums kept back"])
def test_her_browser_finds_the_same_payment(site: Site, kind: str) -> None:
    study = site.ended.get(kind) or settled(site.service, KINDS[kind])
    link = next(iter(study.links.values()))
    view = site.windows.window()
    cookie = {
        "name": "code",
        "value": code_of(site.service, link),
        "domain": "127.0.0.1",
        "path": f"/a/{link}",
    }
    view.context.add_cookies([cookie])  # type: ignore[list-item]
    view.goto(f"{site.url}/a/{link}")
    view.click("#check-run")
    view.wait_for_selector("[data-said]:not([hidden]):not([data-said=busy])")
    assert "Verified" in view.locator("[data-said]:not([hidden])").inner_text()
    for row in view.locator("#check-numbers tbody tr").all():
        service, here = (cell.inner_text() for cell in row.locator("td").all())
        assert "receipt" in here or float(here) == pytest.approx(float(service), abs=2e-9)
    assert site.windows.complaints == []
