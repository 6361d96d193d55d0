"""Signing in by an OpenID provider that really runs: for accounts that the operator has made, and for nobody else."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import time
import warnings
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from authlib.integrations.base_client import OAuthError
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet, RSAKey
from starlette.concurrency import run_in_threadpool
from starlette.testclient import TestClient
from support.databases import KINDS, database_url
from support.serving import PASSWORD, URL, WHO, Served, served

from truthful.errors import InputError, Refused
from truthful.service.limits import Busy
from truthful.service.locations import Provider
from truthful.service.openid import (
    BACK,
    MOST_EACH,
    MOST_WAITING,
    NotSignedIn,
    OpenId,
    read_claims,
    read_identity,
)
from truthful.store import accounts
from truthful.store.tables import Role

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it uses a module of authlib's that has a successor
    import oidc_provider_mock  # type: ignore[import-untyped]

#: What the provider uses of authlib has successors.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

ADA, BOB, UNVERIFIED = "ada@example.org", "bob@example.org", "carl@example.org"
CLIENT = "truthful"


def user(subject: str, email: str, verified: bool = True) -> oidc_provider_mock.User:
    return oidc_provider_mock.User(sub=subject, claims={"email": email, "email_verified": verified})


PEOPLE = [user("1", ADA.upper()), user("2", BOB), user("3", UNVERIFIED, False), user("4", ADA)]


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with oidc_provider_mock.run_server_in_thread(user_claims=PEOPLE, require_nonce=True) as server:
        yield f"http://localhost:{server.server_port}"


@contextmanager
def serving(directory: Path, issuer: str, database: str | None = None, **settings: Any) -> Iterator[Served]:
    provider = Provider.read(issuer, CLIENT, "a secret")
    with served(directory, database, oidc=provider, **settings) as here:
        yield here


@pytest.fixture
def here(tmp_path: Path, issuer: str) -> Iterator[Served]:
    with serving(tmp_path, issuer) as running:
        yield running


def account(here: Served, name: str, identity: str, role: Role = Role.ANALYST) -> None:
    with here.service.database.writing() as session:
        accounts.set_identity(session, accounts.account(session, name, role, WHO), identity, WHO)


def browser(here: Served) -> TestClient:
    return TestClient(here.client.app, base_url=URL, follow_redirects=False)


def begin(client: TestClient) -> str:
    """The provider's address that the sign-in page leads to."""
    link = re.search('href="(/sign-in/openid)"', client.get("/sign-in").text)
    assert link is not None
    return str(client.get(link[1]).headers["location"])


def confirm(address: str, subject: str) -> str:
    """Where the provider sends a browser back to, once this person has signed in there."""
    back = httpx.post(address, data={"sub": subject}).headers["location"]
    assert back.startswith(URL + BACK)
    return str(back)


def sign_in(here: Served, subject: str) -> tuple[TestClient, httpx.Response]:
    client = browser(here)
    return client, client.get(confirm(begin(client), subject))  # type: ignore[return-value]


@pytest.mark.parametrize("kind", KINDS)
def test_a_verified_identity_signs_in_to_the_account_made_for_it(
    tmp_path: Path, issuer: str, kind: str
) -> None:
    with database_url(kind, tmp_path) as url, serving(tmp_path / "service", issuer, url) as here:
        account(here, "Ada", ADA)
        client, answer = sign_in(here, "1")
        assert answer.headers["location"] == "/studies"
        assert client.get("/studies").status_code == 200
        assert "openid" not in client.cookies
        _, other = sign_in(here, "4")  # her address was given to somebody else
        assert (other.status_code, "no account here" in other.text) == (403, True)
        _, again = sign_in(here, "1")
        assert again.headers["location"] == "/studies"


def test_who_has_no_account_or_no_verified_address_is_not_let_in(here: Served) -> None:
    account(here, "Ada", ADA)
    account(here, "Carl", UNVERIFIED)
    for subject, words in (("2", "no account here"), ("3", "does not vouch for your address")):
        client, answer = sign_in(here, subject)
        assert (answer.status_code, words in answer.text) == (403, True)
        assert client.get("/studies").headers["location"] == "/sign-in"
    account(here, "Carl", "3")  # by the provider's own name for him
    assert sign_in(here, "3")[1].headers["location"] == "/studies"


def test_an_address_in_letters_that_lower_to_ours_is_another_address(here: Served) -> None:
    """The Kelvin sign's small letter is a k."""
    account(here, "Kay", "kay@example.org")
    with here.service.database.writing() as session:
        for email in ("\u212aay@example.org", "\u212aAY@example.org"):
            assert accounts.find_by_identity(session, "https://one.example", "7", email) is None
        found = accounts.find_by_identity(session, "https://one.example", "7", "KAY@example.org")
        assert found is not None


