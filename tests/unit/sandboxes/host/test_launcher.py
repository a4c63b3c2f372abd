import ctypes
import errno
import json
import marshal
import os
import signal
import struct
import subprocess
import sys

import pytest

from ors_server.sandboxes.cells.seccomp import Policy, program
from ors_server.sandboxes.host import launcher
from ors_server.sandboxes.host.landlock import SYSTEM, rules


class FakeKernel:
    """What the launcher asks of the C library: it answers, refuses on demand, and remembers."""

    def __init__(self, version=6, refuse=()):
        self.version, self.refuse = version, refuse
        self.rulesets, self.rules, self.prctls, self.capabilities = [], [], [], []

    def syscall(self, number, *arguments):
        name = {444: "create", 445: "rule", 446: "restrict"}[number.value]
        if name in self.refuse:
            ctypes.set_errno(errno.EPERM)
            return -1
        if name == "create":
            if arguments[0] is None:
                return self.version
            self.rulesets.append((arguments[0].value, arguments[1].value))
            return os.open("/dev/null", os.O_RDONLY)
        if name == "rule":
            self.rules.append(arguments[2].value)
        return 0

    def prctl(self, option, *values):
        self.prctls.append((option.value, *(value.value for value in values if hasattr(value, "value"))))
        return -1 if option.value in self.refuse else 0

    def capset(self, _header, sets):
        self.capabilities.append(sets.value)
        return 0


@pytest.fixture
def kernel(monkeypatch):
    def having(**facts):
        fake = FakeKernel(**facts)
        monkeypatch.setattr(launcher, "_libc", fake)
        return fake

    return having


@pytest.mark.parametrize(
    ("version", "size", "files"),
    [(1, 8, 1 << 13), (2, 8, 1 << 14), (3, 8, 1 << 15), (4, 16, 1 << 15), (5, 16, 1 << 16), (6, 24, 1 << 16)],
)
def test_each_version_of_landlock_is_asked_for_what_it_knows(kernel, tmp_path, version, size, files):
    fake = kernel(version=version)
    (tmp_path / "file").write_text("")
    paths = {"read": [str(tmp_path), "/no/such/path"], "use": [str(tmp_path / "file")], "write": []}
    launcher._restrict(paths)
    ((packed, asked),) = fake.rulesets
    assert asked == size
    assert int.from_bytes(packed[:8], "little") == files - 1
    assert len(fake.rules) == 2
    folder, file = (int.from_bytes(rule[:8], "little") for rule in fake.rules)
    assert folder == launcher._READ
    assert file & 0b1000 == 0  # no listing of a file
    assert file & 0b0010  # but writing


@pytest.mark.parametrize("refuse", ["create", "rule", "restrict"])
def test_a_rule_that_the_kernel_refuses_is_an_error(kernel, tmp_path, refuse):
    kernel(refuse=(refuse,))
    with pytest.raises(OSError, match="landlock_"):
        launcher._restrict({"read": [str(tmp_path)], "use": [], "write": []})


def test_a_kernel_without_landlock_has_version_0(kernel):
    kernel(version=-1)
    assert launcher.abi() == 0


@pytest.mark.parametrize("sees_all", [True, False])
def test_root_is_given_up_in_order(kernel, monkeypatch, sees_all):
    fake = kernel()
    steps: list[tuple[object, ...]] = []
    monkeypatch.setattr(os, "setgroups", lambda groups: steps.append(("groups", *groups)))
    monkeypatch.setattr(os, "setresgid", lambda *ids: steps.append(("gid", *ids)))
    monkeypatch.setattr(os, "setresuid", lambda *ids: steps.append(("uid", *ids)))
    launcher._become(7, sees_all=sees_all)
    assert steps == [("groups",), ("gid", 7, 7, 7), ("uid", 7, 7, 7)]
    assert len(fake.capabilities) == int(sees_all)
    assert [row[0] for row in fake.prctls] == ([8, 47, 47] if sees_all else [])


def test_a_filter_that_is_refused_is_an_error(kernel):
    kernel(refuse=(22,))
    with pytest.raises(OSError, match="seccomp"):
        launcher._filter(program())


def test_a_failure_before_the_program_is_told_apart_from_its_own(monkeypatch):
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    reading, writing = os.pipe()
    launcher._be_child(orders(["/bin/true"], limits={"RLIMIT_NONSENSE": 1}), writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        assert json.loads(told.read()) == {"failure": True}
    assert ended == [125]


def orders(argv, *, write=(), folder="/", **changes):
    return {
        "argv": argv,
        "folder": str(folder),
        "uid": None,
        "sees_all": False,
        "entrances": [],
        "limits": {"RLIMIT_CORE": 0},
        "environment": {"PATH": "/usr/bin:/bin"},
        "paths": rules(SYSTEM, read=["/"], write=[os.getcwd(), *write]),  # noqa: PTH109 # where coverage is written
        "filter": program(Policy()),
        "status": None,
        **changes,
    }


def launch(told, *, status=False, **kinds):
    descriptor = os.memfd_create("orders")
    reading, writing = os.pipe()
    if status:
        told["status"] = writing
    os.write(descriptor, marshal.dumps(told))
    os.lseek(descriptor, 0, os.SEEK_SET)
    process = subprocess.Popen(
        [sys.executable, launcher.__file__, str(descriptor)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=[descriptor, writing],
        **kinds,
    )
    os.close(descriptor)
    os.close(writing)
    return process, os.fdopen(reading)


def test_a_confined_program_writes_only_where_it_may(tmp_path):
    (tmp_path / "mine").mkdir()
    script = f"echo x >{tmp_path}/mine/x && echo in; echo x >{tmp_path}/x || echo out"
    process, told = launch(orders(["/bin/sh", "-c", script], write=[str(tmp_path / "mine")]))
    out, _ = process.communicate(timeout=20)
    told.close()
    assert out == "in\nout\n"


def test_a_program_that_is_not_there_is_an_error_of_the_launcher(tmp_path):
    entrance = tmp_path / "procs"
    process, told = launch(orders(["/no/such/program"], entrances=[str(entrance)]))
    _, err = process.communicate(timeout=20)
    told.close()
    assert process.returncode == 1
    assert "No such file" in err
    assert entrance.read_text() == "0"


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", 137)])
def test_a_guard_tells_the_status_and_ends_what_is_left(script, code):
    told_orders = orders(["/bin/sh", "-c", f"(setsid sleep 1000 & echo $!); {script}"])
    process, told = launch(told_orders, status=True)
    out, _ = process.communicate(timeout=20)
    rows = [json.loads(row) for row in told.read().splitlines()]
    told.close()
    assert [set(row) for row in rows] == [{"child-pid"}, {"exit-code"}]
    assert rows[1]["exit-code"] == code
    with pytest.raises(ProcessLookupError):
        os.kill(int(out), 0)


def test_a_guard_that_is_asked_ends_everything():
    process, told = launch(orders(["/bin/sh", "-c", "echo up; sleep 1000; echo never"]), status=True)
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert out == ""
    assert "exit-code" not in told.read()
    told.close()


def test_the_filter_is_the_kernel_s_format():
    assert len(program()) % struct.calcsize("<HBBI") == 0
