"""The study file that the wizard's fields come to: the same `study.toml` that people write by hand."""

from __future__ import annotations

import json
import math
from typing import Any

#: What forms hold, as typed: text by the name of its field, and a list of such for features.
Fields = dict[str, Any]
#: What a box that is ticked holds.
YES = "yes"
#: What a box holds that nobody has looked at.
USUAL = "usual"
#: What people answer.
NUMBER, YES_NO, RATING = "number", "yes-no", "rating"


def read(text: str) -> float | None:
    """The number of a field; None if it holds none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


def plain(value: float) -> str:
    """A number as fields and study files hold it: all its digits."""
    return repr(float(value)).removesuffix(".0")


def kind_of(fields: Fields) -> str:
    """What people answer; drafts of before there was a choice ask for a number."""
    kind = fields.get("answer_kind")
    return kind if kind in (YES_NO, RATING) else NUMBER


def asks(fields: Fields) -> bool:
    """Whether people are asked what the others will say.

    Before anybody has chosen they are, where there are no facts; drafts of before there was a choice do not ask.
    """
    chosen = fields.get("predictions")
    if chosen != USUAL:
        return chosen == YES
    answers = kind_of(fields) != NUMBER or fields.get("protects") != "records"
    return not fields.get("features") and answers and fields.get("hide_matrix") != YES


def quoted(text: str) -> str:
    """Any text as a TOML string on one line."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def document(fields: Fields) -> str:
    """The study file that says what the fields say."""
    parts = (_question, _invitation, _people, _privacy, _beliefs, _costs)
    return _HEAD + "".join(part(fields) for part in parts)


_HEAD = """\
# A study: one sensitive question, facts about the people asked, and what is believed about the answers.
# Everything in this file is public: people may read it before they answer.

"""


def _question(fields: Fields) -> str:
    words = f"question = {quoted(fields['question'])}\n" if fields.get("question") else ""
    said, answers = {
        NUMBER: ("one number", _number("low", fields) + _number("high", fields)),
        YES_NO: ("yes or no", 'kind = "yes-no"\n'),
        RATING: ("a rating", 'kind = "rating"\n' + _number("levels", fields)),
    }[kind_of(fields)]
    return f"""\
name = {quoted(fields.get("name", ""))}
currency = {quoted(fields.get("currency", ""))}

# The question: {said} that people report about themselves.
[response]
name = {quoted(fields.get("response", ""))}
{answers}{words}"""


def _invitation(fields: Fields) -> str:
    names = ("asked_by", "purpose", "contact")
    if not any(fields.get(name) for name in names):
        return ""
    lines = "".join(f"{name} = {quoted(fields.get(name, ''))}\n" for name in names)
    return f"\n# The invitation: what people are told before they answer.\n[invitation]\n{lines}"


def _people(fields: Fields) -> str:
    features = "".join(_feature(feature) for feature in fields.get("features", ()))
    spread = fields.get("least_eigenvalue") if fields.get("design") == "observed" else None
    vouched = (
        "# How spread out people are at least, normalised; the analyst vouches for it.\n" if spread else ""
    )
    return f"""
# The features: what explains the answers, and is known of everybody without asking.
{features}
# How features are distributed: observed, as the panel has them, or uniform, assigned at random.
[design]
kind = {quoted(fields.get("design", ""))}
{vouched}{_number("least_eigenvalue", {"least_eigenvalue": spread})}"""


def _privacy(fields: Fields) -> str:
    protects = fields.get("protects") if kind_of(fields) == NUMBER else "answers"
    if not protects:
        return ""
    hidden = "publish_matrix = false\n" if fields.get("hide_matrix") == YES else ""
    known = "features_public = true\n" if fields.get("features_public") == YES else ""
    return f"""
# What is protected: answers, while sums of features are published as they are, or whole records.
[privacy]
protects = {quoted(protects)}
{hidden}{known}"""


def _feature(feature: dict[str, str]) -> str:
    head = f"[[features]]\nname = {quoted(feature.get('name', ''))}\n"
    head += "sensitive = true\n" if feature.get("sensitive") == YES else ""
    if feature.get("kind") == "levels":
        levels = filter(None, feature.get("levels", "").split("\n"))
        return f"{head}levels = [{', '.join(map(quoted, levels))}]\n"
    return head + _number("low", feature) + _number("high", feature)


