"""Bridges: environments of this server inside the environment classes of trainers.

A bridge runs where the trainer's package is installed, and plays over HTTP. It needs only what
`ors_server.client` needs, so that the pins of the server and of the trainer's package cannot collide.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ors_server.installation import package_hint
from ors_server.model.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class ServedEnvironment:
    """An environment on a server, as a bridge plays it."""

    url: str
    environment: str | None
    """`None` for the server's default one."""
    split: str
    api_key: str | None
    """A trainer's key; a server on loopback without keys needs none."""
    policy: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Overrides of the environment's policy."""

    def request(self, index: int, seed: int | None = None) -> dict[str, Any]:
        """Return the fields that request the task at a position, from 0."""
        fields: dict[str, Any] = {"split": self.split, "index": index}
        if seed is not None:
            fields["seed"] = seed
        if self.policy:
            fields["policy"] = dict(self.policy)
        return fields


def to_verifiers(
    url: str,
    environment: str | None = None,
    *,
    split: str = "train",
    api_key: str | None = None,
    **options: Any,
) -> Any:
    """Make a verifiers `MultiTurnEnv` that plays an environment of a server.

    Each row of its data set is a task. The reward of a rollout is the return in the server's record. There is
    no `MultiTurnEnv` in verifiers 0.4: use the taskset `ors-taskset` of the distribution ors-mcp-client.

    Args:
        split: Split of the data set; the split `test` is the one of `evaluate`, if there is one.
        **options: Of `MultiTurnEnv`, such as `max_turns`; `num_tasks` limits the rows, `policy` overrides
            rules of the episodes.

    Raises:
        InvalidRequestError: If verifiers 0.1.14 to 0.3 is not installed.
    """
    _require("to_verifiers", "verifiers", ("0.1.14", "0.4"), newer="use its taskset ors-taskset instead")
    served = ServedEnvironment(url, environment, split, api_key, options.pop("policy", {}))
    return import_module(f"{__name__}.verifiers_env").make_env(served, **options)


def to_skyrl_gym(
    url: str,
    environment: str | None = None,
    *,
    split: str = "train",
    api_key: str | None = None,
    policy: Mapping[str, Any] | None = None,
) -> type[Any]:
    """Make a skyrl-gym `BaseTextEnv` class that plays an environment of a server.

    Register it with `skyrl_gym.register(id="ors", entry_point=to_skyrl_gym(url))`. The `extras` of an
    instance name its task: `index` (default 0), and `split` and `seed` on request; `max_turns` defaults
    to 20. The model writes calls as `<tool_call>{"name": …, "arguments": {…}}</tool_call>`.

    Raises:
        InvalidRequestError: If skyrl-gym 0.4 is not installed.
    """
    _require("to_skyrl_gym", "skyrl-gym", ("0.4", "0.5"))
    served = ServedEnvironment(url, environment, split, api_key, policy or {})
    environment_class: type[Any] = import_module(f"{__name__}.skyrl_env").make_class(served)
    return environment_class


def to_trl(
    url: str,
    environment: str | None = None,
    *,
    split: str = "train",
    api_key: str | None = None,
    policy: Mapping[str, Any] | None = None,
    is_async: bool = False,
) -> type[Any]:
    """Make an environment class for TRL that plays an environment of a server and owns its reward.

    Give it to `GRPOTrainer` as `environment_factory`, alone or in a dict of factories, and its `rows()` as
    the data set. The reward is the return in the server's record, whenever the server pays. It is `None`,
    which TRL leaves out of the group, if the environment, the server or a judgement failed.

    Args:
        is_async: Whether tools and `get_reward` are async, for trainers that run many rollouts on one event
            loop. The calls of one rollout run in their order either way.

    Raises:
        InvalidRequestError: If TRL 1.8 or later is not installed, which asks environments for their reward,
            or a tool has a name that a method cannot have.
    """
    _require("to_trl", "trl", ("1.8", "2"))
    served = ServedEnvironment(url, environment, split, api_key, policy or {})
    environment_class: type[Any] = import_module(f"{__name__}.trl_env").make_class(served, is_async=is_async)
    return environment_class


def to_openenv(
    url: str,
    environment: str | None = None,
    *,
    split: str = "train",
    api_key: str | None = None,
    policy: Mapping[str, Any] | None = None,
) -> type[Any]:
    """Make an OpenEnv `Environment` class that plays an environment of a server.

    Serve it with `openenv.core.env_server.create_app(to_openenv(url), CallToolAction, Observation)`.
    `reset` takes `index` (default 0), `split` and `seed`; actions are `ListToolsAction`, which needs no
    `reset`, and `CallToolAction`.

    Raises:
        InvalidRequestError: If openenv 0.4 to 0.10 is not installed.
    """
    _require("to_openenv", "openenv", ("0.4", "0.11"))
    served = ServedEnvironment(url, environment, split, api_key, policy or {})
    environment_class: type[Any] = import_module(f"{__name__}.openenv_env").make_class(served)
    return environment_class


def _require(bridge: str, package: str, versions: tuple[str, str], newer: str = "") -> None:
    """Raise unless a package is installed whose version is in the half-open range.

    `newer` says what to do with a later version, if not to install another one.
    """
    low, high = versions
    wanted = f"{bridge} expected {package} from {low} up to, not including, {high}"
    command = package_hint(f"{package}>={low},<{high}")
    try:
        installed = version(package)
    except PackageNotFoundError as error:
        raise InvalidRequestError(f"{wanted}, but {package} is not installed: {command}") from error
    if not _numbers(low) <= _numbers(installed) < _numbers(high):
        remedy = newer if newer and _numbers(installed) >= _numbers(high) else command
        raise InvalidRequestError(f"{wanted}, got version {installed}: {remedy}")


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.split(".")
    digits = ["".join(iter_digits(part)) for part in parts[:3]]
    return tuple(int(part or 0) for part in digits)


def iter_digits(part: str) -> str:
    """Return the digits with which a part of a version begins."""
    return part[: len(part) - len(part.lstrip("0123456789"))]
