"""The share of yes by the methods that practitioners use, next to ours: root mean square errors at the same n.

    python benchmarks/yes_no_methods.py

Prints a table in Markdown, and the panel sizes from which on our guarantee is below theirs. The true share is 20 %; the
errors, in percentage points, are those of a random sample. Errors of the others are exact, and each is checked by a
simulation. They assume that everybody follows the instructions, but for the direct question, where some of those with
yes deny. Ours is shown twice: what the plan guarantees, with its probability, for every share declared possible, liars
included; and what truthful people at 20 % give. It costs 0.25 USD a head; what the others cost is left out.

ε of the others is local: it holds against whoever asks. ε of ours is central: it holds against the readers of what is
published, while whoever collects the answers sees them.

The others are better

- if nobody can be trusted with the answers (randomised response, forced response, crosswise);
- in small panels, where our noise weighs most, or where no plan of ours exists at all;
- if people do not share beliefs about the share of yes: the others need none, nor a bonus, nor what privacy costs.

Ours is better at the same n from some panel size on, and where people do not follow instructions unless it pays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from truthful.check import Floats
from truthful.plan import design
from truthful.planner import Infeasible
from truthful.study import Study

SHARE = 0.2
PLAYERS = (500, 2_000, 20_000, 200_000)
#: Where break-even is looked for, before it is narrowed down.
SIZES = (10, 100, 200, 500, 1_000, 2_000, 5_000, 20_000, 200_000)
EACH = 0.25
REPETITIONS, RELEASES = 2_000, 400
STUDY = """
name = "Undeclared income"
currency = "USD"
[response]
kind = "yes-no"
name = "evaded"
question = "Have you left income undeclared in the last 12 months?"
[design]
kind = "observed"
[privacy]
protects = "answers"
[beliefs]
share = [0.05, 0.40]
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""

#: The error with so many people, in points; None if there is no such plan.
Errors = Callable[[int], float | None]


@dataclass(frozen=True)
class Method:
    """One of the others. `exact` is its error with n people, in shares; `simulate` makes that many estimates."""

    name: str
    epsilon: float
    """Local."""
    exact: Callable[[int], float]
    simulate: Callable[[int, np.random.Generator, int], Floats]


@dataclass(frozen=True)
class Ours:
    """What one plan promises and what its releases give, in points, and its central ε."""

    guaranteed: float
    simulated: float
    epsilon: float


# The others


def warner() -> Method:
    """Warner (1965): with probability ¾ one is asked whether it is so, otherwise whether it is not. ε = ln 3."""
    return randomised("Warner ¾", 3 / 4, 1 / 4)


def forced() -> Method:
    """Forced response: the truth with probability ¾, otherwise yes or no as the die says, ⅛ each. ε = ln 7."""
    return randomised("forced ¾", 3 / 4 + 1 / 8, 1 / 8)


def crosswise() -> Method:
    """Crosswise model: are both answers the same, this one and one that is yes with probability ⅙? ε = ln 5."""
    return randomised("crosswise ⅙", 1 / 6, 5 / 6)


def randomised(name: str, if_yes: float, if_no: float) -> Method:
    """People say yes with a probability that depends on their true answer; the share is solved for."""

    def exact(n: int) -> float:
        said = SHARE * if_yes + (1 - SHARE) * if_no
        return math.sqrt(said * (1 - said) / n) / abs(if_yes - if_no)

    def simulate(n: int, rng: np.random.Generator, repetitions: int) -> Floats:
        yes = rng.binomial(n, SHARE, repetitions)
        said = rng.binomial(yes, if_yes) + rng.binomial(n - yes, if_no)
        return (said / n - if_no) / (if_yes - if_no)

    ratios = (if_yes / if_no, (1 - if_yes) / (1 - if_no))
    return Method(name, max(abs(math.log(ratio)) for ratio in ratios), exact, simulate)


def item_count(items: tuple[float, ...] = (0.2, 0.5, 0.5, 0.8)) -> Method:
    """Item count, or list experiment: how many of four innocuous items are true, in one half with ours as a fifth?

    The items are independent: one rare, one common, two in between, as is advised against counts of none and all. The
    estimate is the difference of the two means. ε is infinite: of those asked about five items, 4 % of the people with
    yes count five and 4 % of those with no count none.
    """

    def exact(n: int) -> float:
        innocuous = sum(p * (1 - p) for p in items)
        return math.sqrt((2 * innocuous + SHARE * (1 - SHARE)) / (n / 2))

    def simulate(n: int, rng: np.random.Generator, repetitions: int) -> Floats:
        half = n // 2
        short, long = (
            sum(rng.binomial(half, p, repetitions) for p in those) for those in (items, (*items, SHARE))
        )
        return np.asarray((long - short) / half, dtype=np.float64)

    return Method("item count", math.inf, exact, simulate)


