"""The way to a Docker engine: who may use it, what it can do, and what it says when it refuses.

Everything here waits for the engine; call it in a worker thread. The `docker` package is imported on first
use, so that nobody needs it who does not ask for containers.
"""

import importlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ors_server.sandboxes.sandbox_errors import SandboxError, SandboxUnavailableError

_T = TypeVar("_T")
DEFAULT_HOST = "unix:///var/run/docker.sock"
"""Where an engine listens unless told otherwise (dockerd(8))."""
_SOCKET = "unix://"
_ANSWER_LIMIT = 60
"""Seconds that one answer may take."""
_GONE = {404, 409}
"""What the engine says of a container that is gone, or on its way (Docker Engine API, DELETE /containers)."""
_NOT_FOUND = 404


@dataclass(frozen=True)
class EngineFacts:
    """What an engine said of itself and of the image."""

    version: str
    api: str
    """The version of its API that both sides speak."""
    image: str
    path: str | None
    """The image's `PATH`; None where it sets none."""
    memory: bool
    """Whether it can limit memory; likewise the next two."""
    pids: bool
    cpu: bool


class Engine:
    """A connection to one engine."""

    def __init__(self, host: str | None = None) -> None:
        """Connect.

        Args:
            host: A URL as in `DOCKER_HOST`, which is the default.

        Raises:
            SandboxUnavailableError: The package is missing, nobody listens, or somebody refuses; the message
                says what to do.
        """
        self.host = host or os.environ.get("DOCKER_HOST") or DEFAULT_HOST
        self._docker = _package()
        if not self.host.startswith(_SOCKET):
            raise SandboxUnavailableError(
                f"a session's terminal and files are shared with its container, so the engine must be on "
                f"this host and listen on {_SOCKET}...; not {self.host!r}"
            )
        self._client: Any = self._connected()

    def facts(self, image: str) -> EngineFacts:
        """Ask the engine about itself and about an image.

        Args:
            image: Its name.

        Raises:
            SandboxUnavailableError: There is no such image, or the engine's containers are of no use here.
        """
        try:
            info: dict[str, Any] = self._client.info()
            found: dict[str, Any] = self._client.inspect_image(image)
        except self._docker.errors.ImageNotFound:
            raise SandboxUnavailableError(
                f"the engine at {self.host} has no image {image!r}; pull or import it there first"
            ) from None
        except self._docker.errors.APIError as error:
            raise SandboxUnavailableError(f"the engine at {self.host} refused: {_said(error)}") from error
        _require_fit(info)
        return EngineFacts(
            version=str(info.get("ServerVersion", "")),
            api=str(self._client.api_version),
            image=image,
            path=_path_of(found),
            memory=bool(info.get("MemoryLimit")),
            pids=bool(info.get("PidsLimit", True)),  # not said by engines before 20.10
            cpu=bool(info.get("CpuCfsQuota")),
        )

    def labelled(self, label: str, value: str | None = None) -> dict[str, dict[str, str]]:
        """Return the containers that carry a label, to all of their labels.

        Args:
            label: Its name.
            value: Its value; any by default.

        Raises:
            SandboxError: The engine refused.
        """
        wanted = label if value is None else f"{label}={value}"
        rows: list[dict[str, Any]] = self._asked(
            lambda: self._client.containers(all=True, filters={"label": [wanted]})
        )
        return {str(row["Id"]): dict(row["Labels"]) for row in rows}

    def remove(self, container: str) -> None:
        """Kill a container and remove it with its volumes; one that is gone is no failure.

        Args:
            container: Its id or name.

        Raises:
            SandboxError: The engine refused.
        """
        self._asked(lambda: self._client.remove_container(container, force=True, v=True), gone=True)

    def pause(self, container: str) -> None:
        """Stop every process of a container where it stands.

        Args:
            container: Its id or name.

        Raises:
            SandboxError: The engine refused.
        """
        self._asked(lambda: self._client.pause(container))

    def unpause(self, container: str) -> None:
        """Let them go on; a container that is gone is no failure.

        Args:
            container: Its id or name.

        Raises:
            SandboxError: The engine refused.
        """
        self._asked(lambda: self._client.unpause(container), gone=True)

    def close(self) -> None:
        """Let the connection go."""
        self._client.close()

    def _connected(self) -> Any:
        path = self.host.removeprefix(_SOCKET)
        try:
            with socket.socket(socket.AF_UNIX) as door:  # the package would hide why it does not open
                door.connect(path)
            return self._docker.APIClient(base_url=self.host, version="auto", timeout=_ANSWER_LIMIT)
        except self._docker.errors.DockerException as error:
            raise SandboxUnavailableError(f"what listens at {path} is no Docker engine: {error}") from error
        except OSError as error:
            raise SandboxUnavailableError(why_unreachable(path, error)) from error

    def _asked(self, ask: Callable[[], _T], *, gone: bool = False) -> Any:
        try:
            return ask()
        except self._docker.errors.APIError as error:
            status = error.response.status_code if error.response is not None else None
            if gone and status in _GONE:
                return None
            raise SandboxError(f"the Docker engine refused: {_said(error)}") from error
        except OSError as error:  # what the HTTP library raises is one, too
            raise SandboxError(f"the Docker engine does not answer: {error}") from error


def _package() -> Any:
    try:
        return importlib.import_module("docker")
    except ImportError as error:
        raise SandboxUnavailableError(
            "the docker package is not installed: pip install 'ors-server[docker]'"
        ) from error


def why_unreachable(path: str, error: OSError) -> str:
    """Say what keeps an engine's socket out of reach, and what to do.

    Args:
        path: The socket's.
        error: What came of connecting to it.
    """
    match error:
        case PermissionError():
            return (
                f"{path} may not be used by uid {os.geteuid()}: run the server as root, or as a user who "
                "may (on most systems: of the group docker)"
            )
        case FileNotFoundError():
            return f"no Docker engine at {path}: start one, or say where it is (docker_host, DOCKER_HOST)"
        case ConnectionRefusedError():
            return f"nobody answers at {path} any more: start the Docker engine again"
        case _:
            return f"the Docker engine at {path} cannot be reached: {error}"


def _said(error: Any) -> str:
    return str(getattr(error, "explanation", None) or error)


def _require_fit(info: dict[str, Any]) -> None:
    """Refuse an engine whose containers cannot share a terminal and pipes with this host."""
    if info.get("OSType") != "linux":
        raise SandboxUnavailableError(f"the engine runs {info.get('OSType')} containers; linux is needed")
    options: list[str] = info.get("SecurityOptions") or []
    for mode in ("rootless", "userns"):
        if any(f"name={mode}" in option for option in options):
            raise SandboxUnavailableError(
                f"the engine maps its containers' uids to others ({mode}), so they could not open what the "
                "server shares with them; an engine without that is needed"
            )


def _path_of(image: dict[str, Any]) -> str | None:
    config: dict[str, Any] = image.get("Config") or {}
    variables: list[str] = config.get("Env") or []
    for variable in variables:
        name, _, value = variable.partition("=")
        if name == "PATH":
            return value
    return None
