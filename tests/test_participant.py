"""A participant's link: every state and move, over HTTP."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from functools import reduce
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sqlalchemy import update
from starlette.testclient import TestClient
from support.databases import KINDS, database_url
from support.participant_pages import ASKING, pages
from support.participants import MOVES, OPENED, STRANGER, Her, everything, quiet
from support.serving import (
    ANSWERS,
    PAYER,
    RECORDS,
    STUDY,
    WHO,
    Asked,
    Served,
    asked,
    close,
    code_of,
    draft,
    planned,
    served,
    settle_with_less,
)

from truthful.deterrence import Typical, mean_square_prediction
from truthful.errors import InputError
from truthful.moments import lengths
from truthful.one_release import payable
from truthful.service.locations import Locations
from truthful.service.offer import make_offer, pay_range
from truthful.service.settle_study import freeze
from truthful.store import answers, roster, studies
from truthful.store.tables import Player
from truthful.study import Study


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Served]:
    with quiet(tmp_path / "service") as running:
        yield running


@pytest.fixture(params=KINDS)
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Her]:
    """Somebody whose service runs on one database or the other."""
    with database_url(request.param, tmp_path) as url, quiet(tmp_path / "service", url) as running:
        yield Her(running, asked(running.service, ASKING))


@pytest.fixture
def study(here: Served) -> Asked:
    return asked(here.service, ASKING)


@pytest.fixture
def her(here: Served, study: Asked) -> Her:
    return Her(here, study)


# Opening


def test_opening_any_page_changes_nothing(here: Served) -> None:
    found = pages(here.service)
    before = everything(here)
    for link in {path.removesuffix("/withdraw") for path in found.values()}:
        for path in OPENED:
            assert here.client.get(link + path).status_code in (200, 303, 404)
            assert here.client.head(link + path).status_code < 500
        assert here.client.head(link).status_code == 200
    assert everything(here) == before


def test_a_link_that_leads_nowhere_looks_like_any_other_page_that_is_not_there(
    here: Served, study: Asked
) -> None:
    def seen(method: str, path: str) -> tuple[int, str]:
        response = here.client.request(method, path)
        return response.status_code, response.text.replace(path.partition("?")[0], "PATH")

    nothing = seen("GET", "/no-such-page")
    assert nothing[0] == 404
    for path in ("", "/answer", "/withdraw", "/submit", "/receipt.json", "/release.json"):
        assert seen("GET", f"/a/{STRANGER}{path}") == nothing
    for move in MOVES:
        assert seen("POST", f"/a/{STRANGER}/{move}") == nothing
    close(here.service, study.study_id)
    assert seen("POST", f"/a/{STRANGER}/submit") == nothing
    assert seen("GET", f"/a/{study.links['p-01']}/receipt.json")[0] == 404


def test_an_invitation_says_who_asks_and_what_taking_part_means(her: Her) -> None:
    told = her.sees()
    declared, features = her.study.plan.study, her.study.features["p-01"]
    for words in (
        "Institute for Household Studies",
        "To learn how spending goes with prices.",
        "survey@example.org",
        "How much did you spend on groceries last week, in dollars?",
        "from 0 to 200",
        "Typical payment",
        "Always between $",
        "what everybody else's answers predict for people like you",
        "your own answer is left out of that prediction",
        "The situation you are shown was drawn at random.",
        "it is not a fact about you",
        "Your answer is protected.",
        "Of 100 guesses between two possible answers of yours, this many would be right:",
        "<strong>50</strong> without the result",
        "<strong>at most 89</strong> with the result",
        "It names nobody.",
        "(50:50) can get no further than 88.1:11.9",
        "45.1%",
        "ε = 2",
        declared.sha256,
        f"/s/{her.study.study_id}",
        str(features["region"]),
        f">{features['price']:.3f}".rstrip("0"),
        "shown only in this browser",
        "has to be trusted",
        "or with your receipt code, until the study closes",
    ):
        assert words in told
    assert "REHEARSAL" not in told
    assert "These are wrong" not in told
    assert told.index("I take part") < told.index("<details>") < told.index(declared.sha256)


@pytest.mark.parametrize(
    ("text", "told", "untold"),
    [
        (
            ANSWERS,
            (
                "has checked these facts about you",
                "Your answer is protected.",
                "Your facts (price, region) are not protected:",
                "only in sums over everybody who takes part, and these sums are published",
                "could work out yours, and that you took part",
            ),
            ("drawn at random", "Everything about you is protected"),
        ),
        (
            ANSWERS.replace('"answers"', '"answers"\npublish_matrix = false'),
            ("Your facts (price, region) are not protected:", "These sums are not published"),
            ("these sums are published",),
        ),
        (
            RECORDS,
            (
                "Everything about you is protected:",
                "your answer and your facts (price, region) alike",
                "or two sets of facts about you, equally likely (50:50) can get no further than 88.1:11.9",
                "of anything about you",
            ),
            ("are not protected:", "drawn at random"),
        ),
    ],
)
def test_an_invitation_says_what_is_protected_and_what_is_not(
    here: Served, text: str, told: tuple[str, ...], untold: tuple[str, ...]
) -> None:
    page = Her(here, asked(here.service, text)).sees()
    assert all(words in page for words in told)
    assert not any(words in page for words in untold)


def test_what_she_can_be_paid_follows_from_her_own_features(here: Served) -> None:
    """Payments start from more for features that say more, and nobody's range tells of an answer."""
    study = asked(here.service)
    ranges = {
        player: pay_range(study.plan, features) for player, features in list(study.features.items())[:9]
    }
    least, most = pay_range(study.plan)
    assert all(least <= low < high <= most for low, high in ranges.values())
    assert len(set(ranges.values())) > 1
    for player, (low, high) in ranges.items():
        assert f"Always between ${low} and ${high}." in Her(here, study, player).sees()


