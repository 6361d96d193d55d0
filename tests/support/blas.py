"""The settings of BLAS with which tests run and pages are made, to be set before NumPy is loaded.

Its last bits differ with the number of threads and the kind of processor. A plan then has another hash, and a seeded
run other noise than the page shows.
"""

import os
import platform

#: One thread, since there is a test worker for every core already, and kernels that all processors with AVX2 can run.
SETTINGS = {"OPENBLAS_NUM_THREADS": "1"} | (
    {"OPENBLAS_CORETYPE": "Haswell"} if platform.machine() in ("x86_64", "AMD64") else {}
)
SETTINGS |= {name: os.environ[name] for name in SETTINGS if name in os.environ}
