"""E19 and E21 to E24: the threshold, truthfulness, participation."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from truthful.beliefs import Beliefs, TruncatedNormal, UniformBall, UniformNoise
from truthful.bounds import proved, published
from truthful.bounds.setting import Setting
from truthful.errata.examples import COSTS, corollary, model
from truthful.errata.record import Erratum
from truthful.estimators.shrinkage import shrinkage_factor
from truthful.scoring import brier


def errata() -> tuple[Erratum, ...]:
    """E19 and E21 to E24, computed."""
    return _threshold(), _best_report(), _vacuous(), _free_lies(), _base_payment()


def _threshold() -> Erratum:
    s = Setting(model=model(2), costs=COSTS, n=20_000, epsilon=1.0, alpha=0.05, beta=0.01)
    return Erratum(
        number="E19",
        title="Markov's inequality for the threshold",
        where="Lemma 3 (threshold)",
        claim="τ ≤ F⁻¹(1−αβ).",
        fact="True and very weak. For independent costs the number of players above τ is binomial, and "
        "the smallest τ is known exactly. The base payment is proportional to it.",
        because="Markov's inequality ignores that many independent costs average out.",
        example="n = 20,000, α = 0.05, β = 0.01, Pareto costs Pr[c ≤ τ] = 1 − τ⁻².",
        meaning="threshold τ",
        published=float(published.threshold(s)),
        correct=float(proved.threshold(s)),
        test="test_e19_the_exact_threshold_is_a_ninth_of_markovs",
    )


def _best_report() -> Erratum:
    n, d, y = 1000, 2, 1.0
    beliefs = Beliefs(d, UniformBall(1.0), TruncatedNormal(1.0, 0.5))
    kept = shrinkage_factor(n // 2, float(corollary(n, d).gamma), d)

    def own(report: float) -> float:
        return float(beliefs.prediction(1.0, report))

    # She expects the peers to predict kept·q(y); paid against q(ŷ), that is what ŷ should say. Against kept·q(ŷ), y is.
    paper = brentq(lambda report: own(report) - kept * own(y), -y, y)
    ours = brentq(lambda report: kept * own(report) - kept * own(y), -y, y)
    return Erratum(
        number="E21",
        title="The bias of ridge need not cost truthfulness",
        where="Section 4 and Theorem 3 (truthfulness)",
        claim="Because ridge regression is biased, truthfulness is only approximate: a player is scored "
        "against q = E[θ|x, ŷ]·x.",
        fact="Scored against q* = (1−γκ)q, what her peers will predict on average, her best report is the "
        "truth, exactly.",
        because="A proper score is maximal where the two predictions agree, and the shrinkage 1−γκ is a "
        "public number (E20).",
        example="d = 2, n = 1,000, γ = n^(7/8), ‖x‖ = 1, true y = 1; θ uniform on the unit ball, response "
        "noise normal with sd ½ cut at ±1.",
        meaning="best report of a player whose answer is 1",
        published=float(paper),
        correct=float(ours),
        test="test_e21_the_best_report_is_the_truth_only_under_the_shrunk_prediction",
    )


def _vacuous() -> Erratum:
    s = corollary(1e5)
    q = np.linspace(-1.0, 1.0, 201)
    payments = brier(q[:, None], q[None, :], a=0.0, b=1.0)
    stake = float(np.ptp(payments, axis=1).max())
    return Erratum(
        number="E22",
        title="An equilibrium that any report is in",
        where="Corollary 1, item 2",
        claim="Truth is an O(n^(−3/2+δ))-approximate Bayes-Nash equilibrium at b = n^(−3/2).",
        fact="Any report is as good as the truth to within η, also under a flat fee: with truthful peers "
        "an expected payment moves by at most 4B·b over all reports, less than η. What means something is "
        "the size of lie that cannot pay, and b = n^(−1−k), 0 < k < ½−δ, makes it vanish.",
        because="η/b ≥ τε²/b = n^δ grows without limit; the stake is 4B·b at any n.",
        example="d = 2, B = M = 1, δ = ¼, p = 2, n = 10⁵, in units of b. Published: η. Correct: the stake.",
        meaning="most that any lie can gain, per b",
        published=float(published.truthfulness(s) / s.b),
        correct=stake,
        test="test_e22_no_report_moves_a_payment_by_as_much_as_the_published_eta",
    )


def _free_lies() -> Erratum:
    beliefs = Beliefs(2, UniformBall(0.5), UniformNoise(1.0))
    reports = np.linspace(-1.5, 1.5, 3001)
    best = reports[np.abs(beliefs.prediction(1.0, reports) - beliefs.prediction(1.0, 0.0)) < 1e-9]
    return Erratum(
        number="E23",
        title="A unique best report",
        where="Lemma 1 and Theorem 3 (truthfulness)",
        claim="The score is uniquely maximised by the truth.",
        fact="Unique in the prediction q, not in the report y: where q is flat, lies are free. With "
        "uniform response noise it is flat for |y| ≤ M − ‖x‖√B. Truncated normal noise gives q a positive "
        "slope.",
        because="With uniform noise on [−M, M] every θ·x makes such a y equally likely, so y says nothing "
        "about θ.",
        example="d = 2, √B = ½, M = 1, ‖x‖ = 1, θ uniform on its ball, true y = 0.",
        meaning="width of the set of best reports",
        published=0.0,
        correct=float(np.ptp(best)),
        test="test_e23_with_uniform_noise_a_whole_interval_of_reports_is_best",
    )


def _base_payment() -> Erratum:
    s = corollary(1e5)
    cost = published.threshold(s) * s.privacy_cost
    asked = published.participation(s) - cost / 4 + cost
    return Erratum(
        number="E24",
        title="The base payment does not pay for the privacy",
        where="Corollary 1, item 4",
        claim="a = (6B+2M)(1+B)²·n^(−3/2) + n^(−3/2+δ) makes participation rational for all c ≤ τ.",
        fact=f"At level 2ε a player with c = τ loses 4τε² = {cost / s.b:.1f}·b here, and with truthful "
        f"peers no expected payment exceeds a + 2b = {s.a / s.b + 2:.1f}·b. From some n on it never "
        "suffices.",
        because="4τε² = 4n^(−3/2+δ) (E8) outgrows the n^(−3/2+δ) in a, and the rest of a is only "
        "O(n^(−3/2)).",
        example="d = 2, B = M = 1, δ = ¼, p = 2, n = 10⁵, in units of b. Correct: Theorem 5's condition "
        "at level 2ε.",
        meaning="base payment a, per b",
        published=float(s.a / s.b),
        correct=float(asked / s.b),
        test="test_e24_at_the_corollarys_base_payment_the_costliest_player_loses",
    )
