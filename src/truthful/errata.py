"""The errata of the paper: its claim, what holds, and an example of each in which both are numbers.

errata.toml has the texts; e3 computes the two numbers of E3, in the example given there.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import brentq, minimize_scalar

from truthful.beliefs import Beliefs, TruncatedNormal, UniformBall, UniformNoise
from truthful.bounds import proved, published
from truthful.bounds.setting import Model, Setting, expected_pull, unit_ball
from truthful.costs import ParetoCosts
from truthful.errors import InputError
from truthful.formatting import signed_number
from truthful.noise import L2Laplace
from truthful.regression import mean_inverse, shrinkage_factor
from truthful.scoring import RULES, binary_score, brier

MOST_DIGITS = 8
DELTA, TAIL = 0.25, 2.0
#: Pr[c ≤ τ] = 1 − τ⁻²: the law of costs that Assumption `tail` allows with equality, for p = 2.
COSTS = ParetoCosts(tail=TAIL, scale=1.0)
STEP = 1e-3
#: An n so large that only the leading power is left; the published bound gets there late.
FAR, FARTHER = 1e16, 1e60


@dataclass(frozen=True)
class Erratum:
    """A mistake of the paper, or a claim that falls far short of what holds.

    published and correct are the two numbers of the example, and meaning is what they measure; test names the test that
    shows the erratum independently of the code here.
    """

    number: str
    title: str
    where: str
    claim: str
    fact: str
    because: str
    example: str
    meaning: str
    published: float
    correct: float
    test: str

    def numbers(self) -> tuple[str, str]:
        """published and correct as text, with enough digits to tell them apart."""
        for digits in range(3, MOST_DIGITS):
            shown = signed_number(self.published, digits), signed_number(self.correct, digits)
            if shown[0] != shown[1]:
                break
        return shown


def errata() -> tuple[Erratum, ...]:
    """The errata of the paper, in order, with numbers computed now: about a second of work, the same every time."""
    return tuple(_compute(number, words) for number, words in _texts().items())


def find(number: str) -> Erratum:
    """The erratum with this number, such as E3."""
    texts, wanted = _texts(), number.strip().upper()
    if wanted not in texts:
        raise InputError(f"There is no erratum {number!r}; they are numbered E1 to {[*texts][-1]}.")
    return _compute(wanted, texts[wanted])


def _texts() -> dict[str, dict[str, str]]:
    """The texts of errata.toml, in order."""
    return tomllib.loads((files("truthful") / "errata.toml").read_text(encoding="utf-8"))


def _compute(number: str, texts: dict[str, str]) -> Erratum:
    pair: Pair = globals()[number.lower()]()
    words: dict[str, Any] = {name: " ".join(text.split()) for name, text in texts.items()}
    words["fact"] = words["fact"].format(**pair.mentioned)
    return Erratum(number, published=pair.published, correct=pair.correct, **words)


class Pair(NamedTuple):
    """The values of the paper's claim and of what holds, and the numbers that the text mentions, by name."""

    published: float
    correct: float
    mentioned: Mapping[str, Any] = MappingProxyType({})


# Shared by several errata: the paper's model and schedule, and the exact error of ridge regression.


def model(d: int, B: float = 1.0, M: float = 1.0) -> Model:
    """x uniform on the unit ball of R^d, ‖θ‖² ≤ B, and z uniform on [−M, M], so that σ² = M²/3."""
    return unit_ball(d, radius=B**0.5, noise_bound=M, noise_variance=M**2 / 3)


def setting(d: int, n: float, **more: Any) -> Setting:
    """That model with Pareto costs at total privacy 1, everybody truthful."""
    return Setting(model=model(d), costs=COSTS, n=n, epsilon=1.0, alpha=0.0).at(**more)


def corollary(n: float, d: int = 2) -> Setting:
    """The parameters of Corollary 1 (formal) at n players, for δ = 1/4 and p = 2."""
    return published.schedule(model(d), COSTS, n, delta=DELTA, tail=TAIL)


def sensitivity(B: float, M: float, gamma: float) -> float:
    """The paper's bound on how far one record moves the ridge estimate."""
    return float(published.sensitivity(setting(1, 1.0, model=model(1, B, M), gamma=gamma)))


def ridge(gram: float, cross: float, gamma: float) -> float:
    """The ridge estimate of one coefficient."""
    return cross / (gamma + gram)


def ridge_moments(m: int, gamma: float, d: int) -> tuple[float, float]:
    """E tr(A⁻²)γ²/d and E tr(A⁻¹GA⁻¹), A = γI + G: the squared bias per ‖θ‖², and the variance per σ².

    G = XᵀX over m players. With κ(γ) = E tr(A⁻¹)/d, E tr(A⁻²)/d = −κ′(γ), by a central difference; and
    A⁻¹GA⁻¹ = A⁻¹ − γA⁻².
    """
    above, below = (mean_inverse(m, gamma * (1 + h), d) for h in (STEP, -STEP))
    inverse_square = (below - above) / (2 * gamma * STEP)
    return gamma**2 * inverse_square, d * (mean_inverse(m, gamma, d) - gamma * inverse_square)


