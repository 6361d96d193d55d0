"""A stranger's attempts, over HTTP: refused clearly, nothing lost, nothing told."""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from starlette.testclient import TestClient
from support.clocks import stop_clock
from support.databases import KINDS, database_url
from support.serving import PASSWORD, URL, Asked, Served, answer_all, asked, close, code_of, draft, served

from truthful.service.settle_study import settle_study
from truthful.store import accounts, studies
from truthful.store.tables import Role, State

#: What a page could take for more than text, ...
MARKUP = (
    "<script>alert('zq')</script>",
    "\"'><img src=zq onerror=alert(1)>",
    "'; DROP TABLE answers; -- zq",
    "zq' OR '1'='1",
    '=HYPERLINK("http://evil.example","zq")',
)
#: ... and what somebody might write into a field: much of it at once, of which some fields keep the beginning.
HOSTILE = (
    MARKUP[1],
    " ".join(("${7*191} {{7*191}}{% raw %}", *MARKUP, "../../../../etc/passwd zq")),
    "zq\r\nSet-Cookie: planted=1",
    "\u202ezq\ufeff\u0000".replace("\u0000", ""),
    "9" * 400,
    "1e999",
    "1,000e99999",
    "1e9999999999999999999",
    "-1,0e-99999999999",
    "NaN",
    "-0",
    "zq" * 20_000,
)


@pytest.fixture(scope="module", params=KINDS)
def here(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("service")
    with (
        database_url(request.param, directory) as url,
        served(directory / "service", url, behind_proxy=True) as running,
    ):
        stop_clock(running)
        yield running


@pytest.fixture(scope="module")
def paid(here: Served) -> Asked:
    study = asked(here.service)
    answer_all(here.service, study)
    close(here.service, study.study_id)
    settle_study(here.service.database, here.service.locations, study.study_id)
    return study


_STRANGERS = itertools.count()


def stranger(here: Served) -> TestClient:
    """Somebody at an address of her own."""
    number = next(_STRANGERS)
    return TestClient(
        here.client.app,
        base_url=URL,
        follow_redirects=False,
        headers={"x-forwarded-for": f"10.0.{number // 256}.{number % 256}"},
    )


def shape(client: TestClient, path: str) -> tuple[int, str, set[tuple[str, str]]]:
    """All that an answer tells, but for its own address."""
    answer = client.get(path)
    headers = {pair for pair in answer.headers.items() if pair[0] != "content-length"}
    return answer.status_code, answer.text.replace(path, ""), headers


def test_a_guessed_link_looks_like_any_page_that_is_not_there(here: Served, paid: Asked) -> None:
    client = stranger(here)
    nothing = shape(client, "/no/such/page")
    assert nothing[0] == 404
    for path in (
        "/a/" + secrets.token_urlsafe(32),
        "/a/x",
        "/s/" + secrets.token_hex(6),
        "/a/" + paid.study_id,
    ):
        assert shape(client, path) == nothing


def test_a_draft_is_no_page_to_strangers(here: Served) -> None:
    client = stranger(here)
    assert shape(client, f"/s/{draft(here.service)}") == shape(client, "/s/000000000000")


def test_guesses_are_limited_and_a_link_still_works(here: Served, paid: Asked) -> None:
    client = stranger(here)
    codes = [client.get(f"/a/{secrets.token_urlsafe(32)}").status_code for _ in range(60)]
    assert codes == [404] * 30 + [429] * 30
    assert client.get(f"/a/{paid.links['p-01']}").status_code == 200


def test_a_link_and_its_code_show_the_owners_payment_and_no_other(here: Served, paid: Asked) -> None:
    client = stranger(here)
    for player in ("p-01", "p-02"):
        link = paid.links[player]
        assert client.get(f"/a/{link}/receipt.json").status_code == 404
        client.post(f"/a/{link}/code", data={"code": code_of(here.service, link)})
    receipts = {
        player: client.get(f"/a/{paid.links[player]}/receipt.json").json() for player in ("p-01", "p-02")
    }
    assert {player: receipt["player"] for player, receipt in receipts.items()} == {
        "p-01": "p-01",
        "p-02": "p-02",
    }
    for path in ("/a/p-01", "/a/p-01/receipt.json", f"/a/{paid.links['p-01']}/../p-02", "/payments/p-01"):
        assert client.get(path).status_code in (303, 404)
    shown = client.get(f"/a/{paid.links['p-01']}?player=p-02").text
    assert "p-02" not in shown


def test_no_public_page_tells_an_amount_or_who_took_part(here: Served, paid: Asked) -> None:
    with here.service.database.writing() as session:
        if studies.find(session, paid.study_id).state == State.SETTLED:
            studies.step(session, paid.study_id, State.PUBLISHED, "test")
    client = stranger(here)
    for part in ("", "/study.toml", "/plan.json", "/release.json", "/report"):
        answer = client.get(f"/s/{paid.study_id}{part}")
        assert answer.status_code == 200
        assert not re.search(r"\bp-\d\d\b", answer.text)
    for part in (
        "/payments.parquet",
        "/settlement.json",
        "/ledger.json",
        "/closed.json",
        "/settlement/release.json",
    ):
        assert client.get(f"/s/{paid.study_id}{part}").status_code == 404


def test_a_used_sign_in_link_opens_nothing_again(here: Served) -> None:
    with here.service.database.writing() as session:
        account = accounts.account(session, "once", Role.ANALYST, "test")
        link = f"/welcome/{accounts.new_link(session, account, 'test')}"
    first = stranger(here)
    assert first.post(link, data={"password": PASSWORD}).status_code == 303
    replayed = stranger(here).post(link, data={"password": "another long password"})
    assert replayed.status_code == 404
    assert "set-cookie" not in replayed.headers
    assert first.get("/people").status_code == 200
    assert stranger(here).get("/welcome/" + "x" * 43).text == stranger(here).get(link).text.replace(
        link, "/welcome/" + "x" * 43
    )


@pytest.mark.parametrize(
    "cookie", ["", "x", "x" * 43, "x" * 60_000, "é", "'; DROP TABLE sign_ins; --", "a=b; c"]
)
def test_an_invented_cookie_is_nobody(here: Served, cookie: str) -> None:
    answer = here.client.get(
        "/people", headers={b"cookie": f"truthful={cookie}; known={cookie}".encode("latin-1")}
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ],
)
def test_another_sites_page_changes_nothing_in_a_signed_in_browser(
    here: Served, headers: dict[str, str]
) -> None:
    analyst, study = here.signed_in(Role.ANALYST), asked(here.service, players=4)
    token = next(iter(study.links.values()))
    moves = {
        f"/studies/{study.study_id}/close": {"name": "Designed"},
        "/sign-out": {},
        f"/a/{token}/consent": {},
        f"/a/{token}/dispute": {},
    }
    for path, data in moves.items():
        assert analyst.post(path, data=data, headers=headers).status_code == 403
    assert here.state(study.study_id) == State.OPEN
    with here.service.database.reading() as session:
        counts = studies.counts(session, study.study_id)
    assert (counts["consented"], counts["disputed"]) == (0, 0)