def _beliefs(fields: Fields) -> str:
    if kind_of(fields) != NUMBER:
        return _shares(fields)
    if asks(fields):
        return _asked(fields)
    width = _number("noise_sd", fields) if fields.get("noise") == "normal" else ""
    return f"""
# What is believed about the answers. If it is wrong, privacy and the cap on the bill hold all the same.
[beliefs]
# The share of the response's half-range that features can explain.
{_number("signal", fields)}prior = "uniform"
noise = {quoted(fields.get("noise", ""))}
{width}{_tolerance(_scaled(fields.get("tolerance"), 0.0, 1.0))}"""


_ASKED = """\
# People are asked what the others will say, so that nobody has to declare what they expect.
centre = "predictions"
"""


def _asked(fields: Fields) -> str:
    """Of numbers, in units of the answer."""
    ends = [_scaled(fields.get(name), 0.0, 1.0) for name in ("plausible_low", "plausible_high")]
    plausible = f"# Beyond these averages all answers are paid alike.\nplausible = [{', '.join(ends)}]\n"
    effect = "# The most that one feature, from one end to the other, changes the average answer.\n"
    return f"""
# What is believed about the answers. If it is wrong, privacy and the cap on the bill hold all the same.
[beliefs]
{_ASKED}# How far people may be off about the average, and how far answers scatter about it: standard deviations.
{_number("sure", fields)}{_number("spread", fields)}\
{effect + _number("effect", fields) if fields.get("features") else ""}{plausible if all(ends) else ""}\
{_tolerance(_scaled(fields.get("tolerance"), 0.0, 1.0))}"""


def _shares(fields: Fields) -> str:
    """Shares are typed in percent, and of ratings as means and steps of the scale."""
    start, unit = scale_of(fields)
    ends = [_scaled(fields.get(name), start, unit) for name in ("share_low", "share_high")]
    effect = _scaled(fields.get("effect"), 0.0, unit) if fields.get("features") else ""
    tolerance = _scaled(fields.get("tolerance"), 0.0, unit)
    said = {
        YES_NO: "Of people like the average one, how many would truthfully say yes: surely between",
        RATING: "How far the mean rating is from the lowest to the highest: surely between",
    }[kind_of(fields)]
    share = f"share = [{', '.join(ends)}]\n" if all(ends) else ""
    sure = _scaled(fields.get("sure"), 0.0, unit) if asks(fields) else ""
    asked = (
        f"{_ASKED}# How far people may be off about that share: a standard deviation.\nsure = {sure}\n"
        if sure
        else ""
    )
    changes = (
        "# The most that one feature, from one end to the other, changes that share.\n" if effect else ""
    )
    return f"""
# What is believed about the answers. If it is wrong, privacy and the cap on the bill hold all the same.
[beliefs]
# {said}
{share}{asked}{changes}{f"effect = {effect}" if effect else ""}
{_tolerance(tolerance)}"""


def _tolerance(value: str) -> str:
    said = "# How far what people expect may be from this before a lie pays.\n"
    return f"{said}tolerance = {value}\n" if value else ""


def scale_of(fields: Fields) -> tuple[float, float]:
    """What is typed for a share of 0, and how much more for a share of 1."""
    if kind_of(fields) == YES_NO:
        return 0.0, 100.0
    return 1.0, max(1.0, (read(str(fields.get("levels", ""))) or 2.0) - 1)


def _scaled(typed: Any, start: float, unit: float) -> str:
    """A typed number as a share; what is no number is left to the study to refuse."""
    value = read(str(typed or ""))
    return plain(round((value - start) / unit, 12)) if value is not None else quoted(typed) if typed else ""


def _costs(fields: Fields) -> str:
    pareto = fields.get("costs") == "pareto"
    said, names = (
        ("P(cost > c) = (c / scale)^-tail: a few people care very much", ("tail", "scale"))
        if pareto
        else ("The logarithm of the cost is normal", ("median", "sigma"))
    )
    return f"""
# What privacy is worth to people, in currency per unit of h(epsilon). {said}.
[costs]
kind = {quoted(fields.get("costs", ""))}
{"".join(_number(name, fields) for name in names)}\
# h(epsilon): quadratic is epsilon^2, linear is epsilon.
privacy = {quoted(fields.get("privacy", ""))}
"""


def _number(name: str, fields: dict[str, Any]) -> str:
    """A line of the file; none if the field is empty, and what is no number is left to the study to refuse."""
    text = str(fields.get(name) or "")
    value = read(text)
    return "" if not text else f"{name} = {quoted(text) if value is None else plain(value)}\n"
