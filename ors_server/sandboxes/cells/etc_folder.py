"""The `/etc` of every sandbox: small, prebuilt, read-only, without secrets."""

import contextlib
import os
import shutil
import stat
from pathlib import Path

_FILES = {
    "passwd": (
        "root:x:0:0:root:/root:/usr/sbin/nologin\n"
        "agent:x:1000:1000:agent:/home/agent:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    ),
    "group": "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "hostname": "sandbox\n",
    "resolv.conf": "",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "shells": "/bin/sh\n/bin/bash\n",
    "host.conf": "multi on\n",
}

_FROM_HOST = (
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "mime.types",
    "protocols",
    "services",
    "ssl/certs/ca-certificates.crt",
    "ssl/openssl.cnf",
    "vim",
)
"""Files of the host's that programs under `/usr` need; none of them is private."""


def build(folder: Path, host: Path = Path("/etc")) -> None:
    """Write the folder, which must not exist yet."""
    folder.mkdir(mode=0o755)
    for name, content in _FILES.items():
        (folder / name).write_text(content)
    for name in _FROM_HOST:
        source, target = host / name, folder / name
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with contextlib.suppress(OSError, shutil.Error):
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True)
            elif source.exists():
                shutil.copyfile(source, target)  # what a link on the host points to


def build_dead_socket(path: Path) -> None:
    """Create a file that cannot be opened, at the path of a terminal, which must not exist yet.

    open(2) of a socket's file gives ENXIO, as `/dev/tty` does for a process without a terminal: programs that
    ask for a password there fail instead of waiting.
    """
    os.mknod(path, stat.S_IFSOCK | 0o600)  # no listener is needed, and the path may be longer than an address
