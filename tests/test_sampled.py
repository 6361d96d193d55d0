import numpy as np
import pytest

from truthful.beliefs.curves import Clipped
from truthful.beliefs.sampled import SampledCurve


@pytest.mark.parametrize("dimension", [1, 2, 5, 100])
@pytest.mark.parametrize("least", [1e-6, 1e-3, 0.1, 100.0])
def test_sampled_is_the_curve_at_each_of_its_scales(dimension: int, least: float) -> None:
    rng, R = np.random.default_rng(1), 1.3
    curve, scales = Clipped(R, dimension), least * np.array([1.0, 2.0, 7.0])
    sampled = SampledCurve(curve, R, scales)
    u = np.concatenate([[R, -R, 0.0], rng.uniform(-R, R, 300), R - 10.0 ** rng.uniform(-12, 0, 300)])
    assert sampled.error <= 4e-13 * R
    np.testing.assert_allclose(sampled(u[:, None]), curve(u[:, None], scales), rtol=0, atol=5e-13)


def test_the_scales_become_the_last_axis() -> None:
    sampled = SampledCurve(Clipped(1.0, 2), 1.0, np.array([0.1, 0.2]))
    assert sampled(np.zeros((3, 4, 1))).shape == (3, 4, 2)
