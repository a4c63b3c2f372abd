"""Setup and teardown of an instance: each once and within its time limit."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio

from ors_server.environments.definition import EnvironmentDefinition, Instance
from ors_server.environments.environment import give_sandbox, sandbox_request
from ors_server.model.episode import EpisodeEvent, StopReason
from ors_server.model.errors import (
    EnvironmentFailedError,
    MachineryError,
    NotSupportedError,
    OrsServerError,
    forget_frames,
)
from ors_server.model.logs import get_logger, secret_values
from ors_server.model.wire import JSONObject
from ors_server.sandboxes.base import Limits, Sandbox, Snapshot
from ors_server.sandboxes.sandbox_errors import SandboxError, SandboxStartError
from ors_server.sessions.episode_recorder import EpisodeRecorder
from ors_server.sessions.session_services import LastUse, Services
from ors_server.timing.admission import Gate
from ors_server.timing.call_clock import counting, start_clock
from ors_server.timing.workers import LingeringThread

log = get_logger("ors_server.session")


@dataclass(slots=True, eq=False, repr=False)
class Setup:
    """Prepares an instance in the background; calls wait here until it is ready.

    Attributes:
        error: Why setup failed, if it did.
        sandbox: The session's sandbox, once it has started.
    """

    _recorder: EpisodeRecorder
    _last_use: LastUse
    _definition: EnvironmentDefinition
    _instance: Instance
    _limits: Limits | None
    """Of the session's sandbox; `None` for a session without one."""
    error: EnvironmentFailedError | MachineryError | None = field(default=None, init=False)
    sandbox: Sandbox | None = field(default=None, init=False)
    _is_abandoned: bool = field(default=False, init=False)
    is_done: bool = field(default=True, init=False)
    """Whether setup has ended well, or there was none."""
    _ready: anyio.Event | None = field(default=None, init=False)
    _scope: anyio.CancelScope | None = field(default=None, init=False)
    _thread: LingeringThread | None = field(default=None, init=False)

    @property
    def is_running(self) -> bool:
        """Whether setup has begun and not ended."""
        return self._scope is not None

    def start(self) -> None:
        """Begin in the background; without anything to do the episode is ready at once."""
        if self._definition.hooks.setup is None and self._limits is None:
            self._recorder.apply_event(EpisodeEvent.SETUP_DONE)
            return
        self.is_done = False
        self._ready = anyio.Event()
        self._scope = anyio.CancelScope()
        self._thread = LingeringThread()
        self._recorder.services.spawn(self._run, self._scope, self._thread)

    async def start_from_snapshot(self, memory: JSONObject, files: Snapshot | None) -> None:
        """Restore the instance from a snapshot of another one, instead of setting it up."""
        if self._limits is not None:
            await self._open_sandbox(self._limits)
        await self.restore_snapshot(memory, files)

    async def restore_snapshot(self, memory: JSONObject, files: Snapshot | None) -> None:
        """Bring files and memory back to what they were."""
        hook = self._definition.hooks.load
        if hook is None:
            raise copy_unsupported_error(self._definition)
        if self.sandbox is not None and files is not None:
            await self.sandbox.restore(files)
        await hook(self._instance, memory)

    async def wait(self) -> None:
        """Wait until setup has ended, failed or was cancelled."""
        if self._ready is not None:
            await self._ready.wait()

    def check(self) -> None:
        """Refuse to continue after a failure; a new error each time, so that no traceback grows."""
        if self.error is not None:
            raise type(self.error)(str(self.error))

    def abandon(self) -> None:
        """Give up on a setup that still runs; `until_gone` waits until it has ended."""
        self._is_abandoned = True
        if self._scope is not None:
            self._scope.cancel()

    @property
    def lingers(self) -> bool:
        """Whether setup or its worker thread still runs."""
        return self.is_running or (self._thread is not None and self._thread.is_running)

    async def until_gone(self) -> None:
        """Wait until neither setup nor its worker thread runs."""
        await self.wait()
        if self._thread is not None and self._thread.ended is not None:
            await self._thread.ended.wait()

    async def release(self) -> None:
        """Close the session's sandbox, if it has one; for after the environment's teardown."""
        if self.sandbox is not None:
            await self.sandbox.aclose()

    async def _open_sandbox(self, limits: Limits) -> None:
        services, origin = self._recorder.services, self._recorder.origin
        request = sandbox_request(self._instance, limits)
        backend = services.sandboxes.require()
        self.sandbox = await backend.start_requested(origin.session_id, request)
        self.sandbox.gate = Gate(services.gradings, (origin.environment, origin.credential_id))
        give_sandbox(self._instance, self.sandbox)

    async def _run(self, scope: anyio.CancelScope, thread: LingeringThread) -> None:
        hook = self._definition.hooks.setup
        clock = start_clock(self._recorder.policy.setup_time_limit)
        try:
            with scope, counting(clock):
                if self._limits is not None:
                    await self._open_sandbox(self._limits)
                if hook is not None:
                    await hook(self._instance, thread)
            if clock.is_up and not self._is_abandoned:
                self.error = EnvironmentFailedError(f"setup did not end within {clock.limit:g} seconds")
        except SandboxError as error:
            self.error = SandboxStartError(secret_values.mask(str(error)))
            self.error.__cause__ = error
        except OrsServerError as error:
            self.error = EnvironmentFailedError(secret_values.mask(str(error)))
            self.error.__cause__ = error
        except Exception as error:  # noqa: BLE001  (author code must not end the task group of the server)
            text = f"setup left the server in an invalid state (for example an open task group): {error}"
            self.error = EnvironmentFailedError(secret_values.mask(text))
            self.error.__cause__ = error
        finally:
            self._end()

    def _end(self) -> None:
        self._scope = None
        self._last_use.at = self._recorder.now
        if self._is_abandoned:
            pass  # the code that abandoned it records how the episode ended
        elif self.error is not None:
            self._recorder.apply_event(EpisodeEvent.SETUP_FAILED, StopReason.FAILED)
            log.warning("setup_failed", session_id=self._recorder.origin.session_id, exc_info=self.error)
            forget_frames(self.error)
        else:
            self._recorder.apply_event(EpisodeEvent.SETUP_DONE)
        self.is_done = self.error is None
        if self._ready is not None:
            self._ready.set()


