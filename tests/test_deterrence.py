"""The undeterred share is what its definition says, and a matched lie leaves as much undeterred at another clip."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special

from truthful.beliefs import Beliefs, NormalBall, TruncatedNormal, UniformBall, UniformNoise
from truthful.check import Floats
from truthful.deterrence import Deterrence, representative
from truthful.errors import InputError

LIES = np.array([0.01, 0.05, 0.1, 0.2, 0.5, 0.9])
NORMAL = TruncatedNormal(1.0, 0.5)
BELIEFS = {
    "ball, normal noise, d = 1": Beliefs(1, UniformBall(1.0), NORMAL),
    "ball, normal noise, d = 2": Beliefs(2, UniformBall(1.0), NORMAL),
    "ball, normal noise, d = 10": Beliefs(10, UniformBall(1.0), NORMAL),
    "ball, uniform noise, d = 1": Beliefs(1, UniformBall(1.0), UniformNoise(1.0)),
    "ball, uniform noise, d = 2": Beliefs(2, UniformBall(1.0), UniformNoise(1.0)),
    "ball, uniform noise, d = 10": Beliefs(10, UniformBall(1.0), UniformNoise(1.0)),
    "normal, normal noise, d = 2": Beliefs(2, NormalBall(1.0, 0.3), NORMAL),
    "normal, uniform noise, d = 10": Beliefs(10, NormalBall(1.0, 0.3), UniformNoise(1.0)),
    "other units": Beliefs(3, UniformBall(0.4), TruncatedNormal(1.6, 0.7)),
    "little noise": Beliefs(2, UniformBall(1.0), TruncatedNormal(0.3, 0.1)),
}


@cache
def rule() -> tuple[Floats, Floats]:
    """Gauss's rule of 100 points."""
    return np.polynomial.legendre.leggauss(100)


def peer_curve(d: int, c: float, scale: float, u: Floats) -> Floats:
    """E[clip(u + e, ±c)] with e = s√τ Z, Z normal and τ/2 ~ Gamma((d+1)/2), integrated over w = √(τ/2)."""
    if scale == 0:
        return np.clip(u, -c, c)
    x, weight = rule()
    top = 6 + math.sqrt(d)
    w = top * (1 + x) / 2
    weight = weight * w**d * np.exp(-(w**2))
    sd = scale * math.sqrt(2) * w

    def above(v: Floats) -> Floats:
        """E[(v + sd Z)⁺]."""
        z = v[:, None] / sd
        height = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        return np.asarray((sd * (z * special.ndtr(z) + height)) @ weight)

    return np.asarray((above(u + c) - above(u - c)) / weight.sum() - c)


def prior_density(beliefs: Beliefs, u: Floats) -> Floats:
    inside, d, prior = np.maximum(beliefs.radius**2 - u**2, 0.0), beliefs.dimension, beliefs.prior
    if isinstance(prior, NormalBall):
        rest = special.gammainc((d - 1) / 2, inside / (2 * prior.sd**2)) if d > 1 else 1.0
        return np.asarray(np.exp(-(u**2) / (2 * prior.sd**2)) * rest)
    return np.asarray(inside ** ((d - 1) / 2))


def noise_density(beliefs: Beliefs, z: Floats) -> Floats:
    if isinstance(beliefs.noise, TruncatedNormal):
        return np.asarray(np.exp(-((z / beliefs.noise.sd) ** 2) / 2))
    return np.ones_like(z)


@cache
def own_predictions(name: str, r: float, c: float | None, scale: float) -> tuple[Floats, Floats, Floats]:
    """201 answers from 0 to just below Rr + M, their density up to a factor, and q: by adaptive quadrature."""
    beliefs = BELIEFS[name]
    R, M = beliefs.radius, beliefs.noise_bound
    y = np.linspace(0, R * r + M, 201) * (1 - 1e-9)
    dense = np.linspace(-R, R, 4_001)
    curve = dense if c is None else peer_curve(beliefs.dimension, c, scale / r, dense)
    # Pieces between the ends of the support and the corners of ψ, where it is smooth; some are empty.
    low, high = np.maximum(-R, (y - M) / r), np.minimum(R, (y + M) / r)
    cuts = np.array([low, *(np.clip(corner, low, high) for corner in (-(c or 0.0), c or 0.0)), high])
    start, width = cuts[:-1], np.diff(cuts, axis=0)

    def integrand(v: float) -> Floats:
        u = start + width * v**2 * (3 - 2 * v)
        weight = (
            width * 6 * v * (1 - v) * prior_density(beliefs, u) * noise_density(beliefs, y - r * u) / unit
        )
        return np.stack([weight.sum(axis=0), (weight * np.interp(u, dense, curve)).sum(axis=0)])

    # Each density is divided by its size, so that the tolerance means the same for all.
    unit = np.ones_like(y)
    unit = np.mean([integrand(v)[0] for v in np.linspace(0.02, 0.98, 49)], axis=0)
    found, _ = integrate.quad_vec(integrand, 0, 1, epsabs=1e-6, epsrel=0, norm="max", limit=400)
    mass, moment = np.asarray(found)
    return y, mass * unit, r * moment / mass


