"""Accounts: one-time links that set passwords, signed-in browsers, and the studies an account may see.

Links and cookies hold random tokens, shown once and stored only as hashes. Revoking an account's access signs it out
everywhere; only a new link lets it back in.

Participants know their payer by the account's name, and the audit log identifies people by it: names that readers could
confuse with another are refused, with the reason.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerifyMismatchError
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from truthful.errors import InputError, Refused
from truthful.store.audit_log import OPERATOR, log
from truthful.store.tables import Access, Account, RecoveryCode, Role, SignIn, SignInLink


def new_token() -> str:
    """256 random bits for a link or a cookie: impossible to guess."""
    return secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """The hash by which a token is stored and looked up. Tokens are random, so a plain hash cannot be inverted."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


LINK_LASTS = timedelta(days=7)
SIGN_IN_LASTS = timedelta(hours=12)
#: From the right password to the code of the second factor.
CODE_LASTS = timedelta(minutes=10)
SHORTEST, LONGEST = 12, 1_000
LONGEST_IDENTITY = 320
LONGEST_NAME = 100
#: Names that the audit log uses for events without a signed-in account.
RESERVED = ("service", OPERATOR, "demo")
#: Letters and marks that are invisible.
INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
#: Groups of look-alikes: the first letter of each group, then letters of other scripts and signs that resemble it.
_ALIKE = (
    "aаαɑ eеҽ oоοօ0 pрρ cсϲ yуγү xхχ iіιıɪ jјϳ sѕ hһ dԁ qԛ wԝ kκк vνѵ nո uսυ gɡ lӏ1I|ǀ tτ rг zᴢ bЬ "
    "AАΑ BВΒ EЕΕ KКΚ MМΜ HНΗ OОΟ PРΡ CСϹ TТΤ XХΧ YУΥҮ ZΖ NΝ SЅ JЈ GԌ"
)
_LIKE = {ord(sign): group[0] for group in _ALIKE.split() for sign in group[1:]}

_HASHER = PasswordHasher()
# Checked for unknown names, so that a wrong name takes as long as a wrong password. No password has this hash.
_DUMMY_HASH = (
    f"$argon2id$v=19$m={_HASHER.memory_cost},t={_HASHER.time_cost},p={_HASHER.parallelism}"
    f"${'A' * 22}${'A' * 43}"
)


def find_by_name(session: Session, name: str) -> Account | None:
    return session.scalar(select(Account).where(Account.name == name))


def account(session: Session, name: str, role: Role, who: str) -> Account:
    """The account with this name, created if missing. Only the operator creates accounts."""
    found = find_by_name(session, name)
    if found is None:
        require_unlike(require_name(name), session.scalars(select(Account.name)))
        found = Account(name=name, role=role)
        session.add(found)
        session.flush()
        log(session, who, f"added a {role}", whom=name)
    if found.role != role:
        raise Refused(f"{name!r} is {found.role} here, and cannot be {role} too. Choose another name.")
    return found


def set_identity(session: Session, account: Account, identity: str, who: str) -> None:
    """Allow sign-in through the OpenID provider, by e-mail address or, without an @, by the provider's subject."""
    normalised = _address(identity.strip()) if "@" in identity else identity.strip()
    if not 0 < len(normalised) <= LONGEST_IDENTITY or not normalised.isprintable():
        raise InputError(f"identity is {identity!r}; give the e-mail address that the provider vouches for.")
    taken = session.scalar(select(Account).where(Account.identity == normalised, Account.id != account.id))
    if taken is not None:
        raise Refused(f"The identity {normalised!r} is {taken.name!r} here. One identity has one account.")
    if account.subject is not None:  # sign out whoever used the earlier identity
        session.execute(delete(SignIn).where(SignIn.account_id == account.id))
    account.identity, account.subject = normalised, None
    log(session, who, "set the identity of", whom=account.name)


def _address(email: str) -> str:
    """An address in lower case, if it is ASCII: lowering other letters could turn them into ASCII ones."""
    return email.lower() if email.isascii() else email


