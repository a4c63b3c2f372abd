"""Records the processor time of each test in the file that ORS_TEST_TIMES names.

`scripts/test_times.py` sums it up.

A process of the tests counts, and each process that ended in it: what outlives a test counts for the one in
which it ends.
"""

import json
import os
import resource
from collections.abc import Generator

import pytest

FILE = os.environ.get("ORS_TEST_TIMES")


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around all that belongs to a test, its fixtures too
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Add a line for the test: its id, and the seconds of this process and of those that ended."""
    before = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    try:
        return (yield)
    finally:
        if FILE is not None:
            after = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
            own, ended = (
                now.ru_utime + now.ru_stime - then.ru_utime - then.ru_stime
                for now, then in zip(after, before, strict=True)
            )
            line = json.dumps([item.nodeid, round(own, 4), round(ended, 4)]) + "\n"
            with open(FILE, "a", encoding="utf-8") as file:  # noqa: PTH123  (one write, which processes share)
                file.write(line)
