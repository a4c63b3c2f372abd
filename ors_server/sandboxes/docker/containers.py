"""The containers of one session, as the Docker Engine API describes them. Pure.

A session has two long-lived containers. The one that holds its files owns a volume (a tmpfs with a size and
an inode quota) and does nothing else, so the files outlive the other one, in which the shell runs. Both go
when the server does: the first waits for a pipe to end, the second for its terminal to hang up. Copiers and
fresh programs get a container each.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.cells.cgroups import SHARES
from ors_server.sandboxes.docker.profile import session_profile
from ors_server.sandboxes.fresh import FreshProgram
from ors_server.sandboxes.shell_scripts import LAYOUT

Config: TypeAlias = dict[str, Any]
Mount: TypeAlias = dict[str, Any]


FRESH_DIR = "/grader"
DATA = "{data}"
"""Placeholder for the volume's path on the host, which is known after its creation."""
SERVER_LABEL = "ors.server"
"""The id of the server that owns the container."""
SESSION_LABEL = "ors.session"
PLACE_LABEL = "ors.place"
"""The base folder of its server; server ids are unique only below one base folder."""
_TERMINAL = "/run/ors-terminal"
_VOLUME = "/data"
_LEASH = "/run/ors-leash"
_HOLDER_BYTES = 32 << 20
"""Memory of the container that only holds a volume."""
_HOLDER_PIDS = 16
_COPIER_RIGHTS = ("DAC_OVERRIDE", "FOWNER")

START_SCRIPT = f"""\
# Takes the terminal for its own: the first that a session's leader opens is its controlling one (tty(4)).
exec 0<>{_TERMINAL} 1>&0 2>&0
exec /bin/sh {LAYOUT.control}/init
"""

# The folder `state` comes last: it is what the launcher waits for.
_HOLD = (
    f"cd {_VOLUME} && umask 077 && mkdir work home tmp && chmod 1777 tmp && mkdir state && exec cat {_LEASH}"
)

# Process 1 ignores signals that it has no handler for (pid_namespaces(7)), so this shell takes that place
# and the program can die of a signal.
# The image's own variables and what the engine adds are left behind.
_RUN = """\
{ulimits}
exec 3>&2 2>/dev/null
(exec env -i "$@") 2>&3 3>&-
exit $?
"""


_NAMED = ("/bin/sh", "-c", 'exec "$@"', "sh")
"""Before a program whose name env(1) could take for a variable."""


