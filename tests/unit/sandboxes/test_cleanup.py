import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ors_server.sandboxes.cells.server_state import FOLDER_PREFIX, LOCK_FILE, ServerState
from ors_server.sandboxes.cleanup import clean_up
from ors_server.sandboxes.host.bubblewrap import kill_leftovers

ROOT = Path(__file__).parents[3]
VICTIM = """
import sys, anyio
from pathlib import Path
from ors_server.sandboxes.cells.server_state import ServerState
from ors_server.sandboxes.host.{module} import {backend}
async def main():
    state = ServerState(Path(sys.argv[1]))
    sandbox = await {backend}(state).start("one")
    await sandbox.exec("setsid nohup sleep 54321 >/dev/null 2>&1 & exec -a left sleep 54321 &")
    print(state.server_id, state.uids.first if state.uids else 0, flush=True)
    await anyio.sleep_forever()
anyio.run(main)
"""


def living(uid, count=1024):
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stat = (path / "stat").read_text()
            if uid <= path.stat().st_uid < uid + count and ") Z " not in stat:
                found.append(path.name)
        except OSError:
            continue
    return found


def test_a_living_server_is_left_alone(tmp_path):
    state = ServerState(tmp_path)
    assert clean_up(tmp_path).servers == []
    assert state.folder.exists()
    state.close()


def test_what_does_not_carry_the_mark_is_left_alone(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / f"{FOLDER_PREFIX}file").write_text("")
    (tmp_path / f"{FOLDER_PREFIX}link").symlink_to(tmp_path / "other")
    (tmp_path / f"{FOLDER_PREFIX}decoy").mkdir()
    assert clean_up(tmp_path).servers == []
    assert len(list(tmp_path.iterdir())) == 4
    assert list((tmp_path / f"{FOLDER_PREFIX}decoy").iterdir()) == []


def test_a_dead_server_s_folder_and_groups_go(tmp_path):
    parent = tmp_path / "cgroups"
    for name in ("ors-dead-s1", "ors-alive-s1"):
        (parent / name).mkdir(parents=True)
    dead = tmp_path / f"{FOLDER_PREFIX}dead"
    (dead / "s1" / "files").mkdir(parents=True)
    (dead / "owner").write_text(json.dumps({"cgroup_parents": [str(parent)]}))
    (dead / "s1" / "files" / "x").write_text("")
    assert clean_up(tmp_path).servers == ["dead"]
    assert not dead.exists()
    assert (parent / "ors-alive-s1").exists()


def test_a_group_goes_although_what_is_in_it_takes_its_time(tmp_path):
    parents = [tmp_path / "cpu", tmp_path / "freezer"]
    for parent in parents:
        (parent / "ors-dead-s1").mkdir(parents=True)
    held = parents[0] / "ors-dead-s1" / "held"
    held.mkdir()  # stands for a process that is dying: the group cannot be removed while it is there
    dead = tmp_path / f"{FOLDER_PREFIX}dead"
    dead.mkdir()
    (dead / "owner").write_text(json.dumps({"cgroup_parents": [str(parent) for parent in parents]}))
    with subprocess.Popen(["/bin/sh", "-c", f"sleep 0.7; rmdir {held}"]):
        assert clean_up(tmp_path).servers == ["dead"]
    assert [parent for parent in parents if (parent / "ors-dead-s1").exists()] == []


def test_a_bubblewrap_that_waits_for_its_dead_parent_is_killed_and_no_other(tmp_path):
    def waiting(program, *arguments):
        # What stands first in an argument list need not be the program: here it is one that waits.
        script = ["-c", "read line", *arguments]
        return subprocess.Popen([program, *script], executable="/bin/sh", stdin=subprocess.PIPE)

    shown = str(tmp_path / "ors-dead" / "static" / "etc")
    with contextlib.ExitStack() as stack:
        mine = stack.enter_context(waiting("bwrap", "--ro-bind", shown, "/etc"))
        others = [
            stack.enter_context(waiting("bwrap", "--ro-bind", shown.replace("dead", "alive"), "/etc")),
            stack.enter_context(waiting("ls", shown)),
        ]
        kill_leftovers(tmp_path / "ors-dead")
        assert mine.wait(10) == -9
        assert [other.poll() for other in others] == [None, None]


def test_a_record_that_cannot_be_read_does_not_stop_the_broom(tmp_path):
    dead = tmp_path / f"{FOLDER_PREFIX}dead"
    dead.mkdir()
    (dead / "owner").write_text("not json")
    assert clean_up(tmp_path).servers == ["dead"]


@pytest.mark.skipif(os.geteuid() != 0, reason="sweeps by uid")
@pytest.mark.parametrize(
    ("module", "backend"), [("bubblewrap", "BubblewrapBackend"), ("landlock", "LandlockBackend")]
)
def test_a_server_killed_at_once_leaves_nothing_after_the_sweep(tmp_path, module, backend):
    tmp_path.chmod(0o755)
    code = VICTIM.format(module=module, backend=backend)
    # A base that the sessions' uids can walk to, as /run is.
    base = Path("/run") / f"ors-test-{os.getpid()}-{module}"
    base.mkdir(mode=0o711)
    try:
        with subprocess.Popen(
            [sys.executable, "-c", code, str(base)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ) as server:
            assert server.stdout is not None
            server_id, first_uid = server.stdout.readline().split()
            server.kill()
            server.wait()
        groups = list(Path("/sys/fs/cgroup").glob(f"*/{FOLDER_PREFIX}{server_id}-*"))
        result = clean_up(base)
        assert result.servers == [server_id]
        for _ in range(50):
            if not living(int(first_uid)):
                break
            subprocess.run(["/bin/sleep", "0.1"], check=True)
        assert living(int(first_uid)) == []
        assert [path for path in groups if path.exists()] == []
        assert not (base / f"{FOLDER_PREFIX}{server_id}").exists()
        assert server_id not in Path("/proc/mounts").read_text()
    finally:
        base.rmdir()


def test_what_a_dead_server_kept_in_memory_goes_too_and_nothing_beside_it(tmp_path):
    base, quick = tmp_path / "base", tmp_path / "quick"
    for folder in (base / "ors-dead", quick / "ors-dead" / "s1", quick / "ors-other", tmp_path / "precious"):
        folder.mkdir(parents=True)
    (base / "ors-dead" / LOCK_FILE).write_text(json.dumps({"memory_folder": str(quick / "ors-dead")}))
    (base / "ors-liar").mkdir()
    (base / "ors-liar" / LOCK_FILE).write_text(json.dumps({"quick": str(tmp_path / "precious")}))
    clean_up(base)
    assert list(base.iterdir()) == []
    assert [path.name for path in quick.iterdir()] == ["ors-other"]
    assert (tmp_path / "precious").exists()
