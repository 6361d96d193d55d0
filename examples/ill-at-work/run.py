"""How many people …? 2,000 people, 500 USD, yes or no: `python examples/ill-at-work/run.py`."""

from pathlib import Path

import numpy as np
import pyarrow as pa

import truthful as tf

PLAYERS, TRUE_SHARE = 2_000, 0.18

study = tf.Study.parse(Path(__file__).with_name("study.toml").read_text())  # so no ledger is kept beside it
plan = tf.design(study, players=PLAYERS, budget=500)
truth, mechanism = plan.guarantees.truthfulness, plan.share_mechanism
off = 100 * plan.guarantees.accuracy.rmse
print(f"With all of it as a bonus: ε = {mechanism.epsilon:.3f}, off by at most {off:.2f} percentage points.")
print(
    f"The truth pays for {truth.share:.2%} of people; it earns at least {truth.gain:.3f} USD more on average;"
)
print(f"yes and no pay the same if {truth.switch:.1%} of the others say yes.")
cheaper = tf.design(study, players=PLAYERS, budget=500, accuracy=0.02).share_mechanism
print(
    f"If 2 points are enough: {cheaper.flat:.3f} USD for everybody, and a bonus of {cheaper.bonus:.3f} USD at most."
)

rng = np.random.default_rng(4)
answers = np.where(rng.random(PLAYERS) < TRUE_SHARE, "yes", "no")
settlement = tf.settle(plan, pa.table({"player": np.arange(PLAYERS), "ill": answers}), seed=1)
share = settlement.release.shares[0]
print(f"\nPublished: {share.value:.1%} say yes, 95 % between {share.low:.1%} and {share.high:.1%}.")

print("\nWhat is paid if everybody tells the truth, and if all agree to say no:")
for agreed in (None, 0.0):
    said = answers if agreed is None else np.full(PLAYERS, "no")
    paid = tf.settle(plan, pa.table({"player": np.arange(PLAYERS), "ill": said}), seed=1)
    rows = paid.receipts.to_pylist()
    for answer in (1.0, 0.0):
        amounts = {row["payment"] for row in rows if row["ill"] == answer}
        if amounts:
            word = "yes" if answer else "no"
            who = "truthful" if agreed is None else "all say no"
            print(f"  {who:12} {word:4} {max(amounts):.4f} USD")

verdict = tf.verify(settlement.release, settlement.receipt(7))
print(f"\nPlayer 7 was paid {verdict.paid:.6f} USD; recomputed {verdict.recomputed:.6f}: {verdict.verified}.")