def direct(denial: float) -> Method:
    """The direct question, where each person with yes denies with this probability. ε is infinite."""

    def exact(n: int) -> float:
        said = SHARE * (1 - denial)
        return math.sqrt((SHARE - said) ** 2 + said * (1 - said) / n)

    def simulate(n: int, rng: np.random.Generator, repetitions: int) -> Floats:
        yes = rng.binomial(n, SHARE, repetitions)
        return (yes - rng.binomial(yes, denial)) / n

    return Method(f"direct, {denial:.0%} deny".replace("%", " %"), math.inf, exact, simulate)


METHODS = (warner(), forced(), crosswise(), item_count(), direct(0.1), direct(0.25), direct(0.5))


def deviation(method: Method, n: int) -> float:
    """How many standard errors the simulated mean squared error is away from the exact one."""
    estimates = method.simulate(n, np.random.default_rng(n), REPETITIONS)
    squares = np.square(estimates - SHARE)
    luck = squares.std() / math.sqrt(REPETITIONS)
    return float(abs(squares.mean() - method.exact(n) ** 2) / luck)


def furthest() -> float:
    """The largest deviation of all; asserts that none is beyond 3 standard errors."""
    found = {(method.name, n): deviation(method, n) for method in METHODS for n in PLAYERS}
    wrong = {case: by for case, by in found.items() if by > 3}
    assert not wrong, f"Simulated and exact errors differ, in standard errors: {wrong}"
    return max(found.values())


# Ours


@cache
def our_errors(n: int) -> Ours | None:
    """The plan for n people at 0.25 USD each, and its releases if all are truthful; None if there is no plan."""
    try:
        plan = design(Study.parse(STUDY), players=n, budget=EACH * n)
    except Infeasible:
        return None
    rmse, epsilon = plan.guarantees.accuracy.rmse, plan.mechanism.epsilon
    if rmse is None:
        return None
    rng = np.random.default_rng(n)
    shares = rng.binomial(n, SHARE, RELEASES) / n + rng.laplace(scale=1 / (n * epsilon), size=RELEASES)
    return Ours(100 * rmse, 100 * math.sqrt(np.square(shares - SHARE).mean()), epsilon)


def our_guarantee(n: int) -> float | None:
    """The error that is guaranteed with n people, in points."""
    found = our_errors(n)
    return None if found is None else found.guaranteed


def our_simulation(n: int) -> float | None:
    """The error that n truthful people give, in points."""
    found = our_errors(n)
    return None if found is None else found.simulated


# What is printed


def table(guaranteed: Errors, simulated: Errors) -> Iterator[str]:
    """The lines of the table, ours in the second column."""
    head = ["n", f"ours, {EACH:g} USD: guaranteed / simulated"]
    for method in METHODS:
        shown = f"{method.epsilon:.2f}" if math.isfinite(method.epsilon) else "∞"
        head.append(f"{method.name} (local ε {shown})")
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for n in PLAYERS:
        ours = " / ".join("–" if error is None else f"{error:.2f}" for error in (guaranteed(n), simulated(n)))
        others = (f"{100 * method.exact(n):.2f}" for method in METHODS)
        yield f"| {n:,} | {ours} | {' | '.join(others)} |"


def break_even(ours: Errors, method: Method) -> int | None:
    """About the smallest n from which on our error is below the method's, within 2 %; None if not even the largest."""

    def below(n: int) -> bool:
        found = ours(n)
        return found is not None and found < 100 * method.exact(n)

    low = max((n for n in SIZES if not below(n)), default=SIZES[0])
    if low == SIZES[-1]:
        return None
    high = min(n for n in SIZES if n > low)
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if below(middle) else (middle, high)
    return high


def comparisons(guaranteed: Errors) -> Iterator[str]:
    """From which n on our guarantee is below the error of each of those that come close."""
    for method in (warner(), forced(), crosswise(), direct(0.1)):
        n = break_even(guaranteed, method)
        found = f"from about n = {n:,} on" if n is not None else f"not even at n = {SIZES[-1]:,}"
        yield f"- {method.name}: {found}"


def main() -> None:
    """Check the others, then print the table and the break-even."""
    deviations = furthest()
    print("\n".join(table(our_guarantee, our_simulation)))
    epsilons = (f"{found.epsilon:.3f}" if (found := our_errors(n)) else "–" for n in PLAYERS)
    print(f"\nCentral ε of ours, line by line: {', '.join(epsilons)}.")
    print(f"Simulations of the others are within {deviations:.1f} standard errors of the exact errors shown.")
    print("\nOur guaranteed error is below the error of\n")
    print("\n".join(comparisons(our_guarantee)))


if __name__ == "__main__":
    main()
