"""A study that is frozen, filled, closed and settled from the analyst's pages, and every refusal."""

from __future__ import annotations

import hashlib
import html
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from unittest import mock

import pytest
from starlette.testclient import TestClient
from support.analysts import (
    HEAD,
    QUESTION,
    counts,
    open_study,
    rows,
    send_roster,
    shown,
    stored,
    wait_until_settled,
)
from support.serving import (
    INVITATION,
    STUDY,
    WHO,
    WITHOUT_FEATURES,
    Served,
    answer,
    answer_all,
    asked,
    close,
    draft,
    served,
)

from truthful.plan import Plan
from truthful.service.offer import most_paid
from truthful.store import answers, roster, studies
from truthful.store.audit_log import events
from truthful.store.tables import Role, State, StoredStudy


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("service") / "service") as running:
        yield running


@pytest.fixture(scope="module")
def analyst(here: Served) -> TestClient:
    return here.signed_in(Role.ANALYST)


# Freezing


def test_freezing_needs_a_choice_and_an_invitation(here: Served, analyst: TestClient) -> None:
    study_id = draft(here.service)
    assert analyst.post(f"/studies/{study_id}/freeze", data={}).status_code == 409
    bare = draft(here.service, STUDY.replace(INVITATION, ""))
    assert "who asks" in shown(analyst, f"/studies/{bare}")
    assert "who asks" in analyst.post(f"/studies/{bare}/freeze", data={"for": "people"}).text
    assert here.state(bare) == here.state(study_id) == State.DRAFT


def test_a_frozen_study_cannot_be_changed_planned_or_frozen_again(here: Served, analyst: TestClient) -> None:
    study = asked(here.service)
    place = f"/studies/{study.study_id}"
    for path, data in (
        ("/edit/question", QUESTION),
        ("/file", {"text": STUDY.replace("Designed", "Other")}),
        ("/plan", {"players": "100", "epsilon": "1"}),
        ("/freeze", {"for": "people"}),
    ):
        assert analyst.post(place + path, data=data).status_code == 409, path
    assert analyst.get(f"{place}/edit/question").status_code == 409
    assert stored(here, study.study_id).declaration == STUDY


def test_a_rehearsal_says_so_on_its_pages(here: Served, analyst: TestClient) -> None:
    study_id = draft(here.service)
    analyst.post(f"/studies/{study_id}/freeze", data={"for": "rehearsal"})
    assert stored(here, study_id).rehearsal
    assert "This is a rehearsal" in shown(analyst, f"/studies/{study_id}")
    assert "REHEARSAL" in shown(here.client, f"/s/{study_id}")


# Rosters


@pytest.fixture
def opened(here: Served) -> str:
    return open_study(here)


def test_ids_are_kept_as_they_are_written(here: Served, analyst: TestClient, opened: str) -> None:
    text = HEAD + '007,1,north\n7,2,south\n"a, ""b""",3,east\nÄda 1,4.5,north\n'
    assert send_roster(analyst, opened, b"\xef\xbb\xbf" + text.encode()).status_code == 303
    links = rows(analyst.post(f"/studies/{opened}/links").text)[1:]
    assert [player for player, _ in links] == sorted(["007", "7", 'a, "b"', "Äda 1"])
    with here.service.database.reading() as session:
        token = {row[0]: row[1] for row in links}["007"].rpartition("/")[2]
        assert roster.standing(session, token)[0].features == {"price": 1.0, "region": "north"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + "a,9,north\n", "outside its declared range [1, 5]"),
        (HEAD + "a,1,west\n", "not one of its levels north, south, east"),
        (HEAD + "a,one,north\n", "not a number"),
        (HEAD + "a,,north\n", "is missing"),
        (HEAD + "a,nan,north\n", "is missing"),
        (HEAD + "a,inf,north\n", "not a finite number"),
        (HEAD + ",1,north\n", "player id is missing"),
        (HEAD + " ,1,north\n", "player id is missing"),
        (HEAD + "a,1,north\na,2,north\n", "'a' appears again; the first record is in row 3"),
        (HEAD + "a\0b,1,north\n", "cannot be seen"),
        (HEAD + '"a\nb",1,north\n', "cannot be seen"),
        (HEAD + "a\ufe0f,1,north\n", r"'a\ufe0f' holds a character that cannot be seen"),
        (HEAD + "=1+1,1,north\n", "takes for a formula"),
        (HEAD + "+49,1,north\n", "takes for a formula"),
        (HEAD + "-a,1,north\n", "takes for a formula"),
        (HEAD + "@a,1,north\n", "takes for a formula"),
        *(
            (HEAD + f"{sign}a,1,north\n", "takes for a formula")
            for sign in (*"\uff1d\uff0b\uff0d\uff20\u2212", " =")
        ),
        *((HEAD + f"a{sign}=1+1,1,north\n", "holds a semicolon") for sign in ";\uff1b\u037e"),
        (HEAD + "x" * 201 + ",1,north\n", "has 201 characters"),
        (HEAD + "".join(f"{player},1,north\n" for player in range(60)), "the plan is for 60"),
        (HEAD + "a,1\n", "has 2 fields"),
        (HEAD + 'a,1,"north\n', "quote"),
        (HEAD, "no reports"),
        ("", "empty"),
        ("player,price\na,1\n", "Add the column or rename one.</"),
        ("player;price;region\na;1.234;north\n", "or sets thousands apart"),
        ("player,price,region,spend\na,1,north,5\n", "columns that the study does not have: 'spend'"),
        (HEAD.encode() + b"\xff\xfe,1,north\n", "not UTF-8"),
    ],
)
def test_a_bad_roster_is_refused_whole(
    here: Served, analyst: TestClient, opened: str, text: str | bytes, words: str
) -> None:
    good = HEAD + "good,1,north\n"
    whole = text.replace(HEAD, good) if isinstance(text, str) and text != HEAD else text
    answer = send_roster(analyst, opened, whole)
    assert answer.status_code == 400
    told = html.unescape(answer.text)
    assert words in told
    assert "on_bad" not in told
    assert counts(here, opened)["roster"] == 0


