"""System calls without a Python function, through the C library's `syscall`."""

import ctypes
import errno
import os
from enum import IntFlag

_OPENAT2 = 437
"""Same number on x86_64 and aarch64 (asm-generic/unistd.h)."""

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
