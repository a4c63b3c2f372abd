"""Callers and their roles (API keys, agent tokens for one session), and what each role may read."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from enum import IntEnum
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from ors_server.doors.visitors import Visitors
from ors_server.model import errors
from ors_server.model.clock import Clock, SystemClock
from ors_server.model.enumerations import quick_members
from ors_server.model.errors import Blame, ForbiddenError, OrsServerError, SettingsError, UnauthenticatedError
from ors_server.model.logs import get_logger
from ors_server.model.settings_sources import TomlFile
from ors_server.model.trajectory import Step
from ors_server.model.visibility import Visibility
from ors_server.model.wire import TextBlock, ToolOutput
from ors_server.sandboxes import sandbox_errors as sandboxes
from ors_server.sessions.key_limits import NO_KEY_LIMITS, VISITOR_PREFIX, KeyLimits

TOKEN_PREFIX = "agt_"  # noqa: S105  (a mark, not a secret)
"""Prefix of an agent token."""

MIN_KEY_LENGTH = 16
"""Minimum number of characters of an API key."""


@quick_members
class Role(IntEnum):
    """A caller's permissions; a higher role includes those of the lower ones."""

    AGENT = 1
    """Play one session: prompt, tools, calls."""
    TRAINER = 2
    """Everything about sessions, tasks, rewards and records."""
    ADMIN = 3
    """Also settings and shutdown."""

    @classmethod
    def parse(cls, name: str) -> "Role":
        """Return the role named `agent`, `trainer` or `admin`; `SettingsError` if there is no such role."""
        try:
            return cls[name.upper()]
        except KeyError:
            shown = f" {name!r}" if name.isalpha() and len(name) < MIN_KEY_LENGTH else ""
            raise SettingsError(f"unknown role{shown}: expected agent, trainer or admin") from None


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A configured key; only its digest is kept."""

    id: str
    role: Role
    digest: bytes
    """SHA-256 of the key."""
    expires: datetime | None = None
    """When it is no longer accepted, with an offset; `None` for never."""
    limits: KeyLimits = NO_KEY_LIMITS
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels of every episode that it creates."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An identified caller."""

    role: Role
    credential_id: str | None = None
    """Id of the key; `None` without keys."""
    session_id: str | None = None
    """The one session that an agent may play."""
    episode_id: str | None = None
    """The one episode of that session: a session's id may be used again, its token may not."""
    key: ApiKey | None = field(default=None, repr=False, compare=False)
    """The API key; `None` without keys, and for agent tokens."""
    is_public: bool = False
    """Whether any caller may have this credential: a visitor of a public server, or an agent's token there.
    Such a caller reads no metadata and no reason of a failure, even where it may see rewards: both may state
    the answer of a task that everyone plays."""

    @property
    def has_trainer_key(self) -> bool:
        """Whether a configured key makes the caller a trainer; being on loopback does not."""
        return self.role >= Role.TRAINER and self.credential_id is not None

    @property
    def is_visitor(self) -> bool:
        """Whether the caller sent no credential to a public server."""
        return self.credential_id is not None and self.credential_id.startswith(VISITOR_PREFIX)

    def require(self, role: Role) -> None:
        """Refuse a caller of a lower role; `ForbiddenError` if the caller's role is lower."""
        if self.role < role:
            raise ForbiddenError(
                f"this needs the role {role.name.lower()}; the credential has {self.role.name.lower()}"
            )

    def require_session(self, session_id: str, live_episode: str | None) -> None:
        """Refuse an agent at a session other than its own, or at a later episode of the same session id.

        Args:
            live_episode: The episode of the live session with that id; `None` if it is not live.

        Raises:
            ForbiddenError: If it is not the caller's.
        """
        if self.role > Role.AGENT:
            return
        if self.session_id != session_id:
            raise ForbiddenError("an agent's credential is for its own session only")
        if live_episode is not None and self.episode_id != live_episode:
            raise ForbiddenError(
                "this token is for an earlier episode under the same session id; use the token of the new one"
            )


_UNNAMED_TRAINER = Caller(Role.TRAINER)
OPEN_CALLER = Caller(Role.AGENT)
"""The caller of what needs no credential."""


