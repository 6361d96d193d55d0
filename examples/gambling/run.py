"""What is promised when nothing is known of the features: `python examples/gambling/run.py`."""

from pathlib import Path

import truthful as tf

study = tf.Study.load(Path(__file__).with_name("study.toml"))
try:
    tf.design(study, players=20_000, budget=5_000)
except tf.TruthfulError as problem:
    print(f"{type(problem).__name__}: {str(problem).partition('.')[0]}.")

plan = tf.design(study, players=20_000, epsilon=0.5, score_weight=0.1)
promised = plan.guarantees
print(f"privacy       ε = {promised.privacy.epsilon}")
for name, number in (("truthfulness", promised.truthfulness.lie), ("accuracy", promised.accuracy.rmse)):
    print(f"{name:<13} {'no promise' if number is None else number}")
print(f"budget        at most {promised.budget.cap:,.2f} USD")
