"""The whole life of a study in a real browser, from the first sign-in to the last payment, by clicking and typing.

The noise is real. That a number of the results happens to be somebody's answer or amount, to all its digits, is an
alarm for nothing; it has a probability below 0.001.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import life
from support.browsers import opened
from support.commands import Run
from support.windows import DESK, PHONE, Window
from test_serve import PROGRAM, serving

from truthful.service.rehearsal import Browser as PlainBrowser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PEOPLE = 36
#: Who does something of her own, and what she types. Nobody else, and nothing on any page, has these numbers.
TYPED = {
    "anna": "137.314",
    "berta": "62,518",
    "clara": "88.127",
    "dora": "19.646",
    "emma": "104.933",
    "fay": "71.409",
}
CHANGED = "73.582"
WITHDRAWN = "150.271"
#: The command, where a page that waits for a settlement renews itself sooner than people would like.
HASTY = [
    *PROGRAM[:-1],
    f"from truthful.service.analyst import study_pages; study_pages.RENEWED = '1'; {PROGRAM[-1]}",
]
OTHERS = tuple(f"w{number:03}" for number in range(PEOPLE - len(TYPED) - 2))


@dataclass
class Life:
    """Everybody's window, and what they have in their hands."""

    browser: Browser
    plain: PlainBrowser
    url: str
    directory: Path
    links: dict[str, str] = field(default_factory=dict)
    everybody: dict[str, Window] = field(default_factory=dict)
    payers_link: str = ""
    code: str = ""  # Anna's, as she wrote it down

    def window(self, who: str, size: tuple[int, int] = PHONE, **settings: Any) -> Window:
        self.everybody[who] = Window(self.browser, size, **settings)
        return self.everybody[who]

    @cached_property
    def answers(self) -> dict[str, str]:
        """What counts in the end."""
        others = {player: f"{40 + 3 * at}.{at:02}7" for at, player in enumerate(OTHERS)}
        return {**TYPED, "fay": CHANGED, **others}


@pytest.fixture
def alive(tmp_path: Path, run: Run) -> Iterator[tuple[Life, str]]:
    """An empty service, started by its command, and its sign-in link."""
    with (
        opened() as browser,
        serving(tmp_path / "service", program=HASTY) as service,
        PlainBrowser(service.url) as plain,
    ):
        options = ("--role", "payer", "--url", service.url, "--json")
        made = run("account", "add", tmp_path / "service", life.PAYS, *options)
        link = json.loads(made.out)["sign_in_link"]
        yield Life(browser, plain, service.url, tmp_path, payers_link=link), service.said["sign_in_link"]


@pytest.mark.slow
def test_a_study_lives_from_the_first_sign_in_to_the_last_payment(alive: tuple[Life, str]) -> None:
    lived, link = alive
    analyst = lived.window("analyst", DESK)
    assert "There is no study yet." in life.set_password(analyst, link)
    assert "no longer works" in lived.window("late").open(link)
    prepare(analyst)
    invite(lived, analyst)
    take_part(lived, analyst)
    be_curious(lived, analyst)
    pocket = lived.window("analyst's phone")
    assert life.NAME in life.sign_in(pocket, lived.url, "analyst")
    results = end(lived, pocket)
    be_curious(lived, analyst)
    amounts = see_payments(lived)
    on_another_phone(lived, "anna", amounts["anna"])
    check_on_a_computer(lived, "anna")
    pay(lived, amounts)
    leave(lived, analyst)
    assert life.ASKED_BY in results
    seen = [*analyst.seen, *pocket.seen, results]
    assert told(seen, [*lived.answers.values(), TYPED["fay"], WITHDRAWN]) == []
    assert told(seen, [f"{exact}" for _, exact in amounts.values()]) == []
    assert told(lived.everybody["payer"].seen, lived.answers.values()) == []
    anna = lived.everybody["anna"].seen
    assert len(told(anna, [lived.answers["anna"], f"{amounts['anna'][1]}"])) == 2  # what is there is found
    assert {who: window.complaints for who, window in lived.everybody.items() if window.complaints} == {}


def prepare(analyst: Window) -> None:
    """Declare, plan, rehearse and freeze."""
    life.declare(analyst)
    assert "A plan is saved" in life.plan(analyst)
    assert "exaggerator" in life.rehearse(analyst)
    page = life.freeze(analyst)
    assert "Open for answers" in page
    assert "on the roster, of at most 1,000" in page


def invite(lived: Life, analyst: Window) -> None:
    """A roster with a mistake, the roster, and a link for everybody. A program that opens all mail opens the links."""
    people = [*TYPED, "gerda", "hanna", *OTHERS]
    rows = [(who, f"{1 + at % 5}", life.REGIONS[at % 3]) for at, who in enumerate(people)]
    refused = life.bring(analyst, [*rows, ("ida", "2", "west")], lived.directory)
    assert f"Row {PEOPLE + 2}" in refused  # as a spreadsheet counts: the header is row 1
    assert "Nothing was stored" in refused
    life.bring(analyst, rows, lived.directory)
    lived.links.update(life.take_links(analyst, PEOPLE, lived.directory))
    assert list(lived.links) == people
    life.scan(lived.plain, lived.links.values())
    assert life.counts(analyst) == progress("fewer than 20")