def test_only_the_first_faults_of_many_are_listed(analyst: TestClient, opened: str) -> None:
    answer = send_roster(analyst, opened, HEAD + "".join(f"p{i},9,north\n" for i in range(100)))
    assert "100 rows are not right" in answer.text
    assert answer.text.count("<li>Row ") == 20
    assert "the column names are row 1" in answer.text
    assert "<li>Row 2: Feature" in answer.text


def test_somebody_who_is_known_is_not_changed_unless_her_features_were_wrong(
    here: Served, analyst: TestClient
) -> None:
    study = asked(here.service, players=4)
    player, link = next(iter(study.links.items()))
    row = HEAD + f"{player},2,east\n"
    refused = send_roster(analyst, study.study_id, row)
    assert refused.status_code == 400
    assert "on the roster already" in refused.text
    with here.service.database.writing() as session:
        answers.dispute(session, link, True)
    page = shown(analyst, f"/studies/{study.study_id}")
    assert "One person says that her facts are wrong" in page
    assert player not in page
    assert analyst.get(f"/studies/{study.study_id}/disputes.csv").text == f"player\n{player}\n"
    assert send_roster(analyst, study.study_id, row).status_code == 303
    assert analyst.get(f"/studies/{study.study_id}/disputes.csv").text == "player\n"
    with here.service.database.reading() as session:
        assert roster.standing(session, link)[0].features == {"price": 2.0, "region": "east"}


def test_links_are_made_once_and_replaced_only_when_asked_for(
    here: Served, analyst: TestClient, opened: str
) -> None:
    send_roster(analyst, opened, HEAD + "a,1,north\nb,1,north\n")
    first = dict(rows(analyst.post(f"/studies/{opened}/links").text)[1:])
    assert set(first) == {"a", "b"}
    assert analyst.post(f"/studies/{opened}/links").status_code == 409
    send_roster(analyst, opened, HEAD + "c,1,north\n")
    assert set(dict(rows(analyst.post(f"/studies/{opened}/links").text)[1:])) == {"c"}
    again = dict(rows(analyst.post(f"/studies/{opened}/links", data={"which": "all"}).text)[1:])
    assert set(again) == {"a", "b", "c"}
    assert again["a"] != first["a"]
    assert first["a"] not in analyst.get(f"/studies/{opened}").text


def test_a_roster_without_a_file_says_so(analyst: TestClient, opened: str) -> None:
    refused = analyst.post(f"/studies/{opened}/roster", data={}).text
    assert "No file was chosen" in refused
    assert f'action="/studies/{opened}/roster#roster"' in refused  # so the page is shown where it says so
    assert 'id="roster"' in refused


def test_nobody_is_brought_to_a_study_that_is_closed_and_no_links_are_made_for_a_draft(
    here: Served, analyst: TestClient
) -> None:
    study_id, study = draft(here.service), asked(here.service, players=2)
    assert analyst.post(f"/studies/{study_id}/links").status_code == 409
    close(here.service, study.study_id)
    assert send_roster(analyst, study.study_id, HEAD + "a,1,north\n").status_code == 409


# Closing, settling, publishing


@pytest.mark.parametrize(
    ("step", "said"), [("reopen", "There is nothing to decide"), ("deadline", "only while people can answer")]
)
def test_what_is_for_frozen_studies_is_not_for_a_draft(
    here: Served, analyst: TestClient, step: str, said: str
) -> None:
    """It has no files yet that could be missing."""
    answer = analyst.post(f"/studies/{draft(here.service)}/{step}", data={"until": "2099-12-03T18:00"})
    assert answer.status_code == 409
    assert said in answer.text