def test_opening_pages_changes_nothing(here: Served) -> None:
    """As link scanners and previews do, with every address that there is for a link."""
    study = asked(here.service, players=4)
    token = next(iter(study.links.values()))
    client = stranger(here)
    for part in ("", "/answer", "/withdraw", "/consent", "/dispute", "/undispute", "/review", "/submit"):
        for method in ("GET", "HEAD", "OPTIONS"):
            assert client.request(method, f"/a/{token}{part}").status_code < 500
    with here.service.database.reading() as session:
        counts = studies.counts(session, study.study_id)
    assert (counts["consented"], counts["disputed"], counts["answered"]) == (0, 0, 0)


@pytest.mark.parametrize(
    "path",
    [
        "/s/../people",
        "/static/../people",
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e%2f%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/static//etc/passwd",
        "/static/..\\app.py",
        "/s/%2e%2e%2f%2e%2e%2ftruthful.db",
        "/s/..%5c..%5ctruthful.db",
        "/s/.%00./plan.json",
        "/a/%2e%2e%2fpeople",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//people",
        "/people;x=1",
        "/people%2f",
        "/PEOPLE",
        "/.env",
        "/.git/config",
    ],
)
def test_tricks_with_paths_lead_nowhere(here: Served, path: str) -> None:
    answer = stranger(here).get(path)
    assert answer.status_code in (303, 307, 400, 404, 405)
    assert answer.headers.get("location", URL + "/").removeprefix(URL).startswith("/")
    assert not answer.headers.get("location", "").startswith("//")
    assert not any(word in answer.text for word in ("root:", "create_app", "SQLite format"))


