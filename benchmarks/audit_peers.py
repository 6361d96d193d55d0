"""Other libraries' private regressions through the same black box: reports in, coefficients out, what ε is shown.

    python -m venv peers
    peers/bin/pip install . "diffprivlib==0.6.6" "scikit-learn==1.6.1" "opendp==0.16.0" "privacy-estimates==0.1.0.post1"
    peers/bin/python benchmarks/audit_peers.py

The peers need an environment of their own: diffprivlib does not import with scikit-learn 1.9. Every line is one claim
(replace one record, the library's own bounds declared) and what an outsider shows at the confidence 1 − 1e-6, by our
auditor and, from the same counts, by privacy-estimates (its exact intervals; its joint ones take minutes a line).
A figure above the claim refutes it. OpenDP cannot be seeded, the others are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from truthful.auditor import Product
from truthful.auditor.noise_tests import RISK, attack
from truthful.beliefs import Beliefs, UniformBall, UniformNoise
from truthful.check import Floats
from truthful.lattice import SeededBits
from truthful.one_release import OneRelease

warnings.simplefilter("ignore")  # the peers' own

from diffprivlib.models import LinearRegression  # noqa: E402
from opendp import prelude as dp  # noqa: E402
from privacy_estimates import AttackResults, compute_eps_lo  # noqa: E402

EPSILON = 1.0
DRAWS = 4_000
Data = tuple[Floats, Floats]
Fit = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True)
class Case:
    """One claim under attack: how a release is made, and two neighbours."""

    library: str
    what: str
    fit: Fit
    one: Data
    other: Data


def diffprivlib(seed: int, fit_intercept: bool, low: float) -> Fit:
    state = np.random.RandomState(seed)

    def fit(X: Floats, y: Floats) -> Floats:
        model = LinearRegression(
            epsilon=EPSILON,
            bounds_X=(low, 1),
            bounds_y=(-1, 1),
            fit_intercept=fit_intercept,
            random_state=state,
        ).fit(X, y)
        return np.array([model.coef_[0], *([model.intercept_] if fit_intercept else [])])

    return fit


def opendp() -> Fit:
    dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")
    # Replacing a record is a symmetric distance of 2, and the claim is inverse to the scale.
    model = dp.sklearn.linear_model.LinearRegression(
        dp.max_divergence(), x_bounds=[(-1, 1)], y_bounds=(-1, 1), scale=4.0 / EPSILON
    )
    assert model.measurement.map(2) == EPSILON

    def fit(X: Floats, y: Floats) -> Floats:
        line = model.fit(X, y)
        return np.array([line.coef_[0], line.intercept_])

    return fit


def ours(seed: int) -> Fit:
    bits, product = SeededBits(seed), Product()
    beliefs = Beliefs(1, UniformBall(0.5), UniformNoise(0.5))
    mechanism = OneRelease(
        epsilon=EPSILON,
        base_payment=1.0,
        score_weight=0.1,
        clip=0.5,
        estimator="known-design",
        design=np.eye(1) / 3,
    )

    def fit(X: Floats, y: Floats) -> Floats:
        sums = product.statistics(X, y, mechanism, beliefs)
        return product.release(sums, mechanism, beliefs, product.answer(bits)).theta

    return fit


def cases() -> Iterator[Case]:
    """Four people; the last one's record is replaced."""
    X, y = np.array([[1.0], [-1.0], [1.0], [1.0]]), np.array([1.0, 1.0, -1.0, 1.0])
    flipped, loud = np.array([1.0, 1.0, -1.0, -1.0]), np.array([1.0, 1.0, -1.0, 1e7])
    small = np.full((4, 1), 0.01)
    large = np.array([[0.01], [0.01], [0.01], [1.0]])
    yield Case("truthful", "an answer flipped", ours(1), (X, y), (X, flipped))
    yield Case("truthful", "an answer of 1e7", ours(2), (X, y), (X, loud))
    yield Case("diffprivlib", "an answer flipped", diffprivlib(3, True, -1), (X, y), (X, flipped))
    yield Case("diffprivlib", "an answer of 1e7", diffprivlib(4, True, -1), (X, y), (X, loud))
    yield Case(
        "diffprivlib, no intercept", "an answer flipped", diffprivlib(5, False, -1), (X, y), (X, flipped)
    )
    yield Case("diffprivlib, no intercept", "an answer of 1e7", diffprivlib(6, False, -1), (X, y), (X, loud))
    zeros = np.zeros(4)
    yield Case(
        "diffprivlib, no intercept, features in [0, 1]",
        "a feature from 0.01 to 1",
        diffprivlib(7, False, 0),
        (small, zeros),
        (large, zeros),
    )
    yield Case("OpenDP", "an answer flipped", opendp(), (X, y), (X, flipped))
    yield Case("OpenDP", "an answer of 1e7", opendp(), (X, y), (X, loud))


def sample(fit: Fit, data: Data) -> Floats:
    """Shape (draws, numbers released, 1), as the auditor wants estimates."""
    return np.array([fit(*data) for _ in range(DRAWS)])[:, :, None]


def main() -> None:
    print(
        f"Claimed: ε = {EPSILON:g}. Shown at confidence 1 − {RISK:g}, from {DRAWS // 2:,} draws of each neighbour.\n"
    )
    print("| library | one record replaced | our auditor | privacy-estimates |\n|---|---|---|---|")
    for case in cases():
        bound = attack(sample(case.fit, case.one), sample(case.fit, case.other))
        counts = AttackResults(
            FN=bound.draws - bound.hits, FP=bound.other_hits, TN=bound.draws - bound.other_hits, TP=bound.hits
        )
        shown = max(0.0, bound.epsilon), compute_eps_lo(counts, 0.0, RISK, "beta")
        print(
            f"| {case.library} | {case.what} | {' | '.join(f'{value:.2f}' for value in shown)} |", flush=True
        )


if __name__ == "__main__":
    main()
