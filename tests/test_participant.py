"""A participant's link: every state and move, over HTTP."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from commands import Run
from databases import KINDS, database_url
from participant_pages import ASKING, pages, settled
from serving import STUDY, URL, WHO, Asked, Served, asked, close, code_of, draft, served
from sqlalchemy import select, update
from starlette.testclient import TestClient
from studies import planned

from truthful.release import Receipt, Release, verify
from truthful.service.freezing import freeze
from truthful.service.once import settle_survey
from truthful.store import answers, roster, surveys
from truthful.store.tables import Answer, Due, Player, State, Survey, Table
from truthful.study import Study

GERMAN = "de"
MOVES = ("consent", "dispute", "undispute", "review", "submit", "withdraw")
#: What link scanners, previews and browsers open on their own.
OPENED = ("", "?done=withdrawn", *(f"/{path}" for path in (*MOVES, "answer", "receipt.json", "release.json")))
STRANGER = "no-such-link-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"


@contextmanager
def quiet(directory: Path, database: str | None = None) -> Iterator[Served]:
    """A service in which nothing but what a test does happens: closed studies are not settled of themselves."""
    with served(directory, database) as running:
        running.service.settler.stop()
        yield running


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


class Her:
    """One participant with her browser."""

    def __init__(self, here: Served, study: Asked, player: str = "p-01") -> None:
        self.here, self.study, self.player = here, study, player
        self.link = f"/a/{study.links[player]}"
        self.client = TestClient(here.client.app, base_url=URL, follow_redirects=False)
        self.knows(code_of(here.service, study.links[player]))

    def knows(self, code: str) -> None:
        """Her browser has this code from now on."""
        self.client.cookies.set("code", code, domain="testserver.local", path=self.link)

    def sees(self, path: str = "", status: int = 200) -> str:
        response = self.client.get(self.link + path)
        assert response.status_code == status
        return unescape(response.text)

    def does(self, move: str, status: int = 303, answer: str | None = None, language: str = "en") -> str:
        data = {} if answer is None else {"answer": answer}
        response = self.client.post(f"{self.link}/{move}", data=data, headers={"Accept-Language": language})
        assert response.status_code == status
        if status == 303:
            assert response.headers["location"].partition("?")[0] == self.link
        return unescape(response.text)

    def answers(self, value: float) -> None:
        self.does("consent")
        self.does("submit", answer=str(value))

    def stored(self) -> float | None:
        """Her answer in the database."""
        with self.here.service.database.reading() as session:
            found = session.get(Answer, (self.study.survey_id, self.player))
            return None if found is None else found.value

    @property
    def code(self) -> str:
        found = re.search(r"[A-Z2-7]{4}-[A-Z2-7]{4}", self.sees())
        assert found
        return found.group()


@pytest.fixture
def her(here: Served, study: Asked) -> Her:
    return Her(here, study)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Her]]:
    """Many participants of one study, each taken once."""
    with quiet(tmp_path_factory.mktemp("crowd") / "service") as running:
        study = asked(running.service, ASKING)
        yield (Her(running, study, player) for player in study.links)


@pytest.fixture
def another(crowd: Iterator[Her]) -> Her:
    """Somebody of the crowd, who has consented."""
    found = next(crowd)
    found.does("consent")
    return found


def everything(here: Served) -> dict[str, list[Any]]:
    """All that the database holds."""
    with here.service.database.reading() as session:
        return {
            name: sorted(map(repr, session.execute(select(table)).all()))
            for name, table in Table.metadata.tables.items()
        }


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
    close(here.service, study.survey_id)
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
        "less than $0.00 or more than $0.72",
        "50:50, can get to 88.1:11.9 at most",
        "45.1%",
        "ε = 2",
        declared.sha256,
        f"/s/{her.study.survey_id}",
        str(features["region"]),
        f"{features['price']:.8}"[:8],
        "shown only in this browser",
        "has to be trusted",
        "or with your receipt code, until the study closes",
    ):
        assert words in told
    assert "REHEARSAL" not in told


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
    assert "no fact about you" in told
    assert "These are wrong" not in told


def test_a_study_that_pays_everybody_the_same_says_so(here: Served) -> None:
    survey_id, service = draft(here.service), here.service
    plan = planned(Study.parse(STUDY), 40, score_weight=0.0, base_payment=1.25)
    with service.database.writing() as session:
        surveys.find(session, survey_id).plan = json.dumps(plan.record())
    freeze(service.database, service.places, survey_id, WHO, rehearsal=False)
    with service.database.writing() as session:
        roster.add(session, survey_id, WHO, {"p": {"price": 2.5, "region": "east"}}, 40)
        links = dict(roster.invite(session, survey_id, WHO))
    told = here.client.get(f"/a/{links['p']}").text
    assert "Everybody is paid $1.25." in told
    assert "does not depend on your answer" in told


def test_what_a_study_says_is_shown_as_text_and_never_as_markup(here: Served) -> None:
    text = STUDY.replace('name = "Designed"', 'name = "<b>Bold</b> & \\"more\\""')
    text = text.replace("To learn how", "<script>alert(1)</script> To learn how")
    her = Her(here, asked(here.service, text))
    page = her.client.get(her.link).text
    assert "<b>" not in page
    assert "alert(1)</script>" not in page
    assert '<b>Bold</b> & "more"' in unescape(page)


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
        rows = list(session.scalars(select(Answer)))
    assert [(row.player, row.value) for row in rows] == [("p-01", 7.0)]


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
    assert "these facts are wrong" in told
    assert "/undispute" in told


def test_features_that_are_wrong_stop_everything_until_they_are_right(her: Her) -> None:
    her.answers(5)
    her.does("dispute")
    assert her.stored() is None
    told = her.sees()
    assert "You said that these facts are wrong" in told
    assert "survey@example.org" in told
    for path in ("/answer", "/withdraw"):
        her.sees(path, 303)
    with her.here.service.database.writing() as session:
        roster.add(
            session,
            her.study.survey_id,
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
    with here.service.database.writing() as session:
        session.execute(update(Player).where(Player.survey_id == study.survey_id).values(features=features))

    def seen(somebody: Her, path: str) -> tuple[int, str]:
        response = here.client.get(somebody.link + path)
        return response.status_code, response.text.replace(somebody.link, "LINK")

    def look() -> None:
        for path in ("", "/answer", "/withdraw", "/receipt.json", "/release.json", "?done=withdrawn"):
            assert seen(her, path) == seen(silent, path)
        assert here.client.post(f"{her.link}/review", data={"answer": "5"}).status_code == 409

    her.does("consent")
    look()
    her.does("submit", answer="5")
    look()
    with here.service.database.writing() as session:
        for player, link in list(study.links.items())[2:]:
            answers.submit(session, link, study.answers[player], answers.consent(session, link))
    close(here.service, study.survey_id)
    look()
    settle_survey(here.service.database, here.service.places, study.survey_id)
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
        refused = elsewhere.client.post(f"{her.link}/code", data={"code": wrong})
        assert refused.status_code == 403
        assert "That is not the receipt code" in refused.text
    typed = her.code.lower().replace("-", " ")
    elsewhere.client.cookies.clear()
    assert elsewhere.client.post(f"{her.link}/code", data={"code": typed}).status_code == 303
    assert "Your answer counts" in elsewhere.sees()
    elsewhere.does("submit", answer="6")
    assert her.stored() == 6.0


def test_who_tries_many_codes_waits(her: Her) -> None:
    her.answers(5)
    tried = [
        her.here.client.post(f"{her.link}/code", data={"code": f"AAAA-AAA{letter}"}).status_code
        for letter in "ABCDEFGHIJKLMN"
    ]
    assert tried[:10] == [403] * 10
    assert set(tried[10:]) == {429}
    assert "Your answer counts" in her.sees()


def test_new_links_keep_the_code(her: Her) -> None:
    her.answers(5)
    code = her.code
    with her.here.service.database.writing() as session:
        fresh = dict(roster.invite(session, her.study.survey_id, WHO, again=True))["p-01"]
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


def test_a_browser_without_cookies_is_told(her: Her) -> None:
    response = her.client.post(f"{her.link}/consent")
    cookie = response.headers["set-cookie"]
    assert f"Path={her.link}" in cookie
    assert "HttpOnly" in cookie
    assert "did not keep the cookie" in her.here.client.get(response.headers["location"]).text
    assert "did not keep" not in her.sees("?done=consented")


# The answer


@pytest.mark.parametrize(
    ("typed", "language", "value"),
    [
        ("62.5", "en", 62.5),
        (" 62.5 ", "en", 62.5),
        ("62,5", "de", 62.5),
        ("62.5", "de", 62.5),
        ("1,5", "de", 1.5),
        ("0", "en", 0.0),
        ("200", "en", 200.0),
        ("2e1", "en", 20.0),
        ("+7", "en", 7.0),
        ("-0", "en", 0.0),
        ("１２", "en", 12.0),
        ("0.1", "en", 0.1),
    ],
)
def test_a_number_is_understood_as_she_writes_it_and_kept_to_the_last_digit(
    another: Her, typed: str, language: str, value: float
) -> None:
    review = another.does("review", 200, typed, language=language)
    sent = re.search(r'name="answer" value="([^"]+)"', review)
    assert sent
    another.does("submit", answer=sent.group(1), language=language)
    assert repr(another.stored()) == repr(value)


@pytest.mark.parametrize(
    ("typed", "language", "words"),
    [
        ("", "en", "There is no answer yet. Give one number from 0 to 200."),
        ("   ", "de", "Es fehlt noch eine Antwort."),
        ("201", "en", "201 is outside the range. Give one number from 0 to 200."),
        ("-0.01", "en", "-0.01 is outside"),
        ("1.234", "de", "1.234 liegt nicht im Bereich."),
        ("1e400", "en", "“1e400” is not a number"),
        ("nan", "en", "“nan” is not a number"),
        ("inf", "en", "“inf” is not a number"),
        ("much", "de", "„much“ ist keine Zahl"),
        ("1 000 000 000", "en", "outside the range"),
        ("0x10", "en", "is not a number"),
        ("9" * 400, "en", "is not a number"),
        ("<script>alert(1)</script>", "en", "“<script>alert(1)</script>” is not a number"),
        ("5; DROP TABLE answers", "en", "is not a number"),
    ],
)
def test_an_answer_that_is_none_is_refused_with_the_value_and_the_range(
    another: Her, typed: str, language: str, words: str
) -> None:
    told = another.does("review", 400, typed, language=language)
    assert words in told
    assert 'role="alert"' in told
    assert 'aria-describedby="range wrong"' in told
    assert another.stored() is None


def test_what_she_typed_comes_back_as_text(another: Her) -> None:
    page = another.client.post(f"{another.link}/review", data={"answer": '"><script>alert(1)</script>'}).text
    assert "<script>" not in page


@pytest.mark.parametrize("sent", ["", "much", "nan", "-inf", "1e400", "201", "-1e-9", "62,5", "5" * 50])
def test_an_answer_is_checked_again_when_it_is_sent(another: Her, sent: str) -> None:
    another.does("submit", 400, sent, language=GERMAN)
    assert another.stored() is None


def test_a_review_shows_no_separator_that_could_be_taken_for_a_decimal_point(here: Served) -> None:
    text = STUDY.replace("high = 200", "high = 5000")
    her = Her(here, asked(here.service, text))
    her.does("consent")
    assert '<p class="big">1234</p>' in her.does("review", 200, "1.234", language=GERMAN)
    assert '<p class="big">1,234</p>' in her.does("review", 200, "1,234", language=GERMAN)


# Closing, settling, paying


def test_after_closing_every_move_is_refused_and_nothing_changes(her: Her) -> None:
    her.answers(5)
    silent = Her(her.here, her.study, "p-02")
    close(her.here.service, her.study.survey_id)
    before = everything(her.here)
    for somebody in (her, silent):
        for move in MOVES:
            told = somebody.does(move, 409, answer="6")
            assert "The study has closed in the meantime" in told
    assert everything(her.here) == before
    assert "Your answer counts" in her.sees()
    assert "enter your receipt code" in silent.sees()


def test_nothing_is_shown_of_a_payment_before_the_study_is_settled(her: Her) -> None:
    her.answers(5)
    for path in ("/receipt.json", "/release.json"):
        her.sees(path, 404)
    close(her.here.service, her.study.survey_id)
    for path in ("/receipt.json", "/release.json"):
        her.sees(path, 404)


@pytest.mark.parametrize("published", [False, True])
def test_her_payment_is_shown_in_coins_and_exactly_and_her_receipt_verifies(
    here: Served, published: bool
) -> None:
    study = settled(here.service, published=published)
    with here.service.database.reading() as session:
        due = {row.player: row for row in session.scalars(select(Due))}
        kept = session.scalar(select(Survey.release).where(Survey.id == study.survey_id))
    for player in ("p-01", "p-02", "p-40"):
        her = Her(here, study, player)
        told, row = her.sees(), due[player]
        assert f"${row.coins / 100:.2f}" in told
        assert f"${row.millionths / 1e6:.6f}" in told
        assert "does not lead to the amount" not in told
        receipt = Receipt.model_validate_json(her.sees("/receipt.json"))
        release = her.client.get(f"{her.link}/release.json").text
        assert release == kept
        assert (receipt.player, receipt.report) == (player, study.answers[player])
        assert receipt.features == study.features[player]
        assert verify(Release.model_validate_json(release), receipt).verified
        public = f"/s/{study.survey_id}/release.json"
        assert f'data-release="{public if published else her.link + "/release.json"}"' in told
        for move in MOVES:
            her.does(move, 409, answer="6")


def test_a_centre_of_expectations_is_told_where_there_is_one(here: Served) -> None:
    words = "before anybody answered is taken off both"
    assert words not in Her(here, settled(here.service)).sees()
    centred = STUDY.replace("signal = 0.6", "signal = 0.6\n[beliefs.centre]\nintercept = 80")
    her = Her(here, settled(here.service, centred))
    assert words in her.sees()
    assert "does not lead to the amount" not in her.sees()


def test_the_command_that_the_page_shows_verifies_the_files_that_it_gives(
    here: Served, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    her = Her(here, settled(here.service))
    (command,) = re.findall(r"<code>truthful (verify [^<]+)</code>", her.sees())
    monkeypatch.chdir(tmp_path)
    for name in ("release.json", "receipt.json"):
        response = her.client.get(f"{her.link}/{name}")
        assert response.headers["content-disposition"] == f'attachment; filename="{name}"'
        Path(name).write_bytes(response.content)
    assert run(*command.split()).code == 0


def test_a_payment_that_the_release_does_not_imply_is_told_to_be_wrong(here: Served) -> None:
    her = Her(here, settled(here.service))
    with here.service.database.writing() as session:
        session.execute(update(Due).where(Due.player == "p-01").values(millionths=Due.millionths + 2))
    assert "does not lead to the amount that is stored for you" in her.sees()


def test_who_gave_no_answer_is_told_so_when_others_are_paid(here: Served, study: Asked) -> None:
    with here.service.database.writing() as session:
        for player, link in list(study.links.items())[1:]:
            answers.submit(session, link, study.answers[player], answers.consent(session, link))
        answers.consent(session, study.links["p-01"])
    close(here.service, study.survey_id)
    settle_survey(here.service.database, here.service.places, study.survey_id)
    silent = Her(here, study)
    assert "You gave no answer" in silent.sees()
    silent.sees("/receipt.json", 404)
    silent.sees("/release.json", 404)


def test_her_pages_hold_nothing_of_anybody_else(here: Served) -> None:
    study = settled(here.service)
    her = Her(here, study)
    seen = "".join(her.sees(path) for path in ("", "/receipt.json", "/release.json"))
    with here.service.database.reading() as session:
        codes = set(session.scalars(select(Player.code).where(Player.player != "p-01")))
        hashes = set(session.scalars(select(Player.link)))
    others = {player for player in study.links if player != "p-01"}
    values = {repr(study.answers[player]) for player in others}
    links = {study.links[player] for player in others}
    assert not [secret for secret in codes | hashes | others | values | links if secret and secret in seen]


def test_private_pages_are_not_kept_and_send_no_referrer(her: Her) -> None:
    headers = her.client.get(her.link).headers
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "same-origin"
    assert "noindex" in headers["x-robots-tag"]


def test_the_log_says_nothing_of_participants(her: Her) -> None:
    before = everything(her.here)["events"]
    her.answers(5)
    her.does("dispute")
    assert everything(her.here)["events"] == before


def test_a_state_that_is_no_more_open_is_never_an_answer(here: Served, study: Asked) -> None:
    """Somebody who looks at the question while the study closes is told when she sends."""
    her = Her(here, study)
    her.does("consent")
    her.does("review", 200, "5")
    close(here.service, study.survey_id)
    assert "closed in the meantime" in her.does("submit", 409, "5")
    assert her.stored() is None
    assert here.state(study.survey_id) == State.CLOSED


def test_a_receipt_is_the_record_that_the_library_reads(here: Served) -> None:
    her = Her(here, settled(here.service))
    record = json.loads(her.sees("/receipt.json"))
    assert list(record) == ["format", "player", "features", "report", "group", "payment"]
