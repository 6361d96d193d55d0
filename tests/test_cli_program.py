"""The installed program, as a shell starts it."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.commands import PLAN

PROGRAM = str(Path(sys.executable).with_name("truthful"))


def program(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False, **options)


@pytest.mark.slow
def test_the_installed_program_runs_refuses_and_complains(here: Path) -> None:
    assert program("symbols").returncode == 0
    done = program("settle", "plan.json", "reports.csv", "--out", "o")
    assert (done.returncode, done.stderr) == (0, "")
    refused = program("settle", "plan.json", "reports.csv", "--out", "o")
    assert (refused.returncode, "Refused: " in refused.stderr, refused.stdout) == (1, True, "")
    bad = program("plan", "nope.toml", *PLAN)
    assert (bad.returncode, "Traceback" in bad.stderr) == (2, False)


def test_nothing_to_do_shows_the_help() -> None:
    shown = program()
    assert shown.returncode in (0, 2)
    assert "truthful demo" in shown.stdout + shown.stderr


def test_a_reader_who_has_seen_enough_is_no_traceback() -> None:
    for arguments in ("symbols", "symbols --json", "plan --help"):
        shown = subprocess.run(
            ["bash", "-c", f"{shlex.quote(PROGRAM)} {arguments} | head -1"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert shown.stderr == ""


def test_a_terminal_without_greek_letters_is_no_traceback() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for arguments in (["symbols"], ["symbols", "--json"], ["plan", "--help"]):
        shown = program(*arguments, env=environment)
        assert (shown.returncode, shown.stderr) == (0, "")


def test_an_interrupted_command_leaves_quietly(here: Path) -> None:
    """Two million people take seconds to invent, so the interrupt finds the program at work."""
    with subprocess.Popen(
        [PROGRAM, "demo", "d", "--players", "2000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("Declared")
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in err
    assert not (here / "d" / "settlement").exists()