def brute_force(name: str, r: float, c: float | None, scale: float, lies: Floats) -> Floats:
    """The definition, on 20,000 answers y' and 201 truthful ones; share and law are even in y."""
    Y = BELIEFS[name].response_bound
    y, density, q = own_predictions(name, r, c, scale)
    lied = (np.arange(20_000) + 0.5) / 10_000 * Y - Y
    told = np.sign(lied) * np.interp(np.abs(lied), y, q)
    told = np.maximum.accumulate(told)  # q rises; the quadrature's last digits need not.
    shares = [
        np.searchsorted(told, q + lie + 1e-7, "right") - np.searchsorted(told, q - lie - 1e-7) for lie in lies
    ]
    return np.asarray(integrate.trapezoid(np.array(shares) * density, y) / np.trapezoid(density, y) / 20_000)


def undeterred(people: Deterrence, lies: Floats, clip: float | None, scale: float) -> Floats:
    return np.array([people.undeterred_share(float(lie), clip, scale) for lie in lies])


def matched_lie(people: Deterrence, lie: float, clip: float, scale: float) -> float:
    return float(people.matched_lies(lie, [clip], [scale])[0, 0])


@pytest.mark.parametrize(
    ("clip", "scale"), [(1.0, 0.01), (1.0, 2.0), (0.25, 0.0), (0.25, 0.001), (0.25, 0.4)]
)
@pytest.mark.parametrize("name", BELIEFS)
def test_the_share_is_what_the_definition_says(name: str, clip: float, scale: float) -> None:
    """Two people, one whose q is flat in the middle if noise is uniform; peer noise is not in proportion to length."""
    c = clip * BELIEFS[name].radius
    people = Deterrence(BELIEFS[name], np.array([0.35, 0.9]), np.array([0.5, 0.7]))
    expected = sum(brute_force(name, r, c, scale * p, LIES) for r, p in ((0.35, 0.5), (0.9, 0.7))) / 2
    np.testing.assert_allclose(undeterred(people, LIES, c, scale), expected, atol=2e-3)


@pytest.mark.parametrize("name", BELIEFS)
def test_without_a_clip_peers_are_taken_as_they_are(name: str) -> None:
    people = Deterrence(BELIEFS[name], np.array([0.8]), np.array([1.0]))
    np.testing.assert_allclose(
        undeterred(people, LIES, None, 5.0), brute_force(name, 0.8, None, 0.0, LIES), atol=2e-3
    )


@pytest.mark.parametrize("clip", [1.0, 0.3, None])
@pytest.mark.parametrize("name", BELIEFS)
def test_the_share_rises_with_the_lie_to_one(name: str, clip: float | None) -> None:
    beliefs = BELIEFS[name]
    people = Deterrence(beliefs, np.array([0.01, 0.5, 1.0]), np.array([0.3, 0.2, 0.1]))
    lies = np.linspace(0, 2 * beliefs.radius, 201)
    shares = undeterred(people, lies, clip, 0.1)
    assert shares[0] >= 0
    assert np.all(np.diff(shares) >= -1e-9)
    assert shares[-1] == pytest.approx(1.0, abs=1e-12)
    assert shares[100] == people.undeterred_share(float(lies[100]), clip, 0.1)


