"""Hypothesis runs the same examples every time: a failing test fails for everybody."""

from hypothesis import settings

settings.register_profile("truthful", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("truthful")