def test_where_the_bill_is_limited_the_limit_is_on_what_is_paid(here: Served, analyst: TestClient) -> None:
    """The plan's cap, rounded up to a coin: it holds for what is paid in coins."""
    study_id = draft(here.service)
    with here.service.database.reading() as session:
        plan = Plan.parse(studies.find(session, study_id).plan or "")
    cap, most = plan.guarantees.budget.cap or 0.0, most_paid(plan, plan.players, plan.guarantees)
    assert Decimal(cap) - Decimal("1e-6") <= most < Decimal(cap) + Decimal("0.01")
    for path in ("freeze", "plan"):
        assert f"${most:,}" in analyst.get(f"/studies/{study_id}/{path}").text
    assert analyst.post(f"/studies/{study_id}/freeze", data={"for": "people"}).status_code == 303
    assert f"at most ${most:,}" in here.client.get(f"/s/{study_id}").text


@pytest.fixture
def unsettled(tmp_path: Path) -> Iterator[Served]:
    """A service of its own, in which nothing is settled or counted by itself."""
    with served(tmp_path / "service") as running:
        running.service.settler.stop()
        yield running


def test_while_a_study_is_open_an_answer_changes_no_page_within_the_hour(unsettled: Served) -> None:
    """Or whoever invites one person after the other would see of each whether she has answered."""
    here, analyst = unsettled, unsettled.signed_in(Role.ANALYST)
    study, now = asked(here.service, players=25), datetime(2030, 1, 1, 12, tzinfo=UTC)
    place = f"/studies/{study.study_id}"

    def pages() -> tuple[str, str]:
        return analyst.get(place).text, analyst.get(f"{place}/close").text

    here.service.settler.tell_counts(now)
    before = pages()
    assert "fewer than 20" in before[0]
    answer_all(here.service, study)
    here.service.settler.tell_counts(now + timedelta(minutes=59))
    assert pages() == before
    here.service.settler.tell_counts(now + timedelta(hours=1))
    assert "10 or more" in pages()[0] or "20 or more" in pages()[0]


def test_counts_grow_in_steps_at_secret_numbers_and_never_fall(unsettled: Served) -> None:
    """Each step of each study has a lot of its own: with thirty studies of two steps all alike once in 10^59."""
    here = unsettled
    study = asked(here.service)
    reached, now = list[list[int]](), datetime(2030, 1, 1, tzinfo=UTC)
    for number in range(30):
        with here.service.database.writing() as session:
            stored = studies.find(session, study.study_id)
            stored.steps, stored.told = hashlib.sha256(str(number).encode()).hexdigest(), None
            told, hours = list[int](), iter(range(1, 200))
            for answered in (*range(31), 3):
                exact = {
                    "answered": answered,
                    "consented": answered,
                    "roster": 60,
                    "invited": 60,
                    "disputed": 0,
                }
                with mock.patch.object(studies, "counts", lambda *given, exact=exact: dict(exact)):
                    studies.update_counts(session, study.study_id, now + timedelta(hours=next(hours)))
                    told.append(studies.progress(session, stored)["answered"])
            reached.append([told.index(10), told.index(20)])
        assert told[:31] == sorted(told[:31])
        assert told[-1] == told[-2]
        assert told[9] == 0
        assert all(count <= answered for answered, count in enumerate(told[:31]))
        assert all(answered < count + 20 for answered, count in enumerate(told[:31]))
    firsts, seconds = zip(*reached, strict=True)
    assert len(set(firsts)) > 5
    assert len({second - first for first, second in reached}) > 5
    assert min(firsts) >= 10
    assert max(seconds) <= 29


def test_trying_to_close_does_not_count_answers(unsettled: Served) -> None:
    """The number that is needed is no other study's, and its page is the same below and above it."""
    here, analyst = unsettled, unsettled.signed_in(Role.ANALYST)
    study = asked(here.service, WITHOUT_FEATURES)
    with here.service.database.writing() as session:
        stored = studies.find(session, study.study_id)
        stored.steps = next(
            secret
            for secret in (hashlib.sha256(str(number).encode()).hexdigest() for number in range(100))
            if studies.least_to_close(StoredStudy(steps=secret, rehearsal=False), 60) == 17
        )
        assert studies.least_to_close(stored, 12) == 12
    place = f"/studies/{study.study_id}/close"
    players = list(study.links)
    answer(here.service, study, players[:10])
    few = analyst.get(place).text
    assert analyst.post(place, data={"name": "Designed"}).status_code == 409
    answer(here.service, study, players[10:16])
    assert analyst.post(place, data={"name": "Designed"}).status_code == 409
    answer(here.service, study, players[16:17])
    assert analyst.get(place).text == few
    assert analyst.post(place, data={"name": "Designed"}).status_code == 303


