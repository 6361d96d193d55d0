"""A participant's pages in a real browser: accessible, usable without scripts, and with them payments are checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from babel import Locale
from support.accessibility import GERMAN_ZOOMED, LAYOUT, violations, violations_anywhere
from support.browsers import Windows, opened, unfold
from support.listening import listening
from support.participant_pages import ASKING, pages
from support.sealed import owe, said
from support.serving import asked, code_of

from truthful.service.asking import number_signs
from truthful.service.pages import Service, read_number
from truthful.store.roster import standing

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: Pages, and what is done on them before they are looked at.
SEEN = (
    "invited",
    "invited, answers protected",
    "invited, records protected",
    "rehearsal",
    "disputed",
    "question",
    "refused",
    "refused, sent to the service",
    "review",
    "review, sent to the service",
    "answered",
    "withdraw",
    "closed",
    "closed after an answer",
    "closed, another browser",
    "paid",
    "paid, sums kept back",
    "published",
    "cancelled",
)

#: What people type for a number, and what is none.
TYPED = (
    *(
        "62.5",
        "62,5",
        "1,234",
        "1.234",
        "1.234,5",
        "1,234.5",
        "12,34",
        "1 000",
        "-3",
        "\u22123,5",
        "+7",
        "2e1",
    ),
    *("", "much", "1e400", "0x10", "1,2,3", ".5", "5.", "1..2", "--3", "1.2345"),
    *("1_0", "1_000,5"),
)

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Site:
    """A browser and a service, with a link to every page."""

    windows: Windows
    url: str
    service: Service
    links: dict[str, str]

    def opens(self, name: str, **settings: Any) -> Page:
        """A page of this name."""
        view = self.window(**settings)
        begin, _, how = name.partition(", sent ")
        view.goto(self.url + self.links["question" if begin in ("refused", "review") else name])
        if begin in ("refused", "review"):
            view.fill("#answer", "much" if begin == "refused" else "62.5")
            send(view) if how else view.click("form[action$=review] button")
        unfold(view)
        if name.startswith("paid"):
            compute(view)
        return view

    def window(self, **settings: Any) -> Page:
        """A window of a browser that has everybody's code."""
        view = self.windows.window(**settings)
        paths = {path.removesuffix("/withdraw") for path in self.links.values()}
        codes = {path: code_of(self.service, path.removeprefix("/a/")) for path in paths}
        view.context.add_cookies(
            [
                {"name": "code", "value": code, "domain": "127.0.0.1", "path": path}
                for path, code in codes.items()
                if code
            ]
        )
        return view


def send(view: Page) -> None:
    """Send the question's form as a browser does that runs no scripts."""
    with view.expect_navigation():
        view.locator("form[action$=review]").evaluate("form => HTMLFormElement.prototype.submit.call(form)")


def compute(view: Page) -> str:
    """Press the button that checks a payment; what is said then."""
    view.click("#check-run")
    view.wait_for_selector("[data-said]:not([hidden]):not([data-said=busy])")
    return view.locator("[data-said]:not([hidden])").inner_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with opened() as browser, listening(tmp_path_factory.mktemp("site")) as (url, service):
        service.settler.stop()  # what is closed stays closed, to be looked at
        yield Site(Windows(browser), url, service, pages(service))


@pytest.mark.parametrize("name", SEEN)
def test_no_page_breaks_a_rule_or_makes_the_browser_complain(site: Site, name: str) -> None:
    """Nothing that the policy of content forbids, and no error of a script."""
    assert violations_anywhere(site.opens(name), zoomed=True) == {}
    assert site.windows.complaints == []


@pytest.mark.parametrize("name", SEEN)
def test_german_pages_break_none_at_four_hundred_percent(site: Site, name: str) -> None:
    view = site.opens(name, **GERMAN_ZOOMED)
    assert view.get_attribute("html", "lang") == "de"
    assert violations(view, **LAYOUT) == []