def test_a_rehearsal_says_that_it_is_one_on_every_page(here: Served) -> None:
    her = Her(here, asked(here.service, rehearsal=True))
    told = [her.sees()]
    her.does("consent")
    told += [her.sees(), her.does("review", 200, "5")]
    her.does("submit", answer="5")
    told += [her.sees(), her.sees("/withdraw")]
    assert all("REHEARSAL" in page for page in told)


def test_a_study_without_features_says_so(here: Served) -> None:
    text = re.sub(r"\[\[features\]\].*(?=\[design\])", "", STUDY, flags=re.DOTALL)
    told = Her(here, asked(here.service, text)).sees()
    assert "no facts about you" in told
    assert "These are wrong" not in told


def test_a_study_that_pays_everybody_the_same_says_so(here: Served) -> None:
    study_id, service = draft(here.service), here.service
    plan = planned(Study.parse(STUDY), score_weight=0.0, base_payment=1.25)
    with service.database.writing() as session:
        studies.find(session, study_id).plan = json.dumps(plan.record())
    freeze(service.database, service.locations, study_id, WHO, rehearsal=False)
    with service.database.writing() as session:
        roster.add(session, study_id, WHO, {"p": {"price": 2.5, "region": "east"}}, 40)
        links = dict(roster.invite(session, study_id, WHO))
    told = here.client.get(f"/a/{links['p']}").text
    assert "You are paid $1.25." in told
    assert "does not depend on your answer" in told


def test_what_a_study_says_is_shown_as_text_and_never_as_markup(here: Served) -> None:
    text = STUDY.replace('name = "Designed"', 'name = "<b>Bold</b> & \\"more\\""')
    text = text.replace("To learn how", "<script>alert(1)</script> To learn how")
    her = Her(here, asked(here.service, text))
    page = her.client.get(her.link).text
    assert "<b>" not in page
    assert "alert(1)</script>" not in page
    assert '<b>Bold</b> & "more"' in unescape(page)


# Languages

