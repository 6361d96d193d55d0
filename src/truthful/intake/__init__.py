"""Collect: reports from any source, checked record by record, on the grid."""

from truthful.intake.intake import (
    Checked,
    Counts,
    Intake,
    number_columns,
    read_answers,
    read_features,
    read_players,
    report_columns,
)
from truthful.intake.stream import Reports, open_reports

__all__ = [
    "Checked",
    "Counts",
    "Intake",
    "Reports",
    "number_columns",
    "open_reports",
    "read_answers",
    "read_features",
    "read_players",
    "report_columns",
]
