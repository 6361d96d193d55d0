"""The five guarantees of a plan or a release."""

from truthful.guarantees.asked_guarantees import asked_setting, payable_to_all
from truthful.guarantees.guarantees import guarantees, require_failure_probability
from truthful.guarantees.number_guarantees import (
    WIDER,
    inaccurate_because,
    model,
    setting,
    untruthful_because,
)
from truthful.guarantees.records import (
    NINE_IN_TEN,
    Accuracy,
    Budget,
    Guarantees,
    Participation,
    Privacy,
    Shading,
    Truthfulness,
)
from truthful.guarantees.share_guarantees import share_setting

__all__ = [
    "NINE_IN_TEN",
    "WIDER",
    "Accuracy",
    "Budget",
    "Guarantees",
    "Participation",
    "Privacy",
    "Shading",
    "Truthfulness",
    "asked_setting",
    "guarantees",
    "inaccurate_because",
    "model",
    "payable_to_all",
    "require_failure_probability",
    "setting",
    "share_setting",
    "untruthful_because",
]