def test_whose_access_was_ended_does_not_come_back_by_the_provider(here: Served) -> None:
    account(here, "Ada", ADA)
    assert sign_in(here, "1")[1].status_code == 303
    with here.service.database.writing() as session:
        accounts.end(session, accounts.account(session, "Ada", Role.ANALYST, WHO), WHO)
    assert sign_in(here, "1")[1].status_code == 403
    with here.service.database.writing() as session:
        bob = accounts.account(session, "Bob", Role.ANALYST, WHO)
        accounts.set_identity(session, bob, ADA, WHO)
    with here.service.database.writing() as session, pytest.raises(Refused, match="'Bob' here"):
        accounts.set_identity(session, accounts.account(session, "Ada", Role.ANALYST, WHO), ADA, WHO)


def test_a_sign_in_is_finished_once_and_in_the_browser_that_began_it(here: Served) -> None:
    account(here, "Ada", ADA)
    client = browser(here)
    asked = begin(client)
    state, nonce, verifier = client.cookies["openid"].split(".")
    sent = parse_qs(urlsplit(asked).query)
    assert sent["state"] == [state]
    assert sent["nonce"] == [nonce]
    assert sent["code_challenge_method"] == ["S256"]
    assert verifier not in asked
    assert sent["code_challenge"] == [_text(sha256(verifier.encode()).digest())]
    back = confirm(asked, "1")
    victim = browser(here)
    assert victim.get(back).status_code == 400  # a stranger's sign-in, planted
    begin(victim)
    assert victim.get(back).status_code == 400
    assert client.get(back.replace("state=", "state=x")).status_code == 400
    begin(client)
    assert client.get(back).status_code == 400  # of the sign-in before
    back = confirm(begin(client), "1")
    kept = client.cookies["openid"]
    assert client.get(back).status_code == 303
    client.cookies.set("openid", kept)
    assert client.get(back).status_code == 400  # the code was used


def test_a_token_of_another_sign_in_is_refused(here: Served) -> None:
    account(here, "Ada", ADA)
    client = browser(here)
    back = confirm(begin(client), "1")
    state, _, verifier = client.cookies["openid"].split(".")
    client.cookies.clear()
    client.cookies.set("openid", f"{state}.another.{verifier}")
    answer = client.get(back)
    assert (answer.status_code, "not valid here" in answer.text) == (403, True)


def test_who_breaks_off_at_the_provider_is_told(here: Served) -> None:
    client = browser(here)
    address = begin(client)
    state = parse_qs(urlsplit(address).query)["state"][0]
    answer = client.get(f"{BACK}?error=access_denied&state={state}")
    assert (answer.status_code, "cancelled or refused" in answer.text) == (403, True)


def test_the_second_factor_is_asked_for_here_too(here: Served) -> None:
    account(here, "Ada", ADA)
    with here.service.database.writing() as session:
        accounts.account(session, "Ada", Role.ANALYST, WHO).factor = "A" * 32
    client, answer = sign_in(here, "1")
    assert answer.headers["location"] == "/sign-in/code"
    assert client.get("/studies").headers["location"] == "/sign-in"


def test_a_provider_that_is_down_is_told_and_passwords_still_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(tmp_path, "http://localhost:9") as here:
        answer = browser(here).get("/sign-in/openid")
        assert (answer.status_code, "not answering" in answer.text) == (503, True)
        assert "provider cannot be used now (ConnectError). See --oidc-issuer." in capsys.readouterr().err
        here.signed_in(Role.ANALYST)
        entered = browser(here).post("/sign-in", data={"name": "the analyst", "password": PASSWORD})
        assert entered.headers["location"] == "/studies"


def test_no_address_takes_all_the_places_of_those_who_wait_for_the_provider(here: Served) -> None:
    provider = here.client.app.state.openid  # type: ignore[attr-defined]

    async def crowd() -> None:
        async with AsyncExitStack() as waiting:
            for _ in range(MOST_EACH):
                await waiting.enter_async_context(provider._client("testclient"))
            refused = await run_in_threadpool(here.client.get, "/sign-in/openid")
            assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (429, True)
            for number in range(MOST_EACH, MOST_WAITING):
                await waiting.enter_async_context(provider._client(f"another {number}"))
            with pytest.raises(Busy):
                await waiting.enter_async_context(provider._client("one more"))

    asyncio.run(crowd())
    account(here, "ada", ADA)
    assert sign_in(here, "1")[1].headers["location"] == "/studies"