def test_a_study_is_answered_with_the_keyboard_alone_and_without_scripts(site: Site) -> None:
    view = site.windows.window(java_script_enabled=False)
    view.goto(site.url + site.links["rehearsal"])

    def press(button: str) -> None:
        view.get_by_role("button", name=button).focus()
        view.keyboard.press("Enter")

    press("I take part")
    view.get_by_label("How much did you spend").focus()
    view.keyboard.type("62.5")
    view.keyboard.press("Enter")
    view.get_by_text("62.5").wait_for()
    press("Send my answer")
    view.get_by_role("heading", name="Your answer counts.").wait_for()
    view.get_by_role("link", name="Withdraw my answer").focus()
    view.keyboard.press("Enter")
    press("Yes, I withdraw")
    view.get_by_text("You no longer take part").wait_for()


@pytest.mark.parametrize("scripts", [True, False])
def test_what_she_says_is_reviewed_and_going_back_never_asks_to_send_again(site: Site, scripts: bool) -> None:
    """With scripts nothing is sent before she confirms it; without them nothing is kept."""
    study = asked(site.service, ASKING.replace("high = 200", 'high = 200\nunit = "Dollar"'))
    view = site.windows.window(java_script_enabled=scripts, locale="de-DE")
    sent: list[str] = []
    view.on("request", lambda request: sent.append(request.method + request.url.rpartition("/")[2]))
    view.goto(f"{site.url}/a/{study.links['p-01']}")
    view.click("form[action$=consent] button")
    view.locator("form[action$=review]").wait_for()
    view.wait_for_load_state()  # its scripts have run
    sent.clear()
    note = view.inner_text("form[action$=review]")
    assert ("Noch wird nichts gesendet" in note) is scripts
    assert ("Noch wird nichts gespeichert" in note) is not scripts
    if scripts:
        assert view.input_value("#answer") == ""
        assert view.locator(".slide.untouched").is_visible()
        view.locator(".slide input").click(position={"x": 3, "y": 5})
        assert view.locator(".slide.untouched").count() == 0
        assert 0 <= int(view.input_value("#answer")) < 20
        view.fill("#answer", "viel")
        view.click("form[action$=review] button")
        assert "„viel“ ist keine Zahl." in view.inner_text("#answer-wrong")
    view.fill("#answer", "62,5")
    assert not view.locator("#answer-wrong").is_visible()
    view.click("form[action$=review] button")
    view.get_by_role("heading", name="Stimmt das so?").wait_for()
    assert view.locator(".big:visible").inner_text() == "62,5 Dollar"
    assert [one for one in sent if "." not in one] == ([] if scripts else ["POSTreview", "GETreview"])
    view.go_back()
    view.get_by_role("heading", name="Ihre Antwort", exact=True).wait_for()
    view.fill("#answer", "63,5")
    view.click("form[action$=review] button")
    view.click("form[action$=submit] button >> visible=true")
    view.get_by_role("heading", name="Ihre Antwort zählt.").wait_for()
    for _ in range(2):
        view.go_back()
        assert "Institute for Household Studies" in view.inner_text("body")
    with site.service.database.reading() as session:
        kept = said(session, study.study_id, "p-01")
        assert kept is not None
        assert kept.value == 63.5


@pytest.mark.parametrize("scripts", [True, False])
def test_after_a_wrong_code_going_back_never_asks_to_send_again(site: Site, scripts: bool) -> None:
    link = site.links["answered"]
    view = site.windows.window(java_script_enabled=scripts)
    view.goto(site.url + link)
    for code in ("AAAA-AAAA", code_of(site.service, link.removeprefix("/a/"))):
        if not view.locator("#code").is_visible():
            view.locator("summary").last.click()
        view.fill("#code", code)
        view.click("form[action$=code] button")
    view.get_by_role("heading", name="Your answer counts.").wait_for()
    for _ in range(2):
        view.go_back()
        assert "Institute for Household Studies" in view.inner_text("body")


def test_a_page_that_refuses_a_move_takes_her_own_address(site: Site) -> None:
    """Read again, it sends nothing again: the answer of another browser keeps this one from taking part."""
    link = site.links["answered"]
    view = site.windows.window()
    view.goto(site.url + link)
    view.click("form[action$=consent] button")
    view.get_by_text("Somebody answered with this link in another browser").wait_for()
    view.wait_for_url(site.url + link)
    sent: list[str] = []
    view.on("request", lambda request: sent.append(request.method))
    view.reload()
    assert set(sent) == {"GET"}


