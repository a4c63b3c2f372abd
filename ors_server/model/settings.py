"""Everything that can be set, with its unit and default: from a file, from `ORS_*` variables, from flags."""

import ipaddress
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast, get_args, get_origin

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings import SettingsError as SourceError

from ors_server.model.errors import SettingsError
from ors_server.model.host_slot import HostSlot
from ors_server.model.settings_sources import TomlFile, check_keys, check_variables
from ors_server.model.user_folders import user_folder
from ors_server.model.visibility import Visibility

CONFIG = "ORS_CONFIG"
"""Environment variable that names a TOML file of settings."""
_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(?::[0-9]+)?", re.IGNORECASE)
_MAX_SHOWN_CHARACTERS = 80
"""Characters of a wrong value that an error repeats."""


@dataclass(frozen=True, slots=True)
class Flag:
    """Gives a setting a flag of `ors-server serve`; a setting without one, such as a secret, has no flag."""

    section: str
    """Heading under which the help lists it."""
    value: str = ""
    """What the help shows for the value, such as `URL`; made from the type by default."""


_ADDRESS, _ACCESS, _REWARDS = Flag("Address"), Flag("Access"), Flag("Rewards")
_ISOLATION, _LIMITS = Flag("Isolation"), Flag("Limits")
_RECORD, _LOGS = Flag("Record"), Flag("Logs")


