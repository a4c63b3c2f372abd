"""The keys of `task.toml` (task schema 1.0 to 1.4), each obeyed by this server or refused by name.

Harbor ignores unknown keys. Here they are refused with the nearest known one, except below `[metadata]`: a
key that is misspelt would otherwise change what a task pays without a word.
"""

import difflib
import inspect
import math
import posixpath
import re
import tomllib
import typing
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from ors_server.model.errors import EnvironmentDefinitionError

SCHEMA_VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4")
"""Task schemas that are read; a task without a version has the last."""
FILE = "task.toml"
DEFAULT_VERIFIER_SECONDS = 600.0
_MAX_SHOWN_CHARACTERS = 80
"""Characters of a wrong value that an error repeats."""
_SIZE_UNITS = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}
_STEP_NAME = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]|[. ]$')
_DEVICE = re.compile(r"(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[1-9¹²³])", re.IGNORECASE)


class TaskFolderError(EnvironmentDefinitionError):
    """A task folder breaks a rule of its format, or asks for what this server cannot give."""


def _is_finite(value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {value}")
    return value


def check_absolute(path: str | None) -> str | None:
    """Return a path; raise ValueError unless it is absolute and in normal form."""
    if path is not None and (not path.startswith("/") or path != posixpath.normpath(path)):
        raise ValueError(f"expected an absolute path in normal form, got {path!r}")
    return path


KeyPath: TypeAlias = tuple[str | int, ...]
"""Names of tables and keys, and positions in arrays of tables, from the top."""

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"' -]+?)\s*=")
_FENCES = ('"""', "'''")

Seconds: TypeAlias = Annotated[float, Field(gt=0, strict=True), AfterValidator(_is_finite)]
Number: TypeAlias = Annotated[float, Field(strict=True), AfterValidator(_is_finite)]
Variables: TypeAlias = dict[StrictStr, StrictStr]
User: TypeAlias = StrictStr | StrictInt
NetworkMode: TypeAlias = Literal["no-network", "public", "allowlist"]


class _TomlTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NetworkTable(_TomlTable):
    """What a phase may reach."""

    network_mode: NetworkMode | None = None
    allowed_hosts: list[StrictStr] | None = None

    @model_validator(mode="after")
    def _check_network(self) -> typing.Self:
        if self.allowed_hosts is not None and self.network_mode != "allowlist":
            raise ValueError("allowed_hosts is only valid with network_mode = 'allowlist'")
        return self


class AgentTable(NetworkTable):
    """`[agent]`."""

    timeout_sec: Seconds | None = None
    user: User | None = None


class HealthcheckTable(_TomlTable):
    """`[environment.healthcheck]`: a command that must succeed before the agent begins."""

    command: StrictStr
    interval_sec: Seconds = 5.0
    timeout_sec: Seconds = 30.0
    start_period_sec: Annotated[float, Field(ge=0, strict=True)] = 0.0
    start_interval_sec: Seconds = 5.0
    retries: Annotated[int, Field(ge=1, strict=True)] = 3


class TpuTable(_TomlTable):
    """`[environment.tpu]`."""

    type: StrictStr
    topology: StrictStr


class McpServerTable(_TomlTable):
    """`[[environment.mcp_servers]]`."""

    name: StrictStr
    transport: Literal["stdio", "sse", "streamable-http", "http"] = "sse"
    url: StrictStr | None = None
    command: StrictStr | None = None
    args: list[StrictStr] = []
    headers: Variables = {}


