"""Rate limits for attempts (signing in, guessing codes), and thread pools that bound slow work.

Attempts are counted in memory, forgotten after minutes, and keyed by hashes under a random key of this process: no
address and no name is stored. Each wrong attempt doubles the wait before the next one. Attempts during a wait are
refused and not counted, so that hammering does not prolong it.

Wrong passwords make an account wait, so a stranger could lock its owner out. Therefore strangers' attempts are counted
separately: a browser that once signed in holds a mark, derived from the account's password hash, and has a count of its
own. The mark grants nothing, fits this account alone, and ends with its password. A marked browser is exempt from the
limit by address too: a whole campus may share one address.

Limits are per process. Where several processes serve, each allows its share. Slow work runs on a few threads of its
own; a request that finds no room is refused at once and ties up no thread.
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

from truthful.service.processors import use_all
from truthful.store.tables import Account

T = TypeVar("T")
Clock = Callable[[], float]
#: In seconds: the longest wait, and the quiet time after which attempts are forgotten.
LONGEST, FORGET_SECONDS = 300.0, 600.0
#: The most keys that are remembered; the one quiet for longest is dropped first.
MOST_KEYS = 100_000


@dataclass
class _Tries:
    count: int = 0
    last: float = 0.0
    next: float = 0.0


class Limit:
    """Allows `free` attempts at once; then waits that double with each attempt, from two seconds to five minutes."""

    def __init__(self, free: int, clock: Clock = time.monotonic, most: int = MOST_KEYS) -> None:
        self._free, self._clock, self._most = free, clock, most
        self._key = secrets.token_bytes(32)
        self._tries: dict[bytes, _Tries] = {}
        self._lock = threading.Lock()

    def attempt(self, who: str) -> int:
        """Count an attempt and return 0 if it may be made now; else return the seconds to wait, without counting it."""
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
        """Forget the attempts of `who` after a right one."""
        with self._lock:
            self._tries.pop(self._hash(who), None)

    def __len__(self) -> int:
        """The number of keys remembered."""
        return len(self._tries)

    def _forget(self, now: float) -> None:
        for key, tries in tuple(
            islice(self._tries.items(), 2)
        ):  # two for each new one, so that old ones cannot pile up
            if len(self._tries) >= self._most or now - max(tries.last, tries.next) > FORGET_SECONDS:
                del self._tries[key]

    def _hash(self, who: str) -> bytes:
        return hashlib.blake2b(who.encode("utf-8", "surrogatepass"), key=self._key, digest_size=16).digest()


class Limits:
    """All limits of a service, in one of its processes."""

    def __init__(self, clock: Clock = time.monotonic, processes: int = 1) -> None:
        def share(free: int) -> Limit:
            return Limit(max(1, free // processes), clock)

        self.addresses = share(20)
        self.accounts = share(5)
        self.unknown = share(30)
        self.codes = share(10)

    def attempt_code(self, account: Account) -> int:
        """Count an attempt at an account's second factor, under the same rule as passwords."""
        return self.accounts.attempt(f"code {account.id}")

    def forgive_codes(self, account: Account) -> None:
        self.accounts.forgive(f"code {account.id}")


class Busy(Exception):
    """There is no room for more slow work; `status` is the HTTP status of the refusal."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Pool:
    """A thread pool for slow work, with a bounded queue and at most `each` places per account."""

    def __init__(self, threads: int, waiting: int, each: int | None = None) -> None:
        self._threads = ThreadPoolExecutor(threads, initializer=use_all)
        self._places = threads + waiting
        self._each = each or self._places
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def require_room(self, whose: str = "") -> None:
        """Raise Busy if the queue is full."""
        if self._taken.total() >= self._places:
            raise Busy(503)
        if self._taken[whose] >= self._each:
            raise Busy(429)

    async def run(self, work: Callable[[], T], whose: str = "") -> T:
        """Do `work` as soon as a thread is free; Busy at once if the queue is full."""
        with self._lock:
            self.require_room(whose)
            self._taken[whose] += 1
        done = self._threads.submit(work)
        done.add_done_callback(lambda _: self._leave(whose))
        return await asyncio.wrap_future(done)

    def _leave(self, whose: str) -> None:
        with self._lock:
            self._taken[whose] -= 1
            self._taken += Counter()  # drop zero counts

    def close(self) -> None:
        """Stop after the work under way, and cancel what waits."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Pools:
    """The thread pools for slow work, apart from participants' pages.

    Hashing a password takes 64 MB and much of a processor for a moment. Strangers' passwords are checked one at a time;
    browsers that signed in before, or hold a valid link, have a thread of their own that strangers cannot occupy.
    `lookups` tells the two apart.
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
    """The address of a client. Behind a proxy it is the last one forwarded: the client can forge all before it.

    A household has a whole /64 of IPv6, which counts as one address.
    """
    forwarded = ",".join(connection.headers.getlist("x-forwarded-for")) if behind_proxy else ""
    text = forwarded.rpartition(",")[2].strip() or (connection.client.host if connection.client else "")
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return text
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return text


#: The cookie that holds a browser's mark.
MARK_COOKIE = "known"


def browser_mark(account: Account) -> str:
    """A new mark for a browser that has just signed in."""
    chance = secrets.token_hex(8)
    return f"{chance}.{_mark(account, chance)}"


class TryingBrowser(NamedTuple):
    """A browser that tries to sign in: the key its attempts are counted under, and whether it has signed in before."""

    counted_as: str
    known: bool


def browser(name: str, account: Account | None, mark: str) -> TryingBrowser:
    """A browser as its attempts are counted: separately with a valid mark, else together with all strangers."""
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
