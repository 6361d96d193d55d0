"""How often somebody may try: waits that double, are forgotten, and cannot be made longer by others."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from truthful.service.limits import FORGET_SECONDS, LONGEST, Limit, Limits, address, browser, browser_mark
from truthful.store.tables import Account, Role


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def waits(limit: Limit, clock: Clock, who: str, attempts: int) -> list[int]:
    """How long each attempt had to wait, if each is made as soon as it may be."""
    found = []
    for _ in range(attempts):
        waited = limit.attempt(who)
        found.append(waited)
        clock.now += waited
        if waited:
            assert limit.attempt(who) == 0
    return found


def test_after_a_few_attempts_the_next_waits_twice_as_long_each_time() -> None:
    clock = Clock()
    assert waits(Limit(3, clock), clock, "a", 9) == [0, 0, 0, 2, 4, 8, 16, 32, 64]


def test_a_wait_is_never_longer_than_minutes() -> None:
    clock = Clock()
    assert max(waits(Limit(1, clock), clock, "a", 60)) == LONGEST


def test_hammering_does_not_make_the_wait_longer() -> None:
    clock = Clock()
    limit = Limit(1, clock)
    assert limit.attempt("a") == 0
    assert [limit.attempt("a") for _ in range(1000)] == [2] * 1000
    clock.now += 2
    assert limit.attempt("a") == 0


def test_one_who_waits_does_not_make_another_wait() -> None:
    limit = Limit(1, Clock())
    limit.attempt("a")
    assert limit.attempt("a") > 0
    assert limit.attempt("b") == 0


def test_a_right_attempt_is_forgiven_the_wrong_ones_before() -> None:
    limit = Limit(2, Clock())
    limit.attempt("a")
    limit.attempt("a")
    limit.forgive("a")
    assert [limit.attempt("a"), limit.attempt("a")] == [0, 0]
    assert limit.attempt("a") > 0


def test_whoever_is_quiet_is_forgotten() -> None:
    clock = Clock()
    limit = Limit(1, clock)
    for number in range(50):
        limit.attempt(str(number))
    clock.now += LONGEST + FORGET_SECONDS
    for number in range(50):
        limit.attempt(f"other {number}")
    assert len(limit) <= 51
    assert limit.attempt("0") == 0


def test_only_so_many_are_remembered() -> None:
    limit = Limit(1, Clock(), most=100)
    for number in range(1_000):
        limit.attempt(str(number))
    assert len(limit) <= 100


def test_nobody_can_be_read_out_of_what_is_remembered() -> None:
    limit = Limit(1)
    limit.attempt("203.0.113.7")
    assert "203.0.113" not in repr(vars(limit))


def request(client: str, *forwarded: str) -> Request:
    headers = [(b"x-forwarded-for", line.encode()) for line in forwarded]
    return Request({"type": "http", "headers": headers, "client": (client, 1)})


@pytest.mark.parametrize(
    ("found", "behind_proxy", "meant"),
    [
        (request("203.0.113.7"), False, "203.0.113.7"),
        (request("127.0.0.1", "198.51.100.1"), False, "127.0.0.1"),
        (request("127.0.0.1", "6.6.6.6, 198.51.100.1"), True, "198.51.100.1"),
        (request("127.0.0.1", "6.6.6.6", "198.51.100.1"), True, "198.51.100.1"),
        (request("127.0.0.1"), True, "127.0.0.1"),
        (request("2001:db8:1:2:3::4"), False, "2001:db8:1:2::/64"),
        (request("::ffff:203.0.113.7"), False, "203.0.113.7"),
        (request("testclient"), False, "testclient"),
    ],
)
def test_where_a_request_comes_from_is_what_cannot_be_invented(
    found: Request, behind_proxy: bool, meant: str
) -> None:
    assert address(found, behind_proxy) == meant


def test_a_browser_that_signed_in_is_counted_apart_from_strangers() -> None:
    account = Account(name="ada", role=Role.ANALYST, password="$argon2id$one")
    mark = browser_mark(account)
    own = browser("ada", account, mark)
    assert own != browser("ada", account, "") == browser("ada", None, mark)
    assert browser("ada", account, mark[:-1] + "x") == browser("ada", account, "")
    assert browser("ada", account, browser_mark(account)) not in (own, browser("ada", account, ""))


def test_the_mark_of_a_browser_ends_with_the_password_and_is_for_one_account() -> None:
    account = Account(name="ada", role=Role.ANALYST, password="$argon2id$one")
    mark = browser_mark(account)
    strangers = browser("ada", account, "")
    for other in ("$argon2id$two", None):
        assert browser("ada", Account(name="ada", role=Role.ANALYST, password=other), mark) == strangers
    bob = Account(name="bob", role=Role.PAYER, password="$argon2id$one")
    assert browser("bob", bob, mark) == browser("bob", bob, "")


def test_several_processes_together_let_through_as_many_as_one() -> None:
    def free(limits: Limits) -> int:
        return sum(limits.addresses.attempt("192.0.2.1") == 0 for _ in range(30))

    assert sum(free(Limits(lambda: 0.0, processes=4)) for _ in range(4)) == free(Limits(lambda: 0.0)) == 20