def ridge_error(m: int, gamma: float, d: int, *, scale: float) -> float:
    """E‖θ̂ − θ‖² of the paper's private ridge on truthful reports at ‖θ‖ = 1, σ² = 1/3: exact.

    It is squared bias, plus variance, plus d(d+1)s² for noise of this scale s.
    """
    bias, variance = ridge_moments(m, gamma, d)
    return bias + variance / 3 + d * (d + 1) * scale**2


def expected_log_ratio(epsilon: float) -> float:
    """E ln max p(o|y′)/p(o|y″) for Laplace noise, the true value being an end of the range.

    In units of the noise scale the range is [0, ε] and the truth is 0. Beyond the range the ratio is e^ε, with
    probability (1 + e^−ε)/2; inside, at u, ln max = max(u, ε−u), with density e^−u/2:

        ∫₀^{ε/2}(ε−u)e^−u du + ∫_{ε/2}^ε u·e^−u du = ε − 1 + 2e^(−ε/2) − (1+ε)e^−ε.
    """
    inside = epsilon - 1 + 2 * math.exp(-epsilon / 2) - (1 + epsilon) * math.exp(-epsilon)
    return epsilon * (1 + math.exp(-epsilon)) / 2 + inside / 2


def exponent(low: float, high: float) -> float:
    """The exponent of n between values at n and 10n."""
    return math.log10(high / low)


# Sensitivity, noise, composition and the cost of privacy


def e1() -> Pair:
    gamma, y = 100.0, 0.1
    return Pair(sensitivity(y**2, 0.0, gamma), ridge(1.0, y, gamma) - ridge(1.0, -y, gamma))


def e2() -> Pair:
    gamma, report = 100.0, 1e9
    return Pair(sensitivity(1.0, 1.0, gamma), ridge(1.0, report, gamma))


def e3() -> Pair:
    n, gamma, Y = 10**6, 1e3, 2.0
    x = math.sqrt(gamma / (3 * n))
    before = ridge(n * x * x, n * x * Y, gamma)
    after = ridge((n - 1) * x * x + 1, (n - 1) * x * Y - Y, gamma)
    change, claimed = abs(after - before), sensitivity(1.0, 1.0, gamma)
    return Pair(claimed, change, {"ratio": change / claimed})


def e4() -> Pair:
    s = setting(1, 1.0, gamma=100.0, epsilon=2.0)
    apart = published.sensitivity(s)
    return Pair(float(s.gamma / (8 + 4) * apart), float(apart / published.noise_scale(s)))


def e5() -> Pair:
    X, gamma = [[1.0], [1.0]], 1.0
    return Pair(float(published.hessian(X, gamma)[0, 0]), float(proved.hessian(X, gamma)[0, 0]))


def e6() -> Pair:
    d = 5
    return Pair(float(published.noise_moments(d, 1.0)[1]), L2Laplace(d, 1.0).mean_square_norm)


def e7() -> Pair:
    even, uneven = 0.5, 0.9
    return Pair(even**-2, uneven**-2)


def e8() -> Pair:
    epsilon = 0.1
    return Pair(epsilon**2, (2 * epsilon) ** 2)


def e9() -> Pair:
    epsilon = 0.1
    loss = expected_log_ratio(epsilon)
    return Pair(epsilon**2, loss / 4, {"loss": loss / epsilon})


# The spectrum of XᵀX, and how far estimates are from the truth


def e10() -> Pair:
    mu = 8 / 4
    X = np.array([[1.0, 0.0]] * 3 + [[0.0, 0.5]] * 2 + [[0.0, 0.0]] * 3)
    least, greatest = np.linalg.eigvalsh(X.T @ X).tolist()
    return Pair(greatest - mu, max(greatest - mu, mu - least), {"least": signed_number(least - mu)})


def e11() -> Pair:
    s = setting(1, 100.0, xi=0.5)
    return Pair(float(published.spectrum(s)), float(proved.spectrum(s)))


def e12() -> Pair:
    n, d = 10**4, 5
    s = setting(d, float(n))

    def error(log_gamma: float) -> float:
        gamma = math.exp(log_gamma)
        return ridge_error(n, gamma, d, scale=float(published.noise_scale(s.at(gamma=gamma))))

    best = minimize_scalar(error, bounds=(math.log(10), math.log(n)), method="bounded")
    # As in the paper, half of the total ε for the published estimate.
    return Pair(float(best.fun), float(proved.accuracy(s.at(epsilon=s.epsilon / 2))))


def e13() -> Pair:
    n, d = 1000, 5
    s = setting(d, float(n), xi=0.5)
    # γ → 0 in E tr(γI + XᵀX)⁻¹.
    error = s.model.noise_variance * d * mean_inverse(n, 1e-6, d)
    return Pair(float(published.least_squares_error(s)), error)


def e14() -> Pair:
    n, d = 1000, 5
    s = corollary(n, d)
    variance = ridge_moments(n, float(s.gamma), d)[1]
    return Pair(float(published.noise_error(s)), math.sqrt(s.model.noise_variance * variance))


