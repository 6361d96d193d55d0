"""The smallest study file, with answers or with records protected: `python examples/gambling/run.py`."""

from pathlib import Path

import numpy as np
import pyarrow as pa

import truthful as tf

PLAYERS = 2_000

study = tf.Study.load(Path(__file__).with_name("study.toml"))
rng = np.random.default_rng(1)
people = pa.table(  # a roster: features, no answers; invented
    {
        "age": 18 + 72 * rng.beta(1.7, 2.3, PLAYERS),
        "region": np.array(["north", "south", "east"])[rng.choice(3, PLAYERS, p=[0.5, 0.3, 0.2])],
    }
)


def refused(study, **goals):
    """The first sentence of why there is no plan."""
    try:
        tf.design(study, **goals)
    except tf.TruthfulError as problem:
        return f"{str(problem).partition('.')[0]}."


def protecting(what):
    """The same study with a section [privacy]."""
    return tf.Study.from_declaration(study.declaration() | {"privacy": {"protects": what}})


def told(promised):
    share, error = promised.truthfulness.undeterred, promised.accuracy.prediction_rmse
    no_lie = promised.truthfulness.lie is None
    print(f"  privacy       ε = {promised.privacy.epsilon:.3g}")
    print(f"  truthfulness  {'no promise' if no_lie else f'{share:.0%} of other answers are not deterred'}")
    print(
        f"  accuracy      {'no promise' if error is None else f'predictions are off by {error:.1f} of 200'}"
    )
    print(f"  budget        at most {promised.budget.cap:,.2f} USD")


print(f"As it is: {refused(study, players=PLAYERS, budget=PLAYERS)}\n")

print("Answers protected, planned from the roster:")
told(tf.design(protecting("answers"), roster=people, budget=PLAYERS).guarantees)

# A plan that protects records must not look at the roster, and nothing is vouched for about the features.
print(f"\nRecords protected: {refused(protecting('records'), players=PLAYERS, budget=PLAYERS)}")
print("With payments set by hand:")
told(tf.design(protecting("records"), players=PLAYERS, epsilon=0.5, score_weight=0.5).guarantees)
