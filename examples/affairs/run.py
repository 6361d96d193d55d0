"""What Fair's 6,366 answers can support: `python examples/affairs/run.py`. Needs statsmodels, for its data."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from statsmodels.datasets import fair

import truthful as tf
from truthful.instruments import transform_matrix

LIE = 0.05  # smaller than what a switch from yes to no does to anybody's prediction, see below
RANGES = {
    "rate_marriage": (1, 5),
    "age": (17.5, 42),
    "yrs_married": (0.5, 23),
    "children": (0, 5.5),
    "religious": (1, 4),
    "educ": (9, 20),
}
# What was tried: the answer, the features and the signal that were declared.
TRIED = (
    ("time", ("rate_marriage", "age", "yrs_married", "children", "religious", "educ"), 0.3),
    ("time", ("rate_marriage", "religious", "yrs_married"), 0.3),
    ("time", ("rate_marriage", "religious"), 0.3),
    ("time", ("rate_marriage",), 0.3),
    ("yes/no", ("rate_marriage", "religious", "yrs_married"), 0.4),
    ("yes/no", ("rate_marriage",), 0.4),
    ("yes/no", ("rate_marriage", "religious"), 0.4),
)

survey = fair.load_pandas().data
players = len(survey)
answers = (survey["affairs"] > 0).astype(float).to_numpy()
time = survey["affairs"].clip(upper=12).to_numpy()
study = tf.Study.parse(Path(__file__).with_name("study.toml").read_text())  # so no ledger is kept beside it
names = [feature.name for feature in study.features]
roster = pa.table(
    {"player": [f"p-{i:04d}" for i in range(players)], **{name: survey[name] for name in names}}
)


def rehearsed(plan, said):
    """A settlement with a seed: it protects nobody, and these women answered long ago and were not paid."""
    return tf.settle(plan, roster.append_column("affair", pa.array(said)), seed=1)


def switched(plan):
    """How far a switch between yes and no moves each woman's own prediction."""
    no, yes = (
        rehearsed(plan, np.full(players, said)).receipts.column("own_prediction").to_numpy()
        for said in (0.0, 1.0)
    )
    return yes - no


def normalised(study, said):
    """Features and answers as a study normalises them."""
    columns = {feature.name: survey[feature.name].to_numpy() for feature in study.features}
    X = study.normalise(columns, players)
    return X, study.normalise_response(said, X)


def raw_fit(weights):
    """Weighted least squares of the answers, in raw units."""
    root = np.sqrt(weights)
    A = np.column_stack([np.ones(players), survey[names]])
    return np.linalg.lstsq(A * root[:, None], answers * root, rcond=None)[0]


print(f"Can the truth be bought from {players:,} people?")
plans = {each: tf.design(study, roster=roster, budget=each * players, lie=LIE) for each in (1, 10)}
for each, plan in plans.items():
    g, moves = plan.guarantees, switched(plan)
    print(
        f"  {each} USD each: yes, at ε = {g.privacy.epsilon:.3f}. Predictions are off by at most "
        f"{g.accuracy.prediction_rmse:.3f}, root mean square."
    )
    print(
        f"    Lies pay up to a change in prediction of {g.truthfulness.lie:.3f}; a switch between yes and no makes "
        f"one of {moves.min():.3f} to {moves.max():.3f}."
    )

X, y = normalised(study, answers)
theta = np.linalg.lstsq(X, y, rcond=None)[0]
outside = np.mean(np.abs(y - X @ theta) > study.beliefs.noise_bound)
print(f"\nAnswers that the declared bounds exclude, at the fitted coefficients: {outside:.1%}.")

# Everybody has the same influence at these ε: without noise the estimate would be least squares with these weights.
T = transform_matrix(plans[1].mechanism.transform)
weighted = raw_fit(1 / np.maximum(1, np.linalg.norm(X @ T.T, axis=1)))
releases = [rehearsed(plan, answers).release for plan in plans.values()]
print("\nThe regression, one draw of noise each, with 95% intervals")
print(
    f"{'effect':<15}{'least squares':>14}{'weighted':>10}"
    + "".join(f"{f'{each} USD each':>26}" for each in plans)
)
for i, (value, other) in enumerate(zip(raw_fit(np.ones(players)), weighted, strict=True)):
    private = [release.coefficients[i] for release in releases]
    cells = [f"{c.value:.3f} ({c.low:.2f} to {c.high:.2f})" for c in private]
    print(f"{private[0].name:<15}{value:>14.3f}{other:>10.3f}" + "".join(f"{cell:>26}" for cell in cells))
for release in releases:
    assert not release.warnings

print("\nThe declarations that were tried, this one last, and what the data say")
print(f"{'answer':<8}{'features':<61}{'norm of θ: at most':>19}{'data':>6}")
for answer, columns, signal in TRIED:
    changes = {
        "features": [{"name": name, "low": RANGES[name][0], "high": RANGES[name][1]} for name in columns],
        "beliefs": {"signal": signal},
    }
    if answer == "time":
        changes["response"] = {"name": "time", "low": 0, "high": 12}
    X, y = normalised(
        tf.Study.from_declaration(study.declaration() | changes), time if answer == "time" else answers
    )
    norm = np.linalg.norm(np.linalg.lstsq(X, y, rcond=None)[0])
    print(f"{answer:<8}{', '.join(columns):<61}{signal:>19}{norm:>6.2f}")
