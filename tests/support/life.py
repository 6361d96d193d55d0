"""The acts of a study's life, as those who live it do them: by clicking and typing, and by nothing else."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

from support.serving import PASSWORD
from support.windows import Window
from truthful.service.rehearsal import Browser

NAME = "Weekly groceries"
QUESTION = "How much did you spend on groceries last week, in dollars?"
ASKED_BY = "Institute for Household Studies"
CONTACT = "survey@example.org"
PAYS = "Petra Payer"
#: People, and the budgets of a plan that is not possible and of one that is. Both fields are not changed twice: what
#: goes with the first of them alone would be worked out too.
PEOPLE, LITTLE, ENOUGH = "1000", "20", "8000"
REGIONS = ("north", "south", "east")
#: An amount in coins, and exactly.
Paid = tuple[Decimal, Decimal]
MONEY = re.compile(r"\$(\d+\.\d+)|(\d+,\d+)\s\$")


def set_password(window: Window, link: str) -> str:
    """The first sign-in, by the link that works once."""
    assert "This link works only once" in window.open(link)
    window.type(password=PASSWORD)
    return window.press("Set the password and begin")


def sign_in(window: Window, url: str, name: str) -> str:
    window.open(f"{url}/sign-in")
    window.type(name=name, password="a wrong password")
    assert "do not match" in window.press("Sign in")
    window.type(password=PASSWORD)
    return window.press("Sign in")


def declare(analyst: Window) -> str:
    """A new study by the wizard, with a step that is sent too early."""
    analyst.press("New study")
    analyst.type(name=NAME, question=QUESTION, response="spend", low="0")
    assert "Please fill this in." in analyst.press("Save and continue")
    analyst.type(high="200")
    analyst.press("Save and continue")
    analyst.type(asked_by=ASKED_BY, purpose="To learn how spending goes with prices.", contact=CONTACT)
    assert "Please fill this in." in analyst.press("Save and continue")
    analyst.type(payer=PAYS)
    analyst.press("Save and continue")
    analyst.press("Add a fact")
    analyst.type(f0_name="price", f0_low="1", f0_high="5")
    analyst.press("Add a fact")
    analyst.type(f1_name="region")
    analyst.choose("f1_kind", "levels")
    analyst.type(f1_levels="\n".join(REGIONS))
    assert "Please choose. The facts are people's own" in analyst.press("Save and continue")
    analyst.choose("design", "uniform")
    for _ in ("people", "beliefs", "costs"):
        page = analyst.press("Save and continue")
    return page


def plan(analyst: Window) -> str:
    """The result follows what is typed: first it is not possible, then it is."""
    assert "Fill in two of the four" in analyst.follow("Plan")
    analyst.type(players=PEOPLE)
    for budget, found in ((LITTLE, "That is not possible"), (ENOUGH, "This is possible")):
        analyst.type(budget=budget)
        analyst.view.keyboard.press("Tab")
        analyst.view.get_by_role("heading", name=found).wait_for()
        analyst.look()
    drawn = analyst.view.locator("#result img").evaluate("img => img.decode().then(() => img.naturalWidth)")
    assert drawn > 0
    return analyst.press("Save this plan")


def rehearse(analyst: Window) -> str:
    """What would happen if one in ten exaggerated."""
    analyst.follow("Rehearse")
    analyst.type(exaggerator="10")
    report = analyst.press("Run the rehearsal")
    analyst.view.go_back()
    analyst.follow(NAME)
    return report


def freeze(analyst: Window) -> str:
    page = analyst.follow("Review it and freeze")
    assert ASKED_BY in page
    assert QUESTION in page
    analyst.choose("for", "people")
    return analyst.press("Freeze permanently")


def bring(analyst: Window, rows: list[tuple[str, str, str]], directory: Path) -> str:
    """Upload a roster."""
    path = directory / "people.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("player", "price", "region"), *rows])
    analyst.view.set_input_files("#file", path)
    return analyst.press("Upload people")


def take_links(analyst: Window, count: int, directory: Path) -> dict[str, str]:
    path = analyst.take(analyst.button(f"Make {count} links and download them"), directory)
    with path.open(newline="", encoding="utf-8-sig") as file:
        links = {row["player"]: row["link"] for row in csv.DictReader(file)}
    analyst.view.reload()
    assert "Everybody on the roster has a link." in analyst.look()
    return links


def counts(analyst: Window) -> dict[str, str]:
    """The progress, as the study's page shows it."""
    analyst.view.reload()
    analyst.look()
    boxes = analyst.view.locator(".counts > div").all()
    return {box.locator("dt").inner_text(): box.locator("dd").inner_text() for box in boxes}


def answer(window: Window, link: str, typed: str) -> str:
    """From the invitation to the receipt."""
    window.open(link)
    window.press("I take part")
    return say(window, typed)


def say(window: Window, typed: str) -> str:
    window.type(answer=typed)
    assert typed in window.press("Continue")
    return window.press("Send my answer")


def scan(browser: Browser, links: Iterable[str]) -> None:
    """A program that opens every link in every mail."""
    for link in links:
        browser.get(link)


def answer_plainly(browser: Browser, link: str, typed: str) -> None:
    """Somebody whose browser has no screen."""
    browser.get(link)
    browser.post(f"{link}/consent")
    for step in ("review", "submit"):
        browser.post(f"{link}/{step}", data={"answer": typed})


def close(analyst: Window) -> str:
    """Closed by typing its name. Far fewer answered than were counted on, which is accepted; then it is settled."""
    analyst.follow("Close the study")
    analyst.type(name="Weekly")
    assert "Nothing was closed" in analyst.press("Close permanently")
    analyst.type(name=NAME)
    page = analyst.press("Close permanently")
    assert "being settled" in page or "Less can be guaranteed" in page
    analyst.button("Settle it nevertheless").wait_for()  # the page renews itself
    page = analyst.look()
    assert "Reopen the study" in page
    assert "Each is paid" in page
    analyst.press("Settle it nevertheless")
    analyst.button("Publish the results").wait_for()
    return analyst.look()


def paid(window: Window, link: str) -> Paid:
    """What her page says that she gets."""
    window.open(link)
    return _amounts(window.view.inner_text(".card"))


def paid_plainly(browser: Browser, link: str) -> Paid:
    return _amounts(browser.get(link).text.split('<div class="card pay">')[1].split("</div>")[0])


def _amounts(text: str) -> Paid:
    coins, exact = (Decimal((english or german).replace(",", ".")) for english, german in MONEY.findall(text))
    return coins, exact


def computed_here(window: Window) -> str:
    """What her own browser says of her payment."""
    window.view.click("#check-run")
    window.view.wait_for_selector("[data-said]:not([hidden]):not([data-said=busy])")
    window.look()
    return window.view.locator("[data-said]:not([hidden])").inner_text()