class Settings(BaseSettings):
    """The server's settings.

    A flag wins over an `ORS_*` environment variable, which wins over the TOML file named by `ORS_CONFIG`,
    which wins over the default.
    """

    model_config = SettingsConfigDict(env_prefix="ORS_", extra="forbid", frozen=True)

    _file_values: ClassVar[Mapping[str, Any]] = {}
    _flags: ClassVar[frozenset[str]] = frozenset()

    environments: list[str] = Field(default_factory=list)
    """Environments to serve if the command names none: name, module:Class, or path; a path in a file is
    relative to the file. All installed ones by default."""
    host: Annotated[str, _ADDRESS] = "127.0.0.1"
    """Address to bind to; anything but loopback needs API keys."""
    port: Annotated[int, _ADDRESS] = Field(default=8080, ge=0, le=65535)
    """TCP port; 0 chooses a free one and prints it."""
    workers: Annotated[int, _ADDRESS] = Field(default=1, ge=1, le=64)
    """Number of hosts, each a whole server in its own process, behind one HAProxy at the address. Limits on
    sessions, gradings and threads are divided among them."""
    engine: Annotated[Literal["processes", "ray"], _ADDRESS] = "processes"
    """What starts the hosts: this command, on its own machine, or Ray, on the machines of a cluster."""
    ray_address: Annotated[str | None, Flag("Address", "HOST:PORT")] = Field(
        default=None, pattern=r"^[^\s/,]+:[0-9]+$"
    )
    """The Ray cluster; that of this machine, or of RAY_ADDRESS, by default."""
    ray_resources: Annotated[list[str], Flag("Address", "NAME=NUMBER")] = Field(default_factory=list)
    """What Ray reserves for a host: CPU, memory in bytes, or a resource of the cluster; CPU=1 by default."""
    ray_labels: Annotated[list[str], Flag("Address", "NAME=VALUE")] = Field(default_factory=list)
    """A label that the machine of a host has."""
    host_slot: Annotated[str | None, Flag("Address", "NUMBER/COUNT")] = Field(
        default=None, pattern=r"^[0-9]+/[0-9]+(/[0-9]+)?$"
    )
    """Which of the hosts of a server on several machines this process is, such as 0/4 for the first of four.
    A server with `workers` sets it for its hosts."""
    host_address: Annotated[str | None, Flag("Address", "HOST:PORT")] = Field(
        default=None, pattern=r"^[^\s/,]+:[0-9]+$"
    )
    """Where the front and the other hosts reach this host of a server on several machines."""
    host_folder: Path | None = None
    """Folder of the hosts' sockets; a server with `workers` sets it for its hosts."""
    public_url: Annotated[str | None, Flag("Address", "URL")] = Field(
        default=None, pattern=r"^https?://[^/?#]+(/[^?#]*[^/?#])?$"
    )
    """URL at which clients reach the server through a proxy, without a slash at the end; agents' URLs begin
    with it. By default the Host header of the request decides."""
    tls_cert: Annotated[Path | None, _ADDRESS] = None
    """PEM file of the certificate, with the certificates that sign it; the server then speaks HTTPS only."""
    tls_key: Annotated[Path | None, _ADDRESS] = None
    """PEM file of the certificate's private key, without a passphrase; by default in the file of the
    certificate."""
    console: Annotated[bool, _ADDRESS] = True
    """Serve the pages for browsers at /console, to which the address itself leads browsers."""
    audits: Annotated[Path | None, _ADDRESS] = None
    """Folder of audits' reports, `NAME.json` as `ors-server audit NAME --json` prints them, whose findings
    the console shows on the page of the environment."""
    allowed_hosts: Annotated[list[str], _ACCESS] = Field(default_factory=list)
    """Accepted values of the Host header besides loopback ones, `name` or `name:port`; `*` accepts all."""
    allowed_origins: Annotated[list[str], _ACCESS] = Field(default_factory=list)
    """Accepted values of the Origin header besides loopback ones."""
    api_keys: SecretStr | None = None
    """API keys as `role:id:key` entries separated by commas; roles are agent, trainer, admin."""
    api_keys_file: Annotated[Path | None, _ACCESS] = None
    """TOML file of API keys: an array of tables `keys`, each with `id`, `role`, and `key` or `sha256`."""
    token_secret: SecretStr | None = None
    """Signs agent tokens, so that several servers agree on them; by default a random secret that is kept with
    the record."""
    visibility: Annotated[Visibility, _REWARDS] = Visibility.NEGOTIATED
    """Who sees rewards over MCP: clients that ask for them (negotiated), every client in `_meta` (meta),
    every client in structured content too (visible), or no client (hidden)."""
    public: Annotated[bool, _ACCESS] = False
    """Let callers without a key play, as an agent: over MCP and on the console's play page, and nothing else.
    Keys keep their roles over the other doors."""
    public_sessions: Annotated[int, _ACCESS] = Field(default=4, ge=1)
    """Maximum number of live sessions of one address, or of one /64 of IPv6, on a public server."""
    public_calls_per_minute: Annotated[int, _ACCESS] = Field(default=60, ge=1)
    """Tool calls and starts of episodes per minute of one address on a public server."""
    trusted_proxies: Annotated[list[str], _ACCESS] = Field(default_factory=list)
    """Addresses or networks of proxies whose X-Forwarded-For header a public server believes."""
    allowed_frames: Annotated[list[str], _ACCESS] = Field(default_factory=list)
    """Origins whose pages may show the play page of a public server in a frame."""
    openenv_root: Annotated[bool, _ADDRESS] = False
    """Serve the OpenEnv door of the first environment at the server's root too, in place of `/health` and
    `/mcp`. On a public server that opens the door for everyone, and its answers have rewards."""
    attempts_per_task: Annotated[int | None, _ACCESS] = Field(default=None, ge=0)
    """Episodes of one task that one API key with the role agent may start, 0 for any number; by default one
    on test splits and any number on others. Trainers may start any number."""
    emit: Annotated[Literal["dense", "final"] | None, _REWARDS] = None
    """When rewards are paid: with each step (dense), or all together at the end (final). By default each
    environment decides; one that forbids overriding always does."""
    unjudged: Annotated[Literal["null", "error"], _REWARDS] = "null"
    """Answer over ORS to a call whose judgement failed: an output with the reward null, or an error, for
    clients that count a missing reward as 0."""
    max_sessions: Annotated[int, _LIMITS] = Field(default=10_000, ge=1)
    """Maximum number of live sessions."""
    max_sessions_per_environment: Annotated[int | None, _LIMITS] = Field(default=None, ge=1)
    """Maximum number of live sessions of one environment."""
    max_sessions_per_credential: Annotated[int | None, _LIMITS] = Field(default=None, ge=1)
    """Maximum number of live sessions that one API key created."""
    idle_seconds: Annotated[float, _LIMITS] = Field(default=900.0, gt=0)
    """Seconds without a request after which a session expires."""
    reap_seconds: Annotated[float, _LIMITS] = Field(default=5.0, gt=0)
    """Seconds between two checks for expired sessions."""
    max_body_bytes: Annotated[int, _LIMITS] = Field(default=4 * 1024 * 1024, ge=1024)
    """Maximum size of one request body, in bytes after decompression."""
    max_header_bytes: Annotated[int, _LIMITS] = Field(default=64 * 1024, ge=1024)
    """Maximum size of one request's line and headers, in bytes."""
    header_seconds: Annotated[float, _LIMITS] = Field(default=10.0, gt=0)
    """Seconds within which a connection's first request must begin, and each request's headers be
    complete."""
    body_seconds: Annotated[float, _LIMITS] = Field(default=30.0, gt=0)
    """Seconds within which the next 1 KiB of a request's body must arrive."""
    max_connections: Annotated[int, _LIMITS] = Field(default=10_000, ge=1)
    """Maximum number of open connections; lower if the process may not open as many files."""
    max_connections_per_address: Annotated[int, _LIMITS] = Field(default=4_096, ge=1)
    """Maximum number of open connections from one address, or from one /64 of IPv6."""
    max_output_bytes: Annotated[int, _LIMITS] = Field(default=8 * 1024 * 1024, ge=1024)
    """Maximum size of one tool output, in bytes."""
    sse_ping_seconds: Annotated[float, _LIMITS] = Field(default=10.0, gt=0)
    """Seconds between two keep-alive comments of an event stream; clients give up after 30."""
    teardown_seconds: Annotated[float, _LIMITS] = Field(default=60.0, gt=0)
    """Seconds that an environment's teardown may take."""
    sandbox: Annotated[Literal["auto", "bubblewrap", "docker", "landlock", "none"], _ISOLATION] = "auto"
    """What isolates agents' commands: the named sandbox, or the strongest that works here (auto)."""
    docker_image: Annotated[str | None, _ISOLATION] = None
    """Image of sessions' containers, which the engine must have; if it is set, auto tries Docker after
    bubblewrap."""
    docker_host: Annotated[str | None, _ISOLATION] = None
    """URL of the Docker engine; by default that of `DOCKER_HOST`."""
    allow_unsandboxed: Annotated[bool, _ISOLATION] = False
    """Run agents' commands without isolation if `sandbox` is none, or if auto finds nothing better."""
    allow_network: Annotated[bool, _ISOLATION] = False
    """Let sandboxes connect to the hosts that their environments list, by a proxy that this server runs."""
    allow_visible_answers: Annotated[bool, _ISOLATION] = False
    """Serve environments even if agents can read their source, and the answers in it."""
    min_isolation: Annotated[int, _ISOLATION] = Field(default=1, ge=1, le=3)
    """Lowest accepted level of isolation: 3 namespaces, 2 rules and a uid per session, 1 rules."""
    store: Annotated[SecretStr | None, Flag("Record", "PATH|URL")] = None
    """Where episodes are recorded: path of a SQLite file, postgresql://..., or memory; by default
    `episodes.db` in the user's data folder. Never shown, because it may contain a password."""
    durability: Annotated[Literal["step", "batch", "none"], _RECORD] = "step"
    """What survives a crash: every answered step (step), all but the last quarter of a second (batch), or as
    batch but without waiting for the disk (none)."""
    store_blob_bytes: Annotated[int, _RECORD] = Field(default=64 * 1024, ge=1024)
    """Size in bytes above which a block's text or image is stored separately, once for all steps that show
    it."""
    store_write_seconds: Annotated[float, _RECORD] = Field(default=10.0, gt=0)
    """Seconds for which a write to the store is tried before the call that waits for it fails."""
    retain_episodes: Annotated[int | None, _RECORD] = Field(default=None, ge=0)
    """Number of closed episodes that are kept, the newest ones; all by default, 10,000 in memory."""
    retain_days: Annotated[float | None, _RECORD] = Field(default=None, gt=0)
    """Days for which an episode is kept after its last change; forever by default."""
    recover: Annotated[Literal["strict", "lenient", "off"], _RECORD] = "strict"
    """Sessions that a killed server left open are rebuilt when a request names them, by playing their calls
    again: if every result is as recorded (strict), also if only texts differ (lenient), or never (off)."""
    recover_other_versions: Annotated[bool, _RECORD] = False
    """Rebuild sessions of another version of their environment, of the server or of a package too."""
    on_stop: Annotated[Literal["end", "suspend"], _RECORD] = "end"
    """When the server stops, end every session, or let running calls end and leave the sessions to the next
    server (suspend)."""
    worker_threads: Annotated[int, _LIMITS] = Field(default=64, ge=1)
    """Number of threads for blocking tools and hooks."""
    gradings_at_once: Annotated[int | None, _LIMITS] = Field(default=None, ge=1)
    """Number of gradings that run programs at once, in turns by environment and credential; two per processor
    by default. The others wait, and their time limits do not run meanwhile."""
    log_format: Annotated[Literal["console", "json"], _LOGS] = "console"
    """Format of log lines."""
    otel_endpoint: Annotated[str | None, _LOGS] = None
    """Address of an OpenTelemetry collector, such as http://127.0.0.1:4318, that gets spans of requests and
    tool calls over OTLP (extra otel)."""
    log_level: Annotated[Literal["debug", "info", "warning", "error"], _LOGS] = "info"
    """Lowest severity that is logged: one line per episode at info, one per call at debug."""

    @field_validator("*", mode="before")
    @classmethod
    def _ignore_case(cls, value: Any, info: ValidationInfo) -> Any:
        """Read a value that is one of a few names in any case."""
        if not isinstance(value, str) or info.field_name is None:
            return value
        names = names_of(cls.model_fields[info.field_name].annotation)
        return next((name for name in names if name.lower() == value.strip().lower()), value)

    @field_validator("allowed_frames")
    @classmethod
    def _check_origins(cls, origins: list[str]) -> list[str]:
        """Refuse what is not an origin: it becomes a part of a page's Content-Security-Policy."""
        for origin in origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    f"expected origins, such as https://example.org, got {origin[:_MAX_SHOWN_CHARACTERS]!r}"
                )
        return origins

    @cached_property
    def slot(self) -> HostSlot:
        """Which of the server's hosts this process is."""
        return HostSlot.read(self.host_slot, self.host_folder, self.host_address)

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
        """Order the sources: flags, then environment variables, then the file."""
        del dotenv_settings, file_secret_settings
        return (init_settings, env_settings, InitSettingsSource(settings_cls, dict(cls._file_values)))

    def source_of(self, name: str) -> str:
        """Return where a setting's value comes from, in the order in which sources win.

        Returns:
            `command line`, the name of an environment variable, `file`, `program` (of code that made the
            settings), or `default`.
        """
        variable = f"ORS_{name.upper()}"
        if name in self._flags:
            return "command line"
        if variable in os.environ:
            return variable
        if name in self._file_values:
            return "file"
        return "program" if name in self.model_fields_set else "default"


