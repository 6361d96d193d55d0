"""A release says which mechanism was run."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from studies import CASES, people, planned

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