def e15() -> Pair:
    n, d, alpha = 10**4, 2, 0.1
    s = corollary(n, d).at(alpha=alpha)
    # Σ|e·x| over the αn players furthest along e is n·E[|e·x| of the top α], and Σ⁻¹ = (d+2)I in the bound used.
    furthest = n * float(expected_pull(s.model, alpha)) / (d + 2)
    moved = 2 * s.model.response_bound * furthest / (float(s.gamma) + n / (d + 2))
    return Pair(float(published.liars(s)), moved)


# The parameters of the main result


def e16() -> Pair:
    claimed = (float(published.accuracy(corollary(n))) for n in (FARTHER, 10 * FARTHER))
    right = (float(proved.accuracy(corollary(n).at(estimator="ridge-ball"))) for n in (FAR, 10 * FAR))
    return Pair(exponent(*claimed), exponent(*right))


def e17() -> Pair:
    d, errors = 2, []
    for n in (10**3, 10**4, 10**5, 10**6):
        s = corollary(n, d)
        errors.append(ridge_error(n, float(s.gamma), d, scale=float(published.noise_scale(s))))
    return Pair(1.0, errors[-1], {"errors": ", ".join(map(signed_number, errors))})


def e18() -> Pair:
    taus = (float(published.threshold(corollary(n))) for n in (1e6, 1e7))
    return Pair(1 - DELTA, exponent(*taus), {"exponent": TAIL / 2 - DELTA * (1 + TAIL)})


# The threshold, truthfulness, participation


def e19() -> Pair:
    s = setting(2, 20_000, alpha=0.05, beta=0.01)
    return Pair(float(published.threshold(s)), float(proved.threshold(s)))


def e20() -> Pair:
    n, d = 1000, 2
    s = corollary(n, d)
    return Pair(float(published.ridge_bias(s)), 1 - shrinkage_factor(n // 2, float(s.gamma), d))


def e21() -> Pair:
    n, d, y = 1000, 2, 1.0
    beliefs = Beliefs(d, UniformBall(1.0), TruncatedNormal(1.0, 0.5))
    kept = shrinkage_factor(n // 2, float(corollary(n, d).gamma), d)

    def own(report: float) -> float:
        return float(beliefs.prediction(1.0, report))

    # She expects the peers to predict kept·q(y); paid against q(ŷ), that is what ŷ should say. Against kept·q(ŷ), y is.
    paper = brentq(lambda report: own(report) - kept * own(y), -y, y)
    ours = brentq(lambda report: kept * own(report) - kept * own(y), -y, y)
    return Pair(float(paper), float(ours))


def e22() -> Pair:
    s = corollary(1e5)
    q = np.linspace(-1.0, 1.0, 201)
    payments = brier(q[:, None], q[None, :], a=0.0, b=1.0)
    return Pair(float(published.truthfulness(s) / s.b), float(np.ptp(payments, axis=1).max()))


def e23() -> Pair:
    beliefs = Beliefs(2, UniformBall(0.5), UniformNoise(1.0))
    reports = np.linspace(-1.5, 1.5, 3001)
    best = reports[np.abs(beliefs.prediction(1.0, reports) - beliefs.prediction(1.0, 0.0)) < 1e-9]
    return Pair(0.0, float(np.ptp(best)))


def e24() -> Pair:
    s = corollary(1e5)
    cost = published.threshold(s) * s.privacy_cost
    asked = published.participation(s) - cost / 4 + cost
    return Pair(float(s.a / s.b), float(asked / s.b), {"cost": cost / s.b, "most": s.a / s.b + 2})


# Further statements and steps of proofs that do not hold as written


def e25() -> Pair:
    grid = np.linspace(0.0, 1.0, 101)
    return Pair(0.0, float(binary_score(grid[:, None], grid[None, :]).min()))


def e26() -> Pair:
    small = model(2, B=0.1, M=0.1)
    a, b, _ = published.nonprivate_payments(small, 100.0)
    base = float(a / b)
    return Pair(0.0, base + RULES["brier"].gain(small.radius), {"base": signed_number(base)})


def e27() -> Pair:
    n, alpha = 20_000, 0.05
    return Pair(0.0, float(stats.binom.sf(math.floor(alpha * n), n - 1, alpha)))


def e28() -> Pair:
    n, d, q = 1000, 2, -0.5
    s = corollary(n, d)
    mean = shrinkage_factor(n // 2, float(s.gamma), d) * q
    noise = L2Laplace(d, float(published.noise_scale(s)))
    # a − b(p − 2pq + q²) < 0 where p > (a/b − q²)/(1 − 2q).
    least = (float(s.a / s.b) - q**2) / (1 - 2 * q)
    return Pair(0.0, float(noise.marginal_cdf(mean - least)))


def e29() -> Pair:
    s = corollary(1e5)
    return Pair(float(published.truthfulness(s) / s.b), float(published.gap(s) ** 2))


def e30() -> Pair:
    B, M = 0.01, 0.0
    R = math.sqrt(B)
    return Pair((6 * B + 2 * M) * (1 + B) ** 2, R - 2 * R * R + R * R)


def e31() -> Pair:
    d, t = 2, 1.0
    return Pair(1 - d ** (t**2), 1 - d ** -(t**2))
