"""Invented people, who answer as the study believes people do: for demonstrations and rehearsals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from truthful.check import Floats
from truthful.study import Study
from truthful.study.features import Levels
from truthful.study.shares import ShareBeliefs, likeness


@dataclass(frozen=True, eq=False)
class People:
    """Honest reports in raw units, and the coefficients they were made from."""

    reports: Any
    theta: Floats


def invent(study: Study, players: int, rng: np.random.Generator) -> People:
    """Draw θ from what is believed, features from the design, and answers: y = θ·x + z, or yes, no and ratings."""
    beliefs = study.shares
    if beliefs is None:
        theta = study.beliefs.prior.sample(rng, study.dimension, 1)[0]
    else:
        theta = draw_shares(study, beliefs, rng)
    columns = study.sample_features(rng, players) if study.features else {}
    X = study.normalise(columns, players)
    if beliefs is None:
        raw = study.raw_response(X @ theta + study.beliefs.noise.sample(rng, players), X)
    else:
        raw = np.rint(study.raw_response(answers(beliefs, X @ theta, rng), X))
    width = len(str(players))
    names = [f"p-{i:0{width}d}" for i in range(1, players + 1)]
    return People(pa.table({"player": names, **columns, study.response.name: raw}), theta)


def draw_shares(study: Study, beliefs: ShareBeliefs, rng: np.random.Generator) -> Floats:
    """θ for which the share is (1 + θ·x)/2: uniform between what is declared, as are effects about those expected.

    Effects of levels sum to zero, and each is uniform on ±e/2: heights, above any plane, of points that are evenly
    spaced on a circle turned at random in space (Archimedes).
    """
    codes = np.array(beliefs.expected)
    codes[0] += rng.uniform(beliefs.low, beliefs.high)
    codes += np.array(beliefs.numbers) / 2 * rng.uniform(-1, 1, len(codes))
    encoding, factors = study.declared.encoding, iter(beliefs.factors)
    for feature, place in zip(encoding.features, encoding.slices, strict=True):
        if isinstance(feature, Levels):
            normal = rng.standard_normal(3)
            angles = 2 * np.pi * rng.permutation(len(feature.levels)) / len(feature.levels)
            heights = np.stack([np.cos(angles), np.sin(angles)], axis=1) @ normal[:2] / np.linalg.norm(normal)
            codes[place] += next(factors) / 2 * feature.codes(heights)[0]
    theta = 2 * codes
    theta[0] -= 1
    return np.asarray(theta * encoding.scale)


def answers(beliefs: ShareBeliefs, predicted: Floats, rng: np.random.Generator) -> Floats:
    """Normalised answers of people whose shares are (1 + predicted)/2: of K levels, how many of K − 1 parts are yes.

    The parts of one person are alike to the degree ρ (`agreement`): yes with a chance of her own, which follows a Beta
    law about the share, with a variance of ρ times the largest there is.
    """
    share, parts, rho = np.clip((1 + predicted) / 2, 0.0, 1.0), beliefs.levels - 1, likeness(beliefs)
    if parts > 1 and rho > 0:
        weight = 1 / rho - 1
        inside = (share > 0) & (share < 1)
        between = np.where(inside, share, 0.5)
        share = np.where(inside, rng.beta(between * weight, (1 - between) * weight), share)
    return np.asarray(2.0 * rng.binomial(parts, share) / parts - 1)
