"""What a participant waits while others keep the service busy: wrong passwords by the hundred, and many plans at once.

    python benchmarks/floods.py

The server is `truthful serve` in a process of its own. One participant opens her page again and again on a connection
she keeps, in turn while nothing else happens and while the flood comes.
"""

from __future__ import annotations

import http.client
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlencode

from load import prepare
from measure import ROOT, Row
from visitors import FORM
from visits import serving

sys.path.append(str(ROOT / "tests"))
from support.serving import draft, owner

from truthful.service.locations import Settings
from truthful.service.pages import Service
from truthful.service.settle_study import Settler
from truthful.store import accounts

ROUNDS, PAGES = 3, 40
ADDRESSES, ATTEMPTS, PLANS = 6, 120, 50


def prepare_analyst(directory: Path, url: str) -> tuple[str, str]:
    """The cookie of an analyst who has signed in, and her draft."""
    settings = Settings(directory, database=url)
    database = settings.open_database()
    study_id = draft(Service(settings, database, Settler(database, settings.locations)))
    with database.writing() as session:
        cookie = accounts.sign_in(session, owner(session))
    database.close()
    return cookie, study_id


def ask(port: int, method: str, path: str, body: str = "", **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
    status = connection.getresponse().status
    connection.close()
    return status


def open_pages(
    port: int, link: str, at_least: int, going_on: Callable[[], bool] = lambda: False
) -> list[float]:
    """Seconds that her page takes, each time: so often, and as long as something goes on."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    waited: list[float] = []
    while len(waited) < at_least or going_on():
        began = time.perf_counter()
        connection.request("GET", f"/a/{link}")
        response = connection.getresponse()
        response.read()
        waited.append(time.perf_counter() - began)
        assert response.status == 200, response.status
    connection.close()
    return waited


def flooded(port: int, link: str, requests: Sequence[Callable[[], int]]) -> list[float]:
    """The same while all of these come at once."""
    threads = [threading.Thread(target=request) for request in requests]
    for thread in threads:
        thread.start()
    waited = open_pages(port, link, 1, lambda: any(thread.is_alive() for thread in threads))
    for thread in threads:
        thread.join()
    return waited


def wrong_passwords(port: int, k: int) -> list[Callable[[], int]]:
    def attempt(number: int) -> int:
        form = urlencode({"name": f"name {k} {number}", "password": "a wrong password"})
        address = f"203.0.{k}.{number % ADDRESSES}"
        return ask(port, "POST", "/sign-in", form, Content_Type=FORM, X_Forwarded_For=address)

    return [lambda number=number: attempt(number) for number in range(ATTEMPTS)]  # type: ignore[misc]


def plans(port: int, k: int, cookie: str, study_id: str) -> list[Callable[[], int]]:
    def plan(number: int) -> int:
        query = urlencode({"budget": 1_000 + PLANS * k + number, "players": 500})
        return ask(port, "GET", f"/studies/{study_id}/plan?{query}", Cookie=f"truthful={cookie}")

    return [lambda number=number: plan(number) for number in range(PLANS)]  # type: ignore[misc]


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "service"
        url = f"sqlite:///{Path(name) / 'test.db'}"
        link = next(iter(prepare(directory, url, 60).links.values()))
        cookie, study_id = prepare_analyst(directory, url)
        quiet: list[float] = []
        waited: dict[str, list[float]] = {
            "120 wrong passwords from six addresses": [],
            "50 plans at once": [],
        }
        with serving(directory, url, "--behind-proxy") as (port, _):
            open_pages(port, link, PAGES)
            for k in range(ROUNDS):
                quiet += open_pages(port, link, PAGES)
                floods = (wrong_passwords(port, k), plans(port, k, cookie, study_id))
                for seconds, flood in zip(waited.values(), floods, strict=True):
                    seconds += flooded(port, link, flood)
    usual = statistics.median(quiet)
    return [
        Row(
            f"a participant's page during {flood} ÷ without, p50",
            statistics.median(seconds) / usual,
            note=f"without {1000 * usual:.0f} ms; the longest wait {max(seconds):.2f} s",
        )
        for flood, seconds in waited.items()
    ]


if __name__ == "__main__":
    for row in rows():
        print(f"{row.found:10,.2f} {row.unit:9} {row.work}  ({row.note})")
