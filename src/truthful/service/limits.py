"""How often somebody may try, as to sign in or to guess a code; and how much slow work is done at a time.

Everything is in memory, forgotten after minutes, and keyed by hashes under a key that this process drew: no address and
no name is kept. A wrong attempt makes the next one wait, twice as long each time. Attempts made while waiting are
refused and not counted, so that hammering does not make it longer.

Wrong passwords make an account wait, and a stranger could keep it waiting for ever. So strangers' attempts are counted
apart: a browser that once signed in holds a mark, made with the account's own password hash, and has a count of its
own. The mark opens nothing, is good for this account alone, and ends with its password. The limit of an address does
not hold for it either: a campus has one address.

Limits are those of one process. Where several answer for one service, each lets through its part of what one would.
Slow work has threads of its own, few of them. Whoever finds no room is told so at once, and keeps no thread waiting.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import math
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeVar

from starlette.requests import HTTPConnection

from truthful.store.tables import Account

T = TypeVar("T")
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
    """All limits of a service, in one of the processes that answer for it."""

    def __init__(self, clock: Clock = time.monotonic, processes: int = 1) -> None:
        def share(free: int) -> Limit:
            return Limit(max(1, free // processes), clock)

        self.addresses = share(20)
        self.accounts = share(5)
        self.unknown = share(30)
        self.codes = share(10)

    def attempt_code(self, account: Account) -> int:
        """Count an attempt at a second factor, as one at a password is counted."""
        return self.accounts.attempt(f"code {account.id}")

    def forgive_codes(self, account: Account) -> None:
        self.accounts.forgive(f"code {account.id}")


class Busy(Exception):
    """There is no room for more slow work: `status` is that of the page which says so."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Pool:
    """Threads of their own for work that takes long, and places to wait for them, so many for each who asks."""

    def __init__(self, threads: int, waiting: int, each: int | None = None) -> None:
        self._threads = ThreadPoolExecutor(threads)
        self._places = threads + waiting
        self._each = each or self._places
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def require_room(self, whose: str = "") -> None:
        """Busy if there is no place for one more."""
        if self._taken.total() >= self._places:
            raise Busy(503)
        if self._taken[whose] >= self._each:
            raise Busy(429)

    async def run(self, work: Callable[[], T], whose: str = "") -> T:
        """Do this as soon as a thread is free; Busy at once if there is no place to wait."""
        with self._lock:
            self.require_room(whose)
            self._taken[whose] += 1
        done = self._threads.submit(work)
        done.add_done_callback(lambda _: self._leave(whose))
        return await asyncio.wrap_future(done)

    def _leave(self, whose: str) -> None:
        with self._lock:
            self._taken[whose] -= 1
            self._taken += Counter()  # who has no place is forgotten

    def close(self) -> None:
        """End when what is being done is done, and leave undone what waits."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Pools:
    """Where the slow work of a service is done, apart from participants' pages.

    A password takes 64 MB and much of a processor for a moment. Strangers' are checked one at a time, and those of
    browsers that signed in before, or brought a good link, have a thread of their own, so that strangers cannot fill
    it. `lookups` finds out which of both somebody is.
    """

    def __init__(self) -> None:
        self.lookups = Pool(2, 200)
        self.strangers = Pool(1, 20)
        self.known = Pool(1, 20)
        self.plans = Pool(2, 14, each=4)
        self.public = Pool(4, 100, each=80)

    def close(self) -> None:
        for pool in vars(self).values():
            pool.close()


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


class TryingBrowser(NamedTuple):
    """Who tries to sign in: under which name attempts are counted, and whether it has signed in before."""

    counted_as: str
    known: bool


def browser(name: str, account: Account | None, mark: str) -> TryingBrowser:
    """One that brings its mark is counted on its own, and all strangers together."""
    chance, _, shown = mark[:200].partition(".")
    if (
        account is not None
        and account.password is not None
        and hmac.compare_digest(shown.encode(), _mark(account, chance).encode())
    ):
        return TryingBrowser(f"known {chance} {name}", True)
    return TryingBrowser(f"stranger {name}", False)


def _mark(account: Account, chance: str) -> str:
    words = f"{account.name} {chance}"
    return hmac.digest((account.password or "").encode(), words.encode(), "sha256").hex()
