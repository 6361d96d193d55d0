"""Situations drawn for people, and invented people who answer as the study believes: for rehearsals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from truthful.check import Floats
from truthful.errors import InputError
from truthful.study import Study
from truthful.study.credibility import REACH, LevelBeliefs, ShareBeliefs, likeness
from truthful.study.declaration import PLAYER, PREDICTION
from truthful.study.features import Levels, RawColumns, draw_columns

#: How far inside the scale centres of beliefs about numbers lie, in standard deviations of an answer.
INSIDE = 2.5


@dataclass(frozen=True, eq=False)
class People:
    """Honest reports in raw units, and the coefficients they were made from."""

    reports: Any
    theta: Floats


def assign(study: Study, names: Sequence[Any], rng: np.random.Generator) -> Any:
    """A table of the situations to show to these people: features drawn from the design, a row for each."""
    if not study.features:
        raise InputError(f"Study {study.name!r} has no features, so that there is nothing to assign.")
    if not study.assigned:
        raise InputError(
            f"design.kind is {study.design.kind!r}: people have features of their own, so that there is nothing to "
            "assign. Where you choose what people are shown, declare design.kind = 'uniform' or 'assigned'."
        )
    return pa.table({PLAYER: names, **study.sample_features(rng, len(names))})


def number_players(players: int) -> list[str]:
    """Ids of invented people."""
    width = len(str(players))
    return [f"p-{i:0{width}d}" for i in range(1, players + 1)]


def invent(study: Study, players: int, rng: np.random.Generator, spread_evenly: bool = False) -> People:
    """Draw θ from the beliefs, features from the design, and answers: y = θ·x + z, or yes, no and ratings.

    Where people are asked what the others will say, their predictions err as much as declared. Features without a
    declared distribution can be spread evenly over their ranges and levels.
    """
    beliefs, levels = study.shares, study.levels
    if levels is None:
        theta = (
            study.beliefs.prior.sample(rng, study.dimension, 1)[0]
            if beliefs is None
            else draw_shares(study, beliefs, rng)
        )
    columns: RawColumns = {}
    if spread_evenly and not study.assigned:
        columns = draw_columns(rng, players, study.declared.encoding.features)
    elif study.features:
        columns = study.sample_features(rng, players)
    X = study.normalise(columns, players)
    if levels is not None:
        mean = X.mean(axis=0)
        theta = draw_level(study, levels, draw_centre(levels, rng), mean, rng)
        y = draw_answers(levels, X @ theta, rng)
    elif beliefs is None:
        y = X @ theta + study.beliefs.noise.sample(rng, players)
    else:
        y = answers(beliefs, X @ theta, rng)
    raw = study.raw_response(y, X)
    said = {study.response.name: raw if beliefs is None else np.rint(raw)}
    if levels is not None:
        low, high = study.prediction_range
        predicted = np.clip(y.mean() + levels.sure * rng.standard_normal(players), -1.0, 1.0)
        said[PREDICTION] = (low + (high - low) * (1 + predicted) / 2).round(1)
    return People(pa.table({PLAYER: number_players(players), **columns, **said}), theta)


def draw_shares(study: Study, beliefs: ShareBeliefs, rng: np.random.Generator) -> Floats:
    """Draw θ, the share being (1 + θ·x)/2: it is uniform on the declared range, and effects about the expected ones.

    Effects of levels sum to zero, and each is uniform on ±e/2: heights, above any plane, of points that are evenly
    spaced on a circle turned at random in space (Archimedes).
    """
    codes = np.array(beliefs.expected)
    codes[0] += rng.uniform(beliefs.low, beliefs.high)
    theta = 2 * (codes + _effects(study, beliefs, rng))
    theta[0] -= 1
    return np.asarray(theta * beliefs.scale)


def draw_level(
    study: Study, beliefs: LevelBeliefs, centre: float, mean: Floats, rng: np.random.Generator
) -> Floats:
    """Draw θ where people expect the average answer `centre`, and everybody's mean features are `mean`.

    Shares are uniform, as above; numbers are normal with the same variances: slopes are then exact.
    """
    normal = beliefs.shares is None
    codes = np.array(beliefs.expected) + _effects(study, beliefs, rng, normal)
    off = rng.standard_normal() if normal else rng.uniform(-REACH, REACH)
    codes[0] = centre + beliefs.sure * off - codes[1:] @ mean[1:] * beliefs.scale
    return np.asarray(codes * beliefs.scale)


def draw_centre(beliefs: LevelBeliefs, rng: np.random.Generator) -> float:
    """Draw the average answer that people expect: any possible one, but not at the ends of the scale.

    For numbers it lies far enough inside that hardly an answer is cut at an end.
    """
    inside = REACH * beliefs.sure
    low, high = beliefs.low + inside, beliefs.high - inside
    if beliefs.shares is None:
        cut = INSIDE * math.hypot(beliefs.sure, beliefs.spread or 0.0)
        low, high = max(low, cut - 1), min(high, 1 - cut)
    return float(rng.uniform(low, high)) if low < high else (low + high) / 2


def _effects(
    study: Study, beliefs: ShareBeliefs | LevelBeliefs, rng: np.random.Generator, normal: bool = False
) -> Floats:
    """Draw, per unit of each column's code, the effect beside the expected one."""
    codes = np.array(beliefs.numbers) / 2 * _spread(rng, len(beliefs.numbers), normal)
    encoding, factors = study.declared.encoding, iter(beliefs.factors)
    for feature, place in zip(encoding.features, encoding.slices, strict=True):
        if isinstance(feature, Levels):
            codes[place] += next(factors) / 2 * feature.codes(_heights(len(feature.levels), rng, normal))[0]
    return np.asarray(codes)


