"""Every command explains itself, and does what its help says."""

import inspect
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pages
import pyarrow.csv
import pytest
import typer.main
from support.commands import Ran, Run
from support.shown_asked import NUMBER, reports, study_of

from truthful import cli
from truthful.one_release import OneRelease
from truthful.plan import ABSENT_SHARE, design
from truthful.version import __version__


@cache
def commands() -> dict[str, Any]:
    """Every command by its name, those of groups with the group's before it."""
    group: Any = typer.main.get_command(cli.app)
    return dict(pages.every_command(group))


@pytest.mark.parametrize("name", commands())
def test_every_command_argument_and_option_has_help(name: str) -> None:
    command = commands()[name]
    assert command.help
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{name} {parameter.name}"


def test_help_is_shown_for_everything(run: Run) -> None:
    assert set(commands()) == {
        "new",
        "beliefs",
        "assign",
        "plan",
        "simulate",
        "check",
        "settle",
        "pay",
        "report",
        "verify",
        "receipt",
        "audit",
        "demo",
        "errata",
        "symbols",
        "serve",
        "account add",
        "account link",
        "account remove",
        "account list",
        "account share",
        "log",
        "bots",
        "identity",
        "purge",
        "rotate-key",
        "backup",
        "restore",
        "pilot",
    }
    for name in commands():
        shown = run(*name.split(), "--help")
        assert shown.code == 0
        assert f"Usage: truthful {name}" in shown.out
        assert f"Example: truthful {name}" in re.sub(r"\s+", " ", shown.out)
        assert run(*name.split(), "-h").out == shown.out


def test_every_command_prints_json() -> None:
    for command in commands().values():
        assert "--json" in {option for parameter in command.params for option in parameter.opts}


#: Examples that draw much run with fewer draws: of an option that is given twice the last counts.
FEWER = {"simulate": ("--runs", "5"), "audit": ("--samples", "1000")}


# A server runs until it is stopped, and others need one or what it keeps: tests of their own run them.
SERVED = {"serve", "bots", "log", "purge", "rotate-key", "identity", "backup", "restore"}
SERVED |= {name for name in commands() if name.startswith("account ")}


@pytest.mark.parametrize("name", sorted(commands().keys() - SERVED))
def test_the_example_of_every_command_runs(name: str, settled: Path, run: Run) -> None:
    example = commands()[name].epilog.removeprefix("Example: ")
    program, *arguments = shlex.split(example)
    assert program == "truthful"
    if name in ("check", "settle"):
        (settled / "settlement").rename(settled / "earlier")
        (settled / "ledger.json").unlink()
    if name == "pilot":
        (settled / "pilot.toml").write_text(NUMBER)
        pyarrow.csv.write_csv(reports(study_of("number"), 400), settled / "reports.csv")
        run("plan", "pilot.toml", "--players", "400", "--budget", "8000", "--save", "pilot.json")
    assert run(*arguments, *FEWER.get(name, ())).code == 0


def test_the_defaults_of_the_command_are_those_of_the_library() -> None:
    shown, library = inspect.signature(cli.plan).parameters, inspect.signature(design).parameters
    assert [
        name for name, option in shown.items() if name in library and option.default != library[name].default
    ] == []
    fields = OneRelease.__dataclass_fields__
    for name in ("rule", "payments"):
        assert shown[name].default == fields[name].default
    assert f"with --score-weight, {fields['gram_share'].default}." in option_help("gram_share")
    assert f"with --score-weight, {ABSENT_SHARE}." in option_help("absent_share")


def option_help(name: str) -> str:
    (option,) = [parameter for parameter in commands()["plan"].params if parameter.name == name]
    return str(option.help)


def test_the_version_is_printed(run: Run) -> None:
    assert run("--version") == Ran(0, f"truthful {__version__}\n", "")
