import os
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import pytest

from ors_server.sandboxes.cells import server_state as state_module
from ors_server.sandboxes.cells import uids as uids_module
from ors_server.sandboxes.cells.server_state import (
    LOCK_FILE,
    ServerState,
    _is_in_memory,
    base_folder,
    memory_folder,
    remove_tree,
)
from ors_server.sandboxes.cells.uids import try_lock
from ors_server.sandboxes.sandbox_errors import SandboxUnavailableError

ROOT = Path(__file__).parents[4]
NOBODY = 65_534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="uids are root's to hand out")


def test_a_server_leaves_nothing_behind(tmp_path):
    state = ServerState(tmp_path)
    session = state.open_session()
    (session.path / "x").write_text("")
    state.close_session(session)
    assert not session.path.exists()
    state.close()
    state.close()
    assert list(tmp_path.iterdir()) == []


def test_a_living_server_holds_its_lock(tmp_path):
    state = ServerState(tmp_path)
    assert try_lock(state.folder / LOCK_FILE) is None
    state.close()


@needs_root
def test_no_two_sessions_and_no_two_servers_share_a_uid(tmp_path):
    one, other = ServerState(tmp_path), ServerState(tmp_path)
    owners = [state.open_session().uid for state in (one, one, other)]
    assert len(set(owners)) == 3
    assert all(owner is not None and owner >= 1_000_000_000 for owner in owners)
    one.close()
    other.close()


def test_a_session_whose_folder_cannot_be_made_costs_nothing(tmp_path):
    state = ServerState(tmp_path)
    (state.folder / "s1").write_text("in the way")
    with pytest.raises(FileExistsError):
        state.open_session()
    assert state.open_session().name == "s2"
    state.close()


@needs_root
def test_a_server_that_gets_no_uids_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(uids_module, "_BLOCKS", 0)
    with pytest.raises(SandboxUnavailableError, match="blocks of"):
        ServerState(tmp_path)
    assert list(tmp_path.iterdir()) == []


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


REMOVER = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from ors_server.sandboxes.cells.server_state import remove_tree
top = Path(sys.argv[2], "top")
for name in ("read/only/below", "none/at/all"):
    (top / name).mkdir(parents=True)
    (top / name / "file").write_text("")
for name in ("read/only/below", "read/only", "read"):
    (top / name).chmod(0o500)
for name in ("none/at/all", "none/at", "none"):
    (top / name).chmod(0)
remove_tree(top)
sys.exit(top.exists())
"""


@needs_root
def test_a_tree_goes_whatever_its_modes_forbid_its_owner():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chown(folder, NOBODY, NOBODY)
        drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
        environment = {"PYTHONPATH": sysconfig.get_path("purelib"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [*drop, "/usr/bin/python3", "-c", REMOVER, str(ROOT), folder]
        assert subprocess.run(command, check=False, cwd="/", env=environment).returncode == 0


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


def test_what_changes_with_every_command_stands_in_memory_where_that_can_be_had(tmp_path, monkeypatch):
    quick = tmp_path / "quick"
    quick.mkdir()
    monkeypatch.setattr(state_module, "memory_folder", lambda _base: quick)
    (tmp_path / "base").mkdir()
    state = ServerState(tmp_path / "base")
    session = state.open_session()
    assert session.control.parent.parent == quick / state.folder.name
    assert session.control.parent.stat().st_mode & 0o7777 == 0o710
    state.close_session(session)
    assert not session.control.parent.exists()
    state.close()
    assert list(quick.iterdir()) == []


def test_a_base_in_memory_needs_no_second_place(tmp_path, monkeypatch):
    monkeypatch.setattr(state_module, "_is_in_memory", lambda _path: True)
    assert memory_folder(tmp_path) is None
    monkeypatch.setattr(state_module, "_is_in_memory", lambda _path: False)
    assert memory_folder(tmp_path) is None


def test_a_place_in_memory_that_is_somebody_else_s_is_not_used(tmp_path, monkeypatch):
    def refuse(_base, _mode):
        raise SandboxUnavailableError("somebody else's")

    monkeypatch.setattr(state_module, "_is_in_memory", lambda path: path != tmp_path)
    monkeypatch.setattr(state_module, "_ensure_private_folder", refuse)
    assert memory_folder(tmp_path) is None


def test_memory_is_told_from_a_disk():
    assert _is_in_memory(Path("/dev/shm"))  # noqa: S108  (where memory is)
    assert not _is_in_memory(Path("/usr"))
    assert not _is_in_memory(Path("/nowhere"))
