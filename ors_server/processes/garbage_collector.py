"""How often this process collects garbage."""

import gc

THRESHOLDS = (10_000, 1, 2_000)
"""Thresholds of the garbage collector for its three generations; Python's are 700, 10 and 10.

A call that runs has about 90 objects, which are gone when it has ended, and with a store on disk all calls of
a moment wait for the same commit. The first threshold is above the objects of 64 calls: below it, each such
wave was looked at, for a twelfth of the processor time of a call with SQLite, and nothing was found.

Nothing is served during a collection, so that its length is what the slowest calls wait: one of the second
generation looks at no more than 20,000 new objects, which takes some 6 ms. At 100,000 it took 30 ms, and the
99th percentile of 64 busy sessions doubled. The sum of the pauses is the same either way, since each object
is looked at once in each of the two.

A server keeps most objects that it creates, so looking at all of them as often as Python does takes a fifth
of the time of its start and of each call, and frees almost nothing.
"""


def collect_rarely() -> None:
    """Set the thresholds, for the whole process."""
    gc.set_threshold(*THRESHOLDS)
