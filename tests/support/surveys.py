"""Surveys of people with their own features, as benchmarks have them, and honest answers of such people."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from truthful.study import Study

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from rosters import features as features
from rosters import roster as roster
from rosters import survey as survey


def answered(study: Study, people: Any, seed: int = 1) -> Any:
    """Honest reports of the people of a roster, as a table."""
    rng = np.random.default_rng(seed)
    theta = study.beliefs.prior.sample(rng, study.dimension, 1)[0]
    columns = {f.name: people.column(f.name).to_numpy(zero_copy_only=False) for f in study.features}
    X = study.normalise(columns, people.num_rows)
    y = X @ theta + study.beliefs.noise.sample(rng, people.num_rows)
    return people.append_column(study.response.name, pa.array(study.raw_response(y, X)))


def saved(study_text: str, directory: Path) -> Study:
    """The study as loaded from a file, beside which its ledger is kept."""
    path = directory / "study.toml"
    path.write_text(study_text, encoding="utf-8")
    return Study.load(path)