class Keyring:
    """Identifies callers and mints agent tokens."""

    def __init__(
        self,
        keys: Iterable[ApiKey] = (),
        *,
        token_secret: bytes | None = None,
        clock: Clock | None = None,
        visitors: Visitors | None = None,
    ) -> None:
        """Keep the keys; without any, every caller is a trainer, and the server binds to loopback.

        Args:
            token_secret: Signs agent tokens: the same for servers that share tokens, random by default.
            visitors: What callers without a credential may do on a public server, where no caller is a
                trainer without a key; `None` on other servers.
        """
        self._visitors = visitors
        self._clock = clock or SystemClock()
        self._put(keys)
        self.own_key = secrets.token_urlsafe()
        """A trainer's key for clients of this process, which no setting has."""
        self._secret = token_secret or secrets.token_bytes(32)

    def share_secret(self, secret: bytes) -> None:
        """Sign agent tokens with the secret that the servers of a record share."""
        self._secret = secret

    def _put(self, keys: Iterable[ApiKey]) -> None:
        self._keys = {key.digest: key for key in keys}
        self._limits: dict[str | None, KeyLimits] = {}
        for key in self._keys.values():
            self._limits.setdefault(key.id, key.limits)

    def replace_keys(self, keys: Iterable[ApiKey]) -> None:
        """Accept other keys from now on; agent tokens and live sessions stay.

        Raises:
            SettingsError: If there are none, which would let every caller be a trainer; then nothing changes.
        """
        new = list(keys)
        if not new:
            raise SettingsError("expected at least one API key; the old ones stay")
        self._put(new)

    def limits_of(self, credential_id: str | None) -> KeyLimits:
        """Return the limits of a key by its id: those of the first key with the id."""
        if self._visitors is not None and (credential_id or "").startswith(VISITOR_PREFIX):
            return self._visitors.limits
        return self._limits.get(credential_id, NO_KEY_LIMITS)

    @property
    def is_open(self) -> bool:
        """Whether every caller is a trainer: no keys are configured, and the server is not public."""
        return not self._keys and self._visitors is None

    @property
    def is_public(self) -> bool:
        """Whether callers without a credential may play."""
        return self._visitors is not None

    def listed(self) -> list[ApiKey]:
        """Return the keys that are configured, by their digests alone."""
        return list(self._keys.values())

    def accepts(self, key: ApiKey) -> bool:
        """Whether a key that was identified earlier is still configured, as it was, and has not expired."""
        is_expired = key.expires is not None and key.expires <= self._clock.now()
        return self._keys.get(key.digest) == key and not is_expired

    def identify(self, credential: str | None) -> Caller:
        """Return the caller with an API key, an agent token, or no credential.

        Raises:
            UnauthenticatedError: If keys are configured and this key is unknown or has expired, or the token
                is forged.
        """
        if credential is not None and credential.startswith(TOKEN_PREFIX):
            return self.identify_agent(credential)
        if self.is_open or hmac.compare_digest((credential or "").encode(), self.own_key.encode()):
            return _UNNAMED_TRAINER
        key = None if credential is None else self._keys.get(hashlib.sha256(credential.encode()).digest())
        if key is None:
            what = "no API key was sent" if credential is None else "the API key is unknown"
            raise UnauthenticatedError(f"{what}: send a known API key as X-API-Key or Authorization: Bearer")
        if key.expires is not None and key.expires <= self._clock.now():
            raise UnauthenticatedError(
                f"the API key {key.id!r} expired at {key.expires.isoformat()}; ask the server's operator for "
                "a new one"
            )
        return Caller(key.role, key.id, key=key)

    def caller_of(self, headers: Mapping[str, str], scope: Mapping[str, Any]) -> Caller:
        """Return the caller of a request. Raises as `identify`.

        Args:
            headers: Those of the request; names are in lower case.
            scope: The request's ASGI scope, by which a public server tells callers without a credential
                apart.
        """
        if not (self._keys or "x-api-key" in headers or "authorization" in headers):
            return _UNNAMED_TRAINER if self._visitors is None else self._visitor(self._visitors, scope)
        credential = credential_from(headers)
        if credential is None and self._visitors is not None:
            return self._visitor(self._visitors, scope)
        return self.identify(credential)

    def _visitor(self, visitors: Visitors, scope: Mapping[str, Any]) -> Caller:
        # Signed, and not the address itself: the record keeps the id, and no address can be read from it.
        visitor = VISITOR_PREFIX + self._sign(visitors.network_of_client(scope))[:22]
        return Caller(Role.AGENT, visitor, is_public=True)

    def identify_agent(self, token: str) -> Caller:
        """Return the caller with an agent token; `UnauthenticatedError` if this server did not make it."""
        try:
            claim, _, signature = token.removeprefix(TOKEN_PREFIX).rpartition(".")
            text = base64.urlsafe_b64decode(claim + "=" * (-len(claim) % 4)).decode()
            episode_id, separator, session_id = text.partition(" ")
        except ValueError:
            raise UnauthenticatedError("malformed agent token: pass it as the server returned it") from None
        if not separator or not hmac.compare_digest(signature.encode(), self._sign(text).encode()):
            raise UnauthenticatedError(
                "unknown agent token: it was not made by this server, or another ORS_TOKEN_SECRET was set"
            )
        own = f"agent:{session_id}"
        return Caller(Role.AGENT, own, session_id, episode_id, is_public=self.is_public)

    def mint(self, session_id: str, episode_id: str) -> str:
        """Make the token with which an agent plays one episode; the same episode always gets the same token.

        The text is safe in a URL, and cannot be guessed without the secret. An episode id has no white space.
        """
        text = f"{episode_id} {session_id}"
        claim = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        return f"{TOKEN_PREFIX}{claim}.{self._sign(text)}"

    def _sign(self, text: str) -> str:
        digest = hmac.digest(self._secret, text.encode(), "sha256")
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def credential_from(headers: Mapping[str, str]) -> str | None:
    """Return the value of `X-API-Key`, else of `Authorization: Bearer`; header names are in lower case."""
    key = headers.get("x-api-key")
    if key:
        return key.strip()
    authorization = headers.get("authorization")
    if authorization is None:
        return None
    scheme, _, value = authorization.partition(" ")
    return value.strip() or None if scheme.lower() == "bearer" else None


