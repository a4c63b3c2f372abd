"""The environment variables of child processes: an allow-list, so that no key of this process leaves it.

Every process that this package starts gets its variables from here, except those in sandboxes, which get
fewer, and the process in which an audited environment is served, which stands for this one.
"""

import os
from collections.abc import Iterable, Mapping

WORKER_VARIABLES = "ORS_WORKER_VARIABLES"
"""Names, separated by commas, of further variables that workers and Java virtual machines get."""
CHILD_MARK = "ORS_CHILD"
"""Variable that marks the processes that a child process started."""
_LISTED = """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TERM COLUMNS LINES NO_COLOR TMPDIR TMP TEMP
    LD_LIBRARY_PATH DYLD_LIBRARY_PATH DYLD_FALLBACK_LIBRARY_PATH VIRTUAL_ENV CONDA_PREFIX JAVA_HOME
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NO_PROXY no_proxy
    OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS NUMEXPR_NUM_THREADS CUDA_VISIBLE_DEVICES
    HF_HOME HF_HUB_CACHE HF_HUB_OFFLINE HF_DATASETS_CACHE HF_DATASETS_OFFLINE NLTK_DATA
    COVERAGE_PROCESS_START COVERAGE_PROCESS_CONFIG
"""
_NAMES = frozenset(_LISTED.split())
_FAMILIES = ("LC_", "PYTHON", "XDG_")
"""Beginnings of names. Proxies are not among them, because their addresses may hold passwords."""


def child_variables(names: Iterable[str] = (), own: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child process: paths, caches, the locale, and what is named.

    Args:
        names: Further variables of this process that the child gets, if they are set.
        own: Variables that are added, or replace those of this process.
    """
    wanted = _NAMES.union(names)
    passed = {
        name: value for name, value in os.environ.items() if name in wanted or name.startswith(_FAMILIES)
    }
    return {**passed, **(own or {})}


def worker_variables(own: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a worker: `child_variables`, and what the operator names for workers."""
    names = os.environ.get(WORKER_VARIABLES, "").split(",")
    return child_variables([WORKER_VARIABLES, *(name.strip() for name in names)], own)
