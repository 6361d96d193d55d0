"""Payments in coins: right on average, under the cap for certain, the same every time, and nobody's to choose."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.studies import RELEASES, people, planned

from truthful.coins import (
    Bill,
    Kind,
    Lot,
    coin_digits,
    coin_range,
    first_lot,
    in_coins,
    in_currency,
    most_in_coins,
    pays,
)
from truthful.errors import InputError
from truthful.one_release import OneRelease
from truthful.scoring import round_down
from truthful.settlement import Settlement, settle
from truthful.study import Study

due = st.integers(0, 10**7)


@given(
    st.lists(st.tuples(due, due | st.just(10**7)), min_size=1, max_size=50),
    st.integers(0, 9_999),
    st.integers(0, 2**64 - 1),
)
def test_together_coins_are_never_more_than_the_most_that_can_be_due_rounded_up_to_one_coin(
    people: list[tuple[int, int]], threshold: int, key: int
) -> None:
    """Some are due all that they can be."""
    most = [one for one, _ in people]
    millionths = [min(pair) for pair in people]
    coins = in_coins(millionths, most, Lot(key, 0, threshold), 2)
    assert int(coins.sum()) <= -(-sum(most) // 10_000)
    assert all(pays(int(paid), amount, 2) for paid, amount in zip(coins, millionths, strict=True))


def test_on_average_everybody_is_paid_exactly() -> None:
    """20,000 lots, no mean of 30 further off than six standard errors: false alarm 1e-7."""
    rng = np.random.default_rng(1)
    most = rng.integers(0, 500, 30)
    most[:5] = 400
    millionths = rng.integers(0, most + 1)
    paid = np.array([in_coins(millionths, most, first_lot(f"secret {k}", 4), 4) for k in range(20_000)])
    assert np.abs(paid.mean(axis=0) - millionths / 100).max() < 6 * 0.5 / np.sqrt(20_000)


@pytest.mark.parametrize("most", [410_000, 411_234])
def test_people_are_not_rounded_all_alike(most: int) -> None:
    """10,000 people are paid what they are due together, to within six standard deviations of fair lots."""
    coins = in_coins([167_078] * 10_000, [most] * 10_000, first_lot("secret", 2), 2)
    assert set(coins.tolist()) == {16, 17}
    assert abs(coins.sum() - 167_078) < 6 * 0.5 * 100


def test_nobody_s_coins_depend_on_what_another_is_due() -> None:
    """Only on what she can be due, which is known before anybody answers."""
    most, lot = np.full(20, 104_000), first_lot("secret", 2)
    first, second = (
        in_coins(np.where(np.arange(20) == 7, due, 55_555), most, lot, 2) for due in (0, 104_000)
    )
    assert np.flatnonzero(first != second).tolist() == [7]


def test_people_in_pieces_are_paid_as_they_are_together() -> None:
    rng, lot = np.random.default_rng(2), first_lot("secret", 2)
    most = rng.integers(0, 10**6, 100)
    amounts = most // 3
    whole = in_coins(amounts, most, lot, 2)
    later = in_coins(amounts[40:], most[40:], lot.after(40, int(most[:40].sum()), 2), 2)
    assert whole[40:].tolist() == later.tolist()


@pytest.mark.parametrize("digits", [0, 2, 3, 6])
def test_an_amount_that_coins_can_pay_is_paid(digits: int) -> None:
    whole = [coins * 10 ** (6 - digits) for coins in range(50)]
    assert in_coins(whole, [10**9] * 50, first_lot("secret", digits), digits).tolist() == list(range(50))


def test_a_lot_is_the_same_every_time_and_another_for_another_secret() -> None:
    lots = {first_lot(f"secret {k}", 2) for k in range(100)}
    assert first_lot("secret 1", 2) in lots
    assert len(lots) == 100
    assert all(0 <= lot.threshold < 10_000 for lot in lots)


@pytest.mark.parametrize("digits", [-1, 7])
def test_coins_smaller_than_the_exact_amounts_are_refused(digits: int) -> None:
    with pytest.raises(InputError, match=f"digits is {digits}"):
        in_coins([1], [1], Lot(1, 0, 0), digits)


def test_everybody_needs_a_limit() -> None:
    with pytest.raises(InputError, match="2 amounts, and 1 limits"):
        in_coins([1, 2], [1], Lot(1, 0, 0), 2)


def test_a_range_of_exact_amounts_is_widened_to_whole_coins() -> None:
    """Whoever is due 0.824901 may be paid the coin above."""
    assert coin_range(0.0, 0.824901, 2) == (Decimal("0.00"), Decimal("0.83"))
    assert coin_range(0.1, 0.1, 2) == (Decimal("0.10"), Decimal("0.10"))
    assert coin_range(1.5, 1.5, 2) == (Decimal("1.50"), Decimal("1.50"))
    assert coin_range(149.2, 150.1, 0) == (Decimal(149), Decimal(151))
    assert most_in_coins(5000.0, 2) == 5000
    assert most_in_coins(4999.9912, 2) == 5000


@pytest.mark.parametrize(("millionths", "good"), [(167_078, {16, 17}), (170_000, {17}), (9_999, {0, 1})])
def test_coins_pay_an_amount_if_they_are_those_next_to_it(millionths: int, good: set[int]) -> None:
    assert {coins for coins in range(40) if pays(coins, millionths, 2)} == good


def test_coins_are_worth_what_their_digits_say() -> None:
    assert in_currency(1_735, 2) == Decimal("17.35")
    assert in_currency(1_735, 0) == 1_735
    assert [coin_digits(currency) for currency in ("USD", "EUR", "JPY", "KWD", "CLF")] == [2, 2, 0, 3, 4]


def test_a_file_of_payments_is_in_coins() -> None:
    bill = Bill("USD", 2, [("A1", 5), (7, 0)])
    assert bill.file(Kind.CSV) == "player,amount\nA1,0.05\n7,0.00\n"
    assert bill.file(Kind.MTURK) == "WorkerId,BonusAmount\nA1,0.05\n"


@pytest.mark.parametrize("estimator", RELEASES)
def test_a_settlement_that_pays_everybody_the_most_keeps_its_cap_in_coins(
    estimator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were everybody rounded by a lot of her own, the sum would be above the cap in half of all settlements."""
    study = Study.parse(RELEASES[estimator])
    plan, reports = planned(study, base_payment=0.0, score_weight=0.0123), people(study).reports

    def most(mechanism: OneRelease, r: np.ndarray, *predictions: np.ndarray) -> np.ndarray:
        length = r if estimator == "instruments" else np.ones(len(r))
        return round_down(mechanism.base(length) + mechanism.score_weight * (mechanism.clip * length) ** 2)

    monkeypatch.setattr("truthful.one_release.payable", most)
    cap = plan.guarantees.budget.cap
    assert cap is not None
    for seed in range(8):
        require_coins(settle(plan, reports, seed=seed, accept_less=True), cap)


def require_coins(settlement: Settlement, cap: float) -> None:
    payment, paid = (settlement.payments.column(name).to_numpy() for name in ("payment", "paid"))
    assert 0 <= payment.sum() <= cap
    assert np.rint(paid * 100).sum() <= 100 * most_in_coins(cap, 2)
    assert np.abs(paid - payment).max() < 0.01
    assert np.abs(paid * 100 - np.rint(paid * 100)).max() < 1e-6
    assert settlement.summary["total_in_coins"] == pytest.approx(paid.sum(), abs=1e-6)
    assert "paid" not in settlement.receipts.column_names
