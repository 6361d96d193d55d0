"""A service that can be killed at any moment and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

PROGRAM = Path(__file__).with_name("killed_service.py")
PATIENCE_SECONDS = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Lives:
    """The lives of one service, one after the other."""

    def __init__(self, directory: Path, database: str) -> None:
        self.port = free_port()
        self.kills = 0
        self._pid = 0
        self._mother = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(directory), database, str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Lives:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._pid:
            self.kill()
        self._mother.communicate()

    def start(self) -> None:
        """Start a life, and wait until it answers."""
        assert self._mother.stdin is not None
        self._mother.stdin.write("\n")
        self._mother.stdin.flush()
        self._pid = self._said()
        until(lambda: listens(self.port))

    def kill(self) -> None:
        """End it without warning."""
        os.kill(self._pid, signal.SIGKILL)
        assert self._said() == -signal.SIGKILL, "the service had ended by itself"
        self._pid, self.kills = 0, self.kills + 1

    def _said(self) -> int:
        assert self._mother.stdout is not None
        return int(self._mother.stdout.readline())


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(true: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until it is."""
    given_up = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < given_up, f"{true} did not come true in {seconds:g} seconds"
        time.sleep(0.005)