def _spread(rng: np.random.Generator, count: int, normal: bool) -> Floats:
    """Draw numbers of variance ⅓."""
    return rng.standard_normal(count) / REACH if normal else rng.uniform(-1, 1, count)


def _heights(levels: int, rng: np.random.Generator, normal: bool) -> Floats:
    """Draw numbers of variance ⅓ that sum to zero."""
    if normal:
        drawn = _spread(rng, levels, normal)
        return np.asarray((drawn - drawn.mean()) * math.sqrt(levels / (levels - 1)))
    direction = rng.standard_normal(3)
    angles = 2 * np.pi * rng.permutation(levels) / levels
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.asarray(circle @ direction[:2] / np.linalg.norm(direction))


def draw_answers(beliefs: LevelBeliefs, predicted: Floats, rng: np.random.Generator) -> Floats:
    """Draw answers of people with these true averages; numbers are normal, and cut at the ends of the scale."""
    if beliefs.shares is not None:
        return answers(beliefs.shares, predicted, rng)
    spread = (beliefs.spread or 0.0) * rng.standard_normal(len(predicted))
    return np.asarray(np.clip(predicted + spread, -1.0, 1.0))


def answers(beliefs: ShareBeliefs, predicted: Floats, rng: np.random.Generator) -> Floats:
    """Draw normalised answers of people with shares (1 + predicted)/2: for K levels, how many of K − 1 parts are yes.

    The parts of one person have correlation ρ (`agreement`): each is yes with her own chance, which follows a Beta
    distribution about the share, with ρ times the largest possible variance.
    """
    share, parts, rho = np.clip((1 + predicted) / 2, 0.0, 1.0), beliefs.levels - 1, likeness(beliefs)
    if parts > 1 and rho > 0:
        weight = 1 / rho - 1
        inside = (share > 0) & (share < 1)
        between = np.where(inside, share, 0.5)
        share = np.where(inside, rng.beta(between * weight, (1 - between) * weight), share)
    return np.asarray(2.0 * rng.binomial(parts, share) / parts - 1)
