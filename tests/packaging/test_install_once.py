"""The script that installs what a stamp stands for: again if a file changed, not if it is only younger."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/install_once.sh"


@pytest.fixture
def install(tmp_path):
    """Runs the script for a lock; returns its status, and how often anything has been installed."""
    lock, stamp, done = (tmp_path / name for name in ("lock", "stamp", "done"))
    done.touch()

    def install(text: str, command: str = "echo installed >>done; test ! -e broken") -> tuple[int, int]:
        lock.write_text(text)
        os.utime(lock, (2e9, 2e9))  # younger than any stamp, as after a checkout
        ran = subprocess.run(
            [SCRIPT, stamp, lock, SCRIPT, "--", "bash", "-c", command], cwd=tmp_path, check=False
        )
        return ran.returncode, len(done.read_text().splitlines())

    return install


def test_an_unchanged_file_that_became_younger_is_not_installed_again(install, tmp_path):
    assert install("a==1") == (0, 1)
    os.utime(tmp_path / "stamp", (1, 1))
    assert install("a==1") == (0, 1)
    assert (tmp_path / "stamp").stat().st_mtime > 1  # so that make does not ask again


def test_a_changed_file_is_installed(install):
    assert [install(text) for text in ("a==1", "a==2", "a==1")] == [(0, 1), (0, 2), (0, 3)]


def test_an_installation_that_failed_is_made_again_whatever_was_there_before(install, tmp_path):
    assert install("a==1") == (0, 1)
    (tmp_path / "broken").touch()
    assert install("a==2") == (1, 2)
    assert not (tmp_path / "stamp").exists()
    (tmp_path / "broken").unlink()
    assert install("a==1") == (0, 3)


def test_a_stamp_of_before_without_a_checksum_is_replaced(install, tmp_path):
    (tmp_path / "stamp").touch()
    assert [install("a==1"), install("a==1")] == [(0, 1), (0, 1)]