@pytest.mark.parametrize("r", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("d", [1, 2])
def test_all_of_a_plateau_is_undeterred(d: int, r: float) -> None:
    """Under uniform noise q is flat for |y| ≤ M - Rr. A truthful answer lies there with probability 1 - Rr/M."""
    people = Deterrence(Beliefs(d, UniformBall(1.0), UniformNoise(1.5)), np.array([r]), np.array([r]))
    assert people.undeterred_share(0.0, 1.0, 0.1) == pytest.approx((1.5 - r) ** 2 / 1.5 / 2.5, abs=2e-4)


def test_where_nothing_is_flat_the_smallest_lie_is_deterred() -> None:
    people = Deterrence(BELIEFS["ball, normal noise, d = 2"], np.array([0.5, 1.0]), np.array([1.0, 1.0]))
    assert people.undeterred_share(0.0, 1.0, 0.1) == pytest.approx(0.0, abs=1e-6)


def test_answers_that_cannot_be_true_count_as_the_edge() -> None:
    """All answers beyond Rr + M move q as far as that one, to Rr: with D close to it they matter."""
    name, lies = "ball, normal noise, d = 2", np.array([0.15, 0.199, 0.201, 0.25])
    people = Deterrence(BELIEFS[name], np.array([0.2]), np.array([1.0]))
    np.testing.assert_allclose(
        undeterred(people, lies, None, 0.0), brute_force(name, 0.2, None, 0.0, lies), atol=2e-3
    )


@pytest.mark.parametrize("scale", [0.0, 1e-3, 0.05, 0.5, 5.0, 1e3])
@pytest.mark.parametrize("name", BELIEFS)
def test_at_the_radius_a_lie_is_matched_by_itself(name: str, scale: float) -> None:
    beliefs = BELIEFS[name]
    people = Deterrence(beliefs, np.array([0.3, 0.9]), np.array([0.3, 0.9]))
    for lie in (0.0, 0.03, 0.5, 3.0):
        assert matched_lie(people, lie, beliefs.radius, scale) == lie


@pytest.mark.parametrize("scale", [1e-3, 0.05, 0.3])
@pytest.mark.parametrize("clip", [0.8, 0.5, 0.2])
@pytest.mark.parametrize("name", BELIEFS)
def test_a_matched_lie_leaves_as_much_undeterred(name: str, clip: float, scale: float) -> None:
    """By the planner's table and by one call; little noise has plateaus that leave more free whatever D is."""
    beliefs = BELIEFS[name]
    R, lengths = beliefs.radius, np.array([0.3, 0.6, 1.0])
    people = Deterrence(beliefs, lengths, lengths)
    lie = 0.3 * R
    matched = matched_lie(people, lie, clip * R, scale)
    if matched == 0:
        assert name == "little noise"
        assert people.undeterred_share(0.0, clip * R, scale) > people.undeterred_share(lie, R, scale)
        return
    assert 0 < matched < lie
    assert people.undeterred_share(matched, clip * R, scale) == pytest.approx(
        people.undeterred_share(lie, R, scale), abs=1e-6
    )
    table = people.matched_lies(lie, [R, clip * R], [0.1, scale])
    assert table.shape == (2, 2)
    assert table[0].tolist() == [lie, lie]
    assert table[1, 1] == pytest.approx(matched, rel=1e-6)


@given(
    d=st.sampled_from([1, 2, 5, 10]),
    r=st.floats(0.2, 1),
    M=st.floats(0.3, 3),
    sd=st.floats(0.3, 2),
    clip=st.floats(0.1, 1),
    scale=st.floats(0, 2),
    lie=st.floats(0.02, 0.3),
)
def test_matching_holds_for_all_beliefs(
    d: int, r: float, M: float, sd: float, clip: float, scale: float, lie: float
) -> None:
    people = Deterrence(
        Beliefs(d, UniformBall(1.0), TruncatedNormal(M, sd)), np.array([r / 2, r]), np.array([r, r])
    )
    matched, target = matched_lie(people, lie, clip, scale), people.undeterred_share(lie, 1.0, scale)
    assert 0 <= matched <= lie
    share = people.undeterred_share(matched, clip, scale)
    assert share == pytest.approx(target, abs=1e-3) or (matched == 0 and share > target)


def test_where_everything_is_undeterred_a_matched_lie_is_beyond_the_span_too() -> None:
    people = Deterrence(BELIEFS["ball, normal noise, d = 10"], np.array([0.9]), np.array([0.9]))
    assert people.undeterred_share(0.5, 1.0, 2.0) == 1.0
    matched = matched_lie(people, 0.5, 0.1, 2.0)
    assert matched < 0.1
    assert people.undeterred_share(matched, 0.1, 2.0) == 1.0


def test_a_clip_that_plateaus_make_useless_is_said_by_zero() -> None:
    """With little noise nearly everybody's answer leads beyond ±R/10, and there q is flat."""
    people = Deterrence(Beliefs(1, UniformBall(1.0), UniformNoise(0.1)), np.array([1.0]), np.array([1.0]))
    assert matched_lie(people, 0.1, 0.1, 0.0) == 0.0
    assert people.undeterred_share(0.0, 0.1, 0.0) > people.undeterred_share(0.1, 1.0, 0.0)


@pytest.mark.parametrize(("d", "cheaper"), [(2, 0.62), (5, 0.51), (10, 0.43)])
def test_half_the_clip_makes_deterrence_cheaper_on_the_ball(d: int, cheaper: float) -> None:
    """c²/D(c)² at c = R/2 over R²/D², at little peer noise, for features uniform on the ball.

    Over each person's possible answers, |y| ≤ Rr + M, instead of all of [-Y, Y], and at the root mean square of r, it
    would be 0.53, 0.45 and 0.41.
    """
    lengths = ((np.arange(10_000) + 0.5) / 10_000) ** (1 / d)
    people = Deterrence(Beliefs(d, UniformBall(1.0), NORMAL), *representative(lengths, lengths))
    matched = matched_lie(people, 0.5, 0.5, 1e-3)
    assert (0.5 / matched) ** 2 * 0.5**2 == pytest.approx(cheaper, rel=0.02)


def test_sixteen_people_stand_for_all() -> None:
    beliefs = BELIEFS["ball, normal noise, d = 2"]
    lengths = np.random.default_rng(5).random(100) ** 0.5
    proportions = 0.5 + lengths
    few = Deterrence(beliefs, *representative(lengths, proportions))
    everybody = Deterrence(beliefs, lengths, proportions)
    lies = np.array([0.1, 0.2, 0.5])
    np.testing.assert_allclose(
        undeterred(few, lies, 0.5, 0.1), undeterred(everybody, lies, 0.5, 0.1), atol=5e-3
    )


def test_representatives_are_root_mean_squares_of_equal_groups() -> None:
    lengths, proportions = representative([0.4, 0.1, 0.3, 0.2], [4.0, 1.0, 3.0, 2.0], count=2)
    assert lengths == pytest.approx(np.sqrt([0.025, 0.125]))
    assert proportions == pytest.approx(np.sqrt([2.5, 12.5]))


@pytest.mark.parametrize("count", [1, 3, 16])
def test_representatives_keep_the_mean_square_whatever_their_number(count: int) -> None:
    """Also of fewer people than representatives; features of length 0 are left out."""
    given_lengths, given_proportions = (
        np.array([0.0, 0.2, 0.7, 0.7, 1.0]),
        np.array([9.0, 1.0, 2.0, 2.0, 3.0]),
    )
    lengths, proportions = representative(given_lengths, given_proportions, count)
    assert len(lengths) == len(proportions) == count
    assert np.mean(lengths**2) == pytest.approx(np.mean(given_lengths[1:] ** 2))
    assert np.mean(proportions**2) == pytest.approx(np.mean(given_proportions[1:] ** 2))
    assert np.all(np.diff(lengths) >= -1e-15)


@pytest.mark.parametrize(
    ("lengths", "proportions", "said"),
    [
        ([], [], "lengths is empty"),
        ([0.5, 0.0], [1.0, 1.0], "lengths holds 0.0"),
        ([1.5], [1.0], "lengths holds 1.5"),
        ([0.5], [-1.0], "proportions holds -1.0"),
        ([0.5], [1.0, 2.0], "proportions has 2 entries"),
        ([np.nan], [1.0], r"lengths\[0\] is nan"),
    ],
)
def test_people_who_cannot_be_are_refused(lengths: list[float], proportions: list[float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Deterrence(BELIEFS["other units"], np.array(lengths), np.array(proportions))


def test_impossible_questions_are_refused() -> None:
    people = Deterrence(BELIEFS["other units"], np.array([0.5]), np.array([1.0]))
    with pytest.raises(InputError, match=r"lie is -0\.1"):
        people.undeterred_share(-0.1, 1.0, 0.1)
    with pytest.raises(InputError, match="lie is inf"):
        people.undeterred_share(math.inf, 1.0, 0.1)
    with pytest.raises(InputError, match="clip is 0"):
        people.undeterred_share(0.1, 0.0, 0.1)
    with pytest.raises(InputError, match="scale is -1"):
        people.undeterred_share(0.1, 1.0, -1.0)
    with pytest.raises(InputError, match=r"lie is -0\.5"):
        matched_lie(people, -0.5, 1.0, 0.1)
    with pytest.raises(InputError, match="lengths holds -1"):
        representative([-1.0], [1.0])
    with pytest.raises(InputError, match="lengths are all 0"):
        representative([0.0, 0.0], [1.0, 1.0])
