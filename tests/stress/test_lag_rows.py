"""No row of `scripts/lag.py` is above its limit: no keyword, far side or format holds the event loop.

What is compared is processor time, so that a busy machine fails nothing.
"""

import subprocess
import sys

import pytest

from tests.script_modules import SCRIPTS, load_script

ROWS = (
    *load_script("lag_keywords").HARD,
    *(f"far side {side}" for side in load_script("lag_far_sides").SIDES),
    *load_script("lag_formats").FORMATS,
)

pytestmark = [pytest.mark.stress, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("row", ROWS)
def test_hostile_input_never_holds_the_event_loop(row):
    command = [sys.executable, str(SCRIPTS / "lag.py"), "--row", row, "--results"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"\n{row}" in ran.stdout