def parse_keys(text: str) -> list[ApiKey]:
    """Read `role:id:key` entries, separated by commas, as an environment variable holds them.

    Raises:
        SettingsError: If an entry has another form or its key is too short.
    """
    keys: list[ApiKey] = []
    for number, entry in enumerate(filter(None, (part.strip() for part in text.split(","))), 1):
        role, _, rest = entry.partition(":")
        identifier, _, key = rest.partition(":")
        try:
            keys.append(_make_key(identifier, role, key))
        except SettingsError as error:
            raise SettingsError(f"ORS_API_KEYS, entry {number}: {error}") from None
    return keys


def read_key_file(path: Path) -> list[ApiKey]:
    """Read keys from a TOML file of `[[keys]]` tables with `id`, `role`, and `key` or `sha256`.

    A table may also have `expires`, `max_sessions`, `calls_per_minute` and a table `labels`.

    Raises:
        SettingsError: If the file cannot be read or a table has another form.
    """
    file = TomlFile.read(path)
    tables: object = file.values.get("keys")
    if not isinstance(tables, list):
        raise SettingsError(f"{path}: expected [[keys]] tables with id, role, and key or sha256, got none")
    keys: list[ApiKey] = []
    for number, table in enumerate(cast("list[object]", tables)):
        try:
            keys.append(_read_key(table))
        except (SettingsError, KeyError, TypeError, ValueError, AttributeError) as error:
            why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise SettingsError(
                f"{file.place('keys', number)}: expected a table with id, role, and key or sha256: {why}"
            ) from error
    return keys


def load_keys(*, keys: str | None, key_file: Path | None) -> list[ApiKey]:
    """Return the keys that `parse_keys` and `read_key_file` read; raises as these do."""
    return parse_keys(keys or "") + ([] if key_file is None else read_key_file(key_file))


def load_keyring(
    *,
    keys: str | None,
    key_file: Path | None,
    token_secret: str | None,
    clock: Clock | None = None,
    visitors: Visitors | None = None,
) -> Keyring:
    """Make the keyring of the keys that `load_keys` returns; raises as it does."""
    secret = None if token_secret is None else token_secret.encode()
    loaded = load_keys(keys=keys, key_file=key_file)
    return Keyring(loaded, token_secret=secret, clock=clock, visitors=visitors)


_KEY_FIELDS = frozenset(
    {"id", "role", "key", "sha256", "expires", "max_sessions", "calls_per_minute", "labels"}
)


def _read_key(table: Any) -> ApiKey:
    unknown = sorted(set(table) - _KEY_FIELDS)
    if unknown:
        raise ValueError(f"unknown name {unknown[0]!r}; expected one of {', '.join(sorted(_KEY_FIELDS))}")
    if "sha256" not in table:
        key = _make_key(table["id"], table["role"], table["key"])
    else:
        digest = bytes.fromhex(table["sha256"])
        if len(digest) != hashlib.sha256().digest_size:
            raise ValueError("expected 64 hexadecimal digits as sha256")
        key = ApiKey(table["id"], Role.parse(table["role"]), digest)
    return replace(
        key,
        expires=_read_expiry(table.get("expires")),
        limits=KeyLimits(_read_limit(table, "max_sessions"), _read_limit(table, "calls_per_minute")),
        labels=_read_labels(table.get("labels", {})),
    )


