"""The seccomp filter as Docker wants it: a JSON profile, made from the tables of the sandboxes' own filter.

Two profiles come from here. One is for the container of a session, and says what `seccomp.py` says. The
other is for a container that holds the whole server, where bubblewrap has to make namespaces and mounts; it
ships as `deploy/docker-seccomp.json`. Both list what is allowed, so a call that is newer than the list is
refused: with ENOSYS, or with EPERM by engines that know no `defaultErrnoRet` (20.10, for one). Names that a
machine does not have are skipped by the container runtime.
"""

import errno
from collections.abc import Iterable
from typing import Any, TypeAlias

from ors_server.sandboxes.cells.seccomp import (
    HARMLESS_PERSONALITIES,
    MISSING,
    NAMESPACE_FLAGS,
    OPEN_FAMILIES,
    REFUSED,
    TERMINAL_INJECTION,
)

Rule: TypeAlias = dict[str, Any]

FOR_BUBBLEWRAP = ("mount", "pivot_root", "sethostname", "setns", "umount2", "unshare")
"""Calls of bubblewrap that Docker's own profile refuses, except `clone` with namespace flags."""

# asm/unistd_64.h up to Linux 6.10, without what `seccomp.py` lists and what no kernel implements
_ALLOWED = """\
accept accept4 access alarm arch_prctl bind brk cachestat capget capset chdir chmod chown clock_getres
clock_gettime clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3 epoll_create
epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat exit
exit_group faccessat faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat
fcntl fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat fstatfs fsync ftruncate
futex futex_requeue futex_wait futex_waitv futex_wake futimesat get_mempolicy get_robust_list
get_thread_area getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer getpeername
getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid
getsockname getsockopt gettid gettimeofday getuid getxattr inotify_add_watch inotify_init inotify_init1
inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit ioprio_get
ioprio_set kill landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lgetxattr link
linkat listen listmount listxattr llistxattr lremovexattr lseek lsetxattr lsm_get_self_attr
lsm_list_modules lsm_set_self_attr lstat madvise map_shadow_stack membarrier memfd_create mincore mkdir
mkdirat mknod mknodat mlock mlock2 mlockall mmap modify_ldt mprotect mq_getsetattr mq_notify mq_open
mq_timedreceive mq_timedsend mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall
munmap nanosleep newfstatat open openat openat2 pause pidfd_getfd pidfd_open pidfd_send_signal pipe
pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll prctl pread64 preadv preadv2 prlimit64
process_mrelease process_vm_readv process_vm_writev pselect6 ptrace pwrite64 pwritev pwritev2 read
readahead readlink readlinkat readv recvfrom recvmmsg recvmsg remap_file_pages removexattr rename
renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo
rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max
sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler
sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield
seccomp select semctl semget semop semtimedop sendfile sendmmsg sendmsg sendto set_robust_list
set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setitimer setpgid setpriority
setregid setresgid setresuid setreuid setrlimit setsid setsockopt setuid setxattr shmat shmctl shmdt
shmget shutdown sigaltstack signalfd signalfd4 splice stat statfs statmount statx symlink symlinkat sync
sync_file_range syncfs sysinfo tee tgkill time timer_create timer_delete timer_getoverrun timer_gettime
timer_settime timerfd_create timerfd_gettime timerfd_settime times tkill truncate umask uname unlink
unlinkat utime utimensat utimes vfork wait4 waitid write writev
"""

_WORD = 0xFFFFFFFF
_WORD_BITS = 32


def session_profile() -> dict[str, Any]:
    """Return the profile for a session's container."""
    clone = _rule(["clone"], [_masked(0, NAMESPACE_FLAGS, 0)])
    return _profile([clone])


def server_profile() -> dict[str, Any]:
    """Return the profile for a container that runs the server with bubblewrap in it."""
    return _profile([_rule(["clone", *FOR_BUBBLEWRAP])], but=FOR_BUBBLEWRAP)


def _profile(more: list[Rule], but: Iterable[str] = ()) -> dict[str, Any]:
    refused = sorted(set(REFUSED) - set(but))
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": errno.ENOSYS,
        "syscalls": [
            _rule(sorted(_ALLOWED.split())),
            *more,
            *(_rule(["socket", "socketpair"], [_equal(0, family)]) for family in sorted(OPEN_FAMILIES)),
            *(_rule(["personality"], [_equal(0, value)]) for value in HARMLESS_PERSONALITIES),
            *(
                _rule(["ioctl"], [_masked(1, mask, value)])
                for mask, value in anything_but(TERMINAL_INJECTION)
            ),
            _rule(refused, errno_code=errno.EPERM),
            _rule(sorted(MISSING), errno_code=errno.ENOSYS),
        ],
    }


def anything_but(values: Iterable[int]) -> list[tuple[int, int]]:
    """Return (mask, value) pairs one of which holds for every 32-bit word but these.

    A profile cannot say "not these words": its rules for one call are alternatives, and its only test that
    ignores the upper half of a register is whether masked bits have a value. So: a word is another one when
    it differs in a bit that all of them share, or has another pattern in the bits in which they differ.
    """
    words = set(values)
    first, *_ = words
    differing = 0
    for word in words:
        differing |= word ^ first
    bits = [1 << number for number in range(_WORD_BITS)]
    pairs = [(bit, ~first & bit) for bit in bits if not bit & differing]
    shared = first & ~differing
    pattern = differing
    while True:  # every subset of the differing bits, from all of them down to none
        if shared | pattern not in words:
            pairs.append((_WORD, shared | pattern))
        if not pattern:
            return pairs
        pattern = (pattern - 1) & differing


def _rule(names: list[str], args: list[Rule] | None = None, *, errno_code: int | None = None) -> Rule:
    rule: Rule = {"names": names, "action": "SCMP_ACT_ALLOW" if errno_code is None else "SCMP_ACT_ERRNO"}
    if errno_code is not None:
        rule["errnoRet"] = errno_code
    if args:
        rule["args"] = args
    return rule


def _equal(index: int, value: int) -> Rule:
    return {"index": index, "value": value, "op": "SCMP_CMP_EQ"}


def _masked(index: int, mask: int, value: int) -> Rule:
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}
