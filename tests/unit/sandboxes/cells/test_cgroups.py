import subprocess
import sys

import anyio
import pytest

from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.cells.cgroups import Cgroup, Hierarchies, find_hierarchies, try_remove

LIMITS = Limits(memory_bytes=1000, pids=7, cpus=0.5)


@pytest.fixture
def unified(tmp_path):
    """A folder that looks like a version-2 group which hands its controllers on."""
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids")
    (tmp_path / "cgroup.subtree_control").write_text("memory pids")
    own = tmp_path / "own"
    own.write_text("0::/\n")
    return tmp_path, own


def make(parent, version=2):
    controllers = ("memory", "pids", "cpu", "freezer")
    if version == 2:
        return Cgroup.make(Hierarchies(2, dict.fromkeys(controllers, parent)), "ors-x", LIMITS)
    for controller in controllers:
        (parent / controller).mkdir()
    return Cgroup.make(Hierarchies(1, {name: parent / name for name in controllers}), "ors-x", LIMITS)


def test_version_2_is_used_where_its_controllers_can_be_handed_on(unified):
    mounts, own = unified
    found = find_hierarchies(mounts, own)
    assert found.version == 2
    assert set(found.parents.values()) == {mounts}
    assert (mounts / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"


def test_version_1_is_used_controller_by_controller(tmp_path):
    own = tmp_path / "own"
    own.write_text("9:name=systemd:/\n8:pids:/a\n4:memory:/b\n1:cpu,cpuacct:/\n0::/\n")
    (tmp_path / "pids" / "a").mkdir(parents=True)
    (tmp_path / "cpu").mkdir()
    found = find_hierarchies(tmp_path, own)
    assert found.version == 1
    assert found.parents == {"pids": tmp_path / "pids" / "a", "cpu": tmp_path / "cpu"}
    assert not found.has("memory")


def test_nothing_is_used_where_nothing_can_be_written(tmp_path):
    (tmp_path / "own").write_text("0::/gone\n")
    assert find_hierarchies(tmp_path, tmp_path / "own") == Hierarchies(0, {})
    assert find_hierarchies(tmp_path, tmp_path / "no-such-file") == Hierarchies(0)
    assert Cgroup.make(Hierarchies(0), "ors-x", LIMITS) is None


def test_limits_are_written_in_each_version_s_words(tmp_path):
    make(tmp_path)
    folder = tmp_path / "ors-x"
    assert (folder / "memory.max").read_text() == "1000"
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "pids.max").read_text() == "7"
    assert (folder / "cpu.max").read_text() == "50000 100000"
    assert (folder / "cpu.weight").read_text() == "25"
    (tmp_path / "one").mkdir()
    make(tmp_path / "one", version=1)
    assert (tmp_path / "one/memory/ors-x/memory.limit_in_bytes").read_text() == "1000"
    assert (tmp_path / "one/cpu/ors-x/cpu.cfs_quota_us").read_text() == "50000"
    assert (tmp_path / "one/cpu/ors-x/cpu.shares").read_text() == "256"


def test_the_counter_of_refusals_and_the_number_alive_are_read(tmp_path):
    group = make(tmp_path)
    assert (group.denials(), group.alive(), group.processes()) == (0, 0, [])
    folder = tmp_path / "ors-x"
    (folder / "pids.events").write_text("max 12\n")
    (folder / "pids.current").write_text("5\n")
    (folder / "cgroup.procs").write_text("1\n2\n")
    assert (group.denials(), group.alive(), group.processes()) == (12, 5, [1, 2])


def test_a_frozen_group_is_not_entered_by_a_copier(tmp_path):
    group = make(tmp_path)
    assert group.thawed_entrances == group.entrances == [str(tmp_path / "ors-x/cgroup.procs")]
    assert group.freeze()
    assert (tmp_path / "ors-x/cgroup.freeze").read_text() == "1"
    (tmp_path / "ors-x/cgroup.events").write_text("populated 1\nfrozen 1\n")
    assert group.thawed_entrances == []
    assert group.thaw()
    assert (tmp_path / "ors-x/cgroup.freeze").read_text() == "0"
    (tmp_path / "one").mkdir()
    old = make(tmp_path / "one", version=1)
    assert old.freeze()
    assert old.is_frozen()
    assert len(old.entrances) == len(old.thawed_entrances) + 1


def test_killing_uses_the_kernel_s_switch_or_goes_one_by_one(tmp_path):
    make(tmp_path).kill()
    assert (tmp_path / "ors-x/cgroup.kill").read_text() == "1"


def test_a_process_in_a_version_1_group_is_killed(tmp_path):
    group = make(tmp_path, version=1)
    group.folders = {"memory": group.folders["memory"]}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        (group.folders["memory"] / "cgroup.procs").write_text(f"{process.pid}\n")
        group.kill()
        assert process.wait(10) == -9


def test_removing_what_is_gone_is_nothing(tmp_path):
    assert try_remove(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    assert try_remove(tmp_path / "empty")
    (tmp_path / "full" / "group").mkdir(parents=True)
    assert not try_remove(tmp_path / "full")


def test_controllers_that_are_handed_on_already_are_left_as_they_are(unified):
    mounts, own = unified
    (mounts / "cgroup.subtree_control").write_text("memory pids cpu")
    assert find_hierarchies(mounts, own).version == 2
    assert (mounts / "cgroup.subtree_control").read_text() == "memory pids cpu"


def test_version_2_without_its_controllers_is_not_used(unified):
    mounts, own = unified
    (mounts / "cgroup.controllers").write_text("cpu memory")
    assert find_hierarchies(mounts, own) == Hierarchies(0, {})


def test_a_group_that_cannot_be_made_is_none(tmp_path):
    (tmp_path / "ors-x").mkdir()
    assert make(tmp_path) is None
    (tmp_path / "one").mkdir()
    (tmp_path / "one/pids/ors-x").mkdir(parents=True)
    hierarchies = Hierarchies(1, {name: tmp_path / "one" / name for name in ("memory", "pids")})
    assert Cgroup.make(hierarchies, "ors-x", LIMITS) is None
    assert not (tmp_path / "one/memory").exists()


def test_without_a_freezer_nothing_is_frozen(tmp_path):
    (tmp_path / "pids").mkdir()
    group = Cgroup.make(Hierarchies(1, {"pids": tmp_path / "pids"}), "ors-x", LIMITS)
    assert not group.freeze()
    assert not group.thaw()
    assert not group.is_frozen()
    assert group.thawed_entrances == group.entrances


def test_a_group_that_is_gone_counts_nothing_and_holds_nothing(tmp_path):
    group = make(tmp_path)
    for file in (tmp_path / "ors-x").iterdir():
        file.unlink()
    (tmp_path / "ors-x").rmdir()
    assert (group.alive(), group.denials(), group.processes()) == (0, 0, [])
    assert not group.freeze()
    group.kill()
    anyio.run(group.remove)


def test_groups_are_removed_when_their_processes_have_left(tmp_path):
    group = make(tmp_path)
    (tmp_path / "ors-x/pids.events").write_text("max 1\n")
    assert group.denials() == 1

    async def run():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(group.remove)
            await anyio.wait_all_tasks_blocked()
            assert (tmp_path / "ors-x").exists()
            for file in (tmp_path / "ors-x").iterdir():
                file.unlink()

    anyio.run(run)
    assert not (tmp_path / "ors-x").exists()


def test_a_group_that_stays_busy_is_given_up(tmp_path):
    group = make(tmp_path)
    anyio.run(group.remove)
    assert not try_remove(tmp_path / "ors-x")
    assert (tmp_path / "ors-x").exists()