class EnvironmentTable(NetworkTable):
    """`[environment]`, also of a separate verifier."""

    build_timeout_sec: Seconds = 600.0
    docker_image: StrictStr | None = None
    os: Literal["linux", "windows"] = "linux"
    cpus: Annotated[float, Field(gt=0, strict=True), AfterValidator(_is_finite)] | None = None
    memory_mb: Annotated[int, Field(gt=0, strict=True)] | None = None
    storage_mb: Annotated[int, Field(gt=0, strict=True)] | None = None
    gpus: Annotated[int, Field(ge=0, strict=True)] | None = None
    gpu_types: list[StrictStr] | None = None
    tpu: TpuTable | None = None
    mcp_servers: list[McpServerTable] = []
    env: Variables = {}
    skills_dir: StrictStr | None = None
    healthcheck: HealthcheckTable | None = None
    workdir: Annotated[StrictStr | None, AfterValidator(check_absolute)] = None
    # Old spellings; `_read_old_keys` turns them into the new ones.
    memory: StrictStr | None = None
    storage: StrictStr | None = None
    allow_internet: StrictBool | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_old_keys(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        table = dict(cast("dict[str, Any]", values))
        if isinstance(table.get("os"), str):
            table["os"] = table["os"].lower()
        for old in ("memory", "storage"):
            if isinstance(table.get(old), str):
                size, new = read_size(table[old]), f"{old}_mb"
                if table.setdefault(new, size) != size:
                    raise ValueError(f"{old} = {table[old]!r} and {new} = {table[new]} contradict")
        says_network = {"network_mode", "allowed_hosts"} & set(table)
        if isinstance(table.get("allow_internet"), bool) and not says_network:
            table["network_mode"] = "public" if table["allow_internet"] else "no-network"
        return table


class CollectTable(_TomlTable):
    """`[[verifier.collect]]`: a command between the agent's work and the verifier."""

    command: StrictStr
    service: StrictStr = "main"
    timeout_sec: Seconds = 60.0
    user: User | None = None


class VerifierTable(NetworkTable):
    """`[verifier]`."""

    timeout_sec: Seconds = DEFAULT_VERIFIER_SECONDS
    env: Variables = {}
    user: User | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: EnvironmentTable | None = None
    collect: list[CollectTable] = []

    @model_validator(mode="after")
    def _check_mode(self) -> typing.Self:
        if self.environment_mode == "shared" and self.environment is not None:
            raise ValueError("environment_mode = 'shared' contradicts the table [verifier.environment]")
        return self

    @property
    def mode(self) -> Literal["shared", "separate"] | None:
        """The mode that the table states; `None` if it states none."""
        return self.environment_mode or (None if self.environment is None else "separate")


class SolutionTable(_TomlTable):
    """`[solution]`."""

    env: Variables = {}


class ArtifactTable(_TomlTable):
    """An entry of `artifacts`: a path that is kept with the episode."""

    source: StrictStr
    destination: StrictStr | None = None
    exclude: list[StrictStr] = []
    service: StrictStr | None = None

    @model_validator(mode="after")
    def _check_paths(self) -> typing.Self:
        if ".." in self.source.split("/"):
            raise ValueError(f"an artifact's source has no '..', got {self.source!r}")
        target = self.destination
        if target and (
            target.startswith("/")
            or "\\" in target
            or ".." in target.split("/")
            or target.rstrip("/") == "manifest.json"
        ):
            raise ValueError(
                "an artifact's destination is a relative path without '..' other than manifest.json, "
                f"got {target!r}"
            )
        return self


Artifacts: TypeAlias = list[
    Annotated[
        ArtifactTable,
        BeforeValidator(lambda entry: {"source": entry} if isinstance(entry, str) else entry),
    ]
]


class StepTable(_TomlTable):
    """One of `[[steps]]`."""

    name: StrictStr
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()
    min_reward: Number | dict[str, Number] | None = None
    healthcheck: HealthcheckTable | None = None
    artifacts: Artifacts = []

    @model_validator(mode="after")
    def _check_name(self) -> typing.Self:
        name = self.name
        is_bad = not name.strip() or name in {".", ".."} or len(name.encode()) > 255  # noqa: PLR2004  (NAME_MAX)
        if is_bad or _STEP_NAME.search(name) or _DEVICE.fullmatch(name.partition(".")[0].rstrip(" ")):
            raise ValueError(f"a step's name is the name of a folder on every system, got {name!r}")
        return self


class AuthorTable(_TomlTable):
    """One of `[[task.authors]]`."""

    name: StrictStr
    email: StrictStr | None = None


class PackageTable(_TomlTable):
    """`[task]`: how a registry names the task."""

    name: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*/[A-Za-z0-9_-][A-Za-z0-9._-]*$")]
    version: Annotated[StrictStr, Field(min_length=1)] | None = None
    description: StrictStr = ""
    authors: list[AuthorTable] = []
    keywords: list[StrictStr] = []


class TaskToml(_TomlTable):
    """A whole `task.toml`."""

    schema_version: Literal["1.0", "1.1", "1.2", "1.3", "1.4"] = "1.4"
    task: PackageTable | None = None
    metadata: dict[str, Any] = {}
    verifier: VerifierTable = VerifierTable()
    agent: AgentTable = AgentTable()
    environment: EnvironmentTable = EnvironmentTable()
    solution: SolutionTable = SolutionTable()
    source: StrictStr | None = None
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    steps: list[StepTable] | None = None
    artifacts: Artifacts = []

    @model_validator(mode="before")
    @classmethod
    def _read_old_version(cls, values: Any) -> Any:
        if isinstance(values, dict) and "version" in values:
            table = dict(cast("dict[str, Any]", values))
            table.setdefault("schema_version", table.pop("version"))
            return table
        return cast("Any", values)

    @model_validator(mode="after")
    def _check_steps(self) -> typing.Self:
        keys = [unicodedata.normalize("NFC", step.name).casefold() for step in self.steps or ()]
        if len(set(keys)) < len(keys):
            raise ValueError("steps: the names of steps differ, also without regard to upper and lower case")
        if self.multi_step_reward_strategy is not None and not self.steps:
            raise ValueError("multi_step_reward_strategy needs [[steps]]")
        return self

    def option(self, name: str) -> object:
        """Return an option of this server, from `[metadata.ors]`; `None` where it is not set."""
        options = self.metadata.get("ors")
        return cast("dict[str, object]", options).get(name) if isinstance(options, dict) else None


class TaskDocument:
    """A `task.toml` with its file and the lines of its keys."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            TaskFolderError: If it is not TOML, a key is unknown or a value does not fit.
        """
        self.path = path
        try:
            text = path.read_text("utf-8")
            values = tomllib.loads(text)
        except (OSError, ValueError) as error:
            raise TaskFolderError(f"{path}: {error}") from error
        self._lines = find_lines(text)
        try:
            self.config = TaskToml.model_validate(values)
        except ValidationError as error:
            raise TaskFolderError(self._describe(error)) from error

    def place(self, *key: str | int) -> str:
        """Return the file and line of a key, and its name."""
        line = line_of(self._lines, key)
        where = f"{self.path}:{line}" if line is not None else str(self.path)
        dotted = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key)
        return f"{where}: {dotted.lstrip('.')}" if key else where

    def _describe(self, error: ValidationError) -> str:
        mistakes: dict[str, str] = {}
        for item in error.errors(include_url=False):
            key = _toml_key(item["loc"])
            text = item["msg"].removeprefix("Value error, ")
            if item["type"] == "extra_forbidden":
                mistakes[self.place(*key)] = f"unknown key; {_nearest_key(key)}"
                continue
            shown = "" if not key else f", got {_shorten(repr(item['input']))}"
            shown = "" if item["type"] == "value_error" else shown
            # The first of a union's parts; the others say the same of the same key.
            mistakes.setdefault(self.place(*key), f"{text[0].lower()}{text[1:]}{shown}")
        return "; ".join(f"{where}: {text}" for where, text in mistakes.items())


