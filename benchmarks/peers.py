"""Other private regressions on the same data at the same ε: how far off, how long. A section of docs/benchmarks.md.

    make bench

The peers need an environment of their own: diffprivlib does not import with scikit-learn 1.9. Their claims are what
they state; what an outsider can show of them is in docs/auditing.md. OpenDP's regression has one feature only.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version

import numpy as np

from truthful.check import Floats
from truthful.sklearn import PrivateRegressor

warnings.simplefilter("ignore")  # the peers' own

from diffprivlib.models import LinearRegression  # noqa: E402
from opendp import prelude as dp  # noqa: E402

EPSILON = 1.0
RUNS = 40
Fit = Callable[[Floats, Floats], Floats]


def ours(X: Floats, y: Floats) -> Floats:
    model = PrivateRegressor(epsilon=EPSILON, feature_norm=X.shape[1] ** 0.5, response_bound=1.0)
    return np.array([model.fit(X, y).intercept_, *model.coef_])


def theirs(X: Floats, y: Floats) -> Floats:
    model = LinearRegression(epsilon=EPSILON, bounds_X=(-1, 1), bounds_y=(-1, 1)).fit(X, y)
    return np.array([model.intercept_, *model.coef_])


def theil_sen(X: Floats, y: Floats) -> Floats:
    dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")
    # Replacing a record is a symmetric distance of 2, and the claim is inverse to the scale.
    model = dp.sklearn.linear_model.LinearRegression(
        dp.max_divergence(), x_bounds=[(-1, 1)], y_bounds=(-1, 1), scale=4.0 / EPSILON
    ).fit(X, y)
    return np.array([model.intercept_, model.coef_[0]])


def without_privacy(X: Floats, y: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(np.column_stack([np.ones(len(X)), X]), y)[0])


LIBRARIES: dict[str, Fit] = {
    "`truthful` (observed features, payments too)": ours,
    f"diffprivlib {version('diffprivlib')}": theirs,
    f"OpenDP {version('opendp')}": theil_sen,
    "least squares, no privacy": without_privacy,
}


def data(rng: np.random.Generator, n: int, d: int) -> tuple[Floats, Floats, Floats]:
    X = rng.uniform(-1, 1, size=(n, d))
    theta = np.array([0.1, *(rng.normal(size=d) * 0.3 / d**0.5)])
    y = np.clip(theta[0] + X @ theta[1:] + rng.normal(0, 0.2, n), -1, 1)
    return X, y, theta


def compared(n: int, d: int) -> Iterator[str]:
    fits = {name: fit for name, fit in LIBRARIES.items() if d == 1 or fit is not theil_sen}
    errors: dict[str, list[float]] = {name: [] for name in fits}
    seconds: dict[str, list[float]] = {name: [] for name in fits}
    rng = np.random.default_rng(d)
    for run in range(RUNS + 1):
        X, y, theta = data(rng, n, d)
        for name, fit in fits.items():
            started = time.perf_counter()
            found = fit(X, y)
            if run:  # the first run loads compiled code
                seconds[name].append(time.perf_counter() - started)
                errors[name].append(float(np.linalg.norm(found - theta)))
    for name in fits:
        yield (
            f"| {n:,} × {d} | {name} | {statistics.median(errors[name]):.2g} | "
            f"{statistics.median(seconds[name]) * 1000:.0f} ms |"
        )


# Public data: what is left of R²


EPSILONS = (0.1, 0.3, 1.0, 3.0)
SEEDS = 30
DELTA, FAILURE = 1e-6, 0.05
Predict = Callable[[Floats, Floats, float, int], Floats]


def data_sets() -> Iterator[tuple[str, Floats, Floats]]:
    """Features and responses mapped from their ranges, which are taken as declared, to [−1, 1]."""
    from sklearn.datasets import load_diabetes, make_friedman1
    from statsmodels import datasets

    X, y = load_diabetes(return_X_y=True)
    yield "diabetes", to_unit(X), to_unit(y)
    modes = datasets.modechoice.load_pandas().data
    yield "modechoice", to_unit(modes[["ttme", "invt", "hinc"]].to_numpy()), to_unit(modes["gc"].to_numpy())
    voters = datasets.anes96.load_pandas()
    yield "anes96", to_unit(voters.exog.to_numpy()), to_unit(voters.endog.to_numpy())
    X, y = make_friedman1(5000, n_features=5, noise=1.0, random_state=0)
    yield "friedman1", to_unit(X), to_unit(y)
    affairs = datasets.fair.load_pandas().data
    yield "fair", to_unit(affairs.drop(columns="affairs").to_numpy()), to_unit(affairs["affairs"].to_numpy())


def to_unit(a: Floats) -> Floats:
    low, high = a.min(axis=0), a.max(axis=0)
    return np.asarray(2 * (a - low) / (high - low) - 1)


def regressor(protects: str, ridge: bool) -> Predict:
    def predict(X: Floats, y: Floats, epsilon: float, seed: int) -> Floats:
        model = PrivateRegressor(
            epsilon=epsilon,
            protects=protects,
            feature_norm=X.shape[1] ** 0.5,
            response_bound=1.0,
            ridge=ridge,
            score_weight=0.0,
            random_state=seed,
        )
        return model.fit(X, y).predict(X)

    return predict


def diffprivlib_predicts(X: Floats, y: Floats, epsilon: float, seed: int) -> Floats:
    model = LinearRegression(epsilon=epsilon, bounds_X=(-1, 1), bounds_y=(-1, 1), random_state=seed)
    return np.asarray(model.fit(X, y).predict(X))


def adassp(X: Floats, y: Floats, epsilon: float, seed: int) -> Floats:
    """Algorithm 2 of Wang 2018, (ε, δ)-private; rows and responses are at most 1 long."""
    n, d = X.shape
    Z = np.column_stack([np.ones(n), X / d**0.5]) / 2**0.5
    rng, k = np.random.default_rng(seed), d + 1
    G, third, log = Z.T @ Z, epsilon / 3, np.log(6 / DELTA)
    least = max(np.linalg.eigvalsh(G)[0] + log**0.5 / third * rng.normal() - log / third, 0.0)
    penalty = max(0.0, np.sqrt(k * log * np.log(2 * k**2 / FAILURE)) / third - least)
    E = np.triu(rng.normal(size=(k, k)))
    noisy = G + log**0.5 / third * (E + np.triu(E, 1).T)
    vector = Z.T @ y + log**0.5 / third * rng.normal(size=k)
    return np.asarray(Z @ np.linalg.solve(noisy + penalty * np.eye(k), vector))


PREDICTS: dict[str, Predict] = {
    "`truthful`, answers": regressor("answers", ridge=True),
    "`truthful`, answers, no ridge": regressor("answers", ridge=False),
    "`truthful`, records": regressor("records", ridge=True),
    "`truthful`, records, no ridge": regressor("records", ridge=False),
    "AdaSSP, records, δ = 10⁻⁶": adassp,
    "diffprivlib, records": diffprivlib_predicts,
}


def explained(y: Floats, predicted: Floats) -> float:
    return 1 - float(np.mean((y - predicted) ** 2) / np.var(y))


def on_public_data() -> Iterator[str]:
    for name, X, y in data_sets():
        n, d = X.shape
        whole = np.column_stack([np.ones(n), X])
        best, zero = explained(y, whole @ np.linalg.lstsq(whole, y)[0]), explained(y, np.zeros(n))
        where = f"{name}, {n:,} × {d}; zero {shown(zero)}, least squares {shown(best)}"
        for told, predict in PREDICTS.items():
            cells = (
                statistics.median(explained(y, predict(X, y, epsilon, seed)) for seed in range(SEEDS))
                for epsilon in EPSILONS
            )
            yield f"| {where} | {told} | {' | '.join(map(shown, cells))} |"
            where = ""


def shown(value: float) -> str:
    value = round(value, 2) + 0.0  # no −0.00
    return (
        f"{value:.2f}".replace("-", "−")
        if value > -10
        else f"−{-value:,.0f}"
        if value > -1e6
        else "below −10⁶"
    )


def main() -> None:
    print("\n## Other private regressions\n")
    print(
        f"Features uniform in [−1, 1], an intercept, ε = {EPSILON:g}, {RUNS} data sets: the median distance of the "
        "coefficients (and intercept)\nfrom the true ones, and the median time, all in turn.\n"
    )
    print("| data | library | error | time |\n|---|---|---|---|")
    for n, d in ((20_000, 1), (20_000, 5), (1_000_000, 5)):
        for row in compared(n, d):
            print(row, flush=True)
    print(
        f"\nPublic data, features and responses mapped from their ranges to [−1, 1]: R² on the data themselves, the "
        f"median of {SEEDS} runs.\nPredicting the mean has R² = 0, and predicting the middle of the range what stands "
        "after *zero*.\n"
    )
    print(
        f"| data | library | {' | '.join(f'ε = {epsilon:g}' for epsilon in EPSILONS)} |\n|---|---|---|---|---|---|"
    )
    for row in on_public_data():
        print(row, flush=True)


if __name__ == "__main__":
    main()