@dataclass(frozen=True)
class ContainerSetting:
    """Settings that all containers of one session share."""

    image: str
    name: str
    """Begins the name of each of its containers."""
    labels: Mapping[str, str]
    user: int
    """Uid and gid, inside and outside alike."""
    limits: Limits
    folder: Path
    """The session's folder on the host."""
    control: Path
    """Its control folder there."""
    static: Path
    """Files that the server's sessions share: empty name resolution, a terminal that does not open."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


def write_identity(folder: Path, user: int) -> None:
    """Write the files that give a session's uid its name."""
    (folder / "passwd").write_text(
        "root:x:0:0:root:/root:/usr/sbin/nologin\n"
        f"agent:x:{user}:{user}:agent:{LAYOUT.home}:{LAYOUT.bash}\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    )
    (folder / "group").write_text(f"root:x:0:\nagent:x:{user}:\nnogroup:x:65534:\n")


def holder(setting: ContainerSetting) -> Config:
    """Return the container that holds the session's files."""
    limits = setting.limits
    options = f"size={limits.disk_bytes},nr_inodes={limits.inodes},mode=0700,nosuid,nodev"
    options += f",uid={setting.user},gid={setting.user}"
    volume: Mount = {
        "Type": "volume",
        "Target": _VOLUME,
        "VolumeOptions": {
            "NoCopy": True,
            "DriverConfig": {"Name": "local", "Options": {"type": "tmpfs", "device": "tmpfs", "o": options}},
        },
    }
    config = _config(setting, [volume, _bind(setting.folder / "leash", _LEASH)])
    config |= {"Entrypoint": ["/bin/sh", "-c"], "Cmd": [_HOLD], "WorkingDir": "/"}
    config["HostConfig"] |= {
        "Memory": _HOLDER_BYTES,
        "MemorySwap": _HOLDER_BYTES,
        "PidsLimit": _HOLDER_PIDS,
        "AutoRemove": True,
    }
    return config


def session(setting: ContainerSetting, terminal: str) -> Config:
    """Return the container in which the shell runs."""
    views = {"work": LAYOUT.work, "home": LAYOUT.home, "tmp": LAYOUT.temporary, "state": LAYOUT.state}
    mounts = [_bind(f"{DATA}/{name}", target, writable=True) for name, target in views.items()]
    mounts += [
        _bind(f"{DATA}/tmp", "/var/tmp", writable=True),  # noqa: S108 # inside
        _bind(terminal, _TERMINAL, writable=True),
        _bind(setting.control, LAYOUT.control),
    ]
    config = _config(setting, mounts)
    config |= {"Entrypoint": ["/bin/sh", f"{LAYOUT.control}/start"], "Cmd": [], "WorkingDir": LAYOUT.work}
    config["Env"] = _variables({**LAYOUT.environment, **setting.environment})
    config["HostConfig"] |= {"AutoRemove": True}
    return config


def fresh(setting: ContainerSetting, request: FreshProgram, files: Path | None, ulimits: str) -> Config:
    """Return the container of a fresh program."""
    mounts = [_bind(f"{DATA}/work", LAYOUT.work)]
    if files is not None:
        mounts.append(_bind(files, FRESH_DIR))
    config = _program(setting, mounts)
    config |= {
        "Entrypoint": ["/bin/sh", "-c", _RUN.format(ulimits=ulimits), "sh"],
        "Cmd": [*_variables(request.variables(LAYOUT.temporary)), *_NAMED, *request.argv],
        "WorkingDir": LAYOUT.work,
    }
    size = f"size={setting.limits.disk_bytes},nr_inodes={setting.limits.inodes}"
    config["HostConfig"]["Tmpfs"] = {LAYOUT.temporary: f"rw,exec,nosuid,nodev,mode=1777,{size}"}
    return config


def copier(setting: ContainerSetting, argv: list[str], *, reads: bool) -> Config:
    """Return the container of a program that copies the session's files.

    Args:
        reads: Whether it copies them out, and so must see also what their owner has locked; else it writes
            them, as their owner.
    """
    config = _program(setting, [_bind(DATA, _VOLUME, writable=True)])
    config |= {"Entrypoint": argv[:1], "Cmd": argv[1:], "WorkingDir": _VOLUME}
    if reads:
        config["User"] = "0:0"
        config["HostConfig"]["CapAdd"] = list(_COPIER_RIGHTS)
    return config


def _program(setting: ContainerSetting, mounts: list[Mount]) -> Config:
    """Return a container that is used through its three streams, and then reports its status."""
    config = _config(setting, mounts)
    return config | {
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
    }


def _config(setting: ContainerSetting, mounts: list[Mount]) -> Config:
    limits = setting.limits
    everywhere = [
        _bind(setting.static / "no-terminal", "/dev/tty"),
        _bind(setting.static / "etc" / "resolv.conf", "/etc/resolv.conf"),
        _bind(setting.folder / "identity" / "passwd", "/etc/passwd"),
        _bind(setting.folder / "identity" / "group", "/etc/group"),
    ]
    return {
        "Image": setting.image,
        "User": f"{setting.user}:{setting.user}",
        "Hostname": "sandbox",
        "Labels": dict(setting.labels),
        "Tty": False,
        "HostConfig": {
            "NetworkMode": "none",
            "IpcMode": "private",
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges", f"seccomp={json.dumps(session_profile())}"],
            "Memory": limits.memory_bytes,
            "MemorySwap": limits.memory_bytes,
            "PidsLimit": limits.pids,
            "NanoCpus": int(limits.cpus * 1_000_000_000),
            "CpuShares": SHARES,
            "ShmSize": limits.shared_memory_bytes,
            "LogConfig": {"Type": "none", "Config": {}},
            "Mounts": [*everywhere, *mounts],
        },
    }


def _bind(source: Path | str, target: str, *, writable: bool = False) -> Mount:
    return {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": not writable}


def _variables(environment: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in environment.items()]