TEXTS = {
    'currency = "USD"': 'language = "en"\ncurrency = "USD"',
    '"Institute for Household Studies"': '{ en = "Institute", de = "Institut" }',
    '"To learn how spending goes with prices."': '{ en = "To learn.", de = "Um zu lernen." }',
    "[invitation]": '[invitation]\ntitle = { en = "Groceries", de = "Einkauf" }',
    '"How much did you spend on groceries last week, in dollars?"': '{ en = "How much?", de = "Wie viel?" }',
    "high = 200": 'high = 200\nunit = { en = "dollars", de = "Dollar" }',
    'name = "price"': 'name = "price"\nlabel = { en = "Price", de = "Preis" }\nunit = { en = "each", de = "je" }',
    'name = "region"': 'name = "region"\nlabel = { en = "Part", de = "Gegend" }\n'
    'level_labels = { east = { en = "East", de = "Osten" } }',
}
IN_BOTH = reduce(lambda text, part: text.replace(part, TEXTS[part], 1), TEXTS, ASKING)
ENGLISH = re.compile(r"\b(the|and|your|of|is|are|for|with|this|that|answer|you|to|not|what|how)\b")


def english(page: str) -> list[str]:
    """The English words that can be read on a page, but for the payer's name and its foot."""
    text = re.sub(r"<(style|script|footer).*?</\1>|<[^>]*>", " ", unescape(page), flags=re.DOTALL).replace(
        PAYER, ""
    )
    return ENGLISH.findall(text.lower())


def test_every_text_is_in_her_language_and_else_in_the_study_s_own(here: Served) -> None:
    study = asked(here.service, IN_BOTH)
    east = next(player for player, known in study.features.items() if known["region"] == "east")
    her = Her(here, study, east)
    german = ("Institut", "Einkauf", "Um zu lernen.", "Wie viel?", "200 Dollar", "Preis", " je<", "Osten")
    english = ("Institute", "Groceries", "To learn.", "How much?", "200 dollars", "Price", " each<", "East")
    page = her.sees()
    assert all(words in page for words in english)
    assert not any(words in page for words in german[1:])
    page = unescape(her.client.get(her.link, headers={"Accept-Language": "de"}).text)
    assert all(words in page for words in german)
    assert ' lang="en"' not in page[: page.index("<footer")]
    her.does("consent")
    page = unescape(her.client.get(her.link, headers={"Accept-Language": "de"}).text)
    assert page.index("Ihre Situation") < page.index("<dd>Osten</dd>") < page.index("Wie viel?")
    saved = her.client.get(f"{her.link}/code.txt", headers={"Accept-Language": "de"}).text
    assert saved.startswith("Einkauf\nIhr Belegcode: ")
    elsewhere = IN_BOTH.replace('language = "en"', 'language = "de"').replace("en = ", "it = ")
    assert '<p class="asked" lang="de">Wie viel?</p>' in Her(here, asked(here.service, elsewhere)).sees()


def test_no_page_is_half_english_in_german(here: Served) -> None:
    found = pages(here.service, IN_BOTH)
    for name, path in found.items():
        if name.endswith(" protected"):
            continue  # what these ask is in English
        link = path.removesuffix("/withdraw")
        asking = {
            "Accept-Language": "de",
            "Cookie": f"code={code_of(here.service, link.removeprefix('/a/'))}",
        }
        for part in ("", "/answer", "/withdraw", "?done=withdrawn", "?done=consented"):
            page = here.client.get(link + part, headers=asking, follow_redirects=True)
            assert english(page.text) == [], (name, part)
    her = Her(here, asked(here.service, IN_BOTH))
    assert english(her.sees())
    her.does("consent")
    for move, status, answer in (("review", 400, "viel"), ("review", 200, "5"), ("submit", 400, "x")):
        assert english(her.does(move, status, answer, language="de")) == [], (move, answer)
    for nothing in (f"/a/{STRANGER}", "/nowhere"):
        page = here.client.get(nothing, headers={"Accept-Language": "de"})
        assert english(page.text) == []


