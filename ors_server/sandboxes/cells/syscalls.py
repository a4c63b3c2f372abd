"""System calls without a Python function, through the C library's `syscall`."""

import ctypes
import errno
import os
from enum import IntFlag

# Same numbers on x86_64 and aarch64 (asm-generic/unistd.h).
_OPEN_TREE, _MOVE_MOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 437, 442
NEW_MOUNTS = 0x00020000
"""CLONE_NEWNS (linux/sched.h)."""
NO_SUID, NO_DEVICES = 0x2, 0x4
_PRIVATE_TREE = 0x4000 | 1 << 18
"""MS_REC | MS_PRIVATE (linux/mount.h)."""
_CLONE_TREE, _EMPTY_PATH, _MOVE_EMPTY_PATH = 1 | os.O_CLOEXEC, 0x1000, 0x4
_READ_ONLY, _IDMAP = 0x1, 0x00100000
_HERE = -100

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long


class Resolve(IntFlag):
    """Flags that restrict the path walk of `openat2` (linux/openat2.h)."""

    NO_XDEV = 0x01
    NO_MAGICLINKS = 0x02
    NO_SYMLINKS = 0x04
    BENEATH = 0x08
    IN_ROOT = 0x10


INSIDE_ROOT = Resolve.IN_ROOT | Resolve.NO_MAGICLINKS
"""Links are followed within the folder, as in a root; those of `/proc` are refused."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def openat2(folder: int, path: bytes, flags: int, *, mode: int = 0, resolve: Resolve) -> int:
    """Open a path below a folder; the kernel itself refuses a path that leads out of it.

    Raises:
        OSError: The kernel refused; `EXDEV` means that the path leads out.
    """
    how = _OpenHow(flags | os.O_CLOEXEC, mode, resolve)
    for _ in range(64):  # EAGAIN: a rename raced with the walk (openat2(2)); the attacker chooses how often
        got = _syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(folder),
            ctypes.c_char_p(path),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if got >= 0:
            return int(got)
        if ctypes.get_errno() not in {errno.EAGAIN, errno.EINTR}:
            break
    code = ctypes.get_errno()
    raise OSError(code, os.strerror(code))


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    )


def _check(result: int, operation: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{operation}: {os.strerror(code)}")
    return int(result)


def unshare_mounts() -> None:
    """Give the calling thread its own mount namespace, from which nothing propagates.

    The thread cannot go back, so only a thread that ends soon may call it.

    Raises:
        OSError: The kernel refused.
    """
    _check(_libc.unshare(ctypes.c_int(NEW_MOUNTS)), "unshare")
    _check(_libc.mount(b"none", b"/", None, ctypes.c_ulong(_PRIVATE_TREE), None), "mount /")


def mount(kind: str, target: str, options: str, flags: int = NO_SUID | NO_DEVICES) -> None:
    """Mount a file system that has no device; raises `OSError` if the kernel refuses."""
    result = _libc.mount(
        b"ors", os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), os.fsencode(options)
    )
    _check(result, f"mount {kind}")


def mount_with_ids(source: str, target: str, user_namespace: int) -> None:
    """Show a folder at another path, read-only, with its owners' ids as a user namespace maps them.

    Raises:
        OSError: The kernel, or the folder's file system, has no such mounts (Linux 5.12; mount_setattr(2)).
    """
    tree = _check(
        _syscall(
            ctypes.c_long(_OPEN_TREE),
            ctypes.c_int(_HERE),
            ctypes.c_char_p(os.fsencode(source)),
            ctypes.c_uint(_CLONE_TREE),
        ),
        "open_tree",
    )
    try:
        attributes = _MountAttributes(_READ_ONLY | _IDMAP, 0, 0, user_namespace)
        result = _syscall(
            ctypes.c_long(_MOUNT_SETATTR),
            ctypes.c_int(tree),
            ctypes.c_char_p(b""),
            ctypes.c_uint(_EMPTY_PATH),
            ctypes.byref(attributes),
            ctypes.c_size_t(ctypes.sizeof(attributes)),
        )
        _check(result, "mount_setattr")
        result = _syscall(
            ctypes.c_long(_MOVE_MOUNT),
            ctypes.c_int(tree),
            ctypes.c_char_p(b""),
            ctypes.c_int(_HERE),
            ctypes.c_char_p(os.fsencode(target)),
            ctypes.c_uint(_MOVE_EMPTY_PATH),
        )
        _check(result, "move_mount")
    finally:
        os.close(tree)
