"""How often somebody may try: sign-ins, receipt codes, and addresses that lead nowhere.

Everything is in memory, forgotten after minutes, and keyed by hashes under a key that this process drew: no address and
no name is kept. A wrong attempt makes the next one wait, twice as long each time. Attempts made while waiting are
refused and not counted, so that hammering does not make it longer.

Wrong passwords make an account wait, and a stranger could keep it waiting for ever. So strangers' attempts are counted
apart: a browser that once signed in holds a mark, made with the account's own password hash, and has a count of its
own. The mark opens nothing, is good for this account alone, and ends with its password.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import math
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from starlette.requests import HTTPConnection

from truthful.store.tables import Account

Clock = Callable[[], float]
#: Seconds: the longest wait, and after how long without attempts somebody is forgotten.
LONGEST, FORGOTTEN = 300.0, 600.0
#: Whom to remember at most; the one who has been quiet for longest goes first.
MOST = 100_000


@dataclass
class _Tries:
    count: int = 0
    last: float = 0.0
    next: float = 0.0


class Limit:
    """`free` attempts at once; before each further one a wait that doubles, from two seconds to five minutes."""

    def __init__(self, free: int, clock: Clock = time.monotonic, most: int = MOST) -> None:
        self._free, self._clock, self._most = free, clock, most
        self._key = secrets.token_bytes(32)
        self._tries: dict[bytes, _Tries] = {}
        self._lock = threading.Lock()

    def attempt(self, who: str) -> int:
        """Count an attempt: 0 if it may be made now, else the seconds to wait, and it is not counted."""
        key, now = self._hash(who), self._clock()
        with self._lock:
            self._forget(now)
            tries = self._tries.pop(key, _Tries())
            self._tries[key] = tries
            if now < tries.next:
                return math.ceil(tries.next - now)
            tries.count, tries.last = tries.count + 1, now
            if tries.count >= self._free:
                tries.next = now + min(LONGEST, 2.0 ** min(tries.count - self._free + 1, 30))
            return 0

    def forgive(self, who: str) -> None:
        """It was right after all: earlier attempts do not count."""
        with self._lock:
            self._tries.pop(self._hash(who), None)

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._tries)

    def _forget(self, now: float) -> None:
        for key, tries in tuple(
            islice(self._tries.items(), 2)
        ):  # two for each that comes: they cannot pile up
            if len(self._tries) >= self._most or now - max(tries.last, tries.next) > FORGOTTEN:
                del self._tries[key]

    def _hash(self, who: str) -> bytes:
        return hashlib.blake2b(who.encode("utf-8", "surrogatepass"), key=self._key, digest_size=16).digest()


class Limits:
    """All limits of a service."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.addresses = Limit(20, clock)
        self.accounts = Limit(5, clock)
        self.unknown = Limit(30, clock)
        self.codes = Limit(10, clock)


def address(connection: HTTPConnection, behind_proxy: bool) -> str:
    """Where a request comes from. What a proxy adds stands last; anything before that may be invented.

    One household has a whole /64 of IPv6: that counts as one.
    """
    told = ",".join(connection.headers.getlist("x-forwarded-for")) if behind_proxy else ""
    text = told.rpartition(",")[2].strip() or (connection.client.host if connection.client else "")
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return text
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return text


#: The cookie that holds the mark.
KNOWN = "known"


def browser_mark(account: Account) -> str:
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
