"""The people expected to answer, for plans that protect answers: from a roster, or drawn from the design.

All bounds are closed forms of respondents' features. Where everybody on a roster answers, they are exact. Where only a
share will, or people are yet to be drawn, the plan is made for people among whom accuracy is worse than in 99 of 100
random draws; the numbers are computed again for those who answered, before anything is released.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from truthful import check
from truthful.beliefs import Beliefs
from truthful.bounds import asked_bounds
from truthful.bounds.setting import Numbers
from truthful.bounds.share_bounds import believed_rows, group_beliefs
from truthful.check import Floats
from truthful.deterrence import Deterrence, largest_belief_gap, representative
from truthful.errors import InputError, Refused
from truthful.geometry import Geometry, Largest, Lengths, effects_of, geometry
from truthful.instruments import best_transform, shorten
from truthful.intake import read_features
from truthful.moments import GRID, Transform, grid_features, instruments_on_grid
from truthful.one_release import LARGEST_LEVERAGE, WORST_CONDITION
from truthful.study import Study

#: The least clip level to try, as a part of R: below it most lies would go free.
LEAST_CLIP = 0.2
#: The number of levels at which D is computed, and of those on the monotone cubic through them.
CLIPS, FINE = 11, 161
#: Noise scales along typical features, as parts of R. D falls by a third between these, and beyond them hardly changes.
NOISES = (0.01, 0.03, 0.06, 0.1, 0.16, 0.25, 0.4, 0.7, 1.5, 10.0)

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ClipTable:
    """A table over clip levels and noise scales, for people of these lengths and relative noise.

    values: computes it, levels as rows and scales as columns. pinned: the only level wanted; None for all.
    """

    beliefs: Beliefs
    lengths: Floats
    proportions: Floats
    values: Callable[[Floats, Floats], Floats]
    pinned: float | None

    def __call__(self, clip: Numbers, scale: Numbers) -> Floats:
        """Interpolate linearly between levels and between log noises."""
        levels, table = self._table
        noise = np.log(np.asarray(scale) * self._typical / self.beliefs.radius)
        i, u = _place(np.asarray(clip, dtype=np.float64), levels)
        j, v = _place(noise, np.log(NOISES))
        low, high = (table[i, k] + u * (table[i + 1, k] - table[i, k]) for k in (j, j + 1))
        return np.asarray(low + v * (high - low))

    @cached_property
    def _typical(self) -> float:
        """The noise along a unit vector of x at scale 1: a root mean square weighted by ‖x‖²."""
        return math.sqrt(float(np.mean(self.proportions**2)) / float(np.mean(self.lengths**2)))

    @cached_property
    def _table(self) -> tuple[Floats, Floats]:
        """The levels, and the table with levels as rows and noises as columns."""
        R, pinned = self.beliefs.radius, self.pinned
        clips = np.linspace(LEAST_CLIP * R, R, CLIPS) if pinned is None else np.array([pinned, R])
        table = self.values(clips, R / self._typical * np.array(NOISES))
        return (clips, table) if pinned is not None else (np.linspace(clips[0], R, FINE), _refine(table))


def matched_lies(
    beliefs: Beliefs, lengths: Floats, proportions: Floats, lie: float, pinned: float | None
) -> ClipTable:
    """D at every clip level and noise; `lie` is D at c = R."""
    people = tuple(tuple(part.tolist()) for part in representative(lengths, proportions))

    def values(clips: Floats, scales: Floats) -> Floats:
        return _lies(beliefs, *people, lie, tuple(clips.tolist()), tuple(scales.tolist()))

    return ClipTable(beliefs, lengths, proportions, values, pinned)


@lru_cache(maxsize=64)
def _lies(
    beliefs: Beliefs,
    lengths: tuple[float, ...],
    proportions: tuple[float, ...],
    lie: float,
    clips: tuple[float, ...],
    scales: tuple[float, ...],
) -> Floats:
    """Cached: the same people are planned for again, with other goals."""
    return _deterrence(beliefs, lengths, proportions).matched_lies(lie, clips, scales)


@lru_cache(maxsize=4)
def _deterrence(beliefs: Beliefs, lengths: tuple[float, ...], proportions: tuple[float, ...]) -> Deterrence:
    """Cached: lies of other sizes are asked about for the same people."""
    return Deterrence(beliefs, np.array(lengths), np.array(proportions))


def belief_gaps(
    beliefs: Beliefs, lengths: Floats, proportions: Floats, shift: float, pinned: float | None
) -> ClipTable:
    """Γ: the most that a centre which is off by `shift` (normalised) changes anybody's expectation."""
    gap = partial(largest_belief_gap, beliefs, lengths, proportions, shift)

    def values(clips: Floats, scales: Floats) -> Floats:
        return np.array([[gap(float(clip), float(scale)) for scale in scales] for clip in clips])

    return ClipTable(beliefs, lengths, proportions, values, pinned)


