"""The composition root: the only module that names concrete parts and puts them together."""

import importlib
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from ors_server._version import __version__
from ors_server.client.app_transport import AppTransport
from ors_server.client.async_client import AsyncClient
from ors_server.client.client_options import ClientOptions
from ors_server.client.connection import Patience
from ors_server.doors.access import Keyring, load_keyring, load_keys
from ors_server.doors.control.app import ControlApp
from ors_server.doors.control.episodes import EpisodeHandlers
from ors_server.doors.control.hosts import HostControl
from ors_server.doors.http import messages as http
from ors_server.doors.http.front_page import FRONT_PATH, front_page
from ors_server.doors.http.messages import HostGuard, HttpMeters
from ors_server.doors.metrics import METRICS_PATH, MetricsDoor
from ors_server.doors.openenv.openenv_app import ROOT as OPENENV_ROOT
from ors_server.doors.openenv.openenv_app import OpenEnvApp, is_openenv_path
from ors_server.doors.ors.app import OrsApp
from ors_server.doors.ors.calls import CallStreams
from ors_server.doors.visitors import Visitors
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.environments.loading import check_names, definitions_of
from ors_server.model import logs
from ors_server.model.clock import Clock, SystemClock
from ors_server.model.errors import (
    EnvironmentDefinitionError,
    OrsServerError,
    SessionNotFoundError,
    SettingsError,
    ShuttingDownError,
)
from ors_server.model.settings import Settings, load_settings
from ors_server.model.visibility import Visibility
from ors_server.processes import offload
from ors_server.recovery.rebuilding import RebuildRules
from ors_server.recovery.recovery import Recovery
from ors_server.resources.resource_pool import ResourcePool
from ors_server.sandboxes.choose import BackendChoice, BackendRequest
from ors_server.sandboxes.isolation_report import Strength
from ors_server.sessions.key_limits import KeyLimits, LimitsOf, no_key_limits
from ors_server.sessions.manager import SessionManager, open_manager
from ors_server.sessions.session_request import SessionLimits
from ors_server.sessions.session_services import NO_SANDBOXES, Sandboxes, SessionOptions, open_sandboxes
from ors_server.store.base import EpisodeStore
from ors_server.store.location import parse_location
from ors_server.store.memory import MemoryStore
from ors_server.store.open import open_store
from ors_server.store.store_options import Durability, StoreOptions
from ors_server.timing import spans

if TYPE_CHECKING:
    from ors_server.console.console_app import ConsoleApp
    from ors_server.doors.mcp.mcp_app import McpApp

log = logs.get_logger("ors_server.app")

CONTROL_ROOT = "_ors"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class InProcess:
    """Options of an application that only clients in this process call; it has no MCP."""

    options: SessionOptions | None = None
    """Used instead of the settings."""
    sandboxes: BackendRequest | Sandboxes | None = None
    """The isolation to open, or one that is open already and not closed here; by default the strongest that
    works on this machine."""
    resources: ResourcePool | None = None
    """What sessions share, open already and not closed here; the application's own by default."""


