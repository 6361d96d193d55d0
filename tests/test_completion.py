"""The shell completes commands, options, their words and files, as click is asked for them by the shell's script."""

import pytest
from typer.testing import CliRunner

from truthful import options
from truthful.cli import app
from truthful.intake.intake import ON_BAD
from truthful.one_release import ESTIMATORS, PAYMENTS
from truthful.planner.goals import ACCURACIES
from truthful.scoring import RULES
from truthful.settlement.books import KEPT
from truthful.settlement.engines import ENGINES


def completed(*typed: str) -> list[str]:
    """What bash is told when the last word is being typed."""
    words = " ".join(("truthful", *typed))
    shell = {
        "_TRUTHFUL_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(typed)),
    }
    result = CliRunner().invoke(app, env=shell, prog_name="truthful")
    return result.output.split()


def test_the_words_are_those_that_commands_take() -> None:
    assert {
        "accuracy_of": ACCURACIES,
        "rule": tuple(RULES),
        "payments": PAYMENTS,
        "estimator": ESTIMATORS,
        "on_bad": ON_BAD,
        "books": tuple(KEPT),
        "engine": ENGINES,
    } == options.CHOICES


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("plan", "accuracy_of"),
        ("plan", "rule"),
        ("plan", "payments"),
        ("plan", "estimator"),
        ("simulate", "on_bad"),
        ("settle", "on_bad"),
        ("settle", "books"),
        ("settle", "engine"),
    ],
)
def test_words_of_an_option_are_completed(command: str, option: str) -> None:
    flag, words = f"--{option.replace('_', '-')}", options.CHOICES[option]
    assert completed(command, "x", flag, "") == list(words)
    assert completed(command, "x", flag, words[-1][:2]) == [words[-1]]


def test_commands_and_options_are_completed_and_files_left_to_the_shell() -> None:
    assert completed("se") == ["serve", "settle"] or completed("se") == ["settle", "serve"]
    assert "--accuracy-of" in completed("plan", "x", "--acc")
    assert completed("settle", "pl") == []
    shown = CliRunner().invoke(app, ["--show-completion", "bash"], prog_name="truthful")
    assert "complete_bash" in shown.output
    assert "complete -o default" in shown.output  # what is not completed is a file