def names_of(annotation: Any) -> tuple[str, ...]:
    """Return the names that a setting takes: of its `Literal`, enumeration, or a union with one."""
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return tuple(str(member.value) for member in annotation)
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return tuple(part for part in parts if isinstance(part, str))
    return tuple(name for part in parts for name in names_of(part))


def default_record() -> Path:
    """Return the default path of the episode store, in the user's data folder (XDG Base Directory)."""
    return user_folder("XDG_DATA_HOME", ".local", "share") / "ors-server" / "episodes.db"


def load_settings(config: Path | None = None, **flags: object) -> Settings:
    """Read the settings.

    Args:
        config: TOML file with the fields' names as keys; by default the one that `ORS_CONFIG` names, if any.
        **flags: Values that win over everything; those that are `None` are left out.

    Raises:
        SettingsError: If a value is invalid, a key of the file or an `ORS_*` variable unknown, or the file
            unreadable; the message says where, and repeats no value but a flag's.
    """
    flags_set = {name: value for name, value in flags.items() if value is not None}
    check_variables(os.environ, Settings.model_fields)
    named = config or (Path(os.environ[CONFIG]) if os.environ.get(CONFIG) else None)
    file = None if named is None else TomlFile.read(named)
    if file is not None:
        check_keys(file, Settings.model_fields)

    class FileSettings(Settings):
        _file_values: ClassVar[Mapping[str, Any]] = {} if file is None else _placed(file)
        _flags: ClassVar[frozenset[str]] = frozenset(flags_set)

    try:
        return FileSettings(**flags_set)  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        mistakes: list[str] = []
        for item in error.errors(include_url=False, include_input=False):
            name, got = str(item["loc"][0]), ""
            # A flag's value is repeated, unless it may be a secret; the command line shows it anyway.
            if name in flags_set and SecretStr not in get_args(Settings.model_fields[name].annotation):
                got = f", got {str(flags_set[name])[:_MAX_SHOWN_CHARACTERS]!r}"
            mistakes.append(f"{_source(name, flags_set, file)}{as_expectation(item['msg'])}{got}")
        raise SettingsError("; ".join(mistakes)) from error
    except SourceError as error:
        raise SettingsError(f'{_unread_variable()}: expected a JSON list, such as ["example.org"]') from error


