"""Loops run as they stand for a few numbers, and compiled for many: the same to the bit, and a check starts without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.surveys import answered, roster, survey

from truthful.plan import design
from truthful.settlement import settle

LOOP = """
import math
from truthful.lazily import compiled

@compiled(error_model="numpy")
def lengths(columns, out):
    out[:] = 0.0
    for a in range(len(columns)):
        for i in range(len(out)):
            out[i] += columns[a, i] * columns[a, i]
    for i in range(len(out)):
        out[i] = math.sqrt(out[i])
"""
APART = """
import json, sys
import numpy as np
sys.path.insert(0, sys.argv[2])
import loop
rng = np.random.default_rng(0)
rows = int(sys.argv[1])
X = rng.normal(size=(3, 40)) * np.array([[1.0], [1e-9], [300.0]])
X = np.tile(X, (1, rows))
lengths = np.empty(X.shape[1])
loop.lengths(X, lengths)
print(json.dumps([lengths[:40].tolist(), "numba" in sys.modules]))
"""
CHECK = """
import sys
from pathlib import Path
from truthful.release import read_receipt, read_release, verify
verdict = verify(read_release(sys.argv[1]), read_receipt(Path(sys.argv[2])))
heavy = sorted({name.split(".")[0] for name in sys.modules} & {"numba", "pyarrow", "pandas", "matplotlib", "sklearn"})
print(verdict.verified, heavy, "scipy.optimize" in sys.modules)
"""


def _output(script: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_few_numbers_are_not_compiled_for_and_many_give_the_same(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    few, many = (json.loads(_output(APART, rows, str(tmp_path))) for rows in ("1", "2000"))
    assert few[-1] is False
    assert many[-1] is True
    assert few[:-1] == many[:-1]


def test_where_nothing_can_be_written_everything_is_compiled_anew(tmp_path: Path) -> None:
    """As for a system's user without a home, who may only read the package."""
    (tmp_path / "loop.py").write_text(LOOP)
    (tmp_path / "__pycache__").write_text("in the way")
    nowhere = {"HOME": os.devnull, "XDG_CACHE_HOME": os.devnull, "NUMBA_CACHE_DIR": ""}
    apart = json.loads(_output(APART, "2000", str(tmp_path), **nowhere))
    (tmp_path / "__pycache__").unlink()
    assert apart == json.loads(_output(APART, "2000", str(tmp_path)))
    assert list((tmp_path / "__pycache__").glob("*.nbi"))


@pytest.mark.parametrize("study", [survey(3), survey(2)], ids=["levels", "numbers"])
def test_ones_own_check_needs_neither_compiler_nor_tables(study: object, tmp_path: Path) -> None:
    from truthful.study import Study

    assert isinstance(study, Study)
    people = roster(60, study.dimension)
    plan = design(study, roster=people, epsilon=1.0, score_weight=1.0)
    settlement = settle(plan, answered(study, people), seed=1)
    settlement.release.save(tmp_path / "release.json")
    settlement.receipt("p-5").save(tmp_path / "receipt.json")
    told = _output(CHECK, str(tmp_path / "release.json"), str(tmp_path / "receipt.json"))
    assert told.split() == ["True", "[]", "False"]
    assert np.isfinite(settlement.summary["total_paid"])