def copy_unsupported_error(definition: EnvironmentDefinition) -> NotSupportedError:
    """Make the error for an environment whose sessions cannot be saved or forked."""
    return NotSupportedError(
        f"environment {definition.name!r} has no save_state and load_state, so its sessions cannot be copied"
    )


async def make_instance(
    definition: EnvironmentDefinition,
    task_spec: JSONObject,
    secrets: Mapping[str, str],
    time_limit: float | None,
) -> Instance:
    """Construct an environment object; a client that leaves does not stop that.

    Args:
        task_spec: The task; the object may keep and change it.
        time_limit: Seconds that the constructor may take.

    Raises:
        EnvironmentFailedError: If the constructor raised or took too long.
    """
    if not definition.hooks.has_constructor:
        return await definition.hooks.make(task_spec, secrets)
    clock = start_clock(time_limit)
    with counting(clock, shield=True):
        return await definition.hooks.make(task_spec, secrets)
    # `counting` swallows the cancellation by its own clock. (An object that was made in time is used, even if
    # its constructor held the event loop for longer: hence no `clock.is_up`, as in setup and teardown.)
    raise EnvironmentFailedError(f"the constructor did not end within {clock.limit:g} seconds")


async def tear_down(
    definition: EnvironmentDefinition, instance: Instance, services: Services, session_id: str
) -> None:
    """Release what an instance holds; a failure is only logged."""
    hook = definition.hooks.teardown
    if hook is None:
        return
    try:
        clock = start_clock(services.options.teardown_time_limit)
        with counting(clock):
            await hook(instance, LingeringThread())
        if clock.is_up:
            log.warning("teardown_failed", session_id=session_id, error=f"no end within {clock.limit:g} s")
    except Exception as error:
        log.warning("teardown_failed", session_id=session_id, exc_info=error)