def test_the_worked_example_is_what_the_rule_pays(here: Served) -> None:
    """The amount that is typical for her, and the same answer with the others' prediction taken to 0 and to the other
    side; all of them amounts that she can get.
    """
    study = asked(here.service, ASKING)
    truth, mechanism = study.plan.guarantees.truthfulness, study.plan.number_mechanism
    curve = mechanism.curve(study.plan.study.beliefs)
    for features in ({"price": 3.0, "region": "north"}, {"price": 5.0, "region": "south"}):
        length = lengths(study.plan.study.normalise({name: [value] for name, value in features.items()}, 1))
        person = Typical(float(length[0]), truth.typical_noise or 0.0, curve)
        q = np.sqrt([mean_square_prediction(study.plan.study, person)])
        paid = [payable(mechanism, length, sign * q, q)[0] for sign in (1, 0, -1)]
        offer, (least, most) = make_offer(study.plan, features), pay_range(study.plan, features)
        assert offer["example"][1] == pytest.approx(paid[1], abs=1e-4)
        assert np.diff(offer["example"]) == pytest.approx(np.diff(paid), rel=0.01)
        assert offer["typical"] == offer["example"][0]
        assert least < paid[2] < paid[1] < paid[0] < most
    told, offer = Her(here, study).sees(), make_offer(study.plan, study.features["p-01"])
    example = told[told.index("For example:") :].partition("</p>")[0]
    assert [float(amount) for amount in re.findall(r"\$(\d+\.\d+)", example)] == pytest.approx(
        offer["example"], abs=0.0051
    )
    assert f"<strong>${offer['typical']:.2f}</strong>" in told


def test_a_logo_stands_on_her_pages_and_is_no_other_file(tmp_path: Path) -> None:
    root = tmp_path / "service"
    root.mkdir()
    Image.new("RGB", (40, 40)).save(root / "logo.png")
    with quiet(root) as running:
        her = Her(running, asked(running.service))
        assert '<img class="logo" src="/logo" alt=""' in her.client.get(her.link).text
        found = running.client.get("/logo")
        assert (found.headers["content-type"], found.content) == (
            "image/png",
            (root / "logo.png").read_bytes(),
        )
        assert "max-age=3600" in found.headers["cache-control"]
    for wrong in (b"<svg onload='alert(1)'/>", (root / "logo.png").read_bytes() + bytes(100_000)):
        (root / "logo.png").write_bytes(wrong)
        with pytest.raises(InputError, match=r"logo.png' is no image/png of at most 100 kB"):
            Locations(root).logo()


# Moves


def test_she_consents_answers_changes_and_withdraws(either: Her) -> None:
    either.does("consent")
    assert "Your answer" in either.sees()
    assert either.stored() is None
    review = either.does("review", 200, "62.50")
    assert "62.5" in review
    assert either.stored() is None
    either.does("submit", answer="62.5")
    assert either.stored() == 62.5
    assert "Your answer counts" in either.sees()
    code = either.code
    assert "How much" in either.sees("/answer")
    either.does("submit", answer="70")
    assert (either.stored(), either.code) == (70.0, code)
    assert "Do you want to withdraw?" in either.sees("/withdraw")
    assert either.stored() == 70.0
    either.does("withdraw")
    assert either.stored() is None
    assert "You no longer take part" in either.sees("?done=withdrawn")
    assert "You no longer take part" not in either.sees()
    assert "I take part" in either.sees()


@pytest.mark.parametrize("move", ["consent", "dispute", "undispute", "withdraw"])
def test_a_move_made_twice_is_made_once(her: Her, move: str) -> None:
    her.answers(5)
    her.does(move)
    once = everything(her.here)
    her.does(move)
    assert everything(her.here) == once


def test_an_answer_sent_twice_is_one_answer(her: Her) -> None:
    her.answers(5)
    once = everything(her.here)
    her.does("submit", answer="5.0")
    assert everything(her.here) == once


