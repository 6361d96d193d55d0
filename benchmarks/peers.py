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
    model = PrivateRegressor(epsilon=EPSILON, feature_norm=X.shape[1] ** 0.5, fit_intercept=True)
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


def main() -> None:
    print("\n## Other private regressions\n")
    print(
        f"Features uniform in [−1, 1], an intercept, ε = {EPSILON:g}, {RUNS} data sets: the median distance of the "
        "coefficients (and intercept)\nfrom the true ones, and the median time, all in turn.\n"
    )
    print("| data | library | error | time |\n|---|---|---|---|")
    for n, d in ((20_000, 1), (20_000, 5), (1_000_000, 5)):
        for shown in compared(n, d):
            print(shown, flush=True)


if __name__ == "__main__":
    main()
