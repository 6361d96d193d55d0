"""What can go wrong, as two kinds: bad input (exit code 2) and a request that is refused (exit code 1).

Every message names the value, says what was expected and what to do.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Option:
    """A setting that a message names: `on_bad='clip'` in Python, `--on-bad clip` on the command line.

    `python` is how it is written in Python, where that is otherwise.
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
    """Base of every error this package raises on purpose: a message in parts, of which some may be settings.

    `title` is the word that stands before its message.
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
        """What a program can make use of beside the message, as JSON has it."""
        return {}


class InputError(TruthfulError, ValueError):
    """The input is wrong: a bad value, a bad file, a bad record."""

    exit_code = 2


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a study: where, such as ("features", 1, "low"), and in a sentence that says so."""

    location: tuple[int | str, ...]
    sentence: str


class InvalidStudy(InputError):
    """A study file, called `source`, with all that is wrong with it."""

    def __init__(self, source: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(source, problems)
        self.source, self.problems = source, problems

    def __str__(self) -> str:
        return "\n".join(f"{self.source}: {problem.sentence}" for problem in self.problems)

    @property
    def details(self) -> Mapping[str, Any]:
        return {"source": self.source, "problems": [asdict(problem) for problem in self.problems]}


class FileNote(UserWarning):
    """Something in a file was not read as it stands there, for a reason that the note gives."""


class Refused(TruthfulError):
    """The input is well formed, but what it asks for is not done: it would be unsafe or impossible."""

    title = "Refused"


class WorseThanPromised(Refused):
    """What could be guaranteed for those who answered is less than the plan promised. Nothing was drawn.

    less says in what; promised and found are guarantees, as planned and as they would be.
    """

    def __init__(self, less: str, advice: str, promised: object, found: object) -> None:
        super().__init__(f"{less} {advice}")
        self.less, self.promised, self.found = less, promised, found
