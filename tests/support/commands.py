"""Commands that tests run, and how they leave. The fixtures that run them are in conftest.py."""

from collections.abc import Callable
from dataclasses import dataclass

PLAN = ["--players", "500", "--epsilon", "2", "--score-weight", "0.5"]


@dataclass(frozen=True)
class Ran:
    """How a command left: its exit code and what it printed."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]
