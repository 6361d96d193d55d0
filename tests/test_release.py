"""A release says which mechanism was run."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from studies import CASES, DESIGNED, people, planned

from truthful.mechanism import Mechanism
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
