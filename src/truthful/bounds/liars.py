"""How far an α share of liars can move a prediction. Liars choose their reports, never their features.

Who lies is decided by privacy costs, which may depend on a player's own features and answer; a player believes of each
of the others that she lies with probability at most α, independently of the rest (the paper's lemma on the expected
share of misreports). What the liars report may be agreed between all of them.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from truthful.bounds.setting import Model, Numbers
from truthful.check import Floats


def expected_pull(model: Model, alpha: Numbers) -> Floats:
    """sup over the features x of E[|xᵀΣ⁻¹x'|·1(x' lies)]: liars move Σ⁻¹Xᵀy/m, along x, by 2Y times this on average.

    Each lie changes a report by at most 2Y. A liar's features are still drawn from the design, so the worst liars are
    the α share of the design with the greatest weight |xᵀΣ⁻¹x'|. On the ball that weight is (d+2)|t|, t having the
    density C(1−t²)^((d−1)/2): with P(|t| > c) = α it adds up to (d+2)·2C(1−c²)^((d+1)/2)/(d+1). For other designs
    |xᵀΣ⁻¹x'| ≤ leverage, and E[(xᵀΣ⁻¹x')²] = xᵀΣ⁻¹x ≤ leverage, so it is at most min(α·leverage, √(α·leverage)).
    """
    alpha = np.asarray(alpha, dtype=np.float64)
    if not model.ball:
        most = alpha * model.leverage if math.isfinite(model.leverage) else np.where(alpha > 0, np.inf, 0.0)
        return np.minimum(most, np.sqrt(most))
    d = model.dimension
    C = math.exp(math.lgamma(d / 2 + 1) - math.lgamma((d + 1) / 2)) / math.sqrt(math.pi)
    # 1 − t² ~ Beta((d+1)/2, 1/2)
    beyond = special.betaincinv((d + 1) / 2, 0.5, alpha)
    return np.asarray((d + 2) * 2 * C / (d + 1) * beyond ** ((d + 1) / 2))


def pull(model: Model, alpha: Numbers) -> Floats:
    """sup of ‖Σ⁻¹·Σ_j x_j/n‖ over any αn of the players: α·sup‖Σ⁻¹x‖. Liars who know everything move θ̂ by 2Y this."""
    if not math.isfinite(model.reach):
        return np.full(np.shape(alpha), np.inf)
    return np.asarray(alpha * model.reach)