def find_by_identity(session: Session, issuer: str, subject: str, email: str | None) -> Account | None:
    """The account of an identity, bound to the first subject that uses it: an address may be reassigned later."""
    bound = f"{issuer} {subject}"
    found = session.scalar(select(Account).where(Account.subject == bound))
    if found is not None:
        return found
    names = {subject} if "@" not in subject else set()
    named = select(Account).where(Account.identity.in_(names | {_address(email)} if email else names))
    several = session.scalars(named.where(Account.subject.is_(None)).with_for_update()).all()
    if len(several) != 1:
        return None
    several[0].subject = bound
    log(session, several[0].name, "was tied to an identity")
    return several[0]


def accounts(session: Session) -> list[Account]:
    return list(session.scalars(select(Account).order_by(Account.name)))


def new_link(session: Session, account: Account, who: str) -> str:
    """The token of a one-time link that sets the account's password. The account's earlier links stop working."""
    token = new_token()
    session.execute(delete(SignInLink).where(SignInLink.account_id == account.id))
    session.add(
        SignInLink(hash=hash_token(token), account_id=account.id, expires=datetime.now(UTC) + LINK_LASTS)
    )
    log(session, who, "made a sign-in link for", whom=account.name)
    return token


def find_by_link(session: Session, token: str, *, lock: bool = False) -> Account | None:
    """The account of a valid link, or None; with `lock`, locked for the rest of the transaction."""
    link = session.get(SignInLink, hash_token(token))
    if link is None or link.expires < datetime.now(UTC):
        return None
    return session.get(Account, link.account_id, with_for_update=lock or None)


def hash_password(password: str) -> str:
    """The slow hash of a password, to be computed outside any transaction."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise InputError(f"The password has {len(password)} characters; give {SHORTEST} to {LONGEST:,}.")
    return _HASHER.hash(password)


def set_password(session: Session, token: str, password_hash: str) -> Account:
    """Use up a link: set the password of its account, remove its second factor, and sign out all its browsers."""
    found = find_by_link(session, token, lock=True)
    # Of two requests that use a link at once, the second waits for the lock and then finds no link.
    used = session.execute(delete(SignInLink).where(SignInLink.hash == hash_token(token)))
    if found is None or not used.rowcount:  # type: ignore[attr-defined]
        raise Refused("This link was used already, or is too old.")
    found.password = password_hash
    session.execute(delete(SignIn).where(SignIn.account_id == found.id))
    forget_factor(session, found)
    log(session, found.name, "set a password")
    return found


def check_password(session: Session, name: str, password: str) -> Account | None:
    """The account, or None for a wrong name or password; all cases take equally long."""
    found = find_by_name(session, name)
    kept = _DUMMY_HASH if found is None or found.password is None else found.password
    try:
        _HASHER.verify(kept, password[: LONGEST + 1])
    except (VerifyMismatchError, InvalidHashError):
        return None
    return found


def sign_in(session: Session, account: Account) -> str:
    """Sign a browser in; the token for its cookie."""
    log(session, account.name, "signed in")
    return _new_sign_in(session, account, SIGN_IN_LASTS)


def wait_for_code(session: Session, account: Account) -> str:
    """The cookie token of a browser that has yet to give its second factor."""
    return _new_sign_in(session, account, CODE_LASTS, waiting=True)


def _new_sign_in(session: Session, account: Account, lasts: timedelta, waiting: bool = False) -> str:
    now, token = datetime.now(UTC), new_token()
    session.execute(delete(SignIn).where(SignIn.expires < now))
    session.add(SignIn(hash=hash_token(token), account_id=account.id, expires=now + lasts, waiting=waiting))
    return token


def signed_in(session: Session, token: str, *, waiting: bool = False) -> Account | None:
    """The account signed in with this token; with `waiting`, the account that has yet to give its second factor."""
    found = session.get(SignIn, hash_token(token))
    if found is None or found.expires < datetime.now(UTC) or found.waiting != waiting:
        return None
    return session.get(Account, found.account_id)


def sign_out(session: Session, token: str) -> None:
    session.execute(delete(SignIn).where(SignIn.hash == hash_token(token)))


def sign_out_everywhere(session: Session, account: Account) -> None:
    """Sign out every browser of this account."""
    session.execute(delete(SignIn).where(SignIn.account_id == account.id))
    log(session, account.name, "signed out everywhere")


def forget_factor(session: Session, account: Account) -> None:
    """Remove the account's second factor and its recovery codes."""
    account.factor, account.factor_step, account.factor_misses = None, 0, 0
    session.execute(delete(RecoveryCode).where(RecoveryCode.account_id == account.id))