def progress(answered: str) -> dict[str, str]:
    return {
        "on the roster, of at most 1,000": f"{PEOPLE}",
        "have a link": f"{PEOPLE}",
        "have agreed to take part": answered,
        "have answered": answered,
        "say that their facts are wrong": "0",
    }


def take_part(lived: Life, analyst: Window) -> None:
    """Everybody in her own way, and most at the same time."""

    def others() -> None:
        for who in OTHERS:
            life.answer_plainly(lived.plain, lived.links[who], lived.answers[who])

    with ThreadPoolExecutor(1) as crowd:
        answering = crowd.submit(others)
        on_her_phone(lived)
        in_german(lived)
        by_keyboard(lived)
        without_scripts(lived)
        with_wrong_facts(lived, analyst)
        with_another_answer(lived)
        without_an_answer(lived)
        answering.result()
    told = life.counts(analyst)  # within the hour, unless a new one began
    assert told | {"have agreed to take part": "", "have answered": ""} == progress("")


def on_her_phone(lived: Life) -> None:
    anna = lived.window("anna")
    assert "$" in anna.open(lived.links["anna"])
    page = anna.unfold()
    for words in (
        life.ASKED_BY,
        life.QUESTION,
        "How your payment is worked out",
        "Always between $",
        "north",
        "50:50",
        "It names nobody.",
    ):
        assert words in page, words
    anna.press("I take part")
    for typed, said in (("much", "“much” is not a number"), ("250", "250 is outside the range")):
        anna.type(answer=typed)
        assert said in anna.click("Continue")
    page = life.say(anna, TYPED["anna"])
    assert "Your receipt code" in page
    lived.code = anna.view.inner_text(".big")
    assert TYPED["anna"] not in page  # whoever looks over her shoulder


def in_german(lived: Life) -> None:
    berta = lived.window("berta")
    berta.open(lived.links["berta"])
    berta.press("Deutsch")
    page = berta.unfold()
    assert "Was andere über Sie erfahren können" in page
    assert "Ihre Antwort ist geschützt." in page
    berta.press("Ich nehme teil")
    berta.type(answer=TYPED["berta"])
    assert TYPED["berta"] in berta.press("Weiter")
    assert "Ihre Antwort zählt." in berta.press("Meine Antwort senden")


def by_keyboard(lived: Life) -> None:
    clara = lived.window("clara", DESK)
    clara.open(lived.links["clara"])
    clara.tab_to("I take part")
    clara.enter()
    clara.tab_to(life.QUESTION)
    clara.view.keyboard.type(TYPED["clara"])
    clara.enter()
    clara.tab_to("Send my answer")
    assert "Your answer counts." in clara.enter()


def without_scripts(lived: Life) -> None:
    dora = lived.window("dora", java_script_enabled=False)
    assert "Your answer counts." in life.answer(dora, lived.links["dora"], TYPED["dora"])


def with_wrong_facts(lived: Life, analyst: Window) -> None:
    """She says so, the analyst learns who and corrects it, and she is asked again."""
    emma = lived.window("emma")
    emma.open(lived.links["emma"])
    emma.unfold()
    assert "You said that you are shown something else" in emma.press("This is not what I am shown")
    assert life.counts(analyst)["say that their facts are wrong"] == "1"
    file = analyst.take(analyst.view.get_by_role("link", name="Download their ids"), lived.directory)
    assert file.read_text(encoding="utf-8-sig").split() == ["player", "emma"]
    life.bring(analyst, [("emma", "4.75", "east")], lived.directory)
    emma.open(lived.links["emma"])
    assert "4.75" in emma.unfold()
    assert "Your answer counts." in life.answer(emma, lived.links["emma"], TYPED["emma"])


def with_another_answer(lived: Life) -> None:
    fay = lived.window("fay")
    life.answer(fay, lived.links["fay"], TYPED["fay"])
    fay.follow("Change my answer")
    assert "Your answer counts." in life.say(fay, CHANGED)
    fay.view.click("summary")
    shown = fay.view.inner_text("details")
    assert CHANGED in shown
    assert TYPED["fay"] not in shown


def without_an_answer(lived: Life) -> None:
    """She answers, and takes it back."""
    gerda = lived.window("gerda")
    life.answer(gerda, lived.links["gerda"], WITHDRAWN)
    gerda.follow("Withdraw my answer")
    assert "You no longer take part." in gerda.press("Yes, I withdraw")


def end(lived: Life, analyst: Window) -> str:
    """Closed, settled and published; the source of the page that everybody can read then."""
    analyst.follow(life.NAME)
    assert "Settled" in life.close(analyst)
    public = analyst.view.url.replace("/studies/", "/s/")
    stranger = lived.window("stranger", DESK)
    before = stranger.open(public)
    assert "The results are not published yet." in before
    assert "What was found" not in before
    assert "Published" in analyst.press("Publish the results")
    page = stranger.open(public)
    for words in (f"From {PEOPLE - 2} answers.", "The five guarantees", "price", "What is not protected"):
        assert words in page, words
    release = stranger.take(stranger.view.get_by_role("link", name="Download release.json"), lived.directory)
    assert json.loads(release.read_text())["rehearsal"] is False
    stranger.follow("Full report")
    return "".join(stranger.seen)


