"""A service that listens on a port of this machine, for browsers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from truthful.service.app import create_app
from truthful.service.locations import Settings
from truthful.service.pages import Service
from truthful.service.server import LimitedHeads


@contextmanager
def listening(directory: Path, host: str = "127.0.0.1", **settings: Any) -> Iterator[tuple[str, Service]]:
    """The address of a running service, and the service itself."""
    with socket.socket() as taken:
        taken.bind((host, 0))
        url = f"http://{host}:{taken.getsockname()[1]}"
        app = create_app(Settings(directory, url=url, **settings))
        server = uvicorn.Server(uvicorn.Config(app, http=LimitedHeads, log_level="error", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]})
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.02)
        try:
            yield url, app.state.service
        finally:
            server.should_exit = True
            thread.join()


def own_address() -> str | None:
    """An address of this machine that others could reach it by, if it has one. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))  # a network for examples: the system only chooses a way to it
        except OSError:
            return None
        address = str(asking.getsockname()[0])
    return None if address.startswith("127.") else address
