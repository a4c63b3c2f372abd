"""The seccomp filter of a sandbox: a deny list, assembled into classic BPF in plain Python.

`bwrap --seccomp` and seccomp(2) read an array of 8-byte instructions (linux/filter.h). The filter kills a
process that uses another architecture's table (``int 0x80``). It refuses the x32 table and calls newer than
it knows with ENOSYS, so that the C library falls back to older calls that it can filter, and refuses the rest
of the list with EPERM. Tracing within the session stays allowed, for debuggers.
"""

import errno
import platform
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from ors_server.sandboxes.sandbox_errors import SandboxUnavailableError

# linux/bpf_common.h: class, size, mode; jump and return codes
_LOAD_WORD = 0x20
_JUMP_EQUAL = 0x15
_JUMP_ABOVE_OR_EQUAL = 0x35
_JUMP_ANY_BIT = 0x45
_RETURN = 0x06

# linux/seccomp.h: what a filter may answer
_ALLOW = 0x7FFF0000
_KILL_PROCESS = 0x80000000
_ERRNO = 0x00050000

# struct seccomp_data: nr, arch, instruction pointer, six 64-bit arguments; little-endian on both machines
_AT_NUMBER = 0
_AT_ARCH = 4
_AT_ARGUMENTS = 16

_NEWEST_KNOWN = 462
"""mseal, Linux 6.10: a call with a larger number did not exist when the list was written."""

NAMESPACE_FLAGS = 0x7E020080
"""CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET | NEWTIME (linux/sched.h)."""
TERMINAL_INJECTION = (0x5412, 0x541C)
"""TIOCSTI, TIOCLINUX (asm-generic/ioctls.h): both can type on another process's terminal."""
HARMLESS_PERSONALITIES = (0x0, 0x40000, 0xFFFFFFFF)
"""PER_LINUX, ADDR_NO_RANDOMIZE (debuggers need it), and the query (linux/personality.h)."""

OPEN_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
"""Socket families that a network namespace isolates; it does not isolate AF_VSOCK, for example."""

# name: (x86_64, aarch64); None where the machine has no such call
REFUSED: dict[str, tuple[int | None, int | None]] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "create_module": (174, None),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "setns": (308, 268),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "kcmp": (312, 272),
    "vhangup": (153, 58),
    "syslog": (103, 116),
    "process_madvise": (440, 440),
    "move_pages": (279, 239),
    "mbind": (237, 235),
    "migrate_pages": (256, 238),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    "vmsplice": (278, 75),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "uselib": (134, None),
    "_sysctl": (156, None),
    "ustat": (136, None),
    "sysfs": (139, None),
}

# With ENOSYS, callers fall back to calls that can be filtered. The flags of clone3 are behind a pointer,
# which a filter cannot read, and io_uring carries out calls that no filter sees.
MISSING: dict[str, tuple[int | None, int | None]] = {
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "clone3": (435, 435),
    "memfd_secret": (447, 447),
}

_SHARED_IPC: dict[str, tuple[int | None, int | None]] = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}

_JUDGED: dict[str, tuple[int, int]] = {
    "clone": (56, 220),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "ioctl": (16, 29),
    "personality": (135, 92),
}

_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""Machine to its AUDIT_ARCH (linux/audit.h) and its column in the tables."""


@dataclass(frozen=True)
class Policy:
    """Calls that a filter allows beyond the fixed list."""

    families: tuple[int, ...] = OPEN_FAMILIES
    """Socket families that may be opened."""
    shared_ipc: bool = True
    """Whether System V and POSIX message objects may be created: only inside an IPC namespace."""


@dataclass
class _Assembler:
    code: list[tuple[int, int, int, int]] = field(default_factory=list[tuple[int, int, int, int]])

    def emit(self, operation: int, value: int, *, then: int = 0, otherwise: int = 0) -> None:
        self.code.append((operation, then, otherwise, value & 0xFFFFFFFF))

    def load(self, offset: int) -> None:
        self.emit(_LOAD_WORD, offset)

    def answer(self, action: int) -> None:
        self.emit(_RETURN, action)

    def answer_if_equal(self, value: int, action: int) -> None:
        self.emit(_JUMP_EQUAL, value, otherwise=1)
        self.answer(action)

    def judge(self, number: int, argument: int, body: "_Assembler") -> None:
        """Run a body on one argument's low word if the call is this one; a body always ends in an answer."""
        block = _Assembler()
        # The low word: the kernel ignores the upper half of these arguments.
        block.load(_AT_ARGUMENTS + 8 * argument)
        block.code += body.code
        self.emit(_JUMP_EQUAL, number, otherwise=len(block.code))
        self.code += block.code

    def packed(self) -> bytes:
        return b"".join(struct.pack("<HBBI", *row) for row in self.code)


def program(policy: Policy | None = None, machine: str | None = None) -> bytes:
    """Assemble the filter.

    Args:
        policy: What to allow; the default suits a session with its own namespaces.

    Returns:
        Instructions of 8 bytes each.

    Raises:
        SandboxUnavailableError: The machine's call numbers are not known here.
    """
    policy = policy or Policy()
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        raise SandboxUnavailableError(f"no seccomp table for {machine}; known: {', '.join(_MACHINES)}")
    arch, column = _MACHINES[machine]
    out = _Assembler()
    out.load(_AT_ARCH)
    out.emit(_JUMP_EQUAL, arch, then=1)
    out.answer(_KILL_PROCESS)
    out.load(_AT_NUMBER)
    # Also everything at or above the x32 bit, which no native number has.
    out.emit(_JUMP_ABOVE_OR_EQUAL, _NEWEST_KNOWN + 1, otherwise=1)
    out.answer(_ERRNO | errno.ENOSYS)
    for number in _numbers(MISSING, column):
        out.answer_if_equal(number, _ERRNO | errno.ENOSYS)
    refused = REFUSED if policy.shared_ipc else {**REFUSED, **_SHARED_IPC}
    for number in _numbers(refused, column):
        out.answer_if_equal(number, _ERRNO | errno.EPERM)
    _judge_arguments(out, policy, column)
    out.answer(_ALLOW)
    return out.packed()


def _judge_arguments(out: _Assembler, policy: Policy, column: int) -> None:
    namespaces = _Assembler()
    namespaces.emit(_JUMP_ANY_BIT, NAMESPACE_FLAGS, otherwise=1)
    namespaces.answer(_ERRNO | errno.EPERM)
    namespaces.answer(_ALLOW)
    out.judge(_JUDGED["clone"][column], 0, namespaces)
    families = _only(policy.families, errno.EAFNOSUPPORT)
    out.judge(_JUDGED["socket"][column], 0, families)
    out.judge(_JUDGED["socketpair"][column], 0, families)
    out.judge(_JUDGED["personality"][column], 0, _only(HARMLESS_PERSONALITIES, errno.EPERM))
    requests = _Assembler()
    for request in TERMINAL_INJECTION:
        requests.answer_if_equal(request, _ERRNO | errno.EPERM)
    requests.answer(_ALLOW)
    out.judge(_JUDGED["ioctl"][column], 1, requests)


def _only(allowed: Iterable[int], code: int) -> _Assembler:
    body = _Assembler()
    for value in allowed:
        body.answer_if_equal(value, _ALLOW)
    body.answer(_ERRNO | code)
    return body


def _numbers(table: dict[str, tuple[int | None, int | None]], column: int) -> list[int]:
    return sorted(number for row in table.values() if (number := row[column]) is not None)
