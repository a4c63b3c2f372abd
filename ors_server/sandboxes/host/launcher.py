"""Confines itself, then becomes a session's init; a program that needs only the standard library.

It reads its instructions, marshalled by its own interpreter, from the descriptor that its only argument
names. The order of the steps matters: limits and uid while it may still set them, Landlock while files can
still be opened, the filter last.

Every sandbox and every fresh program waits for this file's imports, so there are few: `json` and `typing`
alone would double its start.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import resource
import signal
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Same numbers on every machine (asm-generic/unistd.h).
_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1

# linux/prctl.h
_SET_PDEATHSIG = 1
_SET_KEEPCAPS = 8
_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_SET_CHILD_SUBREAPER = 36
_SET_NO_NEW_PRIVS = 38
_CAP_AMBIENT = 47
_CAP_AMBIENT_RAISE = 2

# linux/capability.h
_CAPABILITY_VERSION = 0x20080522
_DAC_OVERRIDE = 1
_FOWNER = 3

# linux/landlock.h: file rights by the ABI that brought them
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_NETWORK_RIGHTS = {4: 0b11}
_SCOPES = {6: 0b11}
_READ = 0b1101  # execute, read file, read folder
_LIST = 0b1000  # read folder
_ON_A_FILE = 0b0111 | 1 << 14 | 1 << 15  # execute, write, read, truncate, ioctl on a device
_WRITE_FILE = 0b0010 | 1 << 14

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def abi() -> int:
    """Return the kernel's Landlock version; 0 if it does not support Landlock."""
    got = _libc.syscall(
        ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(_CREATE_RULESET_VERSION)
    )
    return max(0, int(got))


def _check(result: int, operation: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{operation}: {os.strerror(code)}")
    return result


def _prctl(option: int, *values: int) -> None:
    padded = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    _check(_libc.prctl(ctypes.c_int(option), *padded), f"prctl {option}")


def _since(table: dict[int, int], version: int) -> int:
    rights = 0
    for since, right in table.items():
        if since <= version:
            rights |= right
    return rights


def _restrict(paths: dict[str, list[str]]) -> None:
    version = abi()
    handled = _since(_FILE_RIGHTS, version)
    rules = struct.pack("<QQQ", handled, _since(_NETWORK_RIGHTS, version), _since(_SCOPES, version))
    # Each of these ABI versions added a field to the structure; its size says which are there.
    size = 24 if version >= 6 else 16 if version >= 4 else 8  # noqa: PLR2004 # the ABI that added a field
    ruleset = _check(
        _libc.syscall(
            ctypes.c_long(_CREATE_RULESET), ctypes.c_char_p(rules), ctypes.c_size_t(size), ctypes.c_uint32(0)
        ),
        "landlock_create_ruleset",
    )
    granted = {"list": _LIST, "read": _READ, "use": _READ | _WRITE_FILE, "write": handled & ~(1 << 15)}
    for kind, rights in granted.items():
        for path in paths.get(kind, ()):
            _grant(ruleset, path, rights & handled)
    _check(
        _libc.syscall(ctypes.c_long(_RESTRICT_SELF), ctypes.c_int(ruleset), ctypes.c_uint32(0)),
        "landlock_restrict_self",
    )
    os.close(ruleset)


def _grant(ruleset: int, path: str, rights: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    # A rule on a file with a right that only folders have is refused (EINVAL).
    if not os.path.isdir(path):  # noqa: PTH112 # a start-up path without imports
        rights &= _ON_A_FILE
    attribute = struct.pack("<Qi", rights, beneath)
    _check(
        _libc.syscall(
            ctypes.c_long(_ADD_RULE),
            ctypes.c_int(ruleset),
            ctypes.c_int(_RULE_PATH_BENEATH),
            ctypes.c_char_p(attribute),
            ctypes.c_uint32(0),
        ),
        f"landlock_add_rule {path}",
    )
    os.close(beneath)


def _filter(code: bytes) -> None:
    # Bound to a name until the call returns: the structure holds only its address.
    instructions = ctypes.create_string_buffer(code, len(code))
    program = _FilterProgram(len(code) // 8, ctypes.addressof(instructions))
    result = _libc.prctl(
        ctypes.c_int(_SET_SECCOMP),
        ctypes.c_ulong(_SECCOMP_MODE_FILTER),
        ctypes.byref(program),
        ctypes.c_ulong(0),
        ctypes.c_ulong(0),
    )
    _check(result, "seccomp")


def _set_limits(limits: dict[str, int]) -> None:
    for name, value in limits.items():
        which = getattr(resource, name)
        hard = resource.getrlimit(which)[1]
        lowered = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (lowered, lowered))


def _become(uid: int, *, sees_all: bool) -> None:
    """Drop root; a copying program may still read what its owner locked, within Landlock's rules."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    if sees_all:
        _prctl(_SET_KEEPCAPS, 1)
    os.setresuid(uid, uid, uid)
    if sees_all:
        capabilities = 1 << _DAC_OVERRIDE | 1 << _FOWNER
        header = struct.pack("<Ii", _CAPABILITY_VERSION, 0)
        sets = struct.pack("<6I", capabilities, capabilities, capabilities, 0, 0, 0)
        _check(_libc.capset(ctypes.c_char_p(header), ctypes.c_char_p(sets)), "capset")
        for capability in (_DAC_OVERRIDE, _FOWNER):
            _prctl(_CAP_AMBIENT, _CAP_AMBIENT_RAISE, capability)


def confine(orders: dict[str, Any]) -> None:
    """Apply the instructions' limits, uid, rules and filter, for good."""
    _set_limits(orders["limits"])
    for entrance in orders["entrances"]:
        with open(entrance, "w") as file:  # noqa: PTH123 # a start-up path without imports
            file.write("0")
    if orders["uid"] is not None:
        _become(orders["uid"], sees_all=orders["sees_all"])
    os.umask(0o022)
    os.chdir(orders["folder"])
    # After the change of the uid, which clears this setting (prctl(2), PR_SET_PDEATHSIG).
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)
    _prctl(_SET_CHILD_SUBREAPER, 1)
    _prctl(_SET_NO_NEW_PRIVS, 1)
    if orders["paths"] is not None:
        _restrict(orders["paths"])
    if orders["filter"] is not None:
        _filter(orders["filter"])


def become(orders: dict[str, Any]) -> None:
    """Confine this process and replace it by the instructions' program; does not return."""
    confine(orders)
    os.execve(orders["argv"][0], orders["argv"], orders["environment"])  # noqa: S606 # that is its purpose


def _end_children() -> None:
    """Kill every process below this one, which adopts their orphans, until none is left."""
    while True:
        with open("/proc/thread-self/children") as file:  # noqa: PTH123 # a start-up path without imports
            for child in file.read().split():
                os.kill(int(child), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _reap_until(child: int) -> int | None:
    """Reap dead children; return this child's status if it is among them, 128 + n for signal n."""
    while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)) is not None:
        if dead.si_pid == child:
            return dead.si_status + (0 if dead.si_code == os.CLD_EXITED else 128)
    return None