class App:
    """The server as an ASGI application; its parts live as long as its lifespan."""

    def __init__(
        self,
        definitions: Sequence[EnvironmentDefinition],
        settings: Settings,
        *,
        clock: Clock | None = None,
        store: EpisodeStore | None = None,
        in_process: InProcess | None = None,
    ) -> None:
        """Check the settings; nothing runs yet.

        Args:
            store: Used instead of the one that the settings name.
            in_process: Given if only clients in this process call it.

        Raises:
            SettingsError: If there are no environments, keys cannot be read, or any caller is a trainer.
            EnvironmentDefinitionError: If two environments share a name.
        """
        if not definitions:
            raise SettingsError("name at least one environment to serve")
        if settings.tls_key is not None and settings.tls_cert is None:
            raise SettingsError("tls_key is set without tls_cert: name the certificate's file too")
        if settings.on_stop == "suspend" and store is None and parse_location(settings.record).is_in_memory:
            raise SettingsError(
                "on_stop=suspend leaves sessions to the next server, and a record in memory ends with this "
                "one: name a --store, or leave on_stop at end"
            )
        check_names(definitions)
        self._definitions = tuple(_paid(definition, settings.emit) for definition in definitions)
        self.settings = settings
        offload.divide(settings.slot.hosts_of_machine)
        self._clock = clock or SystemClock()
        self.keyring = make_keyring(settings, self._clock)
        self._external_store = store
        self._in_process = in_process
        self.on_shutdown: Callable[[], None] | None = None
        """Called when an admin stops the server, if set before it runs; must return at once."""
        self.on_restart: Callable[[], None] | None = None
        """Called when an admin asks that every host is started again, if set before it runs."""
        self.on_leave: Callable[[int], None] | None = None
        """Called with an exit status when a host of several has lost or given up its place, if set before it
        runs; must return at once."""
        self.failure: Exception | None = None
        """Why it could not start, or not end in order."""
        self.sandboxes = NO_SANDBOXES
        """The isolation of agents' commands, once the application runs."""
        self._manager: SessionManager | None = None
        self._episodes: EpisodeHandlers | None = None
        self._mcp: McpApp | None = None
        self._console: ConsoleApp | None = None
        self._openenv: OpenEnvApp | None = None
        self._doors: dict[str, tuple[str, http.Application]] = {}
        self._pages: dict[str, http.Application] = {}
        self._http_meters = HttpMeters()
        self._ors: OrsApp | None = None
        self._guarded = HostGuard(self._route, hosts=settings.allowed_hosts, origins=own_origins(settings))

    @property
    def manager(self) -> SessionManager:
        """The session manager, while the application runs; `ShuttingDownError` if it does not run."""
        if self._manager is None:
            raise ShuttingDownError("the server does not run; enter its lifespan first")
        return self._manager

    @property
    def definitions(self) -> tuple[EnvironmentDefinition, ...]:
        """The environments that are served, the default one first."""
        return self._definitions

    def agent_token(self, session_id: str) -> str:
        """Make the token with which an agent plays a session; `SessionNotFoundError` if it is not live."""
        episode_id = self.manager.episode_of(session_id)
        if episode_id is None:
            raise SessionNotFoundError(f"no live session has the id {session_id!r}")
        return self.keyring.mint(session_id, episode_id)

    def replace_environments(self, definitions: Sequence[EnvironmentDefinition]) -> None:
        """Serve other environments from now on, while the application runs; live sessions keep theirs.

        Raises:
            EnvironmentDefinitionError: If there are none, or two share a name; then nothing changes.
        """
        if not definitions:
            raise EnvironmentDefinitionError("expected at least one environment to serve, got none")
        check_names(definitions)
        paid = tuple(_paid(definition, self.settings.emit) for definition in definitions)
        self.manager.replace_environments(paid)
        self._definitions = paid

    def reload_keys(self) -> int:
        """Read the file of API keys again and accept its keys from now on; return how many keys there are.

        Agent tokens and live sessions stay, also those of keys that are gone. Keys in `ORS_API_KEYS` stay.

        Raises:
            SettingsError: If the file cannot be read or has no key; then the old keys stay.
        """
        keys = load_keys(keys=_environment_keys(self.settings), key_file=self.settings.api_keys_file)
        self.keyring.replace_keys(keys)
        return len(keys)

    def client(self, url: str = f"http://{LOOPBACK}") -> AsyncClient:
        """Return a trainer's client that calls this application directly, while it runs, on its event loop.

        It repeats nothing: a full server, or one that cannot write its record, is an error at once. Agents'
        URLs begin with `url`, if the application is served too.
        """
        options = ClientOptions(transport=AppTransport(self), patience=Patience(seconds=0.0))
        return AsyncClient(url, self.keyring.own_key, options=options)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["App", None]:
        """Run every part; leaving the context ends all sessions."""
        settings = self.settings
        async with AsyncExitStack() as stack:
            if self._in_process is None:
                # A third of all imports, before anything watches the event loop or shares it.
                importlib.import_module("ors_server.doors.mcp.mcp_app")
                logs.load()
                if settings.otel_endpoint is not None:
                    host = None if settings.slot.is_alone else settings.slot.name
                    shutdown = spans.export_to(settings.otel_endpoint, host=host)
                    stack.push_async_callback(anyio.to_thread.run_sync, shutdown)
                stack.push_async_callback(offload.aclose)
            spans.begin()
            self.sandboxes = await stack.enter_async_context(self._open_sandboxes())
            store = self._external_store or await open_store(
                settings.record, store_options(settings), clock=self._clock
            )
            stack.push_async_callback(store.aclose)
            manager = await stack.enter_async_context(
                open_manager(
                    self._definitions,
                    (self._in_process and self._in_process.options)
                    or session_options(settings, self.keyring.limits_of),
                    clock=self._clock,
                    store=store,
                    sandboxes=self.sandboxes,
                    resources=self._in_process.resources
                    if self._in_process is not None
                    else await stack.enter_async_context(
                        ResourcePool(pools_per_machine=settings.slot.hosts_of_machine)
                    ),
                )
            )
            hosts: HostControl | None = None
            if self._in_process is None:
                self._open_recovery(manager)
                if not settings.slot.is_alone:
                    hosts = self._watch_hosts(manager, store)
                await self._open_mcp(manager, stack)
            self._episodes = EpisodeHandlers(
                store,
                clock=self._clock,
                ping_seconds=settings.sse_ping_seconds,
                feed=manager.services.feed,
            )
            control = ControlApp(
                manager,
                self.keyring,
                settings,
                episodes=self._episodes,
                shutdown=self.on_shutdown,
                hosts=hosts,
            )
            stack.push_async_callback(control.peers.aclose)
            self._doors[CONTROL_ROOT] = "control", control
            self._pages |= {
                FRONT_PATH: front_page,
                METRICS_PATH: MetricsDoor(
                    manager, self.keyring, self._http_meters, self._episodes.alarms, control.peers
                ),
            }
            if self._in_process is None and settings.console:
                from ors_server.console.console_app import (  # noqa: PLC0415  (it needs Jinja)
                    CONSOLE_PATH,
                    open_console,
                )

                parts = (manager, self.keyring, settings, self._clock)
                self._console = open_console(control, *parts)
                self._doors[CONSOLE_PATH.strip("/")] = "console", self._console
                self._pages[FRONT_PATH] = partial(front_page, console=CONSOLE_PATH)
            self._ors = OrsApp(
                manager,
                self.keyring,
                max_body_bytes=settings.max_body_bytes,
                streams=CallStreams(settings.sse_ping_seconds, fails_unjudged=settings.unjudged == "error"),
            )
            if self._in_process is None:
                self._openenv = OpenEnvApp(
                    manager,
                    self.keyring,
                    max_body_bytes=settings.max_body_bytes,
                    idle_seconds=settings.idle_seconds,
                    lets_visitors_in=settings.openenv_root,
                )
                self._doors[OPENENV_ROOT] = "openenv", self._openenv
            if self._in_process is None and settings.slot.number == 0:  # one host looks for all
                ended = manager.services.meters.ended_by_run
                manager.services.spawn(self._episodes.alarms.watch, ended, self._clock)
            self._manager = manager
            try:
                yield self
            finally:
                self._manager = None
                self._ors = None
                self._doors, self._pages = {}, {}
                self._console = None
                self._openenv = None

    def _open_sandboxes(self) -> AbstractAsyncContextManager[Sandboxes]:
        requested = sandbox_request(self.settings) if self._in_process is None else self._in_process.sandboxes
        if isinstance(requested, Sandboxes):
            return nullcontext(requested)
        return open_sandboxes(self._definitions, requested, self._clock)

    def _open_recovery(self, manager: SessionManager) -> None:
        """Take up what an earlier server left open, and sign tokens as it did."""
        settings, services = self.settings, manager.services
        if settings.token_secret is None:
            self.keyring.share_secret(services.store.shared_secret)
        if settings.recover != "off":
            is_lenient = settings.recover == "lenient"
            recovery = Recovery(manager, RebuildRules(is_lenient, settings.recover_other_versions))
            manager.recoverer = recovery
            services.spawn(recovery.run)

    def _watch_hosts(self, manager: SessionManager, store: EpisodeStore) -> HostControl:
        """Follow the record's table of hosts, for one host of several."""
        # Only servers with several hosts, whose record is in SQL, load SQLAlchemy for it.
        from ors_server.recovery.host_watch import HostWatch  # noqa: PLC0415  (as above)
        from ors_server.store.sql.host_rows import mark_draining  # noqa: PLC0415  (as above)
        from ors_server.store.sql.sql_store import SqlStore  # noqa: PLC0415  (as above)

        if not isinstance(store, SqlStore):
            raise SettingsError("the hosts of a server share a record in SQL: name a --store")
        recovery = manager.recoverer if isinstance(manager.recoverer, Recovery) else None
        watch = HostWatch(self.settings.slot, store, manager, recovery, self.on_leave)
        manager.services.spawn(watch.run)
        return HostControl(
            self.settings.slot, store.hosts, partial(store.change_hosts, mark_draining), self.on_restart
        )

    async def _open_mcp(self, manager: SessionManager, stack: AsyncExitStack) -> None:
        from ors_server.doors.mcp.mcp_app import PATHS, McpApp  # noqa: PLC0415  (a third of all imports)
        from ors_server.doors.mcp.server_card import (  # noqa: PLC0415  (as above)
            CARD_PATHS,
            ServerCardPage,
        )

        mcp = self._mcp = McpApp(manager, self.keyring, self.settings)
        await stack.enter_async_context(mcp.running())
        self._doors |= dict.fromkeys((path.split("/")[1] for path in PATHS), ("mcp", mcp))
        card = ServerCardPage(
            self.settings.public_url, needs_key=not (self.keyring.is_open or self.keyring.is_public)
        )
        self._pages |= dict.fromkeys(CARD_PATHS, card)

    def begin_to_stop(self) -> None:
        """End the streams that continue for as long as a client reads, before the server waits for them."""
        if self._episodes is not None:
            self._episodes.stop()
        if self._console is not None:
            self._console.stop()
        if self._mcp is not None:
            self._mcp.begin_to_stop()
        if self._openenv is not None:
            self._openenv.stop()

    async def end_sessions(self) -> None:
        """End every session, so that each request that still waits for one is answered."""
        if self._manager is not None:
            await self._manager.end_sessions()

    async def __call__(self, scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
        """Serve one ASGI connection."""
        match scope["type"]:
            case "http":
                headers = http.read_headers(scope)
                is_plain = "origin" not in headers and len(headers) == len(scope["headers"])
                if is_plain and headers.get("host") in self._guarded.accepted:
                    await self._route(scope, receive, send)
                else:  # a page's request, a new host, or a header twice
                    await self._guarded(scope, receive, send)
            case "lifespan":
                await self._live(receive, send)
            case _:
                await send({"type": "websocket.close", "code": 1000})

    async def _route(self, scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
        """Serve a request at its door; an unexpected exception stays inside the request."""
        began = perf_counter()
        if self._ors is None:
            await http.send_fault(send, ShuttingDownError("the server is not running"))
            return
        answer: http.Exchange | None = scope.get("extensions", {}).get(http.EXCHANGE)
        if answer is None:
            answer = watched = http.WatchedAnswer(send)
            send = watched.send
        path, method = scope["path"], scope["method"]
        if self._openenv is not None and self.settings.openenv_root and is_openenv_path(path):
            path = f"/{OPENENV_ROOT}/{self.definitions[0].name}{path}"
            scope = {**scope, "path": path}
        if path in self._pages and method in {"GET", "HEAD"}:
            name, door = path.strip("/") or "front", self._pages[path]
        else:
            name, door = self._doors.get(path.split("/", 2)[1] if "/" in path else "", ("ors", self._ors))
        if method == "HEAD":
            door = partial(http.serve_head, door)
        self._http_meters.open_requests += 1
        try:
            if spans.tracing.tracer is None or spans.is_left_out(scope):
                await door(scope, receive, send)
            else:
                with spans.request_span(scope, name, answer):
                    await door(scope, receive, send)
        except Exception:  # other requests must not notice, for any exception
            log.exception("request_defect", path=scope["path"])
            if answer.response_started:
                raise
            await http.send_fault(send, OrsServerError("the server failed; its log has the details"))
        finally:
            self._http_meters.count(name, method, answer, began)

    async def _live(self, receive: http.Receive, send: http.Send) -> None:
        await receive()
        started = False
        try:
            async with self.running():
                started = True
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as error:
            self.failure = error
            if isinstance(error, OrsServerError):
                log.warning("lifespan_failed", error=str(error))
            else:
                log.exception("lifespan_failed")
            failed: dict[str, Any] = {"type": f"lifespan.{'shutdown' if started else 'startup'}.failed"}
            await send(failed | {"message": f"{type(error).__name__}: {error}"})
            raise
        with anyio.CancelScope(shield=True):
            await send({"type": "lifespan.shutdown.complete"})


def create_app(
    environments: Sequence[str | type | EnvironmentDefinition], settings: Settings | None = None
) -> App:
    """Make the ASGI application.

    Args:
        environments: Environment classes, their definitions, or references as for the command line: a name,
            `module:Class`, or a path.
        settings: The settings; read from the environment by default.

    Raises:
        UnknownEnvironmentError: If a reference leads nowhere.
        EnvironmentDefinitionError: If an environment breaks a rule.
        SettingsError: If the settings are contradictory or unsafe.
    """
    definitions = [definition for item in environments for definition in definitions_of(item)]
    return App(definitions, settings or load_settings())


@asynccontextmanager
async def open_in_process(
    definitions: Sequence[EnvironmentDefinition],
    in_process: InProcess | None = None,
    *,
    clock: Clock | None = None,
    store: EpisodeStore | None = None,
) -> AsyncGenerator[App]:
    """Run environments for clients in this process, without any settings; `app.client()` plays them.

    Raises:
        EnvironmentDefinitionError: If two environments share a name.
        SandboxUnavailableError: If the requested isolation does not work here.
    """
    app = App(
        definitions,
        _settings_in_process().model_copy(),
        clock=clock,
        store=store or MemoryStore(),
        in_process=in_process or InProcess(),
    )
    async with app.running():
        yield app


@cache
def _settings_in_process() -> Settings:
    """Return the settings of every `open_in_process`; to make them takes a third of its processor time."""
    return Settings.model_construct(max_body_bytes=sys.maxsize)  # which reads no variables and no file


def _paid(definition: EnvironmentDefinition, emit: str | None) -> EnvironmentDefinition:
    if emit is None or "emit" not in definition.policy.overridable:
        return definition
    return replace(definition, policy=definition.policy.override({"emit": emit}))


def make_keyring(settings: Settings, clock: Clock | None = None) -> Keyring:
    """Read the keys; `SettingsError` if there are none and the address is not loopback."""
    keyring = load_keyring(
        keys=_environment_keys(settings),
        key_file=settings.api_keys_file,
        token_secret=None if settings.token_secret is None else settings.token_secret.get_secret_value(),
        clock=clock,
        visitors=_visitors_of(settings),
    )
    if keyring.is_open and not settings.is_loopback:
        raise SettingsError(
            f"binding to {settings.host!r} would make every caller on the network a trainer; "
            "set ORS_API_KEYS or --api-keys-file, or bind to 127.0.0.1; or let callers play, and no more, "
            "with --public"
        )
    return keyring


def _visitors_of(settings: Settings) -> Visitors | None:
    if not settings.public:
        return None
    if not settings.slot.is_alone or settings.workers > 1 or settings.engine == "ray":
        raise SettingsError(
            "a public server is one process, which sees the address of each client: leave out --public, or "
            "--workers and the other settings of several hosts"
        )
    if settings.openenv_root and settings.visibility is not Visibility.VISIBLE:
        raise SettingsError(
            "OpenEnv's answers have rewards, and everyone can read them on a public server: set visibility "
            "to visible, or leave out openenv_root or public"
        )
    limits = KeyLimits(settings.public_sessions, settings.public_calls_per_minute)
    return Visitors.read(limits, settings.trusted_proxies)


def _environment_keys(settings: Settings) -> str | None:
    return None if settings.api_keys is None else settings.api_keys.get_secret_value()


def session_options(settings: Settings, limits_of: LimitsOf = no_key_limits) -> SessionOptions:
    """Take from the settings what a session manager needs; `limits_of` tells what each key may use."""
    slot = settings.slot

    def share(name: str) -> int | None:
        limit = getattr(settings, name)
        if limit is not None and limit < slot.count:
            raise SettingsError(
                f"{name} is divided among the hosts: expected at least {slot.count} for {slot.count} hosts, "
                f"got {limit}"
            )
        return None if limit is None else limit // slot.count

    def own_share(credential_id: str | None) -> KeyLimits:
        return limits_of(credential_id).share(slot.count)

    return SessionOptions(
        limits_of=limits_of if slot.is_alone else own_share,
        limits=SessionLimits(
            sessions=share("max_sessions") or settings.max_sessions,
            sessions_per_environment=share("max_sessions_per_environment"),
            sessions_per_credential=share("max_sessions_per_credential"),
            idle_seconds=settings.idle_seconds,
            reap_seconds=settings.reap_seconds,
        ),
        visibility=settings.visibility,
        max_output_bytes=settings.max_output_bytes,
        teardown_time_limit=settings.teardown_seconds,
        suspends=settings.on_stop == "suspend",
        suspend_time_limit=settings.teardown_seconds,
        gradings_at_once=settings.gradings_at_once,
        server_version=__version__,
        worker_threads=settings.worker_threads,
        slot=slot,
    )


def store_options(settings: Settings) -> StoreOptions:
    """Take from the settings how the record is written and what is kept of it."""
    return StoreOptions(
        durability=Durability(settings.durability),
        blob_bytes=settings.store_blob_bytes,
        retain_episodes=settings.retain_episodes,
        retain_days=settings.retain_days,
        write_seconds=settings.store_write_seconds,
        idle_seconds=settings.idle_seconds,
        slot=settings.slot,
    )


def own_origins(settings: Settings) -> list[str]:
    """Return the origins whose pages may send requests: the settings' and the server's public one."""
    parts = urlsplit(settings.public_url or "")
    public = [f"{parts.scheme}://{parts.netloc}"] if parts.netloc else []
    return [*settings.allowed_origins, *public]


def sandbox_request(settings: Settings) -> BackendRequest:
    """Take from the settings which isolation is requested."""
    return BackendRequest(
        choice=BackendChoice(settings.sandbox),
        allow_unsandboxed=settings.allow_unsandboxed,
        allow_visible_answers=settings.allow_visible_answers,
        allow_network=settings.allow_network,
        at_least=Strength(settings.min_isolation),
        docker_image=settings.docker_image,
        docker_host=settings.docker_host,
    )
