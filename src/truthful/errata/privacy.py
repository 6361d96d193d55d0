"""E1 to E9: sensitivity, noise, composition and the cost of privacy."""

from __future__ import annotations

import math

from truthful.bounds import proved, published
from truthful.bounds.setting import Setting
from truthful.errata.examples import COSTS, model
from truthful.errata.record import Erratum
from truthful.noise import L2Laplace


def errata() -> tuple[Erratum, ...]:
    """E1 to E9, computed."""
    return (
        _bound(),
        _reports(),
        _sensitivity(),
        _exponent(),
        _hessian(),
        _noise(),
        _split(),
        _cost(),
        _level(),
    )


def _setting(B: float, M: float, gamma: float) -> Setting:
    """One feature; everything but B, M and γ is irrelevant to what is computed here."""
    return Setting(model=model(1, B, M), costs=COSTS, n=1.0, epsilon=1.0, alpha=0.0, gamma=gamma)


def _ridge(gram: float, cross: float, gamma: float) -> float:
    """The ridge estimate of one coefficient."""
    return cross / (gamma + gram)


def _bound() -> Erratum:
    gamma, y = 100.0, 0.1
    return Erratum(
        number="E1",
        title="B for √B",
        where="Section 2.1, and every constant with a B in it",
        claim="‖θ‖² ≤ B implies |θ·x| ≤ B and |y| ≤ B + M, so that the sensitivity of ridge regression is "
        "(4B+2M)/γ.",
        fact="|θ·x| ≤ √B and |y| ≤ √B + M. For B < 1 the sensitivity is understated, and privacy fails.",
        because="‖θ‖ ≤ √B, not B. The two agree only at B = 1.",
        example="d = 1, B = 0.01, M = 0, γ = 100, one player at x = 1: y = 0.1 becomes y = −0.1.",
        meaning="change of the ridge estimate",
        published=float(published.sensitivity(_setting(B=y**2, M=0.0, gamma=gamma))),
        correct=_ridge(1.0, y, gamma) - _ridge(1.0, -y, gamma),
        test="test_e1_for_b_below_1_one_record_moves_ridge_five_times_as_far_as_published",
    )


def _reports() -> Erratum:
    gamma, report = 100.0, 1e9
    return Erratum(
        number="E2",
        title="Reports without bounds",
        where="Section 2.1 and Algorithm 2",
        claim="Players may report any ŷ; the sensitivity of ridge regression is (4B+2M)/γ.",
        fact="The sensitivity is infinite unless reports are clipped to [−Y, Y], Y = √B + M.",
        because="The bound is that of true responses, and a report need not be one. Ridge regression is "
        "linear in it.",
        example="d = 1, B = M = 1, γ = 100, one player at x = 1: the report 0 becomes 10⁹.",
        meaning="change of the ridge estimate",
        published=float(published.sensitivity(_setting(B=1.0, M=1.0, gamma=gamma))),
        correct=_ridge(1.0, report, gamma),
        test="test_e2_one_unclipped_report_moves_ridge_without_limit",
    )


def _sensitivity() -> Erratum:
    n, gamma, Y = 10**6, 1e3, 2.0
    x = math.sqrt(gamma / (3 * n))
    before = _ridge(n * x * x, n * x * Y, gamma)
    after = _ridge((n - 1) * x * x + 1, (n - 1) * x * Y - Y, gamma)
    change, claimed = abs(after - before), float(published.sensitivity(_setting(B=1.0, M=1.0, gamma=gamma)))
    return Erratum(
        number="E3",
        title="Sensitivity of ridge regression",
        where="Lemma 6 (sensitivity), in the proof of Theorem 2",
        claim='The gradient of the change in loss when one record is replaced is at most 4(2B+M) "for an arbitrary '
        'θ", so one record moves the ridge estimate by at most (4B+2M)/γ.',
        fact=f"It can move {change / claimed:.1f} times as far here, and the ratio grows like √(n/γ). With "
        "minimisation over ‖θ‖ ≤ √B instead, (3√B+2M)/γ holds.",
        because="|θ·x| ≤ √B is used of the θ that minimises, but nothing keeps that one in the ball: its "
        "norm is only known to be at most Y√(n/γ)/2. Squared loss has no Lipschitz constant.",
        example="d = 1, B = M = 1, n = 10⁶, γ = 1,000, all at x = √(γ/3n), y = 2; one record becomes (1, "
        "−2).",
        meaning="change of the ridge estimate",
        published=claimed,
        correct=change,
        test="test_e3_one_record_moves_ridge_more_than_three_times_as_far_as_published",
    )


def _exponent() -> Erratum:
    s = _setting(B=1.0, M=1.0, gamma=100.0).at(epsilon=2.0)
    apart = published.sensitivity(s)
    return Erratum(
        number="E4",
        title="8B+4M in the privacy proof",
        where="Proof of Theorem 2 (privacy)",
        claim="The ratio of densities is exp(γε/(8B+4M)·(‖v̂′‖−‖v̂‖)).",
        fact="4B+2M, as in the definition of the noise and in the proof's last line.",
        because="A slip: with 8B+4M in the density the privacy loss would be half of what the proof "
        "concludes.",
        example="ε = 1, B = M = 1, two estimates as far apart as the claimed sensitivity (4B+2M)/γ.",
        meaning="largest log ratio of densities",
        published=float(s.gamma / (8 + 4) * apart),
        correct=float(apart / published.noise_scale(s)),
        test="test_e4_the_density_ratio_reaches_epsilon_and_not_half_of_it",
    )


