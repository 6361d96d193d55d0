"""Many who try at once: passwords and plans have threads of their own, and nobody else waits for them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio.to_thread import current_default_thread_limiter
from argon2 import PasswordHasher
from support.clocks import stop_clock
from support.serving import PASSWORD, URL, WHO, Served, asked, draft, served

from truthful.plan import Plan
from truthful.service import jobs
from truthful.store import accounts
from truthful.store.tables import Role

ADDRESSES, ATTEMPTS, PLANS = 6, 120, 50


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as running:
        stop_clock(running)
        yield running


class SlowHasher(PasswordHasher):
    """Checks every wrong password once it may go on."""

    go_on = threading.Event()

    def verify(self, *pair: Any) -> Any:
        if PASSWORD not in pair:
            assert self.go_on.wait(300)
        return super().verify(*pair)


def browser(here: Served, address: str = "192.0.2.1", **cookies: str) -> httpx.AsyncClient:
    """One that comes from this address."""
    transport = httpx.ASGITransport(here.client.app, client=(address, 1))
    return httpx.AsyncClient(transport=transport, base_url=URL, cookies=cookies)


async def try_name(here: Served, address: str, name: str, password: str, **cookies: str) -> int:
    async with browser(here, address, **cookies) as client:
        return (await client.post("/sign-in", data={"name": name, "password": password})).status_code


async def until_but(tasks: list[asyncio.Task[int]], open_still: int) -> Counter[int]:
    """The answers of all but these many, who wait."""
    while sum(not task.done() for task in tasks) > open_still:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=0.01)
    return Counter(task.result() for task in tasks if task.done())


def start(work: list[Awaitable[int]]) -> list[asyncio.Task[int]]:
    return [asyncio.ensure_future(each) for each in work]


@contextmanager
def going_on(event: threading.Event) -> Iterator[None]:
    """What was held goes on in the end, also if the test fails meanwhile."""
    event.clear()
    try:
        yield
    finally:
        event.set()


def test_while_strangers_guess_passwords_participants_and_known_browsers_are_answered(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = asked(here.service, players=2)
    link = f"/a/{study.links[min(study.links)]}"
    mark = here.signed_in(Role.ANALYST).cookies["known"]
    slow = SlowHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(accounts, "_HASHER", slow)

    async def flood() -> None:
        wrong = start(
            [
                try_name(here, f"203.0.113.{number % ADDRESSES}", f"name {number}", "a wrong password")
                for number in range(ATTEMPTS)
            ]
        )
        with going_on(slow.go_on):
            # One is being checked and twenty wait; all others have been told that there is no room.
            assert await until_but(wrong, 21) == {503: ATTEMPTS - 21}
            assert current_default_thread_limiter().borrowed_tokens == 0
            async with browser(here) as participant:
                assert (await participant.get(link)).status_code == 200
            # The analyst sits behind an address from which nobody else may try any more.
            campus = "203.0.113.0"
            assert await try_name(here, campus, "the analyst", PASSWORD, known=mark) == 303
            assert await try_name(here, campus, "the analyst", PASSWORD, known="x.y") in (429, 503)
        assert Counter(await asyncio.gather(*wrong)) == {403: 21, 503: ATTEMPTS - 21}
        assert await try_name(here, campus, "the analyst", PASSWORD) == 429
        assert await try_name(here, campus, "the analyst", PASSWORD, known=mark) == 303

    asyncio.run(flood())


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "plan", 200), ("POST", "change", 409)])
def test_while_an_analyst_asks_for_many_plans_participants_and_other_analysts_are_answered(
    here: Served, monkeypatch: pytest.MonkeyPatch, method: str, path: str, status: int
) -> None:
    study, study_id = asked(here.service, players=2), draft(here.service)
    link = f"/a/{study.links[min(study.links)]}"
    one, other = (
        here.signed_in(Role.ANALYST, name).cookies["truthful"] for name in ("the analyst", "another analyst")
    )
    with here.service.database.writing() as session:
        accounts.share(session, study_id, accounts.lock_account(session, "another analyst"), WHO)
    go_on = threading.Event()

    def slow(*_: object, **__: object) -> Plan:
        assert go_on.wait(300)
        return study.plan

    monkeypatch.setattr(jobs, "design", slow)
    jobs._make_plan.cache_clear()

    async def plan(cookie: str, budget: int) -> int:
        async with browser(here, truthful=cookie) as client:
            asked_for = {"budget": str(budget), "players": "60"}
            sent: dict[str, Any] = {"params" if method == "GET" else "data": asked_for}
            answer = await client.request(method, f"/studies/{study_id}/{path}", **sent)
        if answer.status_code != status:
            assert int(answer.headers["retry-after"]) > 0
            assert "all the work it can take on" in answer.text
        return answer.status_code

    async def flood() -> None:
        many = start([plan(one, 1_000 + number) for number in range(PLANS)])
        with going_on(go_on):
            assert await until_but(many, 4) == {429: PLANS - 4}
            assert current_default_thread_limiter().borrowed_tokens == 0
            async with browser(here) as participant:
                assert (await participant.get(link)).status_code == 200
            hers = start([plan(other, 5_000)])
            await asyncio.wait(hers, timeout=0.1)
            assert not hers[0].done()  # it waits for its turn
        assert await hers[0] == status
        assert Counter(await asyncio.gather(*many)) == {status: 4, 429: PLANS - 4}

    asyncio.run(flood())
    jobs._make_plan.cache_clear()