@pytest.mark.parametrize("size", [100_000_000])
def test_a_hundred_megabytes_are_refused_from_anybody(here: Served, paid: Asked, size: int) -> None:
    piece = b"x" * 1_000_000
    analyst = here.signed_in(Role.ANALYST)
    for client, path in (
        (stranger(here), "/sign-in"),
        (stranger(here), f"/a/{paid.links['p-01']}/submit"),
        (stranger(here), f"/studies/{paid.study_id}/roster"),
        (analyst, f"/studies/{paid.study_id}/roster"),
        (analyst, "/studies/upload"),
    ):
        announced = client.post(path, content=b"x", headers={"content-length": str(size)})
        assert announced.status_code == 413
        in_pieces = client.post(
            path,
            content=(piece for _ in range(size // len(piece))),
            headers={"content-type": "multipart/form-data; boundary=x"},
        )
        assert in_pieces.status_code in (400, 413)


def test_headers_cannot_be_slipped_in(here: Served) -> None:
    planted = "x\r\nSet-Cookie: planted=1"
    for answer in (
        here.client.post("/language", data={"language": planted, "back": f"/{planted}"}),
        here.client.post("/language", data={"language": "en", "back": "/é\u2028x"}),
        here.client.get("/sign-in", params={"next": planted}),
        here.client.get(f"/{'x' * 3}%0d%0aSet-Cookie:%20planted=1"),
        here.client.get(
            "/sign-in", headers={"accept-language": "de;q=abc,,;;,xx-YY-zz;q=1e9" + "," * 10_000}
        ),
    ):
        assert answer.status_code < 500
        assert "planted" not in "".join(answer.headers.get_list("set-cookie"))
        assert "\n" not in str(answer.headers.get("location", ""))


class Forms(HTMLParser):
    """The forms of a page: where each is sent, and its fields."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: list[tuple[str, list[str]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        if tag == "form":
            self.forms.append((found.get("action") or "", []))
        elif tag in ("input", "textarea", "select", "button") and found.get("name") and self.forms:
            self.forms[-1][1].append(str(found["name"]))


def filled(client: TestClient, path: str, text: str) -> Iterator[tuple[str, str, int]]:
    """Send every form of a page with this text in every field; where, what came back, and its status."""
    page = client.get(path)
    assert page.status_code == 200
    for action, fields in Forms(page.text).forms:
        if fields and action not in ("/language", "/sign-out"):
            answer = client.post(action or path, data=dict.fromkeys(fields, text))
            yield action or path, answer.text, answer.status_code


@pytest.mark.slow
def test_whatever_is_written_into_any_field_stays_text(here: Served) -> None:
    """Of the analyst's pages, a participant's and those for signing in."""
    analyst, study = here.signed_in(Role.ANALYST), asked(here.service, players=4)
    drafted, token = draft(here.service), next(iter(study.links.values()))
    assert stranger(here).post(f"/a/{token}/consent").status_code == 303
    edited = [
        f"/studies/{drafted}/edit/{step}" for step in ("question", "invitation", "people", "beliefs", "costs")
    ]
    pages = [
        "/studies",
        "/people",
        *edited,
        f"/studies/{drafted}/file",
        f"/studies/{draft(here.service)}/plan",
    ]
    pages += [f"/studies/{study.study_id}", f"/studies/{study.study_id}/close", f"/a/{token}", "/sign-in"]
    seen = 0
    for text in HOSTILE:
        for path in pages:
            for action, shown, status in filled(analyst, path, text):
                seen += 1
                assert status < 500, (action, text)
                assert not any(markup in shown for markup in MARKUP), (action, text)
                assert "1337" not in shown  # 7 × 191: nothing is computed
    assert seen > 100
    assert here.state(study.study_id) == State.OPEN
    with here.service.database.reading() as session:
        assert studies.counts(session, study.study_id)["roster"] == 4


@pytest.mark.parametrize(
    "roster",
    [
        b"",
        b"\0" * 1000,
        b"player\n",
        b"PK\x03\x04" + bytes(range(256)) * 20,
        b"\xff\xfe" + "player,price,region\n".encode("utf-16-le"),
        b"player,price,region\np\0q,2,north\n",
        b"player,price,region\n" + b"x" * 200_000 + b",2,north\n",
        b"player,price,region\np,nan,north\n",
        b"player,price,region\np,2,nowhere\n",
        b"player,price,region\np,2,north\np,3,south\n",
        b"player,price,region\n" + b"".join(b"p%d,2,north\n" % number for number in range(5_000)),
        b"player,price,region,answer\n=1+1,2,north,3\n",
        b"player," * 50_000,
        b'player,price,region\n"p,2,north\n',
    ],
)
def test_a_roster_of_nonsense_is_refused_clearly_and_changes_nothing(here: Served, roster: bytes) -> None:
    study = asked(here.service, players=4)
    analyst = here.signed_in(Role.ANALYST)
    answer = analyst.post(
        f"/studies/{study.study_id}/roster", files={"file": ("roster.csv", roster, "text/csv")}
    )
    assert answer.status_code in (400, 409, 422)
    assert "<h1" in answer.text
    with here.service.database.reading() as session:
        assert studies.counts(session, study.study_id)["roster"] == 4
