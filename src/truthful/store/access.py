"""Taking somebody's access away: she is not signed in any more, and can only come back by a new link."""

from __future__ import annotations

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from truthful.store.log import log
from truthful.store.surveys import Unknown
from truthful.store.tables import Account, Role, SignIn, SignInLink


def lock(session: Session, account: Account) -> None:
    """Let nobody else change an account before this transaction ends."""
    session.get(Account, account.id, with_for_update=True)


def payer(session: Session, account_id: int) -> Account:
    """The payer of this number, locked for the rest of the transaction."""
    found = session.get(Account, account_id, with_for_update=True)
    if found is None or found.role != Role.PAYER:
        raise Unknown("There is no such payer.")
    return found


def named(session: Session, name: str) -> Account | None:
    return session.scalar(select(Account).where(Account.name == name))


def end(session: Session, account: Account, who: str) -> None:
    """Her password, her links and her browsers' cookies are worth nothing from now on."""
    account.password = None
    for kind in (SignInLink, SignIn):
        session.execute(delete(kind).where(kind.account_id == account.id))
    log(session, who, f"ended the access of {account.name}")


def refused(session: Session, account: Account | None) -> None:
    """Somebody's password was wrong. A name that is nobody's is not kept: it may be a password in the wrong field."""
    log(
        session, "service", "refused a sign-in" if account is None else f"refused a sign-in as {account.name}"
    )