@pytest.mark.parametrize(("error", "told"), [("invalid_client", True), ("invalid_grant", False)])
def test_the_operator_is_told_if_the_provider_does_not_know_the_service(
    error: str, told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not what a stranger can cause, with a code that is none."""

    async def ask() -> None:
        async with OpenId(Provider.read("http://localhost:9", CLIENT, "wrong"), URL)._client("an address"):
            raise OAuthError(error)

    with pytest.raises(NotSignedIn):
        asyncio.run(ask())
    assert ("TRUTHFUL_OIDC_SECRET" in capsys.readouterr().err) == told


def test_where_passwords_are_off_only_the_provider_and_one_time_links_let_in(
    tmp_path: Path, issuer: str
) -> None:
    with serving(tmp_path, issuer, passwords=False) as here:
        here.signed_in(Role.ANALYST)
        client = browser(here)
        assert 'type="password"' not in client.get("/sign-in").text
        entered = client.post("/sign-in", data={"name": "the analyst", "password": PASSWORD})
        assert entered.status_code == 403
        account(here, "Ada", ADA)
        assert sign_in(here, "1")[1].status_code == 303


OURS, OTHER = RSAKey.generate_key(2048, {"kid": "a"}), RSAKey.generate_key(2048, {"kid": "a"})
PROVIDER = Provider("https://login.example.org", CLIENT, "a secret")
SAID: dict[str, Any] = {"iss": PROVIDER.issuer, "aud": CLIENT, "sub": "1", "nonce": "n"}


def token(key: Any = OURS, alg: str = "RS256", age: int = 0, **changes: Any) -> str:
    now = int(time.time()) - age
    claims = {"iat": now, "exp": now + 300, **SAID, **changes}
    head = {"alg": alg, "kid": "a"}
    return jwt.encode(head, {k: v for k, v in claims.items() if v is not None}, key, [alg])


def test_a_token_says_who_came() -> None:
    keys = KeySet([OURS])
    assert read_claims(token(), keys, PROVIDER, "n")["sub"] == "1"
    several = token(aud=[CLIENT, "another"], azp=CLIENT)
    claims = read_claims(several, keys, PROVIDER, "n")
    assert claims["sub"] == "1"
    vouched = [
        read_identity({**claims, "email": email, "email_verified": verified}).email
        for email, verified in ((ADA, True), (ADA, False), (ADA, "true"), ([ADA], True), ("2", True))
    ]
    assert vouched == [ADA, None, None, None, None]


@pytest.mark.parametrize(
    "forged",
    [
        {"key": OTHER},
        {"iss": "https://evil.example.org"},
        {"iss": None},
        {"aud": "another"},
        {"aud": ["another", "third"]},
        {"aud": [CLIENT, "another"]},
        {"azp": "another"},
        {"age": 3600},
        {"age": -3600},
        {"exp": None},
        {"nonce": "another"},
        {"nonce": None},
        {"sub": None},
    ],
)
def test_a_token_that_is_not_the_providers_for_us_now_is_refused(forged: dict[str, Any]) -> None:
    with pytest.raises(JoseError):
        read_claims(token(**forged), KeySet([OURS]), PROVIDER, "n")


def test_a_token_that_anybody_could_have_signed_is_refused() -> None:
    body = token().split(".")[1]

    def headed(alg: str) -> str:
        return f"{_text(json.dumps({'alg': alg, 'kid': 'a'}).encode())}.{body}"

    public = hmac.digest(OURS.as_pem(private=False), headed("HS256").encode(), "sha256")
    for made in (f"{headed('none')}.", f"{headed('RS256')}.", f"{headed('HS256')}.{_text(public)}"):
        with pytest.raises(JoseError):
            read_claims(made, KeySet([OURS]), PROVIDER, "n")


def _text(some: bytes) -> str:
    return urlsafe_b64encode(some).decode().rstrip("=")


@pytest.mark.parametrize(
    ("issuer", "client_id", "secret", "told"),
    [
        ("http://login.example.org", "a", "b", "https"),
        ("login.example.org", "a", "b", "https"),
        ("https://login.example.org?x", "a", "b", "https"),
        ("https://login.example.org", None, "b", "--oidc-client-id"),
        ("https://login.example.org", "a", None, "TRUTHFUL_OIDC_SECRET"),
    ],
)
def test_a_provider_that_is_not_told_whole_is_refused(
    issuer: str, client_id: str | None, secret: str | None, told: str
) -> None:
    with pytest.raises(InputError, match=told):
        Provider.read(issuer, client_id, secret)


def test_an_identity_is_set_on_the_command_line_and_lets_in(
    tmp_path: Path, issuer: str, run: Callable[..., Any]
) -> None:
    with serving(tmp_path, issuer) as here:
        here.signed_in(Role.PAYER, "Ada")
        assert sign_in(here, "1")[1].status_code == 403
        told = run("identity", tmp_path, "Ada", ADA)
        assert (told.code, told.out) == (0, f"{ADA} signs in as Ada.\n")
        assert sign_in(here, "1")[1].headers["location"] == "/payments"
        former, _ = sign_in(here, "1")
        assert former.get("/payments").status_code == 200
        assert run("identity", tmp_path, "Ada", "bob@example.org").code == 0
        assert former.get("/payments").headers["location"] == "/sign-in"  # what was set before ends
        missing = run("identity", tmp_path, "Adda", ADA)
        assert (missing.code != 0, "'Adda'" in missing.err) == (True, True)
