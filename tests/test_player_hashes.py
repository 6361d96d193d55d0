"""Players are told apart by SipHash-2-4 of their ids, whatever array they lie in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from support.oracles_estimators import id_bytes, siphash

from truthful.errors import InputError
from truthful.intake.duplicates import player_hashes

KEY = bytes(range(16))

# The authors' vectors for the key 00…0f and the messages "", 00, 0001, …, 00…3e, as little-endian bytes.
VECTORS = """
310e0edd47db6f72 fd67dc93c539f874 5a4fa9d909806c0d 2d7efbd796666785 b7877127e09427cf 8da699cd64557618
cee3fe586e46c9cb 37d1018bf50002ab 6224939a79f5f593 b0e4a90bdf82009e f3b9dd94c5bb5d7a a7ad6b22462fb3f4
fbe50e86bc8f1e75 903d84c02756ea14 eef27a8e90ca23f7 e545be4961ca29a1 db9bc2577fcc2a3f 9447be2cf5e99a69
9cd38d96f0b3c14b bd6179a71dc96dbb 98eea21af25cd6be c7673b2eb0cbf2d0 883ea3e395675393 c8ce5ccd8c030ca8
94af49f6c650adb8 eab8858ade92e1bc f315bb5bb835d817 adcf6b0763612e2f a5c91da7acaa4dde 716595876650a2a6
28ef495c53a387ad 42c341d8fa92d832 ce7cf2722f512771 e37859f94623f3a7 381205bb1ab0e012 ae97a10fd434e015
b4a31508beff4d31 81396229f0907902 4d0cf49ee5d4dcca 5c73336a76d8bf9a d0a704536ba93e0e 925958fcd6420cad
a915c29bc8067318 952b79f3bc0aa6d4 f21df2e41d4535f9 87577519048f53a9 10a56cf5dfcd9adb eb75095ccd986cd0
51a9cb9ecba312e6 96afadfc2ce666c7 72fe52975a4364ee 5a1645b276d592a1 b274cb8ebf87870a 6f9bb4203de7b381
eaecb2a30b22a87f 9924a43cc1315724 bd838d3aafbf8db7 0b1a2a3265d51aea 135079a3231ce660 932b2846e4d70666
e1915f5cb1eca46c f325965ca16d629f 575ff28e60381be5 724506eb4c328a95
"""


def test_the_published_vectors_are_met() -> None:
    expected = [int.from_bytes(bytes.fromhex(vector), "little") for vector in VECTORS.split()]
    messages = [bytes(range(length)) for length in range(64)]
    assert [siphash(KEY, message) for message in messages] == expected
    assert player_hashes(pa.array([message.decode() for message in messages]), KEY).tolist() == expected


def test_an_integer_is_hashed_as_its_eight_bytes() -> None:
    # Message 00…07 of the published vectors, read as one little-endian integer.
    value = int.from_bytes(bytes(range(8)), "little")
    assert player_hashes(pa.array([value]), KEY)[0] == int.from_bytes(
        bytes.fromhex("6224939a79f5f593"), "little"
    )


@given(st.lists(st.text(max_size=40), max_size=12), st.binary(min_size=16, max_size=16), st.data())
def test_strings_are_hashed_wherever_they_lie_in_a_longer_array(
    ids: list[str], key: bytes, data: st.DataObject
) -> None:
    expected, plain = [siphash(key, id_bytes(value)) for value in ids], pa.array(ids, pa.string())
    assert player_hashes(plain, key).tolist() == expected
    start = data.draw(st.integers(0, len(ids)))
    stop = data.draw(st.integers(start, len(ids)))
    assert player_hashes(plain.slice(start, stop - start), key).tolist() == expected[start:stop]


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_integers_are_hashed_as_their_bytes(kind: Any) -> None:
    limits = np.iinfo(kind)
    ids = np.array([limits.min, limits.max, 0, 7, 100], dtype=kind)
    expected = [siphash(KEY, id_bytes(value)) for value in ids.tolist()]
    assert player_hashes(pa.array(ids), KEY).tolist() == expected
    assert player_hashes(pa.array(ids)[1:4], KEY).tolist() == expected[1:4]


def test_nobody_has_no_hashes() -> None:
    assert len(player_hashes(pa.array([], pa.string()), KEY)) == 0
    assert len(player_hashes(pa.array([], pa.int64()), KEY)) == 0


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(InputError, match="15 bytes"):
        player_hashes(pa.array([1, 2]), KEY[:15])


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_hashes_are_spread_evenly_and_change_with_the_key(kind: Any) -> None:
    """False alarms: three two-sided binomial tests at 1e-7 each. More ids than are hashed together."""
    ids = pa.array(np.arange(100_000)).cast(kind)
    n, (low, high) = len(ids), binom.interval(1 - 1e-7, len(ids), 0.5)
    bits, others = (player_hashes(ids, key) >> np.uint64(63) for key in (KEY, bytes(16)))
    assert low <= bits.sum() <= high
    assert low <= (bits ^ others).sum() <= high
    assert low <= (bits[1:] ^ bits[:-1]).sum() + n % 2 <= high
