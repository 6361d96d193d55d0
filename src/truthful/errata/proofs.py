"""E25 to E31: further statements and steps of proofs that do not hold as written."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from truthful.bounds import published
from truthful.errata.examples import corollary, model
from truthful.errata.record import Erratum, signed
from truthful.estimators.shrinkage import shrinkage_factor
from truthful.noise import L2Laplace
from truthful.scoring import RULES, binary_score


def errata() -> tuple[Erratum, ...]:
    """E25 to E31, computed."""
    return (
        _positive_score(),
        _without_privacy(),
        _expected_liars(),
        _negative_payments(),
        _cancelled_cost(),
        _small_coefficients(),
        _slips(),
    )


def _positive_score() -> Erratum:
    grid = np.linspace(0.0, 1.0, 101)
    return Erratum(
        number="E25",
        title="A Brier score is not always positive",
        where="Lemma 4 (peer prediction), Appendix A",
        claim="B(q′, q) is positive for all q, q′ in [0, 1], so payments by it are individually rational.",
        fact="B(q′, q) = 1 − 2(q′ − 2q′q + q²) lies in [−1, 1]; a player sure of 0 whose peer says 1 pays.",
        because="Adding 1 to the score would make it non-negative; the incentives, which are the lemma's "
        "point, are right.",
        example="The least of B over [0, 1]², at q′ = 1 and q = 0.",
        meaning="least payment",
        published=0.0,
        correct=float(binary_score(grid[:, None], grid[None, :]).min()),
        test="test_e25_a_player_sure_of_the_wrong_bit_is_charged",
    )


def _without_privacy() -> Erratum:
    ours = model(2, B=0.1, M=0.1)
    a, b, _ = published.nonprivate_payments(ours, 100.0)
    return Erratum(
        number="E26",
        title="Base payment without privacy",
        where="Section 3, the remark at its end",
        claim="a = b(B + 2B(B+M) + (B+M)² − 1) ensures that no payment of Algorithm 1 is negative.",
        fact=f"For small B and M, a itself is negative (here {signed(float(a / b))}·b) and so is every "
        "payment. No a ensures it, since the prediction x·θ̂ of least squares has no bound; with it "
        "clipped to ±√B‖x‖, a = b(√B + 3B) is enough.",
        because="The −1 is a slip, and |x·θ̂| ≤ B, which the formula takes for granted, is a property of "
        "θ and not of θ̂.",
        example="B = M = 0.1, both predictions in ±√B, in units of b. Published: the least payment, "
        "correct: the largest.",
        meaning="payment, per b",
        published=0.0,
        correct=float(a / b) + RULES["brier"].gain(ours.radius),
        test="test_e26_without_privacy_every_payment_of_the_remark_is_negative",
    )


def _expected_liars() -> Erratum:
    n, alpha = 20_000, 0.05
    return Erratum(
        number="E27",
        title="At most αn misreports, on average",
        where="Lemma 7 and the proof of Theorem 3 (truthfulness)",
        claim='A player believes that at most αn others misreport, "for all pairs of databases over which '
        'the expectation is taken".',
        fact="She believes that at most α(n−1) do on average, and more than αn in about half of all "
        "cases. Theorem 3 survives.",
        because="Misreports are random in number (and dependent, through θ, if costs depend on answers). "
        "The bound they enter is linear in their number, so that the mean is enough.",
        example="n = 20,000, α = 0.05, each of the others misreporting with probability α independently.",
        meaning="probability that more than αn others misreport",
        published=0.0,
        correct=float(stats.binom.sf(math.floor(alpha * n), n - 1, alpha)),
        test="test_e27_more_than_the_expected_number_of_players_lie_half_of_the_time",
    )


def _negative_payments() -> Erratum:
    n, d, q = 1000, 2, -0.5
    s = corollary(n, d)
    mean = shrinkage_factor(n // 2, float(s.gamma), d) * q
    noise = L2Laplace(d, float(published.noise_scale(s)))
    # a − b(p − 2pq + q²) < 0 where p > (a/b − q²)/(1 − 2q).
    least = (float(s.a / s.b) - q**2) / (1 - 2 * q)
    return Erratum(
        number="E28",
        title="Payments and budget only on average",
        where="Section 2 (payments in R₊, definition of a small budget) and Theorems 5 and 6",
        claim='Payments are non-negative, and the budget Σπ is o(1) "for all realizable (X, y)".',
        fact="Both are shown of expected payments. A realised payment is linear in unbounded noise: some "
        "are negative, and no total is certain. Clipping the peers' prediction to ±√B‖x‖ bounds every "
        "payment.",
        because="The proofs take expectations over the noise v before bounding, and v has no bound.",
        example="Corollary 1 at d = 2, B = M = 1, δ = ¼, n = 1,000; a player with ‖x‖ = 1 and q = −½, the "
        "noise in her peers' estimate alone.",
        meaning="probability of a negative payment",
        published=0.0,
        correct=float(noise.marginal_cdf(mean - least)),
        test="test_e28_the_noise_alone_makes_some_payments_negative",
    )


def _cancelled_cost() -> Erratum:
    s = corollary(1e5)
    return Erratum(
        number="E29",
        title="A definition in which privacy costs cancel",
        where="Section 2.5, definition of Bayes-Nash equilibrium",
        claim="No misreport ŷ ≠ y gains more than η, where both sides of the inequality subtract the same "
        "f(c, ε).",
        fact="As defined, the cost is the same whatever is reported, and η = b·gap² would do; Theorem 3 "
        "rightly adds what a lie saves. A lie is any report other than σ(x, y, c), payments are to be "
        "averaged given (x, y), and those with c > τ, who report anything, are in no equilibrium.",
        because="In the definition σ does not know c, and f does not know the report.",
        example="Corollary 1 at d = 2, B = M = 1, δ = ¼, n = 10⁵, in units of b. Correct: what the "
        "definition asks for.",
        meaning="η, per b",
        published=float(published.truthfulness(s) / s.b),
        correct=float(published.gap(s) ** 2),
        test="test_e29_under_the_definition_as_written_a_lie_saves_no_privacy",
    )


def _small_coefficients() -> Erratum:
    B, M = 0.01, 0.0
    R = math.sqrt(B)
    return Erratum(
        number="E30",
        title="The corollary's base payment for B < 1",
        where="Proof of Corollary 1, last but one paragraph",
        claim="The payment falls below a by at most (6B+2M)(1+B)²·b in expectation, so a = "
        "(6B+2M)(1+B)²·b + τε² is enough.",
        fact="It falls below by (√B − B)·b at q = p = √B ≤ ½, which is more for small B and M: "
        "participation fails even at the published privacy cost.",
        because="E1, and a step that replaces (6B+2M)(1+2B) + B² by (6B+2M)(1+B)², which needs 6B+2M ≥ 1.",
        example="B = 0.01, M = 0, a player with θ·x = √B, in the limit of many players, where peers are "
        "unbiased.",
        meaning="most that the expected payment falls below a, per b",
        published=(6 * B + 2 * M) * (1 + B) ** 2,
        correct=R - 2 * R * R + R * R,
        test="test_e30_for_small_coefficients_the_corollarys_base_payment_is_short",
    )


def _slips() -> Erratum:
    d, t = 2, 1.0
    return Erratum(
        number="E31",
        title="Slips of the pen",
        where="Throughout",
        claim="Theorem 3: probability 1 − d^(t²). Appendix C: ‖(XᵀX)⁻¹‖ ≤ (1−ξ)n/(d+2), and Var = E[Z²] + "
        'E[Z]². Proof of Theorem 4: the first term is called E‖θ̂ᴾ−θ‖². Proof of Theorem 6: "at most, π '
        '≥". Lemma 5: h₁(Π₂D). Lemma 6: g has the wrong sign. Lemma 3: c ≥ τ for c > τ. Theorems 5 and 6: '
        "no word of the event they need.",
        fact="1 − d^(−t²). ‖(XᵀX)⁻¹‖ ≤ (d+2)/((1−ξ)n), and Var = E[Z²] − E[Z]². E‖θ̂ᴾ−θ̂ᴿ‖². π ≤. "
        "h₁(Π₁D). g is the negative. c > τ, and P[more than αn]. Theorems 5 and 6 hold where Theorem 3 "
        "does. Lemma 1 needs n ≥ d + 2.",
        because="None of these changes a result.",
        example="The probability in Theorem 3 at d = 2, t = 1.",
        meaning="probability",
        published=1 - d ** (t**2),
        correct=1 - d ** -(t**2),
        test="test_e31_the_slips_are_what_the_surrounding_lines_say_they_are",
    )