def _toml_key(loc: Sequence[str | int]) -> KeyPath:
    """Return the path of a key in the document; pydantic adds the names of a union's parts."""
    key: list[str | int] = []
    for part in loc:
        if _model_of(key) is None and isinstance(part, str) and key and key[-1] in {"min_reward", "user"}:
            break
        if isinstance(part, str) and part in {"float", "str", "int"}:
            break
        key.append(part)
    return tuple(key)


def _nearest_key(key: Sequence[str | int]) -> str:
    model = _model_of(key[:-1])
    names = [] if model is None else list(model.model_fields)
    if model is TaskToml:
        names.append("version")
    near = difflib.get_close_matches(str(key[-1]), names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(names)}"


def _model_of(key: Sequence[str | int]) -> type[BaseModel] | None:
    """Return the model of the table at a key."""
    model: type[BaseModel] | None = TaskToml
    for part in key:
        if isinstance(part, int):
            continue
        field = None if model is None else model.model_fields.get(part)
        model = None if field is None else _find_model(field.annotation)
    return model


def _find_model(annotation: Any) -> type[BaseModel] | None:
    if inspect.isclass(annotation):
        return annotation if issubclass(annotation, BaseModel) else None
    return next((model for part in typing.get_args(annotation) if (model := _find_model(part))), None)


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}..."


def read_size(text: str) -> int:
    """Read an old spelling of a size, such as `2G`, in MiB; raise ValueError for other texts."""
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([GMK])\s*", text, re.IGNORECASE)
    if match is None:
        raise ValueError(f"expected a size such as '1G' or '512M', got {text!r}")
    return int(float(match[1]) * _SIZE_UNITS[match[2].upper()])


def find_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, of each table and key of a valid document; inline tables count as one key."""
    lines: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        if fence:
            fence = "" if line.count(fence) % 2 else fence
            continue
        header, key = _HEADER.match(line), _KEY.match(line)
        if header is not None:
            table = _resolve(_names(header[2]), counts, is_array=header[1] == "[[")
            lines.setdefault(table, number)
        elif key is not None:
            lines.setdefault((*table, *_names(key[1])), number)
        fence = next((mark for mark in _FENCES if line.count(mark) % 2), "")
    return lines


def line_of(lines: dict[KeyPath, int], path: Sequence[str | int]) -> int | None:
    """Return the line of a key, or of the nearest table or key above it; `None` if no line has one."""
    for length in range(len(path), 0, -1):
        if tuple(path[:length]) in lines:
            return lines[tuple(path[:length])]
    return None


def _names(text: str) -> list[str]:
    return [part.strip().strip("\"'") for part in text.split(".")]


def _resolve(names: list[str], counts: dict[KeyPath, int], *, is_array: bool) -> KeyPath:
    """Return the path of a header: a name of an array of tables above it means the array's last table."""
    path: KeyPath = ()
    for position, name in enumerate(names):
        path = (*path, name)
        if is_array and position == len(names) - 1:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path