def test_a_rehearsal_tells_exact_counts(here: Served, analyst: TestClient) -> None:
    study = asked(here.service, rehearsal=True)
    answer(here.service, study, list(study.links)[:7])
    page = shown(analyst, f"/studies/{study.study_id}")
    assert "fewer than" not in page
    assert "7" in page


def test_freezing_warns_of_a_study_that_may_ask_the_same_people(here: Served, analyst: TestClient) -> None:
    """One of the same name, or that declares the same; not a rehearsal, which asks nobody, nor another draft."""
    mine = STUDY.replace("Designed", "Asked twice?").replace("signal = 0.6", "signal = 0.55")
    other = mine.replace("signal = 0.55", "signal = 0.45")
    study_id = draft(here.service, mine)
    draft(here.service, mine)
    asked(here.service, mine, rehearsal=True)
    asked(here.service, other.replace("Asked twice?", "Unlike it"))
    warning = "was frozen here before"
    assert warning not in shown(analyst, f"/studies/{study_id}/freeze")
    named = asked(here.service, other)
    assert f"/studies/{named.study_id}" in shown(analyst, f"/studies/{study_id}/freeze")
    same = asked(here.service, mine.replace("Asked twice?", "Once more"))
    page = shown(analyst, f"/studies/{study_id}/freeze")
    assert warning in page
    assert "Once more" in page
    assert same.study_id in page
    assert "Unlike it" not in page


def test_a_study_for_very_few_is_not_frozen(here: Served, analyst: TestClient) -> None:
    study_id = draft(here.service, WITHOUT_FEATURES, players=9)
    refused = analyst.post(f"/studies/{study_id}/freeze", data={"for": "people"})
    assert refused.status_code == 409
    assert "fewer than 10 people" in refused.text
    assert here.state(study_id) == State.DRAFT


def test_closing_takes_the_study_s_name_and_ten_answers(here: Served, analyst: TestClient) -> None:
    study = asked(here.service, WITHOUT_FEATURES)
    place = f"/studies/{study.study_id}/close"
    most = list(study.links)[:9]
    for players in ([], most):
        answer(here.service, study, players)
        assert "The number is secret" in shown(analyst, place)
        refused = analyst.post(place, data={"name": "Designed"})
        assert refused.status_code == 409
        assert "Too few people have answered" in refused.text
        assert here.state(study.study_id) == State.OPEN
    answer_all(here.service, study)
    wrong = analyst.post(place, data={"name": "designed?"})
    assert wrong.status_code == 400
    assert "not the study's name" in html.unescape(wrong.text)
    assert here.state(study.study_id) == State.OPEN
    assert analyst.post(place, data={"name": " Designed "}).status_code == 303
    assert analyst.post(place, data={"name": "Designed"}).status_code == 409
    wait_until_settled(here, study.study_id)


def test_a_study_that_waits_to_be_settled_shows_itself_again(tmp_path: Path) -> None:
    with served(tmp_path / "service") as here:
        here.service.settler.stop()
        analyst, study = here.signed_in(Role.ANALYST), asked(here.service)
        answer_all(here.service, study)
        close(here.service, study.study_id)
        place = f"/studies/{study.study_id}"
        waiting = analyst.get(place)
        assert "Waiting for its turn." in waiting.text
        assert waiting.headers["refresh"] == "4"
        assert analyst.post(f"{place}/publish").status_code == 409
        assert analyst.get(f"{place}/release.json").status_code == 404
        with here.service.database.writing() as session:
            studies.note_problem(session, study.study_id, "The disk is <full>.")
        assert "The disk is &lt;full&gt;." in analyst.get(place).text


def test_settling_that_stopped_is_told_and_can_be_tried_again(
    here: Served, analyst: TestClient, tmp_path: Path
) -> None:
    study = asked(here.service)
    answer_all(here.service, study)
    directory, place = here.service.locations.study(study.study_id), f"/studies/{study.study_id}"
    directory.rename(tmp_path / "elsewhere")
    assert (
        analyst.post(f"{place}/close", data={"name": "Designed"}).status_code == 409
    )  # nothing could be settled
    with here.service.database.writing() as session:
        studies.step(session, study.study_id, State.CLOSED, WHO)  # and then they go
    here.service.settler.ask(study.study_id)
    for _ in range(600):
        if stored(here, study.study_id).problem is not None:
            break
        time.sleep(0.1)
    page = shown(analyst, place)
    assert "are not in" in page
    assert "Try again" in page
    (tmp_path / "elsewhere").rename(directory)
    assert analyst.post(f"{place}/settle").status_code == 303
    wait_until_settled(here, study.study_id)
    assert stored(here, study.study_id).problem is None
    with here.service.database.reading() as session:
        assert "asked to settle again" in {event.what for event in events(session, study.study_id)}
