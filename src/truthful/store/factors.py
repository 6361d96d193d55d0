"""The second factor: time-based codes (TOTP) of an authenticator app, and ten recovery codes.

A code of the app is valid once, in its half minute and the adjacent ones. Recovery codes are random, stored as hashes,
and each works once. After many wrong codes in a row the app's codes are refused altogether, and it takes a recovery
code, or a new link from the operator, to sign in.
"""

from __future__ import annotations

import hmac
import re
import secrets
from base64 import b32encode
from datetime import UTC, datetime

from pyotp import random_base32
from pyotp.totp import TOTP
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from truthful.errors import Refused
from truthful.store.accounts import forget_factor, hash_token
from truthful.store.audit_log import log
from truthful.store.seals import KEY_FILE, VARIABLE, Unreadable, seals_of
from truthful.store.tables import Account, RecoveryCode, SignIn

#: The seconds for which the app shows a code, and by how many such steps clocks may differ.
STEP, DRIFT = 30, 1
DIGITS = 6
RECOVERY_CODES, RECOVERY_BYTES = 10, 10
#: The wrong codes in a row after which the app's codes are refused.
MOST_MISSES = 20


class WrongCode(Refused):
    """A code is wrong or was used before."""


def new_secret() -> str:
    """160 random bits in base32, as authenticator apps take them."""
    return random_base32()


def is_secret(text: str) -> bool:
    """Whether a text has the form of a secret."""
    return re.fullmatch("[A-Z2-7]{32}", text) is not None


def secret_address(secret: str, name: str, service: str) -> str:
    """The otpauth address in the QR code that an app scans."""
    return TOTP(secret).provisioning_uri(name=name, issuer_name=service)


def codes_left(session: Session, account: Account) -> int:
    """The number of unused recovery codes."""
    mine = select(func.count()).where(RecoveryCode.account_id == account.id)
    return session.scalar(mine) or 0


def turn_on(session: Session, account_id: int, secret: str, typed: str, token: str) -> list[str]:
    """Turn on the second factor, if a first code shows that the app has the secret; the recovery codes.

    Every other browser than the one with this token is signed out, as it signed in without a code.
    """
    account = _lock_account(session, account_id)
    if account.factor is not None:
        raise Refused("Your account has a second factor already. Turn that one off first.")
    step = _matching_step(secret, typed, 0)
    if step is None:
        raise WrongCode("The code does not match.")
    _seal_secret(session, account, secret)
    account.factor_step, account.factor_misses = step, 0
    others = SignIn.account_id == account.id, SignIn.hash != hash_token(token)
    session.execute(delete(SignIn).where(*others))
    log(session, account.name, "turned on the second factor")
    return _new_recovery_codes(session, account)


def check(session: Session, account_id: int, typed: str) -> bool:
    """Use up a code; whether it was right. Wrong codes are counted, so the caller must commit the transaction."""
    account = _lock_account(session, account_id)
    if account.factor is None:
        return False
    step = None
    if account.factor_misses < MOST_MISSES:
        step = _matching_step(_open_secret(session, account), typed, account.factor_step)
    if step is not None:
        account.factor_step, account.factor_misses = step, 0
        return True
    mine = RecoveryCode.account_id == account.id
    used = session.execute(
        delete(RecoveryCode).where(mine, RecoveryCode.hash == hash_token(_normalise(typed)))
    )
    if used.rowcount:  # type: ignore[attr-defined]
        account.factor_misses = 0
        log(session, account.name, "used a recovery code")
        return True
    account.factor_misses += 1
    log(session, "service", "refused a code of", whom=account.name)
    return False


def renew_recovery_codes(session: Session, account_id: int) -> list[str]:
    """New recovery codes; the old ones stop working."""
    account = _lock_account(session, account_id)
    if account.factor is None:
        raise Refused("Your account has no second factor.")
    log(session, account.name, "made new recovery codes")
    return _new_recovery_codes(session, account)


def turn_off(session: Session, account_id: int, who: str) -> None:
    """Turn off the second factor."""
    account = _lock_account(session, account_id)
    if account.factor is not None:
        forget_factor(session, account)
        log(session, who, "turned off the second factor")


def seal_again(session: Session) -> None:
    """Reseal the secrets of all accounts with the service's latest key."""
    for account in session.scalars(select(Account).where(Account.factor.is_not(None)).with_for_update()):
        _seal_secret(session, account, _open_secret(session, account))


def require_readable(session: Session) -> None:
    """Refuse to go on if the service's key does not open the second factors."""
    for account in session.scalars(select(Account).where(Account.factor.is_not(None))):
        _open_secret(session, account)


def _seal_secret(session: Session, account: Account, secret: str) -> None:
    account.factor = seals_of(session).seal_own(_about(account), secret.encode())


def _open_secret(session: Session, account: Account) -> str:
    plain = seals_of(session).open_own(_about(account), account.factor or "")
    if plain is None:
        raise Unreadable(
            f"A second factor was sealed with another key than the service has. Bring the {KEY_FILE} back that belongs "
            f"to this database, or set {VARIABLE}. Nothing was changed."
        )
    return plain.decode()


def _about(account: Account) -> str:
    return f"truthful/factor/1/{account.id}"


def _lock_account(session: Session, account_id: int) -> Account:
    """The account, locked for the rest of the transaction: of two requests with one code, the second finds it used."""
    return session.get_one(Account, account_id, with_for_update=True, populate_existing=True)


def _matching_step(secret: str, typed: str, used: int) -> int | None:
    """The time step that a code belongs to, if it is valid and later than the last one used."""
    code, app = "".join(typed.split()), TOTP(secret)
    now = int(datetime.now(UTC).timestamp()) // STEP
    for step in range(max(used + 1, now - DRIFT), now + DRIFT + 1):
        if hmac.compare_digest(code.encode("utf-8", "surrogatepass"), app.generate_otp(step).encode()):
            return step
    return None


def _new_recovery_codes(session: Session, account: Account) -> list[str]:
    session.execute(delete(RecoveryCode).where(RecoveryCode.account_id == account.id))
    bare = [b32encode(secrets.token_bytes(RECOVERY_BYTES)).decode() for _ in range(RECOVERY_CODES)]
    session.add_all(RecoveryCode(hash=hash_token(code), account_id=account.id) for code in bare)
    return ["-".join(code[k : k + 4] for k in range(0, len(code), 4)) for code in bare]


def _normalise(typed: str) -> str:
    """A recovery code without hyphens and blanks, in upper case."""
    return typed.upper().replace("-", "").replace(" ", "")