def has_access(session: Session, account: Account) -> bool:
    """Whether an account can sign in, if only by a link that has not been used yet."""
    valid = select(SignInLink.hash).where(
        SignInLink.account_id == account.id, SignInLink.expires > datetime.now(UTC)
    )
    return bool(account.password or account.identity or session.scalar(valid))


def lock_account(session: Session, name: str) -> Account:
    """The account with this name, locked for the rest of the transaction."""
    found = session.scalar(select(Account).where(Account.name == name).with_for_update())
    if found is None:
        names = ", ".join(repr(account.name) for account in accounts(session)) or "none yet"
        raise InputError(f"There is no account {name!r}. Accounts here: {names}.")
    return found


def end(session: Session, account: Account, who: str) -> None:
    """Revoke the account's password, identity, second factor, links and sign-ins."""
    account.password = account.identity = account.subject = None
    forget_factor(session, account)
    for kind in (SignInLink, SignIn):
        session.execute(delete(kind).where(kind.account_id == account.id))
    log(session, who, "ended the access of", whom=account.name)


def share(session: Session, study_id: str, account: Account, who: str) -> None:
    """Give an account access to a study."""
    if not may_see(session, account, study_id):
        session.add(Access(study_id=study_id, account_id=account.id))
        session.flush()
        log(session, who, "shared the study with", study_id, whom=account.name)


def unshare(session: Session, study_id: str, account: Account, who: str) -> None:
    """Take away an account's access to a study."""
    if may_see(session, account, study_id):
        session.execute(delete(Access).where(Access.study_id == study_id, Access.account_id == account.id))
        log(session, who, "ended the sharing with", study_id, whom=account.name)


def may_see(session: Session, account: Account, study_id: str) -> bool:
    """Whether the account has access to the study; False if there is no such study."""
    return session.get(Access, (study_id, account.id)) is not None


def payers(session: Session) -> list[str]:
    """The names of all payers."""
    return list(
        session.scalars(select(Account.name).where(Account.role == Role.PAYER).order_by(Account.name))
    )


def require_name(name: str) -> str:
    """The name, if readers can tell its characters and type them; InputError if not."""
    if not 0 < len(name.strip()) <= LONGEST_NAME or len(name) > LONGEST_NAME:
        raise InputError(f"The name has {len(name.strip())} characters; give 1 to {LONGEST_NAME}.")
    if not name.isprintable() or INVISIBLE.search(name):
        raise InputError(
            f"The name {name!a} holds characters that cannot be seen. Type it again without them."
        )
    if name != " ".join(name.split()):
        raise InputError(f"The name {name!r} has spaces at its ends, or two in a row. Leave them out.")
    if (plain := unicodedata.normalize("NFKC", name)) != name:
        raise InputError(
            f"The name {name!r} is written in other characters than {plain!r}. Write it like that."
        )
    if not name[0].isalnum():
        raise InputError(f"The name {name!r} begins with {name[0]!r}. Begin it with a letter or a digit.")
    if len(scripts := _scripts(name)) > 1:
        raise InputError(
            f"The name {name!r} mixes {' and '.join(scripts)} letters, which can look alike. Use one alphabet."
        )
    return name


def require_unlike(name: str, others: Iterable[str]) -> None:
    """Refuse a name that readers could mistake for one of the others, or for a reserved one."""
    looks = _look_alikes(name)
    for taken in (*RESERVED, *others):
        if looks & _look_alikes(taken):
            raise Refused(
                f"The name {name!r} looks like {taken!r}, which is taken. Choose one that differs more."
            )


def _scripts(name: str) -> list[str]:
    """The alphabets in a name, of letters that have capitals: other letters are not mistaken for them."""
    letters = (letter for letter in name if letter.lower() != letter.upper())
    return sorted({unicodedata.name(letter, "unknown").split()[0].capitalize() for letter in letters})


def _look_alikes(name: str) -> set[str]:
    """The forms of a name that are compared: without case, as written and with look-alikes replaced."""
    shape = unicodedata.normalize("NFKC", name).translate(_LIKE)
    return {unicodedata.normalize("NFKC", text.casefold()).replace("rn", "m") for text in (name, shape)}
