"""People's features without their answers, checked and normalised as reports are: whom simulations draw from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from truthful.check import Floats
from truthful.errors import InputError
from truthful.intake.columns import arrow_numbers
from truthful.intake.intake import Intake, report_columns
from truthful.intake.stream import open_reports
from truthful.moments import GRID
from truthful.study import Study


def read_features(study: Study, source: Any, on_bad: str = "error") -> Floats:
    """The normalised features of every good row, on the grid, from any source of reports. Other columns are ignored.

    Each row goes through intake as a report does. In the place of a player it has its own number, and in the place of
    an answer the middle of the range, so that only features can be at fault.
    """
    names = [feature.name for feature in study.features]
    if not names:
        raise InputError("The study has no features, so none can be brought. Leave them out.")
    rows, parts, answer = 0, [], _any_answer(study)
    with open_reports(source, names) as features:
        intake = Intake(study, on_bad, where=features.where)
        for batch in features.batches():
            numbers = arrow_numbers(np.arange(rows + 1, rows + 1 + batch.num_rows))
            said = [arrow_numbers(np.full(batch.num_rows, value)) for value in answer]
            report = pa.RecordBatch.from_arrays([numbers, *batch.columns, *said], names=report_columns(study))
            parts.append(intake.check(report, rows + 1).kx)
            rows += batch.num_rows
        intake.finish()
    return np.concatenate(parts) / GRID


def _any_answer(study: Study) -> tuple[float, ...]:
    """One that nothing is wrong with, and where it is asked for a prediction of the others."""
    response = study.response
    answer = response.low if study.shares is not None else (response.low + response.high) / 2
    return (answer,) if study.levels is None else (answer, study.prediction_range[0])
