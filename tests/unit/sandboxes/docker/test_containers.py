"""What the engine would be asked for, and by which rules its containers would be held."""

import errno
import json
import socket
import subprocess
from pathlib import Path

import pytest

from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.cells import seccomp
from ors_server.sandboxes.docker import containers
from ors_server.sandboxes.docker.profile import FOR_BUBBLEWRAP, anything_but, server_profile, session_profile
from ors_server.sandboxes.fresh import FreshProgram

ROOT = Path(__file__).parents[4]
USER = 1_700_000_007
LIMITS = Limits()
PLACE = containers.ContainerSetting(
    image="some:image",
    name="ors-x-s1",
    labels={containers.SERVER_LABEL: "x"},
    user=USER,
    limits=LIMITS,
    folder=Path("/base/ors-x/s1"),
    control=Path("/quick/ors-x/s1/control"),
    static=Path("/base/ors-x/static"),
    environment={"PATH": "/opt/tools:/bin"},
)
FRESH = containers.fresh(
    PLACE, FreshProgram(("prog", "arg"), {}, {"GIVEN": "1"}), Path("/files"), "ulimit -c 0"
)
EVERY_CONTAINER = {
    "holder": containers.holder(PLACE),
    "session": containers.session(PLACE, "/dev/pts/9"),
    "fresh": FRESH,
    "reader": containers.copier(PLACE, ["/bin/tar", "-c"], reads=True),
    "writer": containers.copier(PLACE, ["/bin/tar", "-x"], reads=False),
}


def targets(config, *, writable=False):
    return {
        mount["Target"]: mount.get("Source")
        for mount in config["HostConfig"]["Mounts"]
        if not (writable and mount.get("ReadOnly"))
    }