def _read_expiry(value: object) -> datetime | None:
    """Read a date, which ends at its midnight UTC, or a time; one without an offset is UTC."""
    if value is None:
        return None
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    raise ValueError("expected a date or time as expires, such as 2027-01-31 or 2027-01-31T12:00:00Z")


def _read_limit(table: Any, name: str) -> int | None:
    value = table.get(name)
    if value is None or (type(value) is int and value >= 1):
        return value
    raise ValueError(f"expected a whole number of at least 1 as {name}")


def _read_labels(value: Any) -> dict[str, str]:
    if isinstance(value, dict):
        labels = cast("dict[str, Any]", value)
        if all(name and "=" not in name and isinstance(labels[name], str) for name in labels):
            return dict(labels)
    raise ValueError('expected a table of texts as labels, such as {run = "monday"}')


def _make_key(identifier: str, role: str, key: str) -> ApiKey:
    if not identifier or len(key) < MIN_KEY_LENGTH:  # the message repeats nothing: any part may be the key
        raise SettingsError(f"expected role:id:key with a key of at least {MIN_KEY_LENGTH} characters")
    return ApiKey(identifier, Role.parse(role), hashlib.sha256(key.encode()).digest())


log = get_logger("ors_server.session")

FAILED = "The tool failed through no fault of yours, and nothing was charged"
"""The message to an agent about a failure of the environment's code."""

_PLAIN = (
    errors.ClientError,
    errors.CapacityError,
    errors.StartingError,
    errors.StoreError,
    errors.ShuttingDownError,
)
_SECRETIVE = (
    errors.SettingsError,
    sandboxes.SandboxCommandError,
    sandboxes.SandboxShellError,
    sandboxes.SandboxFileError,
    sandboxes.SandboxFrozenError,
)
_INSTEAD = {
    Blame.AUTHOR: errors.EnvironmentFailedError,
    Blame.MACHINERY: errors.MachineryError,
    Blame.CLIENT: errors.ClientError,
    Blame.US: OrsServerError,
}


def may_see_rewards(caller: Caller, visibility: Visibility) -> bool:
    """Whether a caller may see rewards in the content of answers."""
    return caller.role >= Role.TRAINER or visibility is Visibility.VISIBLE


def may_read_reasons(caller: Caller, visibility: Visibility) -> bool:
    """Whether a caller may read the metadata of answers, and the message of an author's code that failed."""
    return may_see_rewards(caller, visibility) and not caller.is_public


def redact(output: ToolOutput, caller: Caller, visibility: Visibility) -> ToolOutput:
    """Remove reward and metadata from an output for a caller who may not see them."""
    if may_read_reasons(caller, visibility):
        return output
    reward = output.reward if may_see_rewards(caller, visibility) else None
    return output.model_copy(update={"reward": reward, "metadata": None})


def describe_output(step: Step, caller: Caller, visibility: Visibility) -> dict[str, Any]:
    """Return what a caller may see of a step's output, as the standard has it.

    It is written out, because `model_dump` and `redact` take longer.
    """
    blocks: list[dict[str, Any]] = []
    for block in step.blocks:
        if isinstance(block, TextBlock):
            blocks.append({"text": block.text, "detail": block.detail, "type": block.type})
        else:
            image = {"data": block.data, "mimeType": block.mimeType}
            blocks.append({**image, "detail": block.detail, "type": block.type})
    return {
        "blocks": blocks,
        "metadata": step.answer_metadata if may_read_reasons(caller, visibility) else None,
        "reward": step.reward if may_see_rewards(caller, visibility) else None,
        "finished": step.finished,
    }


def withhold(error: OrsServerError, failure_id: str | None = None) -> OrsServerError:
    """Return an error as an agent may read it: without an author's message, which may hold the answer.

    The message goes to the log, under the id that the agent reads: the failed call's, or a new one.
    """
    if isinstance(error, _PLAIN) and not isinstance(error, _SECRETIVE):
        return error
    failure_id = failure_id or uuid4().hex
    log.warning("failure_withheld", failure_id=failure_id, code=error.code, error=str(error))
    is_tools = isinstance(error, errors.ToolFailedError)
    kind: type[OrsServerError] = errors.ToolFailedError if is_tools else _INSTEAD[error.blame]
    return kind(f"{FAILED}. The server's log and record hold the reason, under the id {failure_id}.")
