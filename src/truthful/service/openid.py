"""Signing in through an OpenID provider, to existing accounts only: nobody can register.

This is the authorization code flow with PKCE, state and nonce: the code is exchanged for a signed ID token. The
parameters of a sign-in are kept in a cookie, so that any process can finish it, but no other browser. Requests to the
provider run on the event loop, so that a slow provider takes no thread.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import httpx2
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from fastapi import APIRouter
from joserfc import jwt
from joserfc.errors import InvalidClaimError, JoseError
from joserfc.jwk import KeySet
from joserfc.jwt import JWTClaimsRegistry
from starlette.responses import RedirectResponse, Response

from truthful.service.limits import Busy, address
from truthful.service.locations import Provider
from truthful.service.monitoring import LOG
from truthful.service.pages import Visit, Visitor
from truthful.service.signing import cookie_name, enter
from truthful.store import accounts
from truthful.store.audit_log import note_refused_sign_in

router = APIRouter()
BACK = "/sign-in/openid/back"
#: The cookie of a sign-in under way, and its lifetime in seconds.
ATTEMPT, ATTEMPT_SECONDS = "openid", 600
#: In seconds: the timeout for the provider, how long its metadata is cached, and how far clocks may differ.
PATIENCE, METADATA_SECONDS, LEEWAY = 10.0, 3600.0, 60
#: The most sign-ins that wait for the provider at a time: in all, and from one address.
MOST_WAITING, MOST_EACH = 20, 5
#: Accepted signature algorithms: asymmetric ones only.
SIGNED = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]


#: The provider's errors for a service that it does not know, and what the log says then.
NOT_KNOWN = ("invalid_client", "unauthorized_client")
UNKNOWN_CLIENT = (
    "The OpenID provider does not know this service. See --oidc-client-id and TRUTHFUL_OIDC_SECRET."
)


class OtherIssuer(ValueError):
    """The provider goes by another name than it was given here."""


class NotSignedIn(Exception):
    """A failed sign-in: the key of the text that says why, and the status of its page."""

    def __init__(self, key: str, status: int = 403) -> None:
        super().__init__(key)
        self.key, self.status = key, status


class SignInAttempt(NamedTuple):
    """The parameters of a sign-in: its state, its nonce, and its PKCE verifier."""

    state: str
    nonce: str
    verifier: str


@dataclass(frozen=True)
class VouchedIdentity:
    """An identity that the provider vouches for; `email` only if the provider has verified it."""

    issuer: str
    subject: str
    email: str | None


class OpenId:
    """A client of one provider, with the provider's metadata and keys."""

    def __init__(self, provider: Provider, origin: str) -> None:
        self._provider, self._back = provider, f"{origin}{BACK}"
        self._metadata: dict[str, Any] = {}
        self._keys: KeySet | None = None
        self._read_at = -METADATA_SECONDS
        self._under_way: Counter[str] = Counter()

    async def begin(self, attempt: SignInAttempt, whose: str) -> str:
        """The provider's address to redirect the browser at the address `whose` to."""
        async with self._client(whose) as client:
            endpoint = (await self._load_metadata(client))["authorization_endpoint"]
            location, _ = client.create_authorization_url(
                endpoint, state=attempt.state, nonce=attempt.nonce, code_verifier=attempt.verifier
            )
            return str(location)

    async def finish(self, code: str, attempt: SignInAttempt, whose: str) -> VouchedIdentity:
        """Exchange a code for the identity that signed in."""
        async with self._client(whose) as client:
            metadata = await self._load_metadata(client)
            token = await client.fetch_token(
                metadata["token_endpoint"],
                grant_type="authorization_code",
                code=code,
                code_verifier=attempt.verifier,
            )
            claims = await self._claims(client, str(token.get("id_token", "")), attempt.nonce)
            if "email" not in claims and "userinfo_endpoint" in metadata:
                claims = {
                    **await self._userinfo(client, metadata["userinfo_endpoint"], claims["sub"]),
                    **claims,
                }
        return read_identity(claims)

    async def _claims(self, client: AsyncOAuth2Client, token: str, nonce: str) -> dict[str, Any]:
        """The verified claims of a token. If verification fails, the keys are fetched again once: they may be new."""
        for again in (False, True):
            if self._keys is None or again:
                keys: Any = await _json(client, self._metadata["jwks_uri"])
                self._keys = KeySet.import_key_set(keys)
            try:
                return read_claims(token, self._keys, self._provider, nonce)
            except JoseError:
                if again:
                    raise
        raise AssertionError  # the second attempt has returned or raised

    async def _userinfo(self, client: AsyncOAuth2Client, endpoint: str, subject: str) -> dict[str, Any]:
        """The claims of the userinfo endpoint, if they are about the same subject."""
        claims = await _json(client, endpoint, withhold_token=False)
        return claims if claims.get("sub") == subject else {}

    async def _load_metadata(self, client: AsyncOAuth2Client) -> dict[str, Any]:
        if time.monotonic() - self._read_at >= METADATA_SECONDS:
            issuer = self._provider.issuer
            metadata = await _json(client, f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            if metadata.get("issuer") != issuer:
                raise OtherIssuer
            self._metadata, self._keys, self._read_at = metadata, None, time.monotonic()
        return self._metadata

    @asynccontextmanager
    async def _client(self, whose: str) -> AsyncIterator[AsyncOAuth2Client]:
        """An HTTP client of the provider. Errors become NotSignedIn; after a failure the metadata are fetched again."""
        if self._under_way.total() >= MOST_WAITING:
            raise Busy(503)
        if self._under_way[whose] >= MOST_EACH:
            raise Busy(429)
        self._under_way[whose] += 1
        try:
            async with AsyncOAuth2Client(
                self._provider.client_id,
                self._provider.secret,
                scope="openid email",
                redirect_uri=self._back,
                code_challenge_method="S256",
                timeout=PATIENCE,
            ) as client:
                yield client
        except OAuthError as problem:
            if problem.error in NOT_KNOWN:
                LOG.error(UNKNOWN_CLIENT)
            raise NotSignedIn("signing.openid_stale", 400) from None
        except JoseError as problem:
            LOG.error(f"A token of the OpenID provider was refused ({type(problem).__name__}).")
            raise NotSignedIn("signing.openid_wrong") from None
        except (httpx2.HTTPError, ValueError, KeyError, TypeError) as problem:
            LOG.error(
                f"The OpenID provider cannot be used now ({type(problem).__name__}). See --oidc-issuer."
            )
            self._read_at = -METADATA_SECONDS
            raise NotSignedIn("signing.openid_down", 503) from None
        finally:
            self._under_way[whose] -= 1
            self._under_way += Counter()  # drop zero counts


async def _json(client: AsyncOAuth2Client, address: str, *, withhold_token: bool = True) -> dict[str, Any]:
    answer = await client.request("GET", address, withhold_token=withhold_token)
    answer.raise_for_status()
    record = answer.json()
    if not isinstance(record, dict):
        raise ValueError("no record")
    return record


def read_claims(token: str, keys: KeySet, provider: Provider, nonce: str) -> dict[str, Any]:
    """The claims of a token, if it is signed by the provider, for us and this sign-in, and not expired."""
    claims = jwt.decode(token, keys, algorithms=SIGNED).claims
    needed = JWTClaimsRegistry(
        leeway=LEEWAY,
        iss={"essential": True, "value": provider.issuer},
        aud={"essential": True, "value": provider.client_id},
        nonce={"essential": True, "value": nonce},
        sub={"essential": True},
        exp={"essential": True},
        iat={"essential": True},
    )
    needed.validate(claims)
    others = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if claims.get("azp", None if others else provider.client_id) != provider.client_id:
        raise InvalidClaimError("azp")
    return claims


def read_identity(claims: Mapping[str, Any]) -> VouchedIdentity:
    email = claims.get("email")
    # Without an @ it could be taken for another person's subject.
    verified = claims.get("email_verified") is True and isinstance(email, str) and "@" in email
    return VouchedIdentity(claims["iss"], claims["sub"], email if verified else None)


@router.get("/sign-in/openid")
async def begin(visit: Visitor) -> Response:
    """Redirect to the provider. This is a link, not a form, because our policy allows forms to our own pages only."""
    attempt = SignInAttempt(*(secrets.token_urlsafe(32) for _ in range(3)))
    try:
        provider = await _openid(visit).begin(attempt, _whose(visit))
    except NotSignedIn as problem:
        return _refuse(visit, problem)
    response = RedirectResponse(provider, 303)
    visit.keep(response, cookie_name(visit.service, ATTEMPT), ".".join(attempt), ATTEMPT_SECONDS)
    return response


@router.get(BACK)
async def come_back(visit: Visitor, state: str = "", code: str = "", error: str = "") -> Response:
    """The return from the provider: sign in the account of the identity it vouches for, if there is one."""
    kept = visit.request.cookies.get(cookie_name(visit.service, ATTEMPT), "").split(".")
    try:
        if len(kept) != len(SignInAttempt._fields) or not hmac.compare_digest(
            kept[0].encode(), state.encode()
        ):
            raise NotSignedIn("signing.openid_stale", 400)
        if error or not code:
            raise NotSignedIn("signing.openid_denied")
        identity = await _openid(visit).finish(code, SignInAttempt(*kept), _whose(visit))
        response = await visit.service.pools.known.run(partial(_sign_in, visit, identity))
    except NotSignedIn as problem:
        response = _refuse(visit, problem)
    visit.remove(response, cookie_name(visit.service, ATTEMPT))
    return response


def _sign_in(visit: Visit, identity: VouchedIdentity) -> Response:
    with visit.writing() as session:
        found = accounts.find_by_identity(session, identity.issuer, identity.subject, identity.email)
        if found is None:
            note_refused_sign_in(session, None)
        else:
            session.flush()
            session.expunge(found)
    if found is None:
        key = "signing.openid_unverified" if identity.email is None else "signing.openid_unknown"
        raise NotSignedIn(key)
    return enter(visit, found)


def _openid(visit: Visit) -> OpenId:
    found: OpenId = visit.request.app.state.openid
    return found


def _whose(visit: Visit) -> str:
    """The address that a sign-in comes from: nobody may take all places."""
    return address(visit.request, visit.service.settings.behind_proxy)


def _refuse(visit: Visit, problem: NotSignedIn) -> Response:
    return visit.page("signing/openid.html", status=problem.status, why=problem.key)
