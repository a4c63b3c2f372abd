"""The filter is run here by an interpreter of its own, so that its answers are seen without a kernel."""

import errno
import socket
import struct

import pytest

from ors_server.sandboxes.cells import seccomp
from ors_server.sandboxes.cells.seccomp import Policy, program
from ors_server.sandboxes.sandbox_errors import SandboxUnavailableError

X86, ARM = 0xC000003E, 0xC00000B7
ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS, EAFNOSUPPORT = (0x50000 | code for code in (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT))


def answer(code, arch, number, *arguments):
    data = struct.pack("<IIQ6Q", number, arch, 0, *arguments, *[0] * (6 - len(arguments)))
    at, accumulator = 0, 0
    for _ in range(4096):
        operation, then, otherwise, value = struct.unpack_from("<HBBI", code, 8 * at)
        at += 1
        if operation == 0x06:
            return value
        if operation == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        else:
            tests = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}
            is_so = tests[operation]
            at += then if is_so else otherwise
    raise AssertionError("no answer")


X86_PROGRAM = program(machine="x86_64")


def column(table, index):
    return {name: row[index] for name, row in table.items() if row[index] is not None}


@pytest.mark.parametrize(("machine", "arch", "index"), [("x86_64", X86, 0), ("aarch64", ARM, 1)])
def test_every_listed_call_is_refused_on_both_machines(machine, arch, index):
    code = program(machine=machine)
    for number in column(seccomp.REFUSED, index).values():
        assert answer(code, arch, number) == EPERM
    for number in column(seccomp.MISSING, index).values():
        assert answer(code, arch, number) == ENOSYS


def test_another_architecture_is_killed():
    assert answer(X86_PROGRAM, 0x40000003, 20) == KILL  # i386's getpid, by int 0x80
    assert answer(X86_PROGRAM, ARM, 63) == KILL


def test_the_x32_table_and_newer_calls_do_not_exist():
    assert answer(X86_PROGRAM, X86, 0x40000000 | 1) == ENOSYS
    assert answer(X86_PROGRAM, X86, 463) == ENOSYS
    assert answer(X86_PROGRAM, X86, 462) == ALLOW


def test_ordinary_calls_pass():
    for number in (0, 1, 2, 57, 59, 101, 231, 437):  # read, write, open, fork, execve, ptrace, exit, openat2
        assert answer(X86_PROGRAM, X86, number) == ALLOW


@pytest.mark.parametrize(
    "flag", [0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
)
def test_clone_makes_threads_but_no_namespaces(flag):
    assert answer(X86_PROGRAM, X86, 56, flag | 17) == EPERM
    assert answer(X86_PROGRAM, X86, 56, 0x3D0F00) == ALLOW  # what pthread_create asks for


def test_sockets_are_of_families_that_a_namespace_holds():
    for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
        assert answer(X86_PROGRAM, X86, 41, family) == ALLOW
    for number in (17, 29, 31, 38, 40, 44):  # packet, can, bluetooth, alg, vsock, xdp
        assert answer(X86_PROGRAM, X86, 41, number) == EAFNOSUPPORT


def test_typing_on_a_terminal_for_others_is_refused_whatever_the_high_half_says():
    assert answer(X86_PROGRAM, X86, 16, 0, 0x5412) == EPERM
    assert answer(X86_PROGRAM, X86, 16, 0, 0x5412 | 1 << 32) == EPERM
    assert answer(X86_PROGRAM, X86, 16, 0, 0x541C) == EPERM
    assert answer(X86_PROGRAM, X86, 16, 0, 0x5401) == ALLOW


def test_personality_may_only_be_asked_or_harmless():
    assert answer(X86_PROGRAM, X86, 135, 0xFFFFFFFF) == ALLOW
    assert answer(X86_PROGRAM, X86, 135, 0x0400000) == EPERM  # READ_IMPLIES_EXEC


def test_a_stricter_policy_leaves_local_sockets_and_no_shared_ipc():
    code = program(Policy(families=(1,), shared_ipc=False), machine="x86_64")
    assert answer(code, X86, 41, socket.AF_INET) == EAFNOSUPPORT
    assert answer(code, X86, 41, socket.AF_UNIX) == ALLOW
    assert answer(code, X86, 29) == EPERM  # shmget
    assert answer(X86_PROGRAM, X86, 29) == ALLOW


def test_a_machine_without_a_table_is_named():
    with pytest.raises(SandboxUnavailableError, match="riscv64"):
        program(machine="riscv64")
