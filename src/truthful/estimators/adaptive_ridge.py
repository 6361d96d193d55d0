"""Adaptive ridge: as much penalty as the noise of a release asks for. It follows from public numbers, and costs no ε.

Known are b̃ = Mθ + N, the variance σ² of an entry of N, and G = Σ xxᵀ. If θ explains the share R² of squared answers
of at most 1, all directions alike, θ has the covariance (R²n/d)·G⁻¹, and the linear estimate of least mean square error
is (MᵀM + λG)⁻¹Mᵀb̃ with λ = dσ²/(R²n): least squares where there is no noise, and 0 where there is nothing else.

Whatever M and ε, noise adds at most R²/4 to the mean square error of predictions: with G = I and singular values m it
is Σ m²σ²/(m² + λ)² ≤ dσ²/4λ, divided by n. Without a penalty there is no such bound. (Wang, "Revisiting differentially
private linear regression", 2018, spends a third of ε on the least eigenvalue, and takes λ from that.)
"""

from __future__ import annotations

import numpy as np

from truthful.check import Floats


def adaptive_ridge(
    matrix: Floats, vector: Floats, features: Floats, count: int, noise_variance: float, signal: float
) -> Floats:
    """θ̂ from M, b̃ and G of so many people; signal is R."""
    penalty = len(vector) * noise_variance / (signal**2 * count)
    solved = np.linalg.solve(matrix.T @ matrix + penalty * features, matrix.T @ vector)
    return np.asarray(solved, dtype=np.float64)
