"""Two kinds of errors: bad input (exit code 2) and a refused request (exit code 1).

Every message names the value, says what was expected and what to do.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Option:
    """A setting that a message names: `on_bad='clip'` in Python, `--on-bad clip` on the command line.

    `python` is its form in Python, where that differs.
    """

    name: str
    value: str
    python: str = ""

    def __str__(self) -> str:
        return self.python or f"{self.name}={self.value!r}"

    @property
    def option(self) -> str:
        return f"--{self.name.replace('_', '-')} {self.value}"


class TruthfulError(Exception):
    """Base of all errors this package raises on purpose: a message in parts, some of which may be settings.

    `title` is the word before its message.
    """

    title = "Error"
    exit_code = 1

    def __str__(self) -> str:
        return "".join(map(str, self.args))

    @property
    def on_command_line(self) -> str:
        """The message, with settings as options."""
        if not any(isinstance(part, Option) for part in self.args):
            return str(self)
        return "".join(part.option if isinstance(part, Option) else str(part) for part in self.args)

    @property
    def details(self) -> Mapping[str, Any]:
        """Details for programs, beside the message, as JSON."""
        return {}


class InputError(TruthfulError, ValueError):
    """The input is wrong: a bad value, a bad file, a bad record. `argument` is the one at fault, if any."""

    exit_code = 2

    def __init__(self, *parts: object, argument: str | None = None) -> None:
        super().__init__(*parts)
        self.argument = argument


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a study: where, such as ("features", 1, "low"), and a sentence that says what."""

    location: tuple[int | str, ...]
    sentence: str


class InvalidStudy(InputError):
    """A study file, named `source`, and all that is wrong with it."""

    def __init__(self, source: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(source, problems)
        self.source, self.problems = source, problems

    def __str__(self) -> str:
        return "\n".join(f"{self.source}: {problem.sentence}" for problem in self.problems)

    @property
    def details(self) -> Mapping[str, Any]:
        return {"source": self.source, "problems": [asdict(problem) for problem in self.problems]}


class FileNote(UserWarning):
    """Something in a file was not read as written, for the reason given."""


class Refused(TruthfulError):
    """The input is well formed, but the request would be unsafe or impossible."""

    title = "Refused"


class SingledOut(Refused):
    """Somebody is most of what is known about people like her. The message names her; `unnamed` does not."""

    def __init__(self, sentence: str, unnamed: str) -> None:
        super().__init__(sentence)
        self.unnamed = unnamed


class WorseThanPromised(Refused):
    """The guarantees for those who answered fall short of the plan's. Nothing was drawn.

    less says where; promised and found are guarantees, as planned and as they would be.
    """

    def __init__(self, less: str, advice: str, promised: object, found: object) -> None:
        super().__init__(f"{less} {advice}")
        self.less, self.promised, self.found = less, promised, found