def _hessian() -> Erratum:
    X, gamma = [[1.0], [1.0]], 1.0
    return Erratum(
        number="E5",
        title="Hessian of the ridge loss",
        where="Lemma 13 (strong convexity), Appendix E",
        claim="The Hessian of Σ(y−θ·x)² + γ‖θ‖² is Σxxᵀ + 2γI.",
        fact="It is 2Σxxᵀ + 2γI. The lemma, 2γ-strong convexity, is right.",
        because="The second derivatives above it have the factor 2, and it is lost on the way to the matrix.",
        example="d = 1, two players at x = 1, γ = 1.",
        meaning="second derivative of the loss",
        published=float(published.hessian(X, gamma)[0, 0]),
        correct=float(proved.hessian(X, gamma)[0, 0]),
        test="test_e5_finite_differences_give_the_hessian_with_the_factor_two",
    )


def _noise() -> Erratum:
    d = 5
    return Erratum(
        number="E6",
        title="Moments of the noise",
        where="Lemma 9 (noise), and from there Theorem 4 (accuracy)",
        claim="Noise with density ∝ exp(−‖v‖/s) has E‖v‖ = s and E‖v‖² = 2s², whatever d.",
        fact="E‖v‖ = d·s and E‖v‖² = d(d+1)s².",
        because="‖v‖ has the density r^(d−1)·exp(−r/s), which is Gamma(d, s). The paper's moments are "
        "those of d = 1.",
        example="d = 5, s = 1.",
        meaning="E‖v‖²",
        published=float(published.noise_moments(d, 1.0)[1]),
        correct=L2Laplace(d, 1.0).mean_square_norm,
        test="test_e6_the_mean_square_norm_of_the_noise_grows_with_the_dimension",
    )


def _split() -> Erratum:
    even, uneven = 0.5, 0.9
    return Erratum(
        number="E7",
        title="An even split of privacy",
        where="Algorithm 2 and Theorem 2 (privacy)",
        claim="The published estimate and the peers' estimates are each made at ε, 2ε in all.",
        fact="True and wasteful: at the same total the published estimate can have most of it.",
        because="Its noise is what accuracy pays for, with variance ∝ 1/ε². Noise in the peers' estimates "
        "has mean zero and changes no expected payment.",
        example="Total privacy 1, of which the published estimate has ½ (published) or 0.9 (correct).",
        meaning="noise variance of the published estimate, in units of what all of the privacy would give",
        published=even**-2,
        correct=uneven**-2,
        test="test_e7_an_uneven_split_has_less_than_a_third_of_the_noise_at_the_same_privacy",
    )


def _cost() -> Erratum:
    epsilon = 0.1
    return Erratum(
        number="E8",
        title="Privacy cost at the wrong level",
        where="Proofs of Theorems 3 and 5 (truthfulness, individual rationality)",
        claim="A player of cost c loses at most c·ε² in privacy.",
        fact="At most 4c·ε².",
        because="Assumption 1 charges c times the square of the level of the mechanism, and that is 2ε by "
        "Theorem 2.",
        example="ε = 0.1, a player with c = 1.",
        meaning="bound on the privacy cost",
        published=epsilon**2,
        correct=(2 * epsilon) ** 2,
        test="test_e8_the_level_that_is_charged_for_is_twice_the_papers_epsilon",
    )


def _level() -> Erratum:
    epsilon = 0.1
    loss = expected_log_ratio(epsilon)
    return Erratum(
        number="E9",
        title="A difference of costs, not a cost",
        where="Appendix D, Lemma 12 (composition) and the paragraph after it",
        claim="The composition lemma motivates f(c, ε) ≤ c·ε², where f is a quarter of the expected "
        "privacy cost.",
        fact="The lemma bounds what a lie changes in the cost. The cost itself, which participation has "
        "to pay for, is of order c·ε: in the appendix's own model the expected log ratio is "
        f"{loss / epsilon:.3f}·ε here.",
        because="For Laplace noise the log ratio of densities is ±ε for nearly every output; only "
        "differences of its expectations are of order ε².",
        example="One coefficient released with Laplace noise at ε = 0.1, c = 1, a player at the end of "
        "the range.",
        meaning="a quarter of the expected privacy cost",
        published=epsilon**2,
        correct=loss / 4,
        test="test_e9_the_expected_log_ratio_of_laplace_noise_is_of_order_epsilon",
    )


def expected_log_ratio(epsilon: float) -> float:
    """E ln max p(o|y′)/p(o|y″) for Laplace noise, the true value being an end of the range.

    In units of the noise scale the range is [0, ε] and the truth is 0. Beyond the range the ratio is e^ε, with
    probability (1 + e^−ε)/2; inside, at u, ln max = max(u, ε−u), with density e^−u/2:

        ∫₀^{ε/2}(ε−u)e^−u du + ∫_{ε/2}^ε u·e^−u du = ε − 1 + 2e^(−ε/2) − (1+ε)e^−ε.
    """
    inside = epsilon - 1 + 2 * math.exp(-epsilon / 2) - (1 + epsilon) * math.exp(-epsilon)
    return epsilon * (1 + math.exp(-epsilon)) / 2 + inside / 2
