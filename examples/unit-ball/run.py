"""The paper's own model on invented people: `python examples/unit-ball/run.py`."""

from pathlib import Path

import numpy as np

import truthful as tf
from truthful.people import invent

PLAYERS, BUDGET = 20_000, 5_000

study = tf.Study.parse(Path(__file__).with_name("study.toml").read_text())  # so no ledger is kept beside it
people = invent(study, PLAYERS, np.random.default_rng(1))
X = np.column_stack([people.reports.column(name).to_numpy() for name in ("x1", "x2")])
y = people.reports.column("y").to_numpy()


def error(theta: object) -> float:
    return float(np.linalg.norm(np.asarray(theta) - people.theta))


open_ = tf.truthful_regression(X, y, study.beliefs, a=1.0, b=0.1)
print(f"Algorithm 1, which is not private: off by {error(open_.theta):.3f}.")

plan = tf.design(study, roster=people.reports, budget=BUDGET, lie=0.5)  # of a roster only features are read
settlement = tf.settle(plan, people.reports, seed=1)  # a rehearsal; leave the seed out to protect people
print(
    f"One release for at most {plan.guarantees.budget.cap:,.0f} USD, ε = {plan.mechanism.epsilon:.2g}: off by "
    f"{error(settlement.release.theta):.3f}, guaranteed {plan.guarantees.accuracy.rmse:.2f} (root mean square)."
)

# The paper's mechanism: ridge regression, ε split evenly, its rule. The other numbers are the best for the same money.
ridge = tf.Mechanism(
    epsilon=0.129,
    base_payment=0.165,
    score_weight=0.487,
    estimator="ridge-free",
    regularization=499.0,
    public_share=0.5,
    rule="brier",
    payments="expected",
    design=study.second_moments,
)
private = tf.private_regression(X, y, study.beliefs, ridge, rng=np.random.default_rng(1))
print(
    f"The paper's mechanism for {BUDGET:,} USD on average, ε = {ridge.epsilon:.2g}: off by {error(private.theta):.3f}."
)
print(f"Answering 0 without asking anybody: off by {error([0, 0]):.3f}.")
