import os
import subprocess
from itertools import count
from pathlib import Path

import pytest

from ors_server.sandboxes.cells import uids as uids_module
from ors_server.sandboxes.cells.uids import UidPool, try_lock
from ors_server.sandboxes.sandbox_errors import SandboxUnavailableError

FAR = count(1_900_000_000, 10_000)


@pytest.fixture
def first(monkeypatch):
    """Blocks of two uids, from a number that no server uses."""
    number = next(FAR) + os.getpid() % 10_000
    monkeypatch.setattr(uids_module, "FIRST_UID", number)
    monkeypatch.setattr(uids_module, "UIDS_PER_BLOCK", 2)
    monkeypatch.setattr(uids_module, "_BLOCKS", 3)
    return number


def test_uids_are_taken_block_by_block_and_run_out_with_a_word(tmp_path, first):
    one, other = UidPool(tmp_path), UidPool(tmp_path)
    assert (one.first, other.first) == (first, first + 2)
    assert [one.take() - first for _ in range(4)] == [0, 1, 4, 5]
    with pytest.raises(SandboxUnavailableError, match="4 sandboxes are alive; close some"):
        one.take()
    with pytest.raises(SandboxUnavailableError, match="all 3 blocks of 2 uids"):
        UidPool(tmp_path)
    one.release(first + 1)
    assert one.take() == first + 1
    one.close()
    assert UidPool(tmp_path).first == first
    assert other.take() == first + 2


def test_a_uid_is_handed_out_again_after_all_others(tmp_path, first):
    pool = UidPool(tmp_path)
    assert pool.take() == first
    pool.release(first)
    assert [pool.take(), pool.take()] == [first + 1, first]


def test_a_block_in_which_somebody_lives_is_passed_over(tmp_path, first):
    if os.geteuid() != 0:
        first = os.getuid()
        uids_module.FIRST_UID = first
        assert UidPool(tmp_path).first == first + 2
        return
    drop = ["setpriv", f"--reuid={first}", "--clear-groups", "cat"]
    with subprocess.Popen(drop, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stray:
        assert stray.stdin is not None
        assert stray.stdout is not None
        stray.stdin.write(b"x")
        stray.stdin.flush()
        assert stray.stdout.read(1) == b"x"
        assert UidPool(tmp_path).first == first + 2
        stray.stdin.close()


def test_a_link_is_no_lock(tmp_path):
    Path(tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="link"):
        try_lock(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()
