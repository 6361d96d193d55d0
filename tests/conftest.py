"""Hypothesis runs the same examples every time: a failing test fails for everybody."""

import os

# Before NumPy is loaded. There is a worker for every core already: threads of BLAS would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import settings

settings.register_profile("truthful", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("truthful")
