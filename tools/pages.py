"""The documentation as something that runs. `python tools/pages.py` rewrites what it can: pasted output, the reference.

A page's ```python and ```console blocks run in order, in one directory and one namespace. In a console block every
line that starts with `$ truthful` is run, and the lines after it are its output; a line `...` stands for any lines.
A ```text block after a ```python block is what that printed. A ```toml block that begins with a comment
`# dir/name.toml` is that file, and is written to it. The page of an example shows what its script prints.
"""

from __future__ import annotations

import io
import os
import re
import runpy
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support import blas

os.environ.update(blas.SETTINGS)

import errata_page
import library
import phones
import typer.main
from rates_chart import RatesChart
from support.browsers import photograph

from truthful import cli
from truthful.charts.drawing import draw_chart
from truthful.charts.frontier_chart import draw_frontier
from truthful.charts.simulation_charts import BestReports
from truthful.plan import Plan, design
from truthful.simulation import rates
from truthful.simulation.best_responses import typical_reports
from truthful.study import Study

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))))
COMMANDS = ROOT / "docs" / "commands.md"
LIBRARY = ROOT / "docs" / "reference-library.md"
EXAMPLES = tuple(sorted(path.parent for path in (ROOT / "examples").glob("*/study.toml")))
ERRATA = ROOT / "docs" / "errata.md"
CHART = ROOT / "docs" / "frontier.svg"
RATES = ROOT / "docs" / "rates.svg"
BEST_RESPONSE = ROOT / "docs" / "best-response.svg"
TUTORIAL = "docs/tutorial.md"
REPORT = ROOT / "docs" / "report.png"
MARKER = "python tools/pages.py`. -->\n"
WIDTH = "100"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w/.-]+\.toml)\n")
COMMAND = re.compile(r"^\$ (.*)\n", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str


END = Block("", "")


@dataclass(frozen=True)
class Shown:
    """Something that was run: what the page shows as its output, and what the output is."""

    source: str
    code: int
    shown: str
    output: str


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(text: str) -> list[Block]:
    return [Block(match[1], match[2]) for match in BLOCK.finditer(text)]


def steps(console: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that is shown after it."""
    parts = COMMAND.split(console)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def run(command: str) -> tuple[int, str]:
    """Run a `truthful` command in this process, as it is seen on a terminal 100 columns wide."""
    output = io.StringIO()
    with _arguments(shlex.split(command)), redirect_stdout(output), redirect_stderr(output):
        try:
            cli.main()
        except SystemExit as end:
            return int(end.code or 0), _trimmed(output.getvalue())
    return 0, _trimmed(output.getvalue())


def play(page: str, directory: Path) -> Iterator[Shown]:
    """Run everything on a page, in order."""
    namespace: dict[str, Any] = {"__name__": page}
    with chdir(directory):
        for block, after in pairwise([*blocks(read(page)), END]):
            if block.language == "python":
                printed = _execute(block.text, page, namespace)
                if after.language == "text" or printed:
                    yield Shown(block.text, 0, after.text, printed)
            elif block.language == "toml" and (named := FILE.match(block.text)):
                Path(named[1]).write_text(block.text, encoding="utf-8")
            elif block.language in ("console", "sh"):
                for command, shown in steps(block.text):
                    if command.startswith("truthful "):
                        code, output = run(command)
                        yield Shown(command, code, shown, output)


def agrees(shown: str, output: str) -> bool:
    """Whether output is as shown, but for the widths of columns; a shown line `...` stands for any lines."""
    parts = (re.escape(_words(part)) for part in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE))
    return re.fullmatch(".*".join(parts), _words(output)) is not None


def example(directory: Path, scratch: Path) -> Shown:
    """Run an example's script, as a program does, somewhere else."""
    [(command, shown)] = steps(next(iter(blocks(read(str(directory / "README.md"))))).text)
    output = io.StringIO()
    with chdir(scratch), redirect_stdout(output):
        runpy.run_path(str(directory / "run.py"), run_name="__main__")
    return Shown(command, 0, shown, output.getvalue())


def reference() -> str:
    """Every command with its arguments and options, as a page."""
    group: Any = typer.main.get_command(cli.app)
    sections = (_section(f"truthful {name}", command) for name, command in every_command(group))
    return "\n".join([_section("truthful", group), *sections])


def every_command(group: Any) -> Iterator[tuple[str, Any]]:
    """The commands of a group by their names, and in place of a group its own."""
    for name, command in group.commands.items():
        inside = every_command(command) if hasattr(command, "commands") else ()
        yield from ((f"{name} {one}", found) for one, found in inside) if inside else [(name, command)]


def charted() -> Plan:
    """The plan whose frontier the README shows: the paper's own model in two dimensions."""
    study = Study.load(ROOT / "examples" / "unit-ball" / "study.toml")
    return design(study, players=20_000, budget=5_000, lie=0.5)


def best_response() -> BestReports:
    """The reports that pay most under that plan."""
    plan = charted()
    return BestReports(typical_reports(plan), plan.study.response.name)


def followed() -> RatesChart:
    """The schedules of the paper's corollary on the same study; of fewer runs than usual, to be drawn in seconds."""
    return RatesChart(rates(charted().study, runs=20))


def _section(name: str, command: Any) -> str:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    usage = " ".join([name, *map(_placeholder, arguments), "[OPTIONS]"])
    lines = [f"## {name}", "", str(command.help).split("\n")[0], "", f"    {usage}", ""]
    lines += [command.epilog, ""] if command.epilog else []
    lines += ["| | default | meaning |", "|---|---|---|"]
    for parameter in command.params:
        word = _placeholder(parameter) if parameter in arguments else parameter.opts[0]
        help_text = str(parameter.help).replace("|", "\\|")
        lines.append(f"| `{word}` | {_default(parameter)} | {help_text} |")
    return "\n".join([*lines, ""])


def _placeholder(argument: Any) -> str:
    name = argument.name.upper()
    return name if argument.required else f"[{name}]"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if parameter.default is None or parameter.default is False:
        return ""
    return f"{parameter.default:,}" if isinstance(parameter.default, int) else f"{parameter.default}"


def _execute(source: str, page: str, namespace: dict[str, Any]) -> str:
    output = io.StringIO()
    with redirect_stdout(output):
        exec(compile(source, page, "exec"), namespace)
    return output.getvalue()


@contextmanager
def _arguments(arguments: list[str]) -> Iterator[None]:
    """The command line and a plain terminal, as the program sees them."""
    before, environment = sys.argv, dict(os.environ)
    sys.argv = arguments
    os.environ.update(COLUMNS=WIDTH, NO_COLOR="1", TERM="dumb")
    try:
        yield
    finally:
        sys.argv = before
        os.environ.clear()
        os.environ.update(environment)


def _trimmed(output: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in output.splitlines())


def _words(text: str) -> str:
    return re.sub(r"([─█])\1*", r"\1", " ".join(text.split()))


def refresh(page: str, directory: Path) -> str:
    """The page with what its blocks really print; of outputs shown in part, the same part."""
    text = read(page)
    for shown in play(page, directory):
        for before in (f"$ {shown.source}\n", f"{shown.source}```\n\n```text\n"):
            if f"{before}{shown.shown}" in text and not agrees(shown.shown, shown.output):
                text = text.replace(f"{before}{shown.shown}", f"{before}{_part(shown.shown, shown.output)}")
    return text


def _part(shown: str, output: str) -> str:
    """The part of an output that is shown: of as many lines between `...`, the most alike, one after the other."""
    if "...\n" not in shown:
        return output
    lines, start, kept = output.splitlines(), 0, []
    for part in re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE):
        wanted = part.splitlines()
        last = max(start, len(lines) - len(wanted))
        at = max(
            range(start, last + 1),
            key=lambda at: sum(
                SequenceMatcher(None, one, other, autojunk=False).ratio()
                for one, other in zip(wanted, lines[at : at + len(wanted)], strict=False)
            ),
        )
        kept.append("".join(f"{line}\n" for line in lines[at : at + len(wanted)]))
        start = at + len(wanted)
    return "...\n".join(kept)


if __name__ == "__main__":
    for name in PAGES:
        with tempfile.TemporaryDirectory() as scratch:
            (ROOT / name).write_text(refresh(name, Path(scratch)), encoding="utf-8")
            if name == TUTORIAL:
                photograph(Path(scratch, "sick-days", "rehearsal", "report.html"), REPORT, 800, 1000)
    for directory in EXAMPLES:
        with tempfile.TemporaryDirectory() as scratch:
            ran = example(directory, Path(scratch))
        text = (directory / "README.md").read_text(encoding="utf-8")
        (directory / "README.md").write_text(text.replace(ran.shown, ran.output), encoding="utf-8")
    ERRATA.write_text(errata_page.page(), encoding="utf-8")
    phones.take(ROOT / "docs")
    draw_frontier(charted(), CHART)
    draw_chart(best_response(), BEST_RESPONSE)
    draw_chart(followed(), RATES)
    for path, generated in ((COMMANDS, reference()), (LIBRARY, library.reference())):
        head, _, _ = path.read_text(encoding="utf-8").partition(MARKER)
        path.write_text(f"{head}{MARKER}\n{generated}", encoding="utf-8")
