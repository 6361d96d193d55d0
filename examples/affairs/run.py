"""What Fair's 6,366 answers can support: `python examples/affairs/run.py`. Needs statsmodels, for its data."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from statsmodels.datasets import fair

import truthful as tf

LEVELS = (0.1, 1, 3)
RANGES = {
    "rate_marriage": (1, 5),
    "age": (17.5, 42),
    "yrs_married": (0.5, 23),
    "children": (0, 5.5),
    "religious": (1, 4),
    "educ": (9, 20),
}
# What was tried before: the answer, the features, the least eigenvalue and the signal that were declared.
TRIED = (
    ("time", ("rate_marriage", "age", "yrs_married", "children", "religious", "educ"), 0.0035, 0.3),
    ("time", ("rate_marriage", "religious", "yrs_married"), 0.037, 0.3),
    ("time", ("rate_marriage", "religious"), 0.05, 0.3),
    ("time", ("rate_marriage",), 0.076, 0.3),
    ("yes/no", ("rate_marriage", "religious", "yrs_married"), 0.03, 0.4),
    ("yes/no", ("rate_marriage", "religious"), 0.03, 0.4),
    ("yes/no", ("rate_marriage",), 0.03, 0.4),
    ("yes/no", ("rate_marriage", "religious"), 0.04, 0.4),
)

survey = fair.load_pandas().data
players = len(survey)
answers = (survey["affairs"] > 0).astype(float).to_numpy()
time = survey["affairs"].clip(upper=12).to_numpy()
study = tf.Study.parse(Path(__file__).with_name("study.toml").read_text())  # so no ledger is kept beside it
names = [feature.name for feature in study.features]


def declared(answer, columns, least, signal):
    """A declaration that was tried."""
    changes = {
        "features": [{"name": name, "low": RANGES[name][0], "high": RANGES[name][1]} for name in columns],
        "design": {"kind": "observed", "least_eigenvalue": least},
        "beliefs": {"signal": signal},
    }
    if answer == "time":
        changes["response"] = {"name": "time", "low": 0, "high": 12}
    return tf.Study.from_declaration(study.declaration() | changes)


def fit(study, answers):
    """Features and answers as a study normalises them, and their least squares."""
    X = study.normalise(
        {feature.name: survey[feature.name].to_numpy() for feature in study.features}, players
    )
    y = study.normalise_response(answers, X)
    return X, y, np.linalg.lstsq(X, y, rcond=None)[0]


print(f"Can the truth be bought from {players:,} people?")
for each in (1, 10):
    try:
        tf.design(study, players=players, budget=each * players)
        print(f"  {each} USD each: yes")
    except tf.Infeasible as problem:
        needed = {remedy.goal: remedy.value for remedy in problem.remedies}["players"]
        print(
            f"  {each} USD each: no. The same sum would do with about {float(f'{needed:.1g}'):,.0f} people."
        )

# The declaration was chosen with these answers in view, so this shows that it can hold them, not that it was foreseen.
X, y, theta = fit(study, answers)
outside = np.mean(np.abs(y - X @ theta) > study.beliefs.noise_bound)
print(f"\nAnswers that the declared bounds exclude, at the fitted coefficients: {outside:.1%}.")

# A rehearsal: a seed instead of protective noise, and people who answered long ago and were not paid.
table = {name: survey[name] for name in names}
reports = pa.table({"player": [f"p-{i:04d}" for i in range(players)], **table, "affair": answers})
plans = [tf.design(study, players=players, epsilon=epsilon, score_weight=1) for epsilon in LEVELS]
releases = [tf.settle(plan, reports, seed=1).release for plan in plans]
plain = np.linalg.lstsq(np.column_stack([np.ones(players), survey[names]]), answers, rcond=None)[0]
print("\nThe regression at three levels of privacy, one draw of noise each, with 95% intervals")
print(f"{'effect':<15}{'least squares':>14}" + "".join(f"{f'ε = {level}':>25}" for level in LEVELS))
for i, value in enumerate(plain):
    private = [release.coefficients[i] for release in releases]
    cells = [f"{c.value:.3f} ({c.low:.2f} to {c.high:.2f})" for c in private]
    print(f"{private[0].name:<15}{value:>14.3f}" + "".join(f"{cell:>25}" for cell in cells))
print(f"\n{'promised':<29}" + "".join(f"{f'ε = {level}':>25}" for level in LEVELS))
for what, group, field in (("largest lie that pays", "truthfulness", "lie"), ("error", "accuracy", "rmse")):
    promises = [getattr(getattr(plan.guarantees, group), field) for plan in plans]
    print(f"{what:<29}" + "".join(f"{'no promise' if p is None else f'{p:.2f}':>25}" for p in promises))

print("\nThe declarations that were tried, this one last, and what the data say")
print(f"{'':<69}{'least eigenvalue':>17}{'norm of θ':>14}")
print(f"{'answer':<8}{'features':<61}{'declared':>9}{'data':>8}{'at most':>9}{'data':>5}")
for answer, columns, least, signal in TRIED:
    tried = declared(answer, columns, least, signal)
    X, y, theta = fit(tried, time if answer == "time" else answers)
    smallest, norm = np.linalg.eigvalsh(X.T @ X / players)[0], np.linalg.norm(theta)
    print(f"{answer:<8}{', '.join(columns):<61}{least:>9}{smallest:>8.4f}{signal:>9}{norm:>5.2f}")
