"""The connection to a Docker engine, over docker-py: what the engine can do, and its errors as ours.

Calls block until the engine answers: call them in a worker thread. `docker` is imported on first use, so that
only users of containers need the extra `docker`.
"""

import importlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ors_server.installation import install_hint
from ors_server.sandboxes.sandbox_errors import SandboxError, SandboxUnavailableError

_T = TypeVar("_T")
DEFAULT_HOST = "unix:///var/run/docker.sock"
"""Where an engine listens by default (dockerd(8))."""
_SOCKET = "unix://"
_ANSWER_LIMIT = 60
"""Seconds that one answer may take."""
_GONE = {404, 409}
"""Statuses of a container that is gone, or being removed (Docker Engine API, DELETE /containers)."""
_NOT_FOUND = 404


@dataclass(frozen=True)
class EngineFacts:
    """An engine's report about itself and about the image."""

    version: str
    api: str
    """The version of its API that both sides speak."""
    image: str
    path: str | None
    """The image's `PATH`; None where it sets none."""
    can_limit_memory: bool
    can_limit_pids: bool
    can_limit_cpu: bool


class Engine:
    """A connection to one engine; every method but `facts` may raise `SandboxError` if it refuses."""

    def __init__(self, host: str | None = None) -> None:
        """Connect to a URL as in `DOCKER_HOST`, which is the default.

        Raises:
            SandboxUnavailableError: The package is missing, no engine listens, or it refuses; the message
                says what to do.
        """
        self.host = host or os.environ.get("DOCKER_HOST") or DEFAULT_HOST
        self._docker = _package()
        if not self.host.startswith(_SOCKET):
            raise SandboxUnavailableError(
                "a session's terminal and files are shared with its container: expected an engine on this "
                f"host that listens on {_SOCKET}..., got {self.host!r}"
            )
        self._client: Any = self._connected()

    def facts(self, image: str) -> EngineFacts:
        """Return the engine's report about itself and about an image.

        Raises:
            SandboxUnavailableError: There is no such image, or sessions cannot use the engine's containers.
        """
        try:
            info: dict[str, Any] = self._client.info()
            image_info: dict[str, Any] = self._client.inspect_image(image)
        except self._docker.errors.ImageNotFound:
            raise SandboxUnavailableError(
                f"the engine at {self.host} has no image {image!r}; pull or import it there first"
            ) from None
        except self._docker.errors.APIError as error:
            raise SandboxUnavailableError(
                f"the engine at {self.host} refused: {_explanation(error)}"
            ) from error
        _check_engine(info)
        return EngineFacts(
            version=str(info.get("ServerVersion", "")),
            api=str(self._client.api_version),
            image=image,
            path=_path_of(image_info),
            can_limit_memory=bool(info.get("MemoryLimit")),
            can_limit_pids=bool(info.get("PidsLimit", True)),  # engines before 20.10 do not report it
            can_limit_cpu=bool(info.get("CpuCfsQuota")),
        )

    def labelled(self, label: str, value: str | None = None) -> dict[str, dict[str, str]]:
        """Return the ids of the containers that have a label, each with all of its labels."""
        selected = label if value is None else f"{label}={value}"
        rows: list[dict[str, Any]] = self._request(
            lambda: self._client.containers(all=True, filters={"label": [selected]})
        )
        return {str(row["Id"]): dict(row["Labels"]) for row in rows}

    def remove(self, container: str) -> None:
        """Kill a container, by its id or name, and remove it with its volumes; it may be gone already."""
        self._request(lambda: self._client.remove_container(container, force=True, v=True), missing_ok=True)

    def pause(self, container: str) -> None:
        """Suspend every process of a container, by its id or name."""
        self._request(lambda: self._client.pause(container))

    def unpause(self, container: str) -> None:
        """Resume every process of a container, by its id or name; it may be gone already."""
        self._request(lambda: self._client.unpause(container), missing_ok=True)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _connected(self) -> Any:
        path = self.host.removeprefix(_SOCKET)
        try:
            with socket.socket(socket.AF_UNIX) as probe:  # docker-py hides why it cannot connect
                probe.connect(path)
            return self._docker.APIClient(base_url=self.host, version="auto", timeout=_ANSWER_LIMIT)
        except self._docker.errors.DockerException as error:
            raise SandboxUnavailableError(
                f"the program that listens at {path} is not a Docker engine: {error}"
            ) from error
        except OSError as error:
            raise SandboxUnavailableError(why_unreachable(path, error)) from error

    def _request(self, ask: Callable[[], _T], *, missing_ok: bool = False) -> Any:
        try:
            return ask()
        except self._docker.errors.APIError as error:
            status = error.response.status_code if error.response is not None else None
            if missing_ok and status in _GONE:
                return None
            raise SandboxError(f"the Docker engine refused: {_explanation(error)}") from error
        except OSError as error:  # also the errors of the HTTP library
            raise SandboxError(f"the Docker engine does not answer: {error}") from error


def _package() -> Any:
    try:
        return importlib.import_module("docker")
    except ImportError as error:
        raise SandboxUnavailableError(
            f"the docker package is not installed: {install_hint('docker')}"
        ) from error


def why_unreachable(path: str, error: OSError) -> str:
    """Explain why connecting to an engine's socket failed, and what to do."""
    match error:
        case PermissionError():
            return (
                f"{path} may not be used by uid {os.geteuid()}: run the server as root, or as a user who "
                "may (on most systems: of the group docker)"
            )
        case FileNotFoundError():
            return f"no Docker engine at {path}: start one, or set docker_host or DOCKER_HOST to its URL"
        case ConnectionRefusedError():
            return f"no Docker engine answers at {path} any more: start it again"
        case _:
            return f"the Docker engine at {path} cannot be reached: {error}"


def _explanation(error: Any) -> str:
    return str(getattr(error, "explanation", None) or error)


def _check_engine(info: dict[str, Any]) -> None:
    """Refuse an engine whose containers cannot share a terminal and pipes with this host."""
    if info.get("OSType") != "linux":
        raise SandboxUnavailableError(f"expected an engine of linux containers, got {info.get('OSType')}")
    options: list[str] = info.get("SecurityOptions") or []
    for mode in ("rootless", "userns"):
        if any(f"name={mode}" in option for option in options):
            raise SandboxUnavailableError(
                f"the engine maps its containers' uids to others ({mode}), so they could not open the files "
                "that the server shares with them: use an engine without that mode"
            )


def _path_of(image: dict[str, Any]) -> str | None:
    config: dict[str, Any] = image.get("Config") or {}
    variables: list[str] = config.get("Env") or []
    for variable in variables:
        name, _, value = variable.partition("=")
        if name == "PATH":
            return value
    return None
