"""A conjoint study on invented athletes: `python examples/conjoint/run.py`."""

from pathlib import Path

import numpy as np

import truthful as tf
from truthful.people import invent

PLAYERS, BUDGET = 10_000, 5_000

study = tf.Study.parse(Path(__file__).with_name("study.toml").read_text())  # so no ledger is kept beside it
# We draw the offers ourselves, before anybody is asked. So they are the roster, and the plan is exact for them.
athletes = invent(study, PLAYERS, np.random.default_rng(1))
offers = athletes.reports.drop_columns([study.response.name])
plan = tf.design(study, roster=offers, budget=BUDGET)
print(
    f"{PLAYERS:,} athletes, at most {plan.guarantees.budget.cap:,.0f} USD, ε = {plan.mechanism.epsilon:.2f}."
)
print(f"Guaranteed error of predictions: {plan.guarantees.accuracy.prediction_rmse:.1f} points.")
promised = plan.guarantees.truthfulness
print(
    f"For nine people in ten no lie pays that moves an answer by more than about {promised.lie_in_answer:.0f} points "
    f"of 100, and no lie gains more than {promised.slack:.3f} USD. Of all other answers {promised.undeterred:.0%} are "
    "not deterred."
)

settlement = tf.settle(plan, athletes.reports, seed=1)  # a rehearsal; leave the seed out to protect people
truth = dict(study.raw_coefficients(athletes.theta))
print(f"\n{'effect':<18}{'estimate':>9}{'95% from':>9}{'to':>7}{'truth':>8}")
for effect in settlement.release.coefficients:
    print(
        f"{effect.name:<18}{effect.value:>9.2f}{effect.low:>9.2f}{effect.high:>7.2f}{truth[effect.name]:>8.2f}"
    )

payments = settlement.payments.column("payment").to_numpy()
print(f"\nPaid {payments.sum():,.2f} USD, from {payments.min():.2f} to {payments.max():.2f} each.")
assert tf.verify(settlement.release, settlement.receipt("p-00007")).verified
