"""A release says which mechanism was run."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from studies import CASES, DESIGNED, people, planned

from truthful.mechanism import Mechanism
from truthful.payments import payment_range
from truthful.release import find_receipt
from truthful.release.steps import steps
from truthful.settlement import settle
from truthful.study import Study

# Of noisy statistics only, and not its default there; other estimators have no second moments to spend ε on.
GRAM_SHARE = {"noisy-statistics": 0.3}


@pytest.mark.parametrize("estimator", CASES)
def test_a_release_gives_back_the_mechanism_that_was_run(estimator: str) -> None:
    text, parameters = CASES[estimator]
    study = Study.parse(text)
    shares = {"gram_share": GRAM_SHARE.get(estimator, 0.5), "public_share": 0.7}
    plan = planned(study, 200, estimator, **parameters, **shares)
    release, ran = settle(plan, people(study, 200).reports, seed=1).release, plan.mechanism
    again = release.mechanism(release.declared_study())
    np.testing.assert_array_equal(again.design, ran.design)
    assert again.peers == ran.peers
    assert again.public_share == pytest.approx(
        ran.public_share, rel=1e-15
    )  # the release has its product with ε
    for name in {field.name for field in fields(Mechanism)} - {"design", "peer_estimator", "public_share"}:
        assert getattr(again, name) == getattr(ran, name), name


def test_an_invitation_is_declared_released_and_part_of_the_studys_hash() -> None:
    words = '[invitation]\nasked_by = "Ann"\npurpose = "To know."\ncontact = "ann@example.org"\n'
    plain, inviting = Study.parse(DESIGNED), Study.parse(DESIGNED.replace("[response]", f"{words}[response]"))
    assert inviting.sha256 != plain.sha256
    release = settle(planned(inviting, 40), people(inviting, 40).reports, seed=1).release
    assert release.invitation == {"asked_by": "Ann", "purpose": "To know.", "contact": "ann@example.org"}
    assert release.declared_study() == inviting
    assert settle(planned(plain, 40), people(plain, 40).reports, seed=1).release.invitation is None


def test_the_steps_to_a_payment_lead_to_what_was_paid_within_its_range() -> None:
    """Predictions in the answer's units are what the raw coefficients of the other half predict."""
    study = Study.parse(DESIGNED)
    plan = planned(study, 100)
    settled = settle(plan, people(study, 100).reports, seed=1)
    least, most = payment_range(plan.mechanism, study.beliefs)
    assert 0 <= least < most
    for player in ("p-001", "p-050", "p-100"):
        receipt = find_receipt(settled.receipts, player)
        found = steps(settled.release, receipt)
        a, b = plan.mechanism.base_payment, plan.mechanism.score_weight
        assert found.payment == receipt.payment == pytest.approx(a + b * found.score, abs=1e-6)
        assert least <= found.payment <= most
        raw = dict(study.raw_coefficients(settled.release.peer_thetas[1 - receipt.group]))
        predicted = raw["intercept"] + raw["price"] * float(receipt.features["price"])
        predicted += raw[f"region={receipt.features['region']}"]
        reach = study.response_unit * study.beliefs.radius * found.length
        assert found.peer_answer == pytest.approx(
            np.clip(predicted, 100 - reach, 100 + reach), abs=study.response_unit * 1e-5
        )
