"""E10 to E15 and E20: the spectrum of XᵀX, and how far estimates are from the truth."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar

from truthful.bounds import proved, published
from truthful.bounds.liars import expected_pull
from truthful.bounds.setting import Setting
from truthful.errata.examples import COSTS, corollary, model, ridge_error, ridge_moments
from truthful.errata.record import Erratum, signed
from truthful.estimators.shrinkage import mean_inverse, shrinkage_factor


def errata() -> tuple[Erratum, ...]:
    """E10 to E15 and E20, computed."""
    return (_weyl(), _vacuous(), _unbiased(), _trace(), _noise_error(), _liars(), _bias())


def _weyl() -> Erratum:
    mu = 8 / 4
    X = np.array([[1.0, 0.0]] * 3 + [[0.0, 0.5]] * 2 + [[0.0, 0.0]] * 3)
    gram = X.T @ X
    least, greatest = np.linalg.eigvalsh(gram).tolist()
    return Erratum(
        number="E10",
        title="A contradiction that is none",
        where="Proof of Theorem 7 (spectrum), Appendix C",
        claim='With μ = n/(d+2), λ_min(XᵀX) < (1−ξ)μ would imply 0 ≥ λ_min(XᵀX) − μ, "a contradiction"; '
        "and ‖XᵀX − μI‖ = ‖XᵀX‖ − μ.",
        fact=f"The inequality is true of such matrices (here 0 ≥ {signed(least - mu)}), and the equation "
        "is not. The conclusion λ_min ≥ (1−ξ)μ is right.",
        because="Weyl's inequality |λ_min(XᵀX) − μ| ≤ ‖XᵀX − μI‖ gives both ends at once. ‖XᵀX − μI‖ is "
        "the larger of λ_max − μ and μ − λ_min.",
        example="d = 2, n = 8, ξ = ½; three players at (1, 0), two at (0, ½), three at 0: XᵀX = diag(3, "
        "½), μ = 2.",
        meaning="‖XᵀX − μI‖",
        published=greatest - mu,
        correct=max(greatest - mu, mu - least),
        test="test_e10_a_matrix_below_the_spectrum_bound_contradicts_weyl_and_not_the_papers_inequality",
    )


def _vacuous() -> Erratum:
    s = Setting(model=model(1), costs=COSTS, n=100.0, epsilon=1.0, alpha=0.0, xi=0.5)
    return Erratum(
        number="E11",
        title="Spectrum bound at d = 1",
        where="Theorem 7 (spectrum), and every theorem that uses it",
        claim="The spectrum of XᵀX is within ξ of its mean with probability 1 − d^(−t²) if n ≥ "
        "C(t/ξ)²(d+2)·log d.",
        fact="At d = 1 the probability is 1 − 1 = 0 for every n, and the corollary's t divides by log d = "
        "0. For d ≥ 2 the absolute constant C is not known. P(λ_min(XᵀX) ≤ (1−ξ)μ) ≤ d·exp(−ξ²μ/2), μ = "
        "n/(d+2), holds for all d.",
        because="The cited corollary is for matrices, d ≥ 2; the matrix Chernoff bound has explicit "
        "constants.",
        example="d = 1, n = 100, ξ = ½.",
        meaning="bound on the probability that λ_min(XᵀX) ≤ (1−ξ)μ",
        published=float(published.spectrum(s)),
        correct=float(proved.spectrum(s)),
        test="test_e11_the_published_spectrum_bound_is_vacuous_at_one_feature_and_chernoffs_is_not",
    )


def _unbiased() -> Erratum:
    n, d = 10**4, 5
    s = Setting(model=model(d), costs=COSTS, n=float(n), epsilon=1.0, alpha=0.0)

    def error(log_gamma: float) -> float:
        gamma = math.exp(log_gamma)
        return ridge_error(n, gamma, d, scale=float(published.noise_scale(s.at(gamma=gamma))))

    best = minimize_scalar(error, bounds=(math.log(10), math.log(n)), method="bounded")
    return Erratum(
        number="E12",
        title='"Necessarily biased"',
        where="Abstract and Section 1",
        claim="Differentially private computation of a linear model necessarily produces a biased "
        "estimation.",
        fact="Not in the paper's own model: (d+2)(Xᵀy/n + v) is private and unbiased, and far more accurate.",
        because="x has the known law of the unit ball, so E[xxᵀ] = I/(d+2) need not be estimated, and "
        "Xᵀy/n has the sensitivity 2Y/n.",
        example="d = 5, n = 10,000, B = M = 1, ‖θ‖ = 1, uniform response noise, all truthful, total "
        "privacy 1 evenly split; ridge at its best γ with the published noise.",
        meaning="mean squared error E‖θ̂ − θ‖²",
        published=float(best.fun),
        correct=float(proved.accuracy(s)),
        test="test_e12_an_unbiased_private_estimate_is_twenty_times_as_accurate_as_ridge",
    )


def _trace() -> Erratum:
    n, d, xi = 1000, 5, 0.5
    s = Setting(model=model(d), costs=COSTS, n=float(n), epsilon=1.0, alpha=0.0, xi=xi)
    return Erratum(
        number="E13",
        title="Trace for norm",
        where="Lemma 2 (accuracy of least squares) and Lemma 10 (ridge), proof of Theorem 4",
        claim="tr (XᵀX)⁻¹ is bounded by ‖(XᵀX)⁻¹‖, so that least squares has E‖θ̂−θ‖² ≤ σ²(d+2)/((1−ξ)n); "
        "and tr Cov = ‖Cov‖², so that the variance of ridge is of order 1/n².",
        fact="A factor d is missing, σ²d(d+2)/((1−ξ)n), and the variance of ridge is of order d²σ²/n.",
        because="A trace is the sum of all d eigenvalues, each of order 1/n: neither the largest nor its "
        "square.",
        example="Least squares, d = 5, n = 1,000, ξ = ½, σ² = ⅓.",
        meaning="mean squared error E‖θ̂ − θ‖² (published: its bound)",
        published=float(published.least_squares_error(s)),
        # γ → 0 in E tr(γI + XᵀX)⁻¹.
        correct=s.model.noise_variance * d * mean_inverse(n, 1e-6, d),
        test="test_e13_least_squares_errs_more_than_its_published_bound",
    )


def _noise_error() -> Erratum:
    n, d = 1000, 5
    s = corollary(n, d)
    variance = ridge_moments(n, float(s.gamma), d)[1]
    return Erratum(
        number="E14",
        title="Response noise that never averages out",
        where="Lemma 10 (ridge), proof of Theorem 4",
        claim="E‖(γI+XᵀX)⁻¹Xᵀz‖ ≤ Mn/(γ+(1−ξ)n/(d+2)), which does not fall with n.",
        fact="At most σ√(nd/(d+2))/(γ+(1−ξ)n/(d+2)), of order 1/√n.",
        because="‖Xᵀz‖ ≤ Mn forgets that z has mean zero: E‖Xᵀz‖² = σ²·E tr(XᵀX) = σ²nd/(d+2). This is "
        "why the proof of the corollary arrives at n^(−δ/2) (E16).",
        example="d = 5, n = 1,000, B = M = 1, uniform z, γ = n^(7/8), ξ = ½.",
        meaning="E‖(γI+XᵀX)⁻¹Xᵀz‖: the published bound, and the root mean square",
        published=float(published.noise_error(s)),
        correct=math.sqrt(s.model.noise_variance * variance),
        test="test_e14_response_noise_averages_out_and_the_published_bound_does_not",
    )


def _liars() -> Erratum:
    n, d, alpha = 10**4, 2, 0.1
    s = corollary(n, d).at(alpha=alpha)
    mu = n / (d + 2)
    # Σ|e·x| over the αn players furthest along e is n·E[|e·x| of the top α], and Σ⁻¹ = (d+2)I in the bound used.
    furthest = n * float(expected_pull(s.model, alpha)) / (d + 2)
    return Erratum(
        number="E15",
        title="Liars cannot move features",
        where="Lemma 8 (k misreports), from there Theorems 3 to 6",
        claim="k misreports move the ridge estimate by at most k(4B+2M)/γ.",
        fact="By at most 2Yk/(γ+λ_min(XᵀX)), Y = √B + M, which is of order k/n instead of k/γ.",
        because="Features are verified: a lie changes Xᵀy by at most 2Y‖x‖ and leaves XᵀX as it is. The "
        "lemma also inherits E1 and E3.",
        example="d = 2, n = 10,000, B = M = 1, γ = n^(7/8); the tenth of players furthest along one "
        "direction turn y = ±Y into ∓Y.",
        meaning="change of the ridge estimate",
        published=float(published.liars(s)),
        correct=2 * s.model.response_bound * furthest / (float(s.gamma) + mu),
        test="test_e15_the_worst_tenth_of_liars_moves_ridge_a_third_as_far_as_published",
    )


def _bias() -> Erratum:
    n, d = 1000, 2
    s = corollary(n, d)
    return Erratum(
        number="E20",
        title="Bias at n players and a realised X",
        where="Proof of Theorem 3 (truthfulness)",
        claim="What a player expects of her peers differs from what she believes by −γ(γI+XᵀX)⁻¹θ, at "
        "most γB/(γ+(1−ξ)n/(d+2)) with high probability over X.",
        fact="Her expectation is over X too, and her peers are n/2 players: it is (1−γκ)·q exactly, κ = E "
        "tr(γI+X_mᵀX_m)⁻¹/d with m = n/2. For ξ ≤ ½ the published bound is below the truth.",
        because="κ ≥ 1/(γ+m/(d+2)) by Jensen's inequality, and (1−ξ)n ≥ n/2 = m for ξ ≤ ½.",
        example="d = 2, n = 1,000, B = M = 1, γ = n^(7/8), ξ = ½.",
        meaning="relative bias of the peers' expected prediction",
        published=float(published.ridge_bias(s)),
        correct=1 - shrinkage_factor(n // 2, float(s.gamma), d),
        test="test_e20_the_bias_of_half_the_players_exceeds_the_published_bound",
    )
