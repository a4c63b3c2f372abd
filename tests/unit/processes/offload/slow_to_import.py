"""A module whose import takes processor time, and longer than a call may."""

import os
import time

IMPORT_SECONDS = 0.6

while time.process_time() < IMPORT_SECONDS:
    pass
time.sleep(8.0)


def pid() -> int:
    return os.getpid()


def spin() -> None:
    while True:
        pass
