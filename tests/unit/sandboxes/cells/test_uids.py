import os
import subprocess
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from ors_server.sandboxes.cells import uids as uids_module
from ors_server.sandboxes.cells.uids import UidPlan, UidPool, try_lock
from ors_server.sandboxes.sandbox_errors import SandboxUnavailableError

FAR = count(1_900_000_000, 10_000)


@pytest.fixture
def plan(monkeypatch):
    """Blocks of two uids, from a number that no server uses."""
    monkeypatch.setattr(uids_module, "_BLOCKS", 3)
    return UidPlan("uids-", next(FAR) + os.getpid() % 10_000, 2)


def test_uids_are_taken_block_by_block_and_run_out_with_a_word(tmp_path, plan):
    first = plan.first
    pool, second_pool = UidPool(tmp_path, plan), UidPool(tmp_path, plan)
    assert (pool.first, second_pool.first) == (first, first + 2)
    assert [pool.take() - first for _ in range(4)] == [0, 1, 4, 5]
    with pytest.raises(SandboxUnavailableError, match="4 sandboxes are alive; close some"):
        pool.take()
    with pytest.raises(SandboxUnavailableError, match="all 3 blocks of 2 uids"):
        UidPool(tmp_path, plan)
    pool.release(first + 1)
    assert pool.take() == first + 1
    pool.close()
    assert UidPool(tmp_path, plan).first == first
    assert second_pool.take() == first + 2


def test_session_with_a_range_gets_the_lowest_uid_of_it(tmp_path, plan):
    pool = UidPool(tmp_path, replace(plan, ids=1000))
    assert [pool.take() - plan.first for _ in range(3)] == [0, 1000, 2000]


def test_a_uid_is_handed_out_again_after_all_others(tmp_path, plan):
    first = plan.first
    pool = UidPool(tmp_path, plan)
    assert pool.take() == first
    pool.release(first)
    assert [pool.take(), pool.take()] == [first + 1, first]


def test_a_block_in_which_somebody_lives_is_passed_over(tmp_path, plan):
    first = plan.first
    if os.geteuid() != 0:
        first = os.getuid()
        assert UidPool(tmp_path, replace(plan, first=first)).first == first + 2
        return
    drop = ["setpriv", f"--reuid={first}", "--clear-groups", "cat"]
    with subprocess.Popen(drop, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stray:
        assert stray.stdin is not None
        assert stray.stdout is not None
        stray.stdin.write(b"x")
        stray.stdin.flush()
        assert stray.stdout.read(1) == b"x"
        assert UidPool(tmp_path, plan).first == first + 2
        stray.stdin.close()


def test_a_link_is_no_lock(tmp_path):
    Path(tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="link"):
        try_lock(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()