#: `matched_lies` or `belief_gaps`.
Tabulate = Callable[[Beliefs, Floats, Floats, float, float | None], ClipTable]


def _place(x: Floats, points: Floats) -> tuple[npt.NDArray[np.intp], Floats]:
    """The cell of `points` that x is in, or the nearest, and x's relative position in it."""
    place = np.interp(x, points, np.arange(len(points)))
    cell = np.minimum(place.astype(np.intp), len(points) - 2)
    return cell, place - cell


def _refine(table: Floats) -> Floats:
    """Refine CLIPS rows to FINE by monotone cubics (Fritsch and Butland, 1984)."""
    rise = np.diff(table, axis=0)
    before, after = rise[:-1], rise[1:]
    product = np.maximum(before * after, 0.0)
    inner = 2 * np.divide(product, before + after, out=np.zeros_like(product), where=product > 0)
    first, last = (
        np.clip((3 * near - far) / 2, np.minimum(3 * near, 0), np.maximum(3 * near, 0))
        for near, far in ((rise[0], rise[1]), (rise[-1], rise[-2]))
    )
    slopes = np.vstack([first, inner, last])
    cell, t = _place(np.linspace(0, CLIPS - 1, FINE), np.arange(float(CLIPS)))
    t, low, high = t[:, None], slopes[cell], slopes[cell + 1]
    bent = (1 - t) * (low - rise[cell]) + t * (rise[cell] - high)
    return np.asarray(table[cell] + t * (rise[cell] + (1 - t) * bent))


#: Random draws of respondents, of which the worst counts; and the most people in a draw.
DRAWS, MOST_DRAWN = 100, 8_000
#: Slack beyond the worst draw.
SPARE = 1.02
#: Slack for the worst-placed person's view of the others, τ, v and v/τ, where a promise has no other slack.
SPARE_WORST = np.array([1.05, 1.05, 1.05, 1.0, 1.0])
#: The most standard errors by which respondents' mean features may differ from those of all invited.
STANDARD_ERRORS = 4.0
#: The pool drawn from a design, in multiples of the largest draw.
POOL = 4
#: The ratio of neighbouring sizes at which a geometry is computed; other sizes scale the next smaller one. Up to EXACT
#: people, every size is computed.
RATIO = 1.05
EXACT = 200
#: Shares of people shortened that a plan chooses from: at 1 all have the same influence, at 0 it is least squares.
SHORTENINGS = (1.0, 0.7, 0.4, 0.0)

NO_ROSTER = (
    "The study does not say how features are distributed, so a plan needs the people themselves: give a file of their "
    "features with --roster people.csv (in the library, roster=table). No answers are needed."
)


@dataclass(frozen=True)
class Roster:
    """The roster a plan was made for: its size, and a hash of its features."""

    sha256: str
    players: int


