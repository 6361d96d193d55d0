"""A release says which mechanism was run, and leads to every payment."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.studies import DESIGNED, RECORDS, RELEASES, people, planned, saved_study

from truthful.files import sha256
from truthful.moments import GRID, grid_features, instruments_on_grid
from truthful.one_release import OneRelease, payment_range
from truthful.release import Receipt, Release, find_receipt, verify
from truthful.settlement import Settlement, settle
from truthful.study import Study

# Of noisy statistics only, and not its default there; other estimators have no second moments to spend ε on.
GRAM_SHARE = {"noisy-statistics": 0.3}
KEPT_BACK = f"{DESIGNED}{RECORDS}publish_matrix = false\n".replace("records", "answers")


@pytest.mark.parametrize("text", [*RELEASES.values(), KEPT_BACK], ids=[*RELEASES, "sums kept back"])
def test_a_release_gives_back_the_mechanism_that_was_run(text: str) -> None:
    study = Study.parse(text)
    chosen: dict[str, Any] = {"gram_share": 0.3} if text == RELEASES["noisy-statistics"] else {}
    plan = planned(study, 200, rule="brier", clip=0.4, **chosen)
    release, ran = settle(plan, people(study, 200).reports, seed=1).release, plan.mechanism
    again = release.mechanism(release.declared_study())
    np.testing.assert_array_equal(again.design, ran.design)
    for name in {field.name for field in fields(OneRelease)} - {"design"}:
        assert getattr(again, name) == getattr(ran, name), name


def test_an_invitation_is_declared_released_and_part_of_the_studys_hash() -> None:
    words = '[invitation]\nasked_by = "Ann"\npurpose = "To know."\ncontact = "ann@example.org"\n'
    plain, inviting = Study.parse(DESIGNED), Study.parse(DESIGNED.replace("[response]", f"{words}[response]"))
    assert inviting.sha256 != plain.sha256
    release = settle(planned(inviting, 60), people(inviting, 60).reports, seed=1).release
    assert release.invitation == {"asked_by": "Ann", "purpose": "To know.", "contact": "ann@example.org"}
    assert release.declared_study() == inviting
    assert settle(planned(plain, 60), people(plain, 60).reports, seed=1).release.invitation is None


def settled(text: str) -> Settlement:
    study = Study.parse(text)
    return settle(planned(study, 100), people(study, 100).reports, seed=1)


def predicted(study: Study, theta: Any, receipt: Receipt) -> float:
    """What raw coefficients say of a player, in the answer's units."""
    raw = dict(study.raw_coefficients(theta))
    return (
        raw["intercept"]
        + raw["price"] * float(receipt.features["price"])
        + raw[f"region={receipt.features['region']}"]
    )


@pytest.mark.parametrize("estimator", RELEASES)
def test_the_steps_to_a_payment_lead_to_what_was_paid_within_its_range(estimator: str) -> None:
    """The others' prediction is that of coefficients estimated without her: M and b̃ less what she adds to them."""
    settlement = settled(RELEASES[estimator])
    release = settlement.release
    assert isinstance(release, Release)
    study = release.declared_study()
    mechanism, estimate = release.mechanism(study), release.estimate()
    assert estimate is not None
    assert isinstance(mechanism, OneRelease)
    least, most = payment_range(mechanism)
    assert 0 <= least < most
    for player in ("p-001", "p-050", "p-100"):
        receipt = find_receipt(settlement.receipts, player)
        found = verify(release, receipt)
        b = mechanism.score_weight
        assert found.score is not None
        assert found.length is not None
        assert found.recomputed == receipt.payment == pytest.approx(found.base + b * found.score, abs=1e-6)
        assert found.base == max(mechanism.base_payment, b * mechanism.scoring.loss(0.6 * found.length))
        assert least <= found.recomputed <= most
        x = np.array(found.x)
        zeta = instruments_on_grid(grid_features(x[None]), mechanism.transform)[0] / GRID
        matrix = np.linalg.inv(estimate.inverse)
        without = matrix * (99 / 100) if estimator == "known-design" else matrix - np.outer(zeta, x)
        vector = np.array([int(k) for k in release.statistics.vector]) * release.statistics.unit
        theta = np.linalg.solve(without, vector - zeta * found.answer)
        reach = study.response_unit * 0.6 * found.length
        assert found.peer_answer == pytest.approx(
            np.clip(predicted(study, theta, receipt), 100 - reach, 100 + reach),
            abs=study.response_unit * 1e-5,
        )


def test_where_sums_are_kept_back_two_numbers_of_a_receipt_are_taken_on_trust(tmp_path: Path) -> None:
    """Her leverage and her noise: all else is computed again. Who has sums and salt can hold them against the hash."""
    shown, kept_back = (settled(text) for text in (DESIGNED, KEPT_BACK))
    assert kept_back.receipts.equals(shown.receipts)
    release, public = kept_back.release, shown.release
    assert isinstance(release, Release)
    assert isinstance(public, Release)
    assert (release.statistics.matrix, release.inverse, release.estimate()) == (None, None, None)
    study = saved_study(tmp_path, KEPT_BACK)
    real = settle(planned(study, 100), people(study, 100).reports)
    assert isinstance(real.release, Release)
    for found, salt in ((release, "1"), (real.release, real.summary["salt"])):
        salted = [salt, *(list(row) for row in public.statistics.matrix or ())]
        assert found.statistics.matrix_sha256 == sha256(salted)
    receipt = kept_back.receipt("p-050")
    assert verify(release, receipt).verified
    for name, trusted in (
        ("leverage", True),
        ("noise_scale", True),
        ("peer_prediction", False),
        ("own_prediction", False),
    ):
        changed = receipt.model_copy(update={name: getattr(receipt, name) + 0.2})
        assert verify(release, changed).verified == (not trusted), name
        assert verify(public, changed).verified, name
