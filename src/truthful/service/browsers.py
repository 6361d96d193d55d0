"""Browsers that signed in before.

Wrong passwords make an account wait, and a stranger could keep it waiting for ever. So strangers' attempts are counted
apart: a browser that once signed in holds a mark, made with the account's own password hash, and has a count of its
own. The mark opens nothing, is good for this account alone, and ends with its password.
"""

from __future__ import annotations

import hmac
import secrets

from truthful.store.tables import Account

#: The cookie that holds the mark.
KNOWN = "known"


def known(account: Account) -> str:
    """A mark for a browser that has just signed in."""
    chance = secrets.token_hex(8)
    return f"{chance}.{_mark(account, chance)}"


def browser(name: str, account: Account | None, mark: str) -> str:
    """Under which name attempts to sign in to an account are counted: this browser's own, or that of all strangers."""
    chance, _, shown = mark[:200].partition(".")
    if (
        account is not None
        and account.password is not None
        and hmac.compare_digest(shown.encode(), _mark(account, chance).encode())
    ):
        return f"known {chance} {name}"
    return f"stranger {name}"


def _mark(account: Account, chance: str) -> str:
    words = f"{account.name} {chance}"
    return hmac.digest((account.password or "").encode(), words.encode(), "sha256").hex()
