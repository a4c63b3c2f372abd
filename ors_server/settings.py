"""Everything that can be set, with its unit and default: from a file, from `ORS_*` variables, from flags."""

import ipaddress
import json
import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings import SettingsError as SourceError

from ors_server.errors import SettingsError
from ors_server.settings_sources import TomlFile, check_keys, check_variables
from ors_server.visibility import Visibility

CONFIG = "ORS_CONFIG"
"""Environment variable that names a TOML file of settings."""


class Settings(BaseSettings):
    """The server's settings.

    A flag wins over an `ORS_*` environment variable, which wins over the TOML file named by `ORS_CONFIG`,
    which wins over the default.
    """

    model_config = SettingsConfigDict(env_prefix="ORS_", extra="forbid", frozen=True)

    environments: list[str] = Field(default_factory=list)
    """Environments to serve where the command names none: name, module:Class, or path; a path in a file is
    relative to the file. All installed ones by default."""
    host: str = "127.0.0.1"
    """Address to bind to; anything but loopback needs API keys."""
    port: int = Field(default=8080, ge=0, le=65535)
    """TCP port; 0 takes a free one and prints it."""
    public_url: str | None = Field(default=None, pattern=r"^https?://[^/?#]+(/[^?#]*[^/?#])?$")
    """URL under which clients reach the server through a proxy, without a slash at the end; agents' URLs
    begin with it. By default the Host header of the request decides."""
    allowed_hosts: list[str] = Field(default_factory=list)
    """Values of the Host header that are accepted beside loopback ones, `name` or `name:port`; `*` accepts
    all."""
    allowed_origins: list[str] = Field(default_factory=list)
    """Values of the Origin header that are accepted beside loopback ones."""
    api_keys: SecretStr | None = None
    """API keys as `role:id:key` entries separated by commas; roles are agent, trainer, admin."""
    api_keys_file: Path | None = None
    """TOML file of `[[keys]]` tables with `id`, `role`, and `key` or `sha256`."""
    token_secret: SecretStr | None = None
    """Signs agent tokens, so that several servers agree on them; random at each start by default."""
    visibility: Visibility = Visibility.NEGOTIATED
    """Who gets numbers over MCP: callers that ask (negotiated), everybody in `_meta` (meta), everybody as
    structured content too (visible), or nobody (hidden)."""
    attempts_per_task: int | None = Field(default=None, ge=0)
    """Episodes of one task that one agent-role key may start, 0 for any number; by default one on test splits
    and any number elsewhere. Trainers may start any number."""
    emit: Literal["dense", "final"] | None = None
    """When rewards are paid: with each step (dense), or all together at the end (final); as each environment
    says by default, and always where one does not let it be overridden."""
    max_sessions: int = Field(default=10_000, ge=1)
    """Live sessions in all."""
    max_sessions_per_environment: int | None = Field(default=None, ge=1)
    """Live sessions of one environment."""
    max_sessions_per_credential: int | None = Field(default=None, ge=1)
    """Live sessions that one API key created."""
    idle_seconds: float = Field(default=900.0, gt=0)
    """Seconds without a request after which a session expires."""
    reap_seconds: float = Field(default=5.0, gt=0)
    """Seconds between two looks for expired sessions."""
    max_body_bytes: int = Field(default=4 * 1024 * 1024, ge=1024)
    """Most bytes of one request body, decoded if it came compressed."""
    max_header_bytes: int = Field(default=64 * 1024, ge=1024)
    """Most bytes of one request's line and headers."""
    header_seconds: float = Field(default=10.0, gt=0)
    """Seconds within which a connection's first request begins, and the headers of each are complete."""
    body_seconds: float = Field(default=30.0, gt=0)
    """Seconds for which a request's body may come at less than 1 KiB in all."""
    max_connections: int = Field(default=10_000, ge=1)
    """Open connections in all; fewer where the process may not open as many files."""
    max_connections_per_address: int = Field(default=4_096, ge=1)
    """Open connections from one address, or from one /64 of IPv6."""
    max_output_bytes: int = Field(default=8 * 1024 * 1024, ge=1024)
    """Most bytes of one tool output."""
    sse_ping_seconds: float = Field(default=10.0, gt=0)
    """Seconds between two keep-alive comments of an event stream; clients give up after 30."""
    teardown_seconds: float = Field(default=60.0, gt=0)
    """Seconds that an environment's teardown may take."""
    sandbox: Literal["auto", "bubblewrap", "docker", "landlock", "none"] = "auto"
    """What isolates the commands of agents: the strongest that works here, or the one that is named."""
    docker_image: str | None = None
    """Image of sessions' containers, which the engine must have; where it is named, auto tries Docker after
    bubblewrap."""
    docker_host: str | None = None
    """Where the Docker engine listens; as in `DOCKER_HOST` by default."""
    allow_unsandboxed: bool = False
    """Whether agents' commands may run with no isolation at all where `sandbox` is none, or auto finds
    nothing better."""
    allow_visible_answers: bool = False
    """Whether environments may be served although agents can read their source, and the answers in it."""
    min_isolation: int = Field(default=1, ge=1, le=3)
    """Least level of isolation that is accepted: 3 namespaces, 2 rules and a uid per session, 1 rules."""
    store: SecretStr | None = None
    """Where the record is kept: path of a SQLite file, postgresql://..., or memory; `episodes.db` in the
    user's data folder by default. Never shown, for it may hold a password."""
    durability: Literal["step", "batch", "none"] = "step"
    """What of the record survives a crash: every step that was answered (step), all but the last quarter of a
    second (batch), or that without waiting for the disk at all (none)."""
    store_blob_bytes: int = Field(default=64 * 1024, ge=1024)
    """Bytes beyond which a block's text or image is kept apart, once for all steps that show it."""
    store_write_seconds: float = Field(default=10.0, gt=0)
    """Seconds for which a write to the record is tried before the call that waits for it fails."""
    retain_episodes: int | None = Field(default=None, ge=0)
    """Closed episodes whose records are kept, the oldest going first; all by default, 10,000 in memory."""
    retain_days: float | None = Field(default=None, gt=0)
    """Days for which a record is kept after its last change; for ever by default."""
    worker_threads: int = Field(default=64, ge=1)
    """Threads for blocking tools and hooks."""
    gradings_at_once: int | None = Field(default=None, ge=1)
    """Gradings that run programs at once, in turns by environment and credential; two per processor by
    default. The others wait, and no clock runs for them."""
    log_format: Literal["console", "json"] = "console"
    """How log lines look."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severity that is logged: one line per episode at info, one per call at debug."""

    @field_validator("*", mode="before")
    @classmethod
    def _ignore_case(cls, value: Any, info: ValidationInfo) -> Any:
        """Read a value that is one of a few names whatever its case."""
        if not isinstance(value, str) or info.field_name is None:
            return value
        names = names_of(cls.model_fields[info.field_name].annotation)
        return next((name for name in names if name.lower() == value.strip().lower()), value)

    @property
    def record(self) -> str:
        """Where the record is kept, spelled out; may hold a password."""
        return str(default_record()) if self.store is None else self.store.get_secret_value()

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: flags, then environment variables."""
        del settings_cls, dotenv_settings, file_secret_settings
        return (init_settings, env_settings)


def names_of(annotation: Any) -> tuple[str, ...]:
    """Return the names that a setting takes; none if it takes other values.

    Args:
        annotation: The field's type: a `Literal`, an enumeration, or a union with one.
    """
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return tuple(str(member.value) for member in annotation)
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return tuple(part for part in parts if isinstance(part, str))
    return tuple(name for part in parts for name in names_of(part))


def default_record() -> Path:
    """Return where the record of somebody is who did not say: in their data folder (XDG Base Directory)."""
    data = os.environ.get("XDG_DATA_HOME", "")
    folder = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    return folder / "ors-server" / "episodes.db"


def load_settings(config: Path | None = None, **flags: object) -> Settings:
    """Read the settings.

    Args:
        config: TOML file with the fields' names as keys; by default the one that `ORS_CONFIG` names, if any.
        **flags: Values that win over everything; those that are `None` are left out.

    Raises:
        SettingsError: If a value is invalid, a key of the file or an `ORS_*` variable unknown, or the file
            unreadable; the message says where, and repeats no value.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    check_variables(os.environ, Settings.model_fields)
    named = config or (Path(os.environ[CONFIG]) if os.environ.get(CONFIG) else None)
    file = None if named is None else TomlFile.read(named)
    if file is not None:
        check_keys(file, Settings.model_fields)
    try:
        return _with_file({} if file is None else _placed(file))(**given)  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        mistakes = (
            f"{_source(str(item['loc'][0]), given, file)}{item['msg']}"
            for item in error.errors(include_url=False, include_input=False)
        )
        raise SettingsError("; ".join(mistakes)) from error
    except SourceError as error:
        raise SettingsError(f'{_unread_variable()}: expected a JSON list, such as ["example.org"]') from error


