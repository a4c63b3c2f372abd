"""The three games as a stranger gets them: `make serve` in a fresh clone, then an episode each per door.

It clones what is committed, and installs over the network; `-s` prints what make and the episodes print.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GAMES = ("scienceworld", "webshop", "alfworld")
LIMIT = 3600
"""Seconds for everything; a quiet machine that has compiled alfworld's packages before needs one minute."""
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")

pytestmark = [pytest.mark.stress, pytest.mark.external, pytest.mark.timeout(LIMIT)]


@pytest.fixture
def fresh(tmp_path: Path) -> dict[str, str]:
    """The variables of somebody who has neither this project's folders nor its settings."""
    mine = ("ORS_", "ALFWORLD_", "WEBSHOP_", "VIRTUAL_ENV", "PYTHON", "MAKE", "MFLAGS")
    scripts = str(Path(sys.executable).parent)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(mine)},
        "PATH": os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if part != scripts),
        "NO_PROXY": "127.0.0.1",
        "ORS_STORE": "memory",
        "WEBSHOP_CACHE": str(tmp_path / "cache"),
    }


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of this project, without anything that make made."""
    folder = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", ROOT, folder], check=True)  # noqa: S607  (the one on PATH)
    return folder


@pytest.fixture
def url(clone: Path, fresh: dict[str, str]) -> Iterator[str]:
    """The address of the server that make installs and starts."""
    words = ["make", "serve", f"TASKS={' '.join(GAMES)}", "ARGS=--port 0"]
    with subprocess.Popen(
        words, cwd=clone, env=fresh, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as server:
        try:
            lines = []
            for line in server.stdout or ():
                lines.append(line)
                if line.startswith("Stop with"):
                    break
            said = "".join(lines)
            print(said)  # noqa: T201  (what was served)
            found = ADDRESS.search(said)
            assert found, said
            yield found.group()
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.communicate(timeout=60)


def test_every_game_is_won_over_both_doors_after_one_command(clone, fresh, url):
    command = [clone / ".venv/bin/python", clone / "scripts/play_gold.py", url, *GAMES]
    played = subprocess.run(command, env=fresh, cwd=clone, capture_output=True, text=True, check=False)
    print(played.stdout)  # noqa: T201  (what was earned)
    assert played.returncode == 0, played.stdout + played.stderr
    assert len(played.stdout.splitlines()) == 1 + 2 * len(GAMES)