def test_the_page_reads_numbers_as_the_service_does(site: Site) -> None:
    view = site.opens("question")
    read = "([typed, signs]) => import('/static/participant.js').then(page => page.readNumber(typed, signs))"
    for language in ("en", "de"):
        locale = Locale.parse(language)
        for typed in TYPED:
            found = view.evaluate(read, [typed, number_signs(locale)])
            assert found == read_number(typed, locale), (language, typed)


def test_a_receipt_code_is_copied_saved_and_printed(site: Site, tmp_path: Path) -> None:
    view = site.opens("answered")
    view.context.grant_permissions(["clipboard-read", "clipboard-write"])
    code = view.inner_text(".receipt .big")
    view.click("#copy")
    view.get_by_text("Copied.").wait_for()
    assert view.evaluate("navigator.clipboard.readText()") == code
    with view.expect_download() as saved:
        view.get_by_role("link", name="Save").click()
    saved.value.save_as(tmp_path / "code")
    assert code in (tmp_path / "code").read_text()
    view.evaluate("window.print = () => { window.printed = true }")
    view.click("#print")
    assert view.evaluate("window.printed")


def test_her_browser_finds_her_payment_and_every_number_on_the_way(site: Site) -> None:
    view = site.opens("paid")
    assert view.locator("[data-said=agrees]").is_visible()
    rows = view.locator("#check-numbers tbody tr")
    numbers = [rows.nth(i).locator("td").all_inner_texts() for i in range(rows.count())]
    assert len(numbers) == 4 + 8
    assert all(service == browser for service, browser in numbers)


def test_where_sums_are_kept_back_two_numbers_are_her_receipts_and_the_rest_is_computed(site: Site) -> None:
    view = site.opens("paid, sums kept back")
    assert view.locator("[data-said=agrees]").is_visible()
    rows = view.locator("#check-numbers tbody tr")
    numbers = [rows.nth(i).locator("td").all_inner_texts() for i in range(rows.count())]
    assert [browser for service, browser in numbers if service != browser] == ["taken from your receipt"] * 2


def test_a_release_that_does_not_fit_together_is_said_to_be_none(site: Site) -> None:
    view = site.window()

    def tamper(route: Any) -> None:
        release = route.fetch().json()
        release["theta"][0] += 0.001
        route.fulfill(json=release)

    view.route("**/release.json", tamper)
    view.goto(site.url + site.links["paid"])
    assert compute(view).startswith("NOT verified: the numbers of the published result do not fit together")


def test_a_payment_that_was_tampered_with_is_not_verified_in_her_browser(site: Site) -> None:
    link = site.links["published"]

    def change(by: int) -> None:
        with site.service.database.writing() as session:
            hers = standing(session, link.removeprefix("/a/"))
            assert hers.due is not None
            owe(session, hers.study.id, replace(hers.due, millionths=hers.due.millionths + by))

    change(2)
    view = site.window()
    # What is public is served to everybody; here the private copy of it will do.
    view.route("**/s/*/release.json", lambda route: route.continue_(url=f"{site.url}{link}/release.json"))
    view.goto(site.url + link)
    assert compute(view).startswith("NOT verified")
    assert "does not lead to the amount" in view.inner_text("main")
    change(-2)
    assert compute(view).startswith("Verified")


def test_a_browser_that_cannot_get_the_release_says_so(site: Site) -> None:
    view = site.window()
    view.route("**/release.json", lambda route: route.abort())
    view.goto(site.url + site.links["paid"])
    assert compute(view).startswith("Your browser could not compute it")


def test_without_scripts_the_page_says_what_it_would_need_and_shows_the_other_way(site: Site) -> None:
    view = site.window(java_script_enabled=False)
    view.goto(site.url + site.links["paid"])
    assert view.get_by_text("This needs JavaScript").is_visible()
    assert not view.get_by_role("button", name="Compute it here").is_visible()
    assert view.get_by_text("truthful verify release.json receipt.json").is_visible()
