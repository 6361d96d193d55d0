"""Groups are SipHash-2-4, the same for any layout of the ids, and balanced."""

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
from truthful.intake.duplicates import groups_of, player_hashes

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
    assert player_hashes(np.array([value]), KEY)[0] == int.from_bytes(
        bytes.fromhex("6224939a79f5f593"), "little"
    )


@given(st.lists(st.text(max_size=40), max_size=12), st.binary(min_size=16, max_size=16), st.data())
def test_any_layout_of_strings_gives_the_same_hashes(ids: list[str], key: bytes, data: st.DataObject) -> None:
    expected = [siphash(key, id_bytes(value)) for value in ids]
    plain = pa.array(ids, pa.string())
    layouts = [plain, plain.cast(pa.large_string()), plain.cast(pa.string_view()), plain.dictionary_encode()]
    for layout in layouts:
        assert player_hashes(layout, key).tolist() == expected
        start = data.draw(st.integers(0, len(ids)))
        stop = data.draw(st.integers(start, len(ids)))
        assert player_hashes(layout.slice(start, stop - start), key).tolist() == expected[start:stop]
    cut = data.draw(st.integers(0, len(ids)))
    assert player_hashes(pa.chunked_array([plain[:cut], plain[cut:]], pa.string()), key).tolist() == expected
    without = [value.replace("\0", "") for value in ids]  # not every version of NumPy keeps a NUL in its text
    assert player_hashes(np.array(without, dtype=object).astype(str), key).tolist() == [
        siphash(key, id_bytes(value)) for value in without
    ]


@pytest.mark.parametrize(
    "kind", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
)
def test_integers_of_any_width_give_the_same_hashes(kind: Any) -> None:
    limits = np.iinfo(kind)
    ids = np.array([limits.min, limits.max, 0, 7, 100], dtype=kind)
    expected = [siphash(KEY, id_bytes(value)) for value in ids.tolist()]
    assert player_hashes(ids, KEY).tolist() == expected
    assert player_hashes(pa.array(ids), KEY).tolist() == expected
    assert player_hashes(pa.array(ids)[1:4], KEY).tolist() == expected[1:4]
    assert player_hashes(np.repeat(ids, 2)[::2], KEY).tolist() == expected


def test_nobody_has_no_hashes() -> None:
    assert len(player_hashes(pa.array([], pa.string()), KEY)) == 0
    assert len(player_hashes(np.array([], dtype=np.int64), KEY)) == 0


@pytest.mark.parametrize(
    "ids", [pa.array(["a", None]), pa.array([1, None]), pa.array(["a", None]).dictionary_encode()]
)
def test_a_missing_id_is_an_error_that_names_its_row(ids: Any) -> None:
    with pytest.raises(InputError, match="row 1 is missing"):
        player_hashes(ids, KEY)


@pytest.mark.parametrize("ids", [np.array([1.5]), np.array([True]), pa.array([b"a"])])
def test_ids_that_are_neither_strings_nor_integers_are_refused(ids: Any) -> None:
    with pytest.raises(InputError, match="strings or whole numbers"):
        player_hashes(ids, KEY)


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(InputError, match="15 bytes"):
        player_hashes(np.arange(3), KEY[:15])


@pytest.mark.parametrize(
    "ids", [np.arange(100_000), np.char.add("panelist-", np.arange(100_000).astype(str))]
)
def test_groups_are_balanced_and_change_with_the_key(ids: Any) -> None:
    """False alarms: three two-sided binomial tests at 1e-7 each."""
    n, (low, high) = len(ids), binom.interval(1 - 1e-7, len(ids), 0.5)
    groups = groups_of(player_hashes(ids, KEY))
    others = groups_of(player_hashes(ids, bytes(16)))
    assert set(groups.tolist()) == {0, 1}
    assert low <= groups.sum() <= high
    assert low <= (groups ^ others).sum() <= high
    assert low <= (groups[1:] ^ groups[:-1]).sum() + n % 2 <= high