def test_double_clicks_at_the_same_moment_give_one_answer_and_one_code(either: Her) -> None:
    either.does("consent")
    seen: list[int] = []

    def click() -> None:
        other_tab = Her(either.here, either.study)
        seen.append(other_tab.client.post(f"{either.link}/submit", data={"answer": "7"}).status_code)

    threads = [threading.Thread(target=click) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [303] * 8
    with either.here.service.database.reading() as session:
        rows = list(answers.reports(session, either.study.study_id))
    assert [(player, value) for player, _, value, _ in rows] == [("p-01", 7.0)]


def test_what_another_tab_has_made_impossible_is_refused_with_the_page_of_how_things_stand(
    her: Her,
) -> None:
    her.does("consent")
    her.does("withdraw")
    for move, answer in (("submit", "5"), ("review", "5"), ("submit", "nonsense")):
        told = her.does(move, 409, answer)
        assert "Nothing was changed" in told
        assert "I take part" in told
    assert her.stored() is None
    her.does("dispute")
    told = her.does("consent", 409)
    assert "you are shown something else" in told
    assert "/undispute" in told


def test_features_that_are_wrong_stop_everything_until_they_are_right(her: Her) -> None:
    her.answers(5)
    her.does("dispute")
    assert her.stored() is None
    told = her.sees()
    assert "You said that you are shown something else" in told
    assert "survey@example.org" in told
    for path in ("/answer", "/withdraw"):
        her.sees(path, 303)
    with her.here.service.database.writing() as session:
        roster.add(
            session,
            her.study.study_id,
            WHO,
            {"p-01": {"price": 2.5, "region": "east"}},
            her.study.plan.players,
        )
    assert "2.5" in her.sees()
    her.does("dispute")
    her.does("undispute")
    her.answers(6)
    assert her.stored() == 6.0


def test_pages_that_forms_are_sent_to_lead_back_when_opened(her: Her) -> None:
    """As after a change of language there."""
    for move in ("consent", "dispute", "undispute", "review", "submit"):
        her.sees(f"/{move}", 303)
    her.sees("/answer", 303)
    her.sees("/withdraw", 303)


# The link alone


def test_a_link_alone_looks_the_same_whether_she_has_answered_or_not(here: Served) -> None:
    """The analyst hands out the links, and may open them: before, while and after people answer."""
    study = asked(here.service, ASKING)
    her, silent = Her(here, study, "p-01"), Her(here, study, "p-02")
    features = {"price": 2.5, "region": "east"}
    alike = Player.study_id == study.study_id, Player.player.in_((her.player, silent.player))
    with here.service.database.writing() as session:
        session.execute(update(Player).where(*alike).values(features=features))

    def seen(somebody: Her, path: str) -> tuple[int, str]:
        response = here.client.get(somebody.link + path)
        return response.status_code, response.text.replace(somebody.link, "LINK")

    def look() -> None:
        for path in ("", "/answer", "/withdraw", "/receipt.json", "/release.json", "?done=withdrawn"):
            assert seen(her, path) == seen(silent, path)
        for move in ("review", "submit"):  # which change nothing, so that nobody would notice
            told = [here.client.post(f"{one.link}/{move}", data={"answer": "5"}) for one in (her, silent)]
            assert {shown.status_code for shown in told} == {409}
            assert told[0].text.replace(her.link, "LINK") == told[1].text.replace(silent.link, "LINK")

    her.does("consent")
    look()
    her.does("submit", answer="5")
    look()
    with here.service.database.writing() as session:
        for player, link in list(study.links.items())[2:]:
            answers.submit(session, link, study.answers[player], answers.consent(session, link))
    close(here.service, study.study_id)
    look()
    settle_with_less(here.service, study.study_id)
    look()
    assert "Your payment" in her.sees()


@pytest.mark.parametrize("move", ["consent", "dispute", "submit", "withdraw"])
def test_an_answer_is_not_touched_by_who_does_not_know_its_code(her: Her, move: str) -> None:
    her.answers(5)
    before = everything(her.here)
    for code in ("", "AAAA-AAAA", "x" * 3000):
        stranger = Her(her.here, her.study)
        stranger.knows(code)
        told = stranger.does(move, 409, answer="6")
        assert "Nothing was changed" in told
        assert her.code not in told
    assert everything(her.here) == before


def test_in_another_browser_she_types_her_code(her: Her) -> None:
    her.answers(5)
    elsewhere = Her(her.here, her.study)
    elsewhere.knows("")
    assert "Your answer counts" not in elsewhere.sees()
    for wrong in ("", "AAAA-AAAA", her.code[:-1], "<script>"):
        sent = elsewhere.client.post(f"{her.link}/code", data={"code": wrong})
        assert sent.status_code == 303
        refused = elsewhere.client.get(sent.headers["location"])
        assert '<a href="#code">That is not the receipt code' in refused.text
        assert refused.text.count("<details open>") == 1
    typed = her.code.lower().replace("-", " ")
    elsewhere.client.cookies.clear()
    assert elsewhere.client.post(f"{her.link}/code", data={"code": typed}).status_code == 303
    assert "Your answer counts" in elsewhere.sees()
    assert "not the receipt code" not in elsewhere.sees("?done=wrong-code")
    elsewhere.does("submit", answer="6")
    assert her.stored() == 6.0


def test_who_tries_many_codes_waits(her: Her) -> None:
    her.answers(5)
    tried = [
        her.here.client.post(f"{her.link}/code", data={"code": f"AAAA-AAA{letter}"}).status_code
        for letter in "ABCDEFGHIJKLMN"
    ]
    assert tried[:10] == [303] * 10
    assert set(tried[10:]) == {429}
    assert "Your answer counts" in her.sees()


def test_new_links_keep_the_code(her: Her) -> None:
    her.answers(5)
    code = her.code
    with her.here.service.database.writing() as session:
        fresh = dict(roster.invite(session, her.study.study_id, WHO, again=True))["p-01"]
    assert "Your answer counts" not in her.client.get(f"/a/{fresh}").text
    assert her.client.post(f"/a/{fresh}/code", data={"code": code}).status_code == 303
    assert "Your answer counts" in her.client.get(f"/a/{fresh}").text


def test_who_has_not_answered_may_begin_anew_in_another_browser(her: Her) -> None:
    her.does("consent")
    elsewhere = Her(her.here, her.study)
    elsewhere.knows("")
    elsewhere.does("consent")
    assert "I take part" in her.sees()
    elsewhere.client.cookies.delete("code", domain="testserver.local", path=her.link)
    again = Her(her.here, her.study)
    again.does("submit", answer="7")
    assert her.stored() == 7.0


def test_with_tls_a_code_counts_only_in_a_cookie_that_no_other_host_can_set(tmp_path: Path) -> None:
    """A page of a neighbouring host could plant the code of somebody who began before her, and would see her answer."""
    with served(tmp_path, url="https://testserver") as here:
        link = f"/a/{next(iter(asked(here.service, players=2).links.values()))}"
        intruder, hers = (
            TestClient(here.client.app, base_url="https://testserver", follow_redirects=False)
            for _ in range(2)
        )
        kept = intruder.post(f"{link}/consent").headers["set-cookie"]
        assert re.match(r"__Host-code-[0-9a-f]{16}=[A-Z2-7]{4}-[A-Z2-7]{4}; ", kept)
        assert {"Path=/", "Secure", "HttpOnly", "SameSite=lax"} < set(kept.split("; "))
        assert "Domain" not in kept
        code = kept.partition("=")[2].partition(";")[0]
        assert 'name="answer"' in intruder.get(link).text
        assert "I take part" in hers.get(link, headers={"cookie": f"code={code}"}).text
        assert hers.post(f"{link}/code", data={"code": code}).status_code == 303
        assert 'name="answer"' in hers.get(link).text
        hers.post(f"{link}/forget")
        assert not hers.cookies


def test_a_browser_without_cookies_is_told(her: Her) -> None:
    response = her.client.post(f"{her.link}/consent")
    cookie = response.headers["set-cookie"]
    assert f"Path={her.link}" in cookie
    assert "HttpOnly" in cookie
    assert "did not keep the cookie" in her.here.client.get(response.headers["location"]).text
    assert "did not keep" not in her.sees("?done=consented")
