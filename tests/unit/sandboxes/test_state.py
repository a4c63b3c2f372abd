import os
from pathlib import Path

import pytest

from ors_server.sandboxes import state as state_module
from ors_server.sandboxes.errors import SandboxUnavailableError
from ors_server.sandboxes.state import OWNER, ServerState, UidBlock, base_folder, remove_tree, try_lock

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="uids are root's to hand out")


def test_a_server_leaves_nothing_behind(tmp_path):
    state = ServerState(tmp_path)
    session = state.open_session()
    (session.path / "x").write_text("")
    state.close_session(session)
    assert not session.path.exists()
    state.close()
    state.close()
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("uids-")] == []


def test_a_living_server_holds_its_lock(tmp_path):
    state = ServerState(tmp_path)
    assert try_lock(state.folder / OWNER) is None
    state.close()


@needs_root
def test_no_two_sessions_and_no_two_servers_share_a_uid(tmp_path):
    one, other = ServerState(tmp_path), ServerState(tmp_path)
    owners = [state.open_session().owner for state in (one, one, other)]
    assert len(set(owners)) == 3
    assert all(owner is not None and owner >= 1_000_000_000 for owner in owners)
    one.close()
    other.close()


@needs_root
def test_uids_run_out_with_a_word(tmp_path, monkeypatch):
    monkeypatch.setattr(state_module, "UIDS_PER_BLOCK", 1)
    monkeypatch.setattr(state_module, "_BLOCKS", 1)
    state = ServerState(tmp_path)
    session = state.open_session()
    with pytest.raises(SandboxUnavailableError, match="close some"):
        state.open_session()
    with pytest.raises(SandboxUnavailableError, match="blocks of uids"):
        UidBlock.take(tmp_path)
    state.close_session(session)
    assert state.open_session().owner == session.owner
    state.close()


def test_a_tree_goes_however_deep_and_locked_it_is(tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d" * 20, dir_fd=here)
        below = os.open("d" * 20, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    locked = top / "locked"
    locked.mkdir()
    (locked / "file").write_text("")
    locked.chmod(0)
    remove_tree(top)
    assert not top.exists()
    remove_tree(top)


def test_a_tree_s_links_are_not_followed(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "link").symlink_to(tmp_path / "kept")
    remove_tree(tmp_path / "top")
    assert (tmp_path / "kept" / "file").read_text() == "x"


def test_the_place_of_a_user_s_servers_is_the_user_s_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(SandboxUnavailableError, match="uid 12345"):
        base_folder()


def test_a_link_is_no_lock(tmp_path):
    Path(tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="link"):
        try_lock(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()
