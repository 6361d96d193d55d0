"""A participant's number, and what it earns her: read, checked, closed, settled and paid, over HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select
from support.commands import Run
from support.participant_pages import ASKING, HIDDEN, settled
from support.participants import GERMAN, MOVES, Her, everything, quiet
from support.sealed import codes, due, owe
from support.serving import STUDY, WHO, Asked, Served, answer, asked, close, settle_with_less

from truthful.release import Receipt, Release, read_release, verify
from truthful.service.offer import base_payments
from truthful.service.settle_study import cancel_study
from truthful.store import answers, studies
from truthful.store.tables import Player, State, StoredStudy


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with quiet(tmp_path_factory.mktemp("service") / "service") as running:
        yield running


@pytest.fixture
def study(here: Served) -> Asked:
    return asked(here.service, ASKING)


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
        ("", "en", "There is no answer yet. Give a number from 0 to 200."),
        ("   ", "de", "Es fehlt noch eine Antwort."),
        ("201", "en", "201 is outside the range. Give a number from 0 to 200."),
        ("-0.01", "en", "-0.01 is outside"),
        ("1.234", "de", "1.234 liegt nicht im Bereich."),
        ("1e400", "en", "“1e400” is not a number"),
        ("nan", "en", "“nan” is not a number"),
        ("inf", "en", "“inf” is not a number"),
        ("much", "de", "„much“ ist keine Zahl"),
        ("1 000 000 000", "en", "outside the range"),
        ("0x10", "en", "is not a number"),
        ("1_0", "en", "“1_0” is not a number"),
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
    assert 'aria-describedby="answer-range answer-wrong"' in told
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
    close(her.here.service, her.study.study_id)
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
    close(her.here.service, her.study.study_id)
    for path in ("/receipt.json", "/release.json"):
        her.sees(path, 404)


@pytest.mark.parametrize("published", [False, True])
def test_her_payment_is_shown_in_coins_and_exactly_and_her_receipt_verifies(
    here: Served, published: bool
) -> None:
    study = settled(here.service, published=published)
    with here.service.database.reading() as session:
        paid = {row.player: row for row in studies.payments(session, study.study_id)}
        kept = session.scalar(select(StoredStudy.release).where(StoredStudy.id == study.study_id))
    for player in ("p-01", "p-02", "p-60"):
        her = Her(here, study, player)
        told, row = her.sees(), paid[player]
        assert f"${row.coins / 100:.2f}" in told
        assert f"${row.millionths / 1e6:.6f}" in told
        assert "does not lead to the amount" not in told
        receipt = Receipt.model_validate_json(her.sees("/receipt.json"))
        release = her.client.get(f"{her.link}/release.json").text
        assert release == kept
        assert (receipt.player, receipt.report) == (player, study.answers[player])
        assert receipt.features == study.features[player]
        assert verify(read_release(release.encode()), receipt).verified
        public = f"/s/{study.study_id}/release.json"
        assert f'data-release="{public if published else her.link + "/release.json"}"' in told
        for move in MOVES:
            her.does(move, 409, answer="6")


def test_a_payment_is_shown_in_the_coins_it_was_paid_in(here: Served) -> None:
    """Although the currency's coins are others by now."""
    her = Her(here, settled(here.service))
    with here.service.database.writing() as session:
        row = due(session, her.study.study_id, her.player)
        owe(session, her.study.study_id, replace(row, coins=row.millionths // 1000, digits=3))
        paid = f"${row.millionths // 1000 / 1000:.3f}"
    told = her.sees()
    assert f'<p class="big">{paid}</p>' in told
    assert "does not lead to the amount" not in told


def test_a_centre_of_expectations_is_told_where_there_is_one(here: Served) -> None:
    words = "before anybody answered is subtracted from both"
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
        row = due(session, her.study.study_id, "p-01")
        owe(session, her.study.study_id, replace(row, millionths=row.millionths + 2))
    assert "does not lead to the amount that is stored for you" in her.sees()


def test_who_gave_no_answer_is_told_so_when_others_are_paid(here: Served, study: Asked) -> None:
    with here.service.database.writing() as session:
        for player, link in list(study.links.items())[1:]:
            answers.submit(session, link, study.answers[player], answers.consent(session, link))
        answers.consent(session, study.links["p-01"])
    close(here.service, study.study_id)
    settle_with_less(here.service, study.study_id)
    silent = Her(here, study)
    assert "You gave no answer" in silent.sees()
    silent.sees("/receipt.json", 404)
    silent.sees("/release.json", 404)


def test_her_pages_hold_nothing_of_anybody_else(here: Served) -> None:
    study = settled(here.service)
    her = Her(here, study)
    seen = "".join(her.sees(path) for path in ("", "/receipt.json", "/release.json"))
    with here.service.database.reading() as session:
        kept = codes(session, study.study_id)
        hashes = set(session.scalars(select(Player.link)))
    others = {player for player in study.links if player != "p-01"}
    values = {repr(study.answers[player]) for player in others}
    links = {study.links[player] for player in others}
    assert None not in kept.values()
    secrets = {code for player, code in kept.items() if player in others}
    assert not [secret for secret in secrets | hashes | others | values | links if secret and secret in seen]


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
    close(here.service, study.study_id)
    assert "closed in the meantime" in her.does("submit", 409, "5")
    assert her.stored() is None
    assert here.state(study.study_id) == State.CLOSED


def test_a_receipt_is_the_record_that_the_library_reads(here: Served) -> None:
    her = Her(here, settled(here.service))
    record = json.loads(her.sees("/receipt.json"))
    told = ["leverage", "noise_scale", "peer_prediction", "own_prediction"]
    assert list(record) == ["format", "player", "features", "report", *told, "payment"]
    assert record["format"] == "truthful/receipt/2"


def test_how_a_payment_came_about_is_told_without_halves(here: Served) -> None:
    told = Her(here, settled(here.service)).sees()
    assert "Everybody else's answers, with the noise that protects them, predict" in told
    assert "Your own answer was taken out of this prediction; it had a weight of" in told
    assert "payments start from" in told
    assert "half" not in told


def test_where_sums_are_kept_back_she_checks_with_two_numbers_of_her_receipt(here: Served) -> None:
    her = Her(here, settled(here.service, ASKING.replace("[beliefs]", f"{HIDDEN}\n[beliefs]")))
    told = her.sees()
    assert "are therefore taken from your receipt" in told
    assert "does not lead to the amount" not in told
    release = read_release(her.client.get(f"{her.link}/release.json").content)
    assert isinstance(release, Release)
    assert release.inverse is None
    assert verify(release, Receipt.model_validate_json(her.sees("/receipt.json"))).verified


def test_after_a_study_was_cancelled_she_is_paid_the_base_and_told_why(here: Served, study: Asked) -> None:
    silent, *others = study.links
    answer(here.service, study, others)
    close(here.service, study.study_id)
    cancel_study(here.service.database, here.service.locations, study.study_id, WHO)
    her = Her(here, study, others[0])
    told = her.sees()
    with here.service.database.reading() as session:
        owed = due(session, study.study_id, her.player)
    base = base_payments(study.plan, [study.features[her.player]])[0]
    assert owed.millionths == round(base * 1e6)
    assert f"${owed.coins / 100:.2f}" in told
    assert "ended without a result" in told
    assert "your answer was not used" in told
    for path in ("/receipt.json", "/release.json"):
        her.sees(path, 404)
    assert "enter your receipt code" in Her(here, study, silent).sees()