def _placed(file: TomlFile) -> dict[str, Any]:
    """Return a file's values, in which paths to environments are relative to the file."""
    values = dict(file.values)
    listed: Any = values.get("environments")
    if isinstance(listed, list):
        references: list[Any] = []
        for reference in cast("Sequence[Any]", listed):
            location = reference.partition(":")[0] if isinstance(reference, str) else ""
            is_path = location.endswith(".py") or "/" in location
            references.append(str(file.path.parent / reference) if is_path else reference)
        values["environments"] = references
    return values


def _source(name: str, flags: Mapping[str, object], file: TomlFile | None) -> str:
    variable = next((key for key in os.environ if key.upper() == f"ORS_{name.upper()}"), None)
    if name in flags:
        return f"--{name.replace('_', '-')}: "
    if variable is not None:
        return f"{variable}: "
    return f"{name}: " if file is None else f"{file.place(name)}: {name}: "


def as_expectation(message: str) -> str:
    """Put pydantic's sentence, which may follow the name of an option, in the form of ours."""
    message = re.sub(r", unable to parse .*$", "", message)
    return re.sub(r"\bInput should be (?=greater|less)", "expected a number ", message).replace(
        "Input should be ", "expected ", 1
    )


def _unread_variable() -> str:
    """Name the variable of a list that is not JSON."""
    for name, field in Settings.model_fields.items():
        variable = os.environ.get(f"ORS_{name.upper()}")
        if variable and get_origin(field.annotation) is list:
            try:
                json.loads(variable)
            except ValueError:
                return f"ORS_{name.upper()}"
    return "an environment variable"