@dataclass(frozen=True, eq=False)
class Panel:
    """The people of a study: normalised features of a roster, or None; and the share of invited people who will answer.

    rough: assume respondents are distributed like the whole pool (faster).
    """

    study: Study
    roster: Floats | None = None
    response_share: float = 1.0
    accuracy_of: str = "coefficients"
    rough: bool = False
    _kept: dict[tuple[object, ...], Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not 0 < check.finite("response_share", self.response_share) <= 1:
            raise InputError(
                f"response_share is {self.response_share!r}; it must be above 0, and at most 1.",
                argument="response_share",
            )
        unknown = self.study.features and self.study.design.kind in ("observed", "covariance")
        if self.roster is None and unknown:
            raise InputError(NO_ROSTER)
        if self.roster is not None and self.answering(len(self.roster)) < self._fewest:
            raise Refused(
                f"{self.answering(len(self.roster))} people are expected to answer, too few to tell "
                f"{self.study.dimension} coefficients. Ask {math.ceil(self._fewest / self.response_share)} at least."
            )

    @property
    def _fewest(self) -> int:
        return 2 * self.study.dimension + 2

    @property
    def size(self) -> int | None:
        """The size of the roster; None where people are yet to be drawn."""
        return None if self.roster is None else len(self.roster)

    @cached_property
    def roughly(self) -> Panel:
        """This panel in rough mode; shares its cache."""
        return replace(self, rough=True)

    @property
    def hashed_roster(self) -> Roster | None:
        """Size and hash of the roster, features on the grid, in its order."""
        if self.roster is None:
            return None
        steps = np.ascontiguousarray(np.rint(self.roster * GRID), dtype="<i4")
        return Roster(hashlib.sha256(steps.tobytes()).hexdigest(), len(steps))

    def invite(self, players: int | None) -> int | None:
        """The number of people invited: all on the roster, unless fewer are wanted."""
        if self.size is None or players is None:
            return self.size if players is None else players
        if players > self.size:
            raise InputError(
                f"players is {players:,}, but there are {self.size:,} people on the roster.",
                argument="players",
            )
        return players

    def answering(self, players: int) -> int:
        """The number expected to answer among so many invited."""
        return max(2, round(self.response_share * players))

    def transform(self, shortening: float, norm: str = "l2") -> Transform:
        """T of the instruments, at the size that shortens this share of people."""
        direction = self._memoised(
            lambda: best_transform(self._pool, self.accuracy_of, norm), "direction", norm
        )
        return shorten(self._pool, direction, shortening, norm)

    def geometry(self, players: int, shortening: float, norm: str = "l2") -> Geometry:
        """The geometry of those expected to answer if this many are invited."""
        n = self._draw_size(self.answering(players))
        found = self._memoised(lambda: self._geometry(n, shortening, norm), "geometry", n, shortening, norm)
        return replace(found, lengths=self._lengths(players, n), believed=self.believed_by(players))

    def pool_geometry(self, shortening: float, norm: str = "l2") -> Geometry:
        """The geometry of the whole pool."""

        def compute() -> Geometry:
            return geometry(self._pool, self.transform(shortening, norm), norm=norm)

        return self._memoised(compute, "everybody", shortening, norm)

    def _memoised(self, compute: Callable[[], T], *key: object) -> T:
        """Compute once per key."""
        if key not in self._kept:
            self._kept[key] = compute()
        found: T = self._kept[key]
        return found

    @cached_property
    def believed(self) -> Floats | None:
        """Beliefs about shares over the pool, grouped, where answers are shares."""
        beliefs = self.study.shares
        return None if beliefs is None else group_beliefs(believed_rows(beliefs, self._pool))

    def believed_by(self, players: int) -> Floats | None:
        """The beliefs of respondents if this many are invited; of differences, where people are asked for predictions.

        Differences depend on respondents' mean features, which vary by chance.
        """
        if (beliefs := self.study.levels) is None:
            return self.believed
        n, X = self.answering(players), self._pool

        def compute() -> Floats:
            away = STANDARD_ERRORS * X.std(axis=0) / math.sqrt(n)
            if self.roster is not None:
                away *= math.sqrt(max(0.0, 1 - n / len(self.roster)))
            return asked_bounds.group_levels(asked_bounds.level_rows(beliefs, X, X.mean(axis=0), away))

        return self._memoised(compute, "believed", n)

    def table(self, tabulate: Tabulate, shortening: float, size: float, pinned: float | None) -> ClipTable:
        """`matched_lies` or `belief_gaps` for people like these, at noise of scale s/n with n respondents."""

        def compute() -> ClipTable:
            found = self.pool_geometry(shortening)
            lengths, tau = found.people
            return tabulate(self.study.beliefs, lengths, tau * found.players, size, pinned)

        return self._memoised(compute, tabulate, shortening, size, pinned)

    @cached_property
    def _pool(self) -> Floats:
        """Everybody on the roster, or a large sample of the design: the same for every plan."""
        return self._memoised(self._draw_pool, "pool") if self.roster is None else self.roster

    def _draw_pool(self) -> Floats:
        if not self.study.features:
            return grid_features(self.study.normalise({}, MOST_DRAWN)) / GRID
        rng = np.random.default_rng(0)
        columns = self.study.sample_features(rng, POOL * MOST_DRAWN)
        return grid_features(self.study.normalise(columns, POOL * MOST_DRAWN)) / GRID

    def _draw_size(self, answering: int) -> int:
        """The size of the sample whose geometry is scaled to this number of respondents."""
        if self.rough:
            return len(self._pool)
        if self.roster is not None:
            return max(self._fewest, min(answering, self.answering(len(self.roster))))
        if answering <= EXACT or not self.study.features:
            return max(self._fewest, min(answering, MOST_DRAWN))
        steps = math.floor(math.log(min(answering, MOST_DRAWN) / EXACT * (1 + 1e-9)) / math.log(RATIO))
        return max(self._fewest, math.floor(EXACT * RATIO**steps))

    def _geometry(self, n: int, shortening: float, norm: str) -> Geometry:
        X, transform = self._pool, self.transform(shortening, norm)
        everybody = self.pool_geometry(shortening, norm)
        if n == len(X):
            return self._with_effects(everybody, X, transform)
        if not self.study.features:
            return self._with_effects(geometry(X[:n], transform, norm=norm), X[:n], transform)
        Z = instruments_on_grid(grid_features(X), transform, norm) / GRID
        draws, worst, most, untold = np.random.default_rng(n), None, np.zeros((3, 2)), False
        alike = self._alike
        for _ in range(DRAWS):
            people = draws.choice(len(X), n, replace=False, shuffle=False)
            if alike is None:
                found = _parts(X[people], Z[people])
            else:
                first, counts = np.unique(alike[people], return_counts=True)
                found = _parts(X[first], Z[first], counts.astype(np.float64))
            if found is None:
                untold = True
                continue
            worst = people if found[0, 0] > most[0, 0] else worst
            most = np.maximum(most, found)
        drawn = everybody
        if worst is not None:
            drawn = self._with_effects(geometry(X[worst], transform, norm=norm), X[worst], transform)
        lengths, tau = everybody.people
        # People whose study might be refused at settlement get no promise.
        (noise, noise_p), (sampling, sampling_p) = (np.where(untold, np.inf, most[:2]) * SPARE).tolist()
        grown, grown_p = (
            Largest(top.ranks, top.sums * max(1.0, SPARE * most / float(top.sums[1])))
            for top, most in zip(drawn.influence, most[2].tolist(), strict=True)
        )
        return replace(
            drawn,
            players=n,
            noise=(noise, noise_p),
            sampling=(sampling, sampling_p),
            influence=(grown, grown_p),
            people=(lengths, tau * (len(X) / n)),
            matrices=everybody.matrices_of(n),
            worst=drawn.worst * SPARE_WORST if self.study.shares or self.study.levels else drawn.worst,
            # All effects get the same slack for the chance of who is drawn.
            effects=None
            if drawn.effects is None
            else drawn.effects * SPARE * max(1.0, noise / drawn.noise[0]),
        )

    @cached_property
    def _alike(self) -> npt.NDArray[np.intp] | None:
        """For everybody the first person with the same features; None with numeric features, where few are alike."""
        if not all(feature.levels for feature in self.study.features):
            return None
        _, first, kinds = np.unique(self._pool, axis=0, return_index=True, return_inverse=True)
        return np.asarray(first[kinds.ravel()])

    def _with_effects(self, found: Geometry, X: Floats, transform: Transform) -> Geometry:
        """Add what single effects need, where answers are shares."""
        if self.study.shares is None:
            return found
        kx = grid_features(X)
        rows = difference_rows(self.study)
        kz = instruments_on_grid(kx, transform, found.norm)
        return replace(found, effects=effects_of(kx, kz, rows))

    def _lengths(self, players: int, n: int) -> Lengths:
        """Lengths of the longest `players` on the roster, or of the pool, with an allowance for sampling.

        Bounds scale them by answering/n.
        """
        scaled, r = n / self.answering(players), self._sorted_lengths
        if self.roster is not None:
            longest = r[-players:]
            return Lengths(longest, scaled * players / len(longest))
        # The pool is a sample as well.
        return Lengths(r, scaled * players / len(r), 1 / (1 / players + 1 / len(r)))

    @cached_property
    def _sorted_lengths(self) -> Floats:
        return np.sort(np.linalg.norm(self._pool, axis=1))


@lru_cache(maxsize=8)
def panel_of_design(study: Study, response_share: float = 1.0, accuracy_of: str = "coefficients") -> Panel:
    """A panel drawn from the design; cached, and the same people each time."""
    return Panel(study, None, response_share, accuracy_of)


def panel_for(
    study: Study,
    roster: Any,
    response_share: float,
    accuracy_of: str,
    columns: Mapping[str, str] | None = None,
) -> Panel | None:
    """The panel of a plan; None if it protects records, which no roster may affect."""
    if isinstance(roster, int | float):
        raise InputError(
            f"roster is {roster!r}; it must be a file or a table of features. How many are players.",
            argument="roster",
        )
    if study.protects == "answers":
        if roster is None:
            return panel_of_design(study, response_share, accuracy_of)
        features = (
            check.matrix("roster", roster, study.dimension)
            if isinstance(roster, np.ndarray)
            else read_features(study, roster, columns=columns)
        )
        return Panel(study, features, response_share, accuracy_of)
    if roster is not None:
        raise InputError(
            "A roster is given, but the study protects records, and numbers of a plan that come from people's features "
            "would give these away. Leave the roster out, or declare protects = 'answers'."
        )
    if response_share != 1.0:
        raise InputError(
            f"response_share is {response_share!r}, which only plans that protect answers know. Plan for the number of "
            "people whom you expect to answer.",
            argument="response_share",
        )
    return None


def difference_rows(study: Study) -> Floats:
    """Coefficients of the differences, a row for each, in normalised units of the answer."""
    rows = [row / study.response_unit for _, row in study.differences]
    return np.array(rows).reshape(-1, study.dimension)


def _parts(X: Floats, Z: Floats, counts: Floats | None = None) -> Floats | None:
    """‖M⁻¹‖²_F, ‖B‖²_F and the largest ‖B_j‖, for coefficients and for predictions; counts: people per row.

    None where M cannot be inverted or one person's leverage is too large: such a study is not settled.
    """

    def weighted(part: Floats) -> Floats:
        return part if counts is None else counts[:, None] * part

    M = Z.T @ weighted(X)
    if not np.linalg.cond(M) <= WORST_CONDITION:
        return None
    inverse = np.linalg.inv(M)
    G, B = X.T @ weighted(X) / (len(X) if counts is None else counts.sum()), Z @ inverse.T
    if not np.einsum("ij,ij->i", B, X).max() <= LARGEST_LEVERAGE:
        return None
    parts = (inverse @ inverse.T, B.T @ weighted(B))
    squares = np.stack([np.einsum("ij,ij->i", B, B), np.einsum("ij,ij->i", B @ G, B)])
    return np.array([*([np.trace(part), np.sum(G * part)] for part in parts), np.sqrt(squares.max(axis=1))])
