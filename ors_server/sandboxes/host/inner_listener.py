"""Makes a listening socket inside of a sandbox's network namespace, and hands it to the server.

A process with several threads cannot enter a user namespace, so a small program does it and sends the socket.
"""

import socket
import subprocess
import sys

from ors_server.sandboxes.sandbox_errors import SandboxStartError

# Arguments: pid of the sandbox's first process, port, descriptor of the socket to the server. Root may enter
# a network namespace directly; others must enter the user namespace that owns it first, which an ioctl tells
# (ioctl_ns(2), NS_GET_USERNS).
_MAKE = """\
import ctypes, fcntl, os, socket, sys
pid, port, out = (int(text) for text in sys.argv[1:])
libc = ctypes.CDLL(None, use_errno=True)
def enter(namespace, kind):
    if libc.setns(namespace, kind):
        raise OSError(ctypes.get_errno(), "setns: " + os.strerror(ctypes.get_errno()))
network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
if os.geteuid():
    enter(fcntl.ioctl(network, 0xB701), 0x10000000)
enter(network, 0x40000000)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", port))
listener.listen(64)
socket.send_fds(socket.socket(fileno=out), [b"x"], [listener.fileno()])
"""
_SECONDS = 20.0


def make_listener(pid: int, port: int) -> socket.socket:
    """Return a socket that listens on the loopback of a process's network namespace.

    Raises:
        SandboxStartError: It could not be made.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(_SECONDS)
        argv = [sys.executable, "-I", "-S", "-c", _MAKE, str(pid), str(port), str(theirs.fileno())]
        try:
            run = subprocess.run(  # noqa: S603  (a program of our own)
                argv,
                pass_fds=[theirs.fileno()],
                capture_output=True,
                timeout=_SECONDS,
                env={},
                cwd="/",
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SandboxStartError(f"the proxy of a sandbox cannot be made: {error}") from error
        if run.returncode:
            printed = run.stderr.decode(errors="replace").strip()[-300:]
            raise SandboxStartError(f"the proxy of a sandbox cannot be made: {printed}")
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        listener = socket.socket(fileno=descriptors[0])
        listener.setblocking(False)  # noqa: FBT003  (its only signature)
        return listener
