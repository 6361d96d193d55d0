"""Records as a notebook shows them: the terminal's tables as HTML, escaped; a plan as text; a release as a frame."""

from __future__ import annotations

import builtins
import re
from typing import Any

import pytest
from support import shares
from support.studies import DESIGNED, people, planned

import truthful as tf
from truthful.settlement import Settlement

ODD = DESIGNED.replace('"spend"', '"<b>spend</b> & more"')
STUDY = tf.Study.parse(ODD)
PLAN = planned(STUDY, 100)


@pytest.fixture(scope="module")
def settled() -> Settlement:
    reports = people(STUDY, 100).reports
    return tf.settle(PLAN, reports, seed=1)


def records(settled: Settlement) -> dict[str, Any]:
    verdict = tf.verify(settled.release, settled.receipt("p-001"))
    simulation = tf.simulate(PLAN, runs=2)
    return {
        "What is guaranteed": PLAN,
        "Coefficients (effects on &lt;b&gt;spend": settled.release,
        "Paid ": settled,
        "Verified: the payment of player p-001": verdict,
        "Observed in 2 studies": simulation,
    }


def test_every_record_is_shown_as_whole_html_with_its_texts_escaped(settled: Settlement) -> None:
    for words, record in records(settled).items():
        html = record._repr_html_()
        assert words in html
        assert "<table>" in html
        assert "<b>" not in html
        opened, closed = (re.findall(rf"<{mark}(\w+)", html) for mark in ("", "/"))
        assert sorted(tag for tag in opened if tag != "br") == sorted(closed)


def test_a_notebook_shows_the_numbers_of_the_terminal(settled: Settlement) -> None:
    plan, _ = shares.settled("yes-no")
    told = plan.summary()
    html = re.sub(r"<[^>]+>", " ", plan._repr_html_())
    for number in re.findall(r"\d[\d,.]*\d", told):
        assert number in html
    assert "\x1b" not in told
    assert told.splitlines()[0].strip() == "What is guaranteed"
    rehearsal = settled.release._repr_html_()
    assert rehearsal.index("REHEARSAL") < rehearsal.index("<table>")


def test_a_release_is_a_data_frame_of_coefficients(settled: Settlement) -> None:
    frame = settled.release.to_frame()
    assert list(frame.index) == [one.name for one in settled.release.coefficients]
    assert frame.loc["price", "high"] == settled.release.coefficients[1].high


def test_without_pandas_there_is_none_and_one_is_told(
    settled: Settlement, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name == "pandas":
            raise ModuleNotFoundError(name="pandas")
        return found(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(tf.InputError, match="pip install pandas"):
        settled.release.to_frame()
