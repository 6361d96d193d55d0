"""Invitations and reminders by mail, over a real mail server, and people who come from a panel and go back."""

from __future__ import annotations

import html
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword
from starlette.testclient import TestClient
from support.analysts import open_study, rows, send_roster, shown, stored
from support.databases import KINDS, database_url
from support.serving import URL, WHO, Served, answer_all, asked, close, draft, served, settle_with_less
from test_participant import IN_BOTH

from truthful.errors import InputError
from truthful.service.locations import LINKS, Settings, Smtp
from truthful.service.mailer import Mailer, write_message
from truthful.service.purging import purge
from truthful.service.settle_study import cancel_study
from truthful.store import mails, roster
from truthful.store.mails import INTERRUPTED, Letter
from truthful.store.tables import Mail, Role, Sending

#: Of a mail.
HEADERS = (
    *("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted"),
    *("Content-Type", "Content-Transfer-Encoding", "MIME-Version"),
)
LINK = re.compile(rf"{URL}(/a/\S+)")
USER, PASSWORD = "studies", "a password"


@dataclass
class Post:
    """A mail server. Addresses that begin with `no` are refused; for one with `cut` the line is cut after its mail."""

    port: int
    mails: list[tuple[str, str]] = field(default_factory=list)

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        if address.startswith("no"):
            return "550 nobody of that name"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802
        self, server: Any, session: Any, envelope: Any
    ) -> str:
        text = message_from_bytes(envelope.original_content, policy=default)
        self.mails.append((envelope.rcpt_tos[0], text.get_content()))
        if "cut" in envelope.rcpt_tos[0]:
            server.transport.abort()
        return "250 taken"

    def auth(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        good = isinstance(data, LoginPassword) and data.password == PASSWORD.encode()
        return AuthResult(success=good, handled=False)

    def links_of(self, address: str) -> list[str]:
        return [LINK.search(text)[1] for to, text in self.mails if to == address]  # type: ignore[index]


@pytest.fixture(scope="module")
def post() -> Iterator[Post]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    found = Post(port)
    settings: dict[str, Any] = {"authenticator": found.auth, "auth_require_tls": False}
    running = Controller(found, hostname="127.0.0.1", port=port, **settings)
    running.start()
    yield found
    running.stop()


@pytest.fixture(scope="module", params=KINDS)
def here(
    request: pytest.FixtureRequest, post: Post, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    directory, smtp = tmp_path_factory.mktemp("service"), smtp_of(post)
    with (
        database_url(request.param, directory) as url,
        served(directory / "service", url, smtp=smtp) as running,
    ):
        assert running.service.mailer is not None
        running.service.mailer.stop()  # mails are sent when a test says so
        running.service.mailer._stopping.clear()
        running.service.settler.stop()
        yield running


@pytest.fixture(scope="module")
def analyst(here: Served) -> TestClient:
    return here.signed_in(Role.ANALYST)


def smtp_of(post: Post, host: str = "127.0.0.1", password: str = PASSWORD) -> Smtp:
    return Smtp(host, post.port, "studies@example.org", USER, password)


def mailed(here: Served, analyst: TestClient, *addresses: str) -> str:
    """An open study with these people, named after their addresses."""
    study_id = open_study(here)
    lines = [f"{address.partition('@')[0]},2,north,{address}" for address in addresses]
    assert send_roster(analyst, study_id, "player,price,region,email\n" + "\n".join(lines)).status_code == 303
    return study_id


def press(here: Served, analyst: TestClient, study_id: str, do: str, **changes: str) -> Any:
    """Send the page's form as it is shown, but for these changes."""
    page = analyst.get(f"/studies/{study_id}/mail").text
    typed = dict(re.findall(r'<textarea id="\w+" name="(\w+)"[^>]*>\n?([^<]*)<', page))
    typed |= dict(re.findall(r'name="(\w+_subject)" value="([^"]*)"', page))
    fields = {name: html.unescape(text) for name, text in typed.items()} | {"do": do} | changes
    return analyst.post(f"/studies/{study_id}/mail", data=fields)


def send(here: Served) -> None:
    assert here.service.mailer is not None
    here.service.mailer.send_waiting()


def states(here: Served, study_id: str) -> dict[str, Sending]:
    with here.service.database.reading() as session:
        found = session.query(Mail).filter(Mail.study_id == study_id)
        return {mail.player: mail.state for mail in found}


def test_each_person_is_mailed_her_link_once_and_reminded_of_the_same_one(
    here: Served, analyst: TestClient, post: Post
) -> None:
    who = [f"p{at}-{here.service.database.is_sqlite}@example.org" for at in range(12)]
    study_id = mailed(here, analyst, *who)
    assert press(here, analyst, study_id, "invite").status_code == 303
    send(here)
    press(here, analyst, study_id, "invite")
    send(here)
    links = {address: post.links_of(address) for address in who}
    assert {len(found) for found in links.values()} == {1}
    first = TestClient(here.client.app, base_url=URL, follow_redirects=False)
    path = links[who[0]][0]
    assert first.post(f"{path}/consent").status_code == 303
    assert first.post(f"{path}/submit", data={"answer": "20"}).status_code == 303
    assert press(here, analyst, study_id, "remind").status_code == 303
    send(here)
    assert post.links_of(who[0]) == [path]
    assert all(post.links_of(address) == links[address] * 2 for address in who[1:])
    text = next(text for to, text in post.mails if to == who[1])
    assert "Institute for Household Studies invites you" in text
    assert "lädt Sie ein" in text
    page = shown(analyst, f"/studies/{study_id}/mail")
    assert "Whoever had not answered is reminded." in page
    assert "11" not in re.sub(r"<[^>]+>", "", page)
    assert "@example.org" not in page


def test_the_usual_texts_say_in_each_language_what_the_study_says_in_it(
    here: Served, analyst: TestClient
) -> None:
    study_id = asked(here.service, IN_BOTH).study_id
    page = shown(analyst, f"/studies/{study_id}/mail")
    assert "Institute invites you to take part in a study: Groceries." in page
    assert "Institut lädt Sie ein, an einer Studie teilzunehmen: Einkauf." in page
    assert "Designed:" not in page


def test_reminding_tells_nothing_of_whoever_was_invited_alone(
    here: Served, analyst: TestClient, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were she told that nobody was reminded, or that reminders wait, she would know whether the one has answered."""
    nowhere = Settings(here.service.settings.directory, URL, smtp=Smtp("127.0.0.1", 9, "studies@example.org"))
    pages = []
    for said in (False, True):
        address = f"alone-{said}-{here.service.database.is_sqlite}@example.org"
        study_id = mailed(here, analyst, address)
        press(here, analyst, study_id, "invite")
        send(here)
        path = post.links_of(address)[0]
        if said:
            browser = TestClient(here.client.app, base_url=URL, follow_redirects=False)
            browser.post(f"{path}/consent")
            assert browser.post(f"{path}/submit", data={"answer": "20"}).status_code == 303
        press(here, analyst, study_id, "remind")
        pages.append(shown(analyst, f"/studies/{study_id}/mail").replace(study_id, "ID"))
        with monkeypatch.context() as away:
            away.setattr(here.service.mailer, "_settings", nowhere)
            send(here)
        assert here.service.mailer is not None
        assert (here.service.mailer.problem is None) == said
        pages.append(shown(analyst, f"/studies/{study_id}/mail").replace(study_id, "ID"))
        send(here)
        pages.append(shown(analyst, f"/studies/{study_id}/mail").replace(study_id, "ID"))
    assert pages[:3] == pages[3:]


def test_whoever_cannot_be_mailed_is_told_and_tried_again_and_nobody_twice(
    here: Served, analyst: TestClient, post: Post
) -> None:
    study_id = mailed(here, analyst, "a@example.org", "cut@example.org", "no@example.org", "z@example.org")
    before = len(post.mails)
    press(here, analyst, study_id, "invite")
    send(here)
    assert here.service.mailer is not None
    assert "ended the connection" in (here.service.mailer.problem or "")
    send(here)
    assert [to.partition("@")[0] for to, _ in post.mails[before:]] == ["a", "cut", "z"]
    found = states(here, study_id)
    assert (found["cut"], found["no"], found["z"]) == (Sending.UNKNOWN, Sending.FAILED, Sending.SENT)
    page = shown(analyst, f"/studies/{study_id}/mail")
    assert "550 nobody of that name" in page
    assert "it may have arrived" in page
    again = mailed(here, analyst, "b@example.org")
    assert states(here, again) == {"b": Sending.KEPT}
    send_roster(analyst, study_id, "player,price,region,email\nnew,2,north,new@example.org\n")
    press(here, analyst, study_id, "invite")
    send(here)
    assert [to.partition("@")[0] for to, _ in post.mails[before:]] == ["a", "cut", "z", "new"]


def test_a_mail_that_was_being_sent_when_the_service_ended_is_never_sent_again(
    here: Served, analyst: TestClient, post: Post
) -> None:
    study_id = mailed(here, analyst, "first@example.org", "second@example.org")
    press(here, analyst, study_id, "invite")
    with here.service.database.writing() as session:
        taken = mails.take(session)
    assert taken is not None
    before = len(post.mails)
    restarted = Mailer(here.service.database, here.service.settings)
    restarted.send_waiting()
    assert [to for to, _ in post.mails[before:]] == ["second@example.org"]
    assert states(here, study_id) == {"first": Sending.UNKNOWN, "second": Sending.SENT}
    assert INTERRUPTED in shown(analyst, f"/studies/{study_id}/mail")


def test_mails_wait_while_the_mail_server_cannot_be_used(
    here: Served, analyst: TestClient, post: Post
) -> None:
    study_id = mailed(here, analyst, "waits@example.org")
    press(here, analyst, study_id, "invite")
    for smtp, words in (
        (smtp_of(post, password="another"), "535"),
        (smtp_of(post, "127.0.0.2"), "127.0.0.2"),  # not this machine's own name, and it speaks no TLS
        (Smtp("127.0.0.1", 9, "studies@example.org"), "refused"),
    ):
        settings = Settings(here.service.settings.directory, URL, smtp=smtp)
        mailer = Mailer(here.service.database, settings)
        mailer.send_waiting()
        assert words in (mailer.problem or "")
    assert states(here, study_id) == {"waits": Sending.WAITING}
    send(here)
    assert states(here, study_id) == {"waits": Sending.SENT}


def test_addresses_are_no_features_and_go_when_the_study_has_ended(here: Served, analyst: TestClient) -> None:
    study_id = mailed(here, analyst, "gone@example.org")
    with here.service.database.reading() as session:
        assert roster.people(session, study_id) == {"gone": {"price": 2.0, "region": "north"}}
        assert mails.addresses(session, study_id) == {"gone": "gone@example.org"}
    study = asked(here.service, players=12)
    with here.service.database.writing() as session:
        mails.keep(session, study.study_id, {player: f"{player}@example.org" for player in study.links})
    answer_all(here.service, study)
    close(here.service, study.study_id)
    cancel_study(here.service.database, here.service.locations, study.study_id, WHO)
    with here.service.database.reading() as session:
        assert mails.addresses(session, study.study_id) == {}


@pytest.mark.parametrize(
    "address",
    [
        *("nobody", "a@b", "a b@example.org", "a@example.org\r\nBcc: x@y.org", "ä@example.org"),
        *("=?utf-8?q?a?=@example.org", "=?utf-8?q?a=0D=0ABcc=3A_x?=@y.org"),
    ],
)
def test_what_is_no_address_is_refused(here: Served, analyst: TestClient, address: str) -> None:
    study_id = open_study(here)
    answer = send_roster(analyst, study_id, f'player,price,region,email\na,2,north,"{address}"\n')
    assert answer.status_code == 400
    assert "a@example.org" not in str(states(here, study_id))


@pytest.mark.parametrize(
    "subject",
    ["Come\r\nReply-To: x@y.org", "=?utf-8?q?Come=0D=0AReply-To=3A_x=40y.org?=", "=?utf-8?b?Cg==?="],
)
def test_nothing_that_is_written_into_a_subject_becomes_another_header(subject: str) -> None:
    """As one that asks for a receipt would: it would tell the analyst who was reminded."""
    letter = Letter(
        "s", "p", "p@example.org", True, "", "", {"reminder_subject": subject, "reminder_en": "{link}"}
    )
    head = write_message(letter, f"{URL}/a/x", "studies@example.org").as_bytes().partition(b"\r\n\r\n")[0]
    named = [line.partition(b":")[0] for line in head.splitlines() if not line.startswith(b" ")]
    assert named == [name.encode() for name in HEADERS]


def test_a_text_without_the_link_is_not_sent(here: Served, analyst: TestClient) -> None:
    study_id = mailed(here, analyst, "never@example.org")
    answer = press(here, analyst, study_id, "invite", invitation_en="Come!", reminder_subject="")
    assert answer.status_code == 400
    assert '<a href="#invitation_en">' in answer.text
    assert '<a href="#reminder_subject">' in answer.text
    assert states(here, study_id) == {"never": Sending.KEPT}


def test_texts_of_mails_are_kept_only_while_people_can_answer(here: Served, analyst: TestClient) -> None:
    """Neither a draft nor a study whose people were erased is given a key of links."""
    texts = [f"{kind}_{part}" for kind in ("invitation", "reminder") for part in ("subject", "en")]
    fields = dict.fromkeys(texts, "{link}")
    erased = asked(here.service)
    answer_all(here.service, erased)
    close(here.service, erased.study_id)
    settle_with_less(here.service, erased.study_id)
    purge(here.service.database, here.service.locations, erased.study_id, WHO, unpaid=True)
    for study_id in (draft(here.service), erased.study_id):
        refused = analyst.post(f"/studies/{study_id}/mail", data=fields)
        assert refused.status_code == 409
        assert "only while people can answer" in refused.text
        assert f'<a href="/studies/{study_id}">Back to the study</a>' in refused.text
        assert not (here.service.locations.study(study_id) / LINKS).exists()


def test_without_a_mail_server_addresses_are_not_taken(tmp_path: Path) -> None:
    with served(tmp_path / "service") as running:
        analyst = running.signed_in(Role.ANALYST)
        study_id = open_study(running)
        text = "player,price,region,email\na,2,north,a@example.org\n"
        answer = send_roster(analyst, study_id, text)
        assert (answer.status_code, "sends no mail" in answer.text) == (400, True)
        assert analyst.post(f"/studies/{study_id}/mail", data={"do": "invite"}).status_code == 409


def test_a_mail_server_needs_a_port_a_sender_and_a_password() -> None:
    with pytest.raises(InputError, match="HOST:PORT"):
        Smtp.read("mail.example.org", "a@b.org", None, None)
    with pytest.raises(InputError, match="mail-from"):
        Smtp.read("mail.example.org:587", None, None, None)
    with pytest.raises(InputError, match="TRUTHFUL_SMTP_PASSWORD"):
        Smtp.read("mail.example.org:587", "a@b.org", "a", None)


# Panels

BACK = "https://app.prolific.com/submissions/complete?cc=C0DE1234"


def test_people_of_a_panel_come_by_one_address_and_go_back_with_one_code(
    here: Served, analyst: TestClient
) -> None:
    study_id = open_study(here)
    send_roster(analyst, study_id, "player,price,region\npid-1,2,north\npid-2,3,south\n")
    entry = f"/s/{study_id}/enter?PROLIFIC_PID="
    assert here.client.get(entry + "pid-1").status_code == 404
    panel = {"return_url": BACK, "completion_code": "C0DE1234"}
    assert analyst.post(f"/studies/{study_id}/panel", data=panel).status_code == 303
    assert here.client.get(entry + "pid-3").status_code == 404
    pages = []
    for player, said in (("pid-1", "0"), ("pid-2", "200")):
        browser = TestClient(here.client.app, base_url=URL, follow_redirects=False)
        path = browser.get(entry + player).headers["location"]
        assert browser.get(entry + player).headers["location"] == path
        browser.post(f"{path}/consent")
        assert BACK not in shown(browser, path)
        browser.post(f"{path}/submit", data={"answer": said})
        pages.append(shown(browser, path))
    assert [re.findall(r'href="(https://app[^"]*)"', page) for page in pages] == [[BACK], [BACK]]
    assert "C0DE1234" not in shown(here.client, f"/s/{study_id}")
    assert "C0DE1234" not in (stored(here, study_id).declaration or "")


def test_a_panel_does_not_replace_a_link_that_was_handed_out(here: Served, analyst: TestClient) -> None:
    study_id = open_study(here)
    send_roster(analyst, study_id, "player,price,region\npid-1,2,north\n")
    analyst.post(f"/studies/{study_id}/panel", data={"return_url": "", "completion_code": ""})
    ((_, link),) = rows(analyst.post(f"/studies/{study_id}/links").text)[1:]
    assert here.client.get(f"/s/{study_id}/enter?PROLIFIC_PID=pid-1").status_code == 409
    assert here.client.get(link.removeprefix(URL)).status_code == 200


def test_a_panel_is_no_way_for_the_analyst_to_a_link_that_is_mailed(
    here: Served, analyst: TestClient
) -> None:
    """She knows everybody's id."""
    study_id = open_study(here)
    send_roster(analyst, study_id, "player,price,region\npid-1,2,north\n")
    with here.service.database.writing() as session:
        mails.keep(session, study_id, {"pid-1": "ann@example.org"})
    analyst.post(f"/studies/{study_id}/panel", data={"return_url": "", "completion_code": ""})
    assert analyst.get(f"/s/{study_id}/enter?PROLIFIC_PID=pid-1").status_code == 409
    with here.service.database.writing() as session:
        mails.invite(session, study_id, WHO, here.service.locations.links_key(study_id))
    answer = analyst.get(f"/s/{study_id}/enter?PROLIFIC_PID=pid-1")
    assert (answer.status_code, "personal link" in answer.text) == (409, True)


def test_strangers_at_a_panels_address_write_nothing(here: Served, analyst: TestClient) -> None:
    study_id = open_study(here)
    assert here.client.get(f"/s/{study_id}/enter?PROLIFIC_PID=pid-1").status_code == 404
    analyst.post(f"/studies/{study_id}/panel", data={"return_url": "", "completion_code": ""})
    assert here.client.get(f"/s/{study_id}/enter?PROLIFIC_PID=pid-1").status_code == 404
    assert not (here.service.locations.study(study_id) / "links.key").exists()


@pytest.mark.parametrize(
    "typed",
    [{"return_url": "http://example.org"}, {"return_url": "javascript:alert(1)"}, {"completion_code": "a b"}],
)
def test_a_way_back_that_is_none_is_refused_at_its_field(
    here: Served, analyst: TestClient, typed: dict[str, str]
) -> None:
    study_id = open_study(here)
    answer = analyst.post(f"/studies/{study_id}/panel", data=typed)
    assert answer.status_code == 400
    assert f'id="{next(iter(typed))}-problem"' in answer.text
    assert stored(here, study_id).panel is None