@pytest.mark.parametrize("kind", EVERY_CONTAINER)
def test_every_container_is_held_tight(kind):
    config = EVERY_CONTAINER[kind]
    host = config["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert "no-new-privileges" in host["SecurityOpt"]
    assert json.loads(host["SecurityOpt"][1].removeprefix("seccomp=")) == session_profile()
    assert 0 < host["Memory"] == host["MemorySwap"] <= LIMITS.memory_bytes
    assert 0 < host["PidsLimit"] <= LIMITS.pids
    assert "Privileged" not in host
    assert targets(config)["/dev/tty"] == "/base/ors-x/static/no-terminal"
    assert "Image" in config
    assert config["Labels"] == {containers.SERVER_LABEL: "x"}


@pytest.mark.parametrize("kind", [kind for kind in EVERY_CONTAINER if kind != "reader"])
def test_all_but_the_reader_run_as_the_session_s_uid_without_rights(kind):
    config = EVERY_CONTAINER[kind]
    assert config["User"] == f"{USER}:{USER}"
    assert "CapAdd" not in config["HostConfig"]


def test_the_reader_may_read_what_its_owner_has_locked_and_no_more():
    assert EVERY_CONTAINER["reader"]["HostConfig"]["CapAdd"] == ["DAC_OVERRIDE", "FOWNER"]
    assert set(targets(EVERY_CONTAINER["reader"], writable=True)) == {"/data"}


def test_the_files_stand_on_a_tmpfs_with_quotas():
    (volume,) = [
        mount for mount in EVERY_CONTAINER["holder"]["HostConfig"]["Mounts"] if mount["Type"] == "volume"
    ]
    options = volume["VolumeOptions"]["DriverConfig"]["Options"]
    assert options["type"] == "tmpfs"
    wanted = {f"size={LIMITS.disk_bytes}", f"nr_inodes={LIMITS.inodes}", "nosuid", "nodev", f"uid={USER}"}
    assert wanted <= set(options["o"].split(","))


def test_a_session_can_write_its_own_files_and_nothing_else():
    writable = targets(EVERY_CONTAINER["session"], writable=True)
    assert writable == {
        "/work": "{data}/work",
        "/home/agent": "{data}/home",
        "/tmp": "{data}/tmp",  # noqa: S108 # inside
        "/var/tmp": "{data}/tmp",  # noqa: S108 # inside
        "/run/ors-state": "{data}/state",
        "/run/ors-terminal": "/dev/pts/9",
    }


def test_a_session_has_the_shell_s_variables_and_the_image_s_path():
    variables = dict(row.split("=", 1) for row in EVERY_CONTAINER["session"]["Env"])
    assert variables["PATH"] == "/opt/tools:/bin"
    assert variables["HOME"] == "/home/agent"
    assert not [name for name in variables if name.startswith("ORS")]


def test_a_fresh_program_sees_the_work_dir_read_only_and_nothing_else_of_the_session():
    assert targets(FRESH, writable=True) == {}
    assert targets(FRESH)["/work"] == "{data}/work"
    assert targets(FRESH)["/grader"] == "/files"
    assert not {"/home/agent", "/run/ors", "/run/ors-state"} & set(targets(FRESH))
    (own,) = FRESH["HostConfig"]["Tmpfs"].values()
    assert f"size={LIMITS.disk_bytes}" in own
    assert FRESH["Cmd"][-2:] == ["prog", "arg"]
    assert "GIVEN=1" in FRESH["Cmd"]


def test_a_fresh_program_without_files_has_no_folder_for_them():
    config = containers.fresh(PLACE, FreshProgram(("prog",)), None, "")
    assert "/grader" not in targets(config)


def test_the_script_of_a_fresh_program_gives_a_clean_environment_and_an_exact_status(tmp_path):
    def run(*argv):
        order = FreshProgram(argv, {}, {"GIVEN": "a b"})
        config = containers.fresh(PLACE, order, None, "ulimit -c 0")
        return subprocess.run(
            [*config["Entrypoint"], *config["Cmd"]],
            env={"HOSTNAME": "sandbox", "LEAK": "1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    printed = run("/usr/bin/env")
    names = {line.partition("=")[0] for line in printed.stdout.splitlines()}
    assert names - {"PWD", "_", "SHLVL", "OLDPWD"} == {"PATH", "LANG", "HOME", "TMPDIR", "GIVEN"}
    assert run("sh", "-c", "exit 7").returncode == 7
    killed = run("sh", "-c", "kill -9 $$")
    assert (killed.returncode, killed.stderr) == (137, "")
    assert run("no-such-program").returncode == 127
    (tmp_path / "a=b").write_text("#!/bin/sh\necho odd\n")
    (tmp_path / "a=b").chmod(0o755)
    assert run(str(tmp_path / "a=b")).stdout == "odd\n"


def test_the_start_script_makes_the_first_terminal_it_opens_its_own():
    assert containers.START_SCRIPT.index("/run/ors-terminal") < containers.START_SCRIPT.index("/run/ors/init")
    assert subprocess.run(["/bin/sh", "-n", "-c", containers.START_SCRIPT], check=False).returncode == 0


def test_a_session_s_uid_has_a_name(tmp_path):
    containers.write_identity(tmp_path, USER)
    assert f"agent:x:{USER}:{USER}:" in (tmp_path / "passwd").read_text()
    assert f"agent:x:{USER}:" in (tmp_path / "group").read_text()


# The profiles


def test_a_masked_test_says_anything_but_some_words():
    for words in ({0x5412, 0x541C}, {7}, {0, 1, 2, 3}):
        pairs = anything_but(words)
        near = {(word ^ bit) & 0xFFFFFFFF for word in words for bit in (1 << shift for shift in range(32))}
        for word in near | words | {0x12345678}:
            for upper in (0, 1 << 32):  # what the kernel ignores must not open a way around
                allowed = any((word | upper) & mask == value for mask, value in pairs)
                assert allowed == (word not in words), hex(word)


def rules(profile, name):
    return [rule for rule in profile["syscalls"] if name in rule["names"]]


@pytest.mark.parametrize("name", [*seccomp.REFUSED, *seccomp.MISSING])
def test_a_session_s_profile_refuses_what_the_filter_refuses(name):
    (rule,) = rules(session_profile(), name)
    assert rule["action"] == "SCMP_ACT_ERRNO"
    assert rule["errnoRet"] == (errno.ENOSYS if name in seccomp.MISSING else errno.EPERM)


def test_calls_that_depend_on_their_arguments_are_never_allowed_without_a_look():
    for name in ("clone", "socket", "socketpair", "personality", "ioctl"):
        found = rules(session_profile(), name)
        assert found
        assert all(rule["action"] == "SCMP_ACT_ALLOW" and rule["args"] for rule in found), name
    families = {rule["args"][0]["value"] for rule in rules(session_profile(), "socket")}
    assert socket.AF_VSOCK not in families
    (clone,) = rules(session_profile(), "clone")
    assert clone["args"] == [
        {"index": 0, "value": seccomp.NAMESPACE_FLAGS, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    ]


def test_the_server_s_profile_opens_what_bubblewrap_needs_and_nothing_else():
    ours, theirs = session_profile(), server_profile()
    opened = {
        name for rule in theirs["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]
    } - {name for rule in ours["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    assert opened == set(FOR_BUBBLEWRAP)
    assert "args" not in rules(theirs, "clone")[0]
    for name in FOR_BUBBLEWRAP:
        assert [rule["action"] for rule in rules(theirs, name)] == ["SCMP_ACT_ALLOW"]


def test_the_profile_that_ships_is_the_one_that_is_made():
    shipped = json.loads((ROOT / "deploy" / "docker-seccomp.json").read_text())
    assert shipped == server_profile()
