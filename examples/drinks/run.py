"""How much do people drink? 2,000 people are also asked what the others say: `python examples/drinks/run.py`."""

from pathlib import Path

import numpy as np
import pyarrow as pa

import truthful as tf

PLAYERS, AVERAGE, K = 2_000, 24.0, 4 / 13

study = tf.Study.parse(Path(__file__).with_name("study.toml").read_text())  # so no ledger is kept beside it
plan = tf.design(study, players=PLAYERS, budget=2_000)
truth = plan.guarantees.truthfulness
off = plan.guarantees.accuracy.rmse
print(f"2,000 people, 2,000 USD: ε = {plan.mechanism.epsilon:.3f}, off by at most {off:.2f} units.")
print(f"No lie of {truth.lie_in_answer:.0f} units or more pays for {truth.share:.2%} of people.")


def reports(centre, rng):
    """Answers, and what people predict who expected this average before they looked at their own answer."""
    answers = np.clip(AVERAGE + 15 * rng.standard_normal(PLAYERS), 0, 100)
    own = centre + 3 * rng.standard_normal(PLAYERS)
    return pa.table({"player": np.arange(PLAYERS), "units": answers, "prediction": own + K * (answers - own)})


print("\nPublished, wherever people expect the average, which nobody declares:")
for centre in (18, 30):
    settlement = tf.settle(plan, reports(centre, np.random.default_rng(3)), seed=1)
    found = settlement.release.predictions
    averages = (found.answer, found.prediction)
    told = [f"{one.value:.1f} ± {(one.high - one.low) / 2:.1f}" for one in averages]
    print(f"  they expect {centre}: answers {told[0]}, predictions {told[1]}")

paid = {row["player"]: row for row in settlement.receipts.to_pylist()}
print("\nPeople expected more, so that low answers earned more than high ones:")
for low, high in ((0, 5), (20, 30), (50, 60)):
    amounts = [row["payment"] for row in paid.values() if low <= row["units"] <= high]
    print(f"  answers from {low:2} to {high}: {np.mean(amounts):.4f} USD on average")

verdict = tf.verify(settlement.release, settlement.receipt(7))
print(f"\nPlayer 7 was paid {verdict.paid:.6f} USD; recomputed {verdict.recomputed:.6f}: {verdict.verified}.")