def be_curious(lived: Life, analyst: Window) -> None:
    """The analyst has all links, and opens one. It does not say whether its owner has answered, and what is her own."""
    back, page = analyst.view.url, analyst.open(lived.links["anna"])
    for words in ("Your answer counts.", "How it was computed"):
        assert words not in page, words
    assert analyst.view.request.get(f"{lived.links['anna']}/receipt.json").status == 404
    analyst.open(back)


def on_another_phone(lived: Life, who: str, amount: life.Paid) -> None:
    """By her link and her receipt code, and not by the link and a wrong code."""
    phone = lived.window("another phone")
    phone.open(lived.links[who])
    for code, heading in (("AAAA-AAAA", "This study has closed"), (lived.code, "Your payment")):
        phone.type(code=code)
        phone.press("Show my answer")
        assert phone.view.inner_text("h1") == heading
    assert life.paid(phone, lived.links[who]) == amount


def see_payments(lived: Life) -> dict[str, life.Paid]:
    """Everybody who answered sees what she gets; whoever can computes it herself."""

    def others() -> dict[str, life.Paid]:
        return {who: life.paid_plainly(lived.plain, lived.links[who]) for who in OTHERS}

    amounts = {}
    with ThreadPoolExecutor(1) as crowd:
        looking = crowd.submit(others)
        for who in TYPED:
            amounts[who] = life.paid(lived.everybody[who], lived.links[who])
            if who != "dora":
                assert life.computed_here(lived.everybody[who]).startswith(("Verified", "Bestätigt")), who
        amounts |= looking.result()
    assert "This needs JavaScript" in lived.everybody["dora"].view.inner_text("main")
    for who in ("gerda", "hanna"):
        window = lived.everybody.get(who) or lived.window(who)
        page = window.open(lived.links[who])
        assert "This study has closed" in page
        assert "Your payment" not in page
    assert all(abs(coins - exact) < Decimal("0.01") for coins, exact in amounts.values())
    return amounts


def check_on_a_computer(lived: Life, who: str) -> None:
    """Her receipt and the public release, with the command; and a receipt that claims more."""
    window = lived.everybody[who]
    receipt = window.take(window.view.get_by_role("link", name="receipt.json"), lived.directory)
    claimed = json.loads(receipt.read_text())
    more = receipt.with_name("more.json")
    more.write_text(json.dumps({**claimed, "payment": claimed["payment"] + 0.01}))

    def verify(path: Path) -> subprocess.CompletedProcess[str]:
        command = [*PROGRAM, "verify", "release.json", path.name]
        return subprocess.run(command, cwd=lived.directory, capture_output=True, text=True)

    with ThreadPoolExecutor(2) as computers:
        ran, refused = computers.map(verify, (receipt, more))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Verified" in ran.stdout
    assert refused.returncode == 1


def pay(lived: Life, amounts: dict[str, life.Paid]) -> None:
    """The payer whom the study names takes all files: they hold what everybody was told, and nothing else."""
    payer = lived.window("payer", DESK)
    assert life.NAME in life.set_password(payer, lived.payers_link)
    page = payer.follow(life.NAME)
    assert f"${sum(coins for coins, _ in amounts.values()):,}" in page
    rows = {}
    for button in (
        "Download the payment file",
        "Download the file for Prolific",
        "Download the file for MTurk",
    ):
        with payer.take(payer.button(button), lived.directory).open(newline="") as file:
            rows[button] = [(who, amount) for who, amount in csv.reader(file)]
    table, prolific, mturk = rows.values()
    told_to = {who: coins for who, (coins, _) in amounts.items()}
    assert table[0] == ("player", "amount")
    assert {who: Decimal(amount) for who, amount in table[1:]} == told_to
    assert prolific == [row for row in table[1:] if Decimal(row[1])]
    assert mturk == [("WorkerId", "BonusAmount"), *prolific]
    payer.press(f"Sign out ({life.PAYS})")


def leave(lived: Life, analyst: Window) -> None:
    """The log tells who did what; after signing out there is nothing to see."""
    page = analyst.follow("Log")
    for words in ("froze the study", "accepted less", "published the result", "downloaded the payment file"):
        assert words in page, words
    assert not any(who in page for who in lived.links)
    analyst.press("Sign out (analyst)")
    assert "Password" in analyst.open(f"{lived.url}/studies")
    assert life.NAME not in analyst.view.content()


def told(pages: list[str], numbers: Any) -> list[str]:
    """Which of these numbers stand on the pages, written in English or in German."""
    text = "\n".join(pages)
    spoken = [re.escape(number.replace(",", ".")).replace(r"\.", "[.,]") for number in numbers]
    return [number for number in spoken if re.search(rf"(?<![\d.,]){number}(?!\d)", text)]