def _with_file(values: Mapping[str, Any]) -> type[Settings]:
    """Return settings whose last source has these values."""

    class FileSettings(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            del dotenv_settings, file_secret_settings
            return (init_settings, env_settings, InitSettingsSource(settings_cls, dict(values)))

    return FileSettings


def _placed(file: TomlFile) -> dict[str, Any]:
    """Return a file's values, in which paths to environments are relative to the file."""
    values = dict(file.values)
    listed: Any = values.get("environments")
    if isinstance(listed, list):
        values["environments"] = [_placed_reference(file.path.parent, one) for one in _each(listed)]
    return values


def _each(listed: Any) -> list[Any]:
    return list(listed)


def _placed_reference(folder: Path, reference: Any) -> Any:
    if not isinstance(reference, str):
        return reference
    place = reference.partition(":")[0]
    is_path = place.endswith(".py") or "/" in place
    return str(folder / reference) if is_path else reference


def _source(name: str, flags: Mapping[str, object], file: TomlFile | None) -> str:
    """Say where the value of a setting came from."""
    variable = next((key for key in os.environ if key.upper() == f"ORS_{name.upper()}"), None)
    if name in flags:
        return f"--{name.replace('_', '-')}: "
    if variable is not None:
        return f"{variable}: "
    return f"{name}: " if file is None else f"{file.place(name)}: {name}: "


def _unread_variable() -> str:
    """Name the variable of a list that is not JSON."""
    for name, field in Settings.model_fields.items():
        given = os.environ.get(f"ORS_{name.upper()}")
        if given and get_origin(field.annotation) is list:
            try:
                json.loads(given)
            except ValueError:
                return f"ORS_{name.upper()}"
    return "an environment variable"