def guard(orders: dict[str, Any], status: int) -> None:
    """Run the program as a child, report its status, and kill what it leaves behind.

    This process applies no rules and no other uid, so the program cannot signal it; SIGTERM ends both.
    """
    os.set_inheritable(status, False)  # noqa: FBT003 # its only signature
    _prctl(_SET_PDEATHSIG, signal.SIGTERM)
    _prctl(_SET_CHILD_SUBREAPER, 1)
    # Blocked before the fork, so that `sigwait` cannot miss a child that ends at once.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
    child = os.fork()
    if not child:
        _be_child(orders, status)
    # Otherwise the guardian would keep the program's pipes open, and their reader would wait for an end.
    for stream in range(3):
        os.close(stream)
    os.write(status, b'{"child-pid": %d}\n' % child)
    while signal.sigwait({signal.SIGTERM, signal.SIGCHLD}) == signal.SIGCHLD:
        code = _reap_until(child)
        if code is not None:
            os.write(status, b'{"exit-code": %d}\n' % code)
            break
    _end_children()


def _be_child(orders: dict[str, Any], status: int) -> None:
    """Become the program, or report why not: a failure here must not look like the program's own."""
    try:
        os.setsid()  # a signal to its whole group reaches nothing but its own
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        become(orders)
    except BaseException as error:  # noqa: BLE001 # any error is printed and ends the process
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os.write(status, b'{"failure": true}\n')
        os._exit(125)


def main() -> None:
    """Read the instructions and carry them out."""
    with open(int(sys.argv[1]), "rb") as source:  # noqa: PTH123 # a descriptor
        orders = marshal.load(source)  # noqa: S302 # what the server itself wrote a moment ago
    if orders["status"] is None:
        become(orders)
    guard(orders, orders["status"])


if __name__ == "__main__":
    main()
