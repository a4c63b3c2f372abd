"""One session: an environment instance, its episode, and every call made on it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from os import urandom
from typing import Any

import anyio

from ors_server.environments.call_context import CallContext, ProgressListener
from ors_server.environments.calling_client import CallingClient
from ors_server.environments.definition import (
    Blocks,
    EnvironmentDefinition,
    GroupScorer,
    Instance,
    ToolsetDefinition,
)
from ors_server.environments.environment import restore_rng
from ors_server.environments.prompt_blocks import flatten_messages
from ors_server.environments.simulated_user.conversation import end_replay, load_conversation
from ors_server.environments.toolsets.milestones import load_reached_milestones
from ors_server.model.episode import EpisodeEvent, EpisodeState, Phase, StopReason
from ors_server.model.errors import CallCancelledError, NotSupportedError, ShuttingDownError, UnknownCallError
from ors_server.model.logs import get_logger
from ors_server.model.model_turn import ModelTurn, check_model_turn
from ors_server.model.trajectory import Step
from ors_server.model.visibility import Visibility
from ors_server.model.wire import GroupCandidate, JSONObject, Message, ToolListing
from ors_server.sessions.call_runner import CallRunner, CallTable
from ors_server.sessions.ending import SessionEnding, SessionParts
from ors_server.sessions.episode_recorder import EpisodeRecorder
from ors_server.sessions.lifecycle import Setup
from ors_server.sessions.reward_view import RewardView
from ors_server.sessions.session_call import NO_CLIENT, Call, CallResult, Failure, Scored, check_call_id
from ors_server.sessions.session_request import SessionStatus
from ors_server.sessions.session_services import LastUse, Services, run_whole
from ors_server.sessions.session_tools import SessionTools
from ors_server.sessions.snapshots import SessionSnapshot, Snapshots
from ors_server.timing.loop_watch import running_code

log = get_logger("ors_server.session")


@dataclass(frozen=True, slots=True)
class ReadResource:
    """A resource's content."""

    uri: str
    mime_type: str
    content: str | bytes


@dataclass(slots=True, eq=False, repr=False)
class Session:
    """One play of one task, from creation to deletion."""

    recorder: EpisodeRecorder
    definition: EnvironmentDefinition
    _instance: Instance
    visibility: Visibility
    _task_spec: JSONObject
    toolset: ToolsetDefinition | None
    is_rebuilt: bool = field(default=False, init=False)
    """Whether it was taken up from the record of a server that was killed."""
    last_use: LastUse = field(init=False)
    _reward_view: RewardView = field(init=False)
    _setup: Setup = field(init=False)
    _made_runner: CallRunner | None = field(default=None, init=False)
    _made_snapshots: Snapshots | None = field(default=None, init=False)
    _ending: SessionEnding | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        recorder, definition, instance = self.recorder, self.definition, self._instance
        self.last_use = LastUse(recorder.now)
        self._reward_view = RewardView(recorder, definition, instance)
        limits = definition.sandbox_for(self.toolset)
        self._setup = Setup(recorder, self.last_use, definition, instance, limits)

    @property
    def _runner(self) -> CallRunner:
        """Runs the calls; made when it is first needed, since it is a third of an idle session's memory."""
        if self._made_runner is None:
            recorder, definition = self.recorder, self.definition
            self._made_runner = CallRunner(
                recorder,
                self._make_table(),
                SessionTools(definition, self._instance, self.toolset),
                self._setup,
                self._task_spec,
                self._reward_view.grade if self._reward_view.judges_episodes else None,
            )
        return self._made_runner

    def _make_table(self) -> CallTable:
        recorder = self.recorder
        return CallTable(recorder.origin.session_id, recorder.services, self.last_use, recorder.is_pending)

    @property
    def snapshots(self) -> Snapshots:
        """The session's snapshots."""
        if self._made_snapshots is None:
            self._made_snapshots = Snapshots(
                self.recorder, self.definition, self._instance, self._setup, self._runner
            )
        return self._made_snapshots

    @property
    def running_calls(self) -> int:
        """Calls that have no result yet."""
        return 0 if self._made_runner is None else self._made_runner.calls.running

    def playing_calls(self) -> Sequence[tuple[Call, float]]:
        """Return the calls that run, with the seconds since each began."""
        now = self.recorder.now
        return [(call, max(0.0, now - begun)) for call, begun in self.recorder.playing.items()]

    @property
    def id(self) -> str:
        """The session's id."""
        return self.recorder.origin.session_id

    @property
    def secrets(self) -> Mapping[str, str]:
        """The secrets that the environment object holds, for a copy of it."""
        return dict(getattr(self._instance, "secrets", {}))

    @property
    def is_closed(self) -> bool:
        """Whether the session has ended altogether."""
        return self._ending is not None and self._ending.answered.is_set()

    def idle_seconds(self, now: float) -> float:
        """Return for how long the session was not used; 0 while a call, setup or ending runs."""
        busy = self.running_calls > 0 or self._setup.is_running or self._ending is not None
        return 0.0 if busy else now - self.last_use.at

    def status(self) -> SessionStatus:
        """Return the session as a trainer sees it."""
        setup_error = self._setup.error
        return SessionStatus(
            origin=self.recorder.origin,
            summary=self.recorder.summary(),
            visibility=self.visibility,
            idle_seconds=self.idle_seconds(self.recorder.now),
            running_calls=self.running_calls,
            setup_error=None if setup_error is None else str(setup_error),
            pending_steps=len(self.recorder.pending_calls),
        )

    def start(self) -> None:
        """Begin setup in the background; without one, or on a fork, the session is ready at once."""
        if self.recorder.state.phase is Phase.CREATED:
            self._setup.start()

    async def start_from_snapshot(self, snapshot: SessionSnapshot, steps: Sequence[Step]) -> None:
        """Become a copy of another session, instead of being set up."""
        await self._setup.start_from_snapshot(snapshot.memory, snapshot.files)
        load_reached_milestones(self._instance, snapshot.milestones)
        restore_rng(self._instance, snapshot.rng_state)
        load_conversation(self._instance, snapshot.conversation)
        state = snapshot.resumed_at(self.recorder.now, created_at=self.recorder.state.created_at)
        await run_whole(self.recorder.services.spawn, self.recorder.open_fork, state, steps)
        self._runner.calls.add_recorded(steps)

    async def until_ready(self) -> None:
        """Wait for setup; raises the error with which it failed."""
        await self._runner.until_ready()

    async def repeat(self, step: Step) -> None:
        """Play a recorded call again and wait for its end; no rate limits it."""
        call = Call(step.call_id, step.tool, step.arguments)
        self._runner.start(call)
        await call.wait()

    def resume_from(self, state: EpisodeState, services: Services, steps: Iterable[Step]) -> None:
        """Continue where the record ends: ids of recorded calls are answered from it, and run nothing."""
        self.recorder.resume_from(state, services)
        self._runner.calls = self._make_table()
        self._runner.calls.add_recorded(steps)
        end_replay(self._instance)
        self.is_rebuilt = True

    async def suspend(self, time_limit: float) -> None:
        """Let the running calls end, begin no others, and leave the record open; `aclose` comes after it.

        Args:
            time_limit: Seconds after which a call that still runs is left out of the record.
        """
        self._runner.end(partial(ShuttingDownError, "the server is shutting down"))
        with anyio.move_on_after(time_limit):
            await self._runner.calls.until_idle()
        await self.recorder.stop_writing()

    async def prompt(self) -> Blocks:
        """Return the prompt, after setup."""
        await self._runner.until_ready()
        blocks = await self.definition.hooks.prompt(self._instance)
        self._reward_view.record_prompt(blocks)
        return blocks

    async def messages(self) -> list[Message]:
        """Return the prompt as a conversation, after setup."""
        await self._runner.until_ready()
        messages = await self.definition.hooks.messages(self._instance)
        self._reward_view.record_prompt(flatten_messages(messages))
        return messages

    async def tools(self) -> ToolListing:
        """Return every tool that this session offers, without waiting for setup."""
        self._runner.check_usable()
        return await self._runner.tools.listing()

    async def offered_prompt(
        self, name: str, arguments: Mapping[str, str], client: CallingClient | None = None
    ) -> list[Message]:
        """Render a prompt that the environment offers besides its task, after setup."""
        offer = self.definition.offers.prompts.get(name)
        if offer is None:
            raise NotSupportedError(f"environment {self.definition.name!r} offers no prompt {name!r}")
        await self._runner.until_ready()
        with running_code(self.definition.name, f"prompt {name!r}", is_urgent=True):
            return await offer.call(self._instance, arguments, self._context("", client))

    async def read_resource(self, uri: str, client: CallingClient | None = None) -> ReadResource:
        """Read a resource that the environment offers, after setup."""
        found = self.definition.offers.find_resource(uri)
        if found is None:
            raise NotSupportedError(f"environment {self.definition.name!r} offers no resource {uri!r}")
        await self._runner.until_ready()
        offer, arguments = found
        with running_code(self.definition.name, f"resource {offer.uri!r}"):
            content = await offer.read(self._instance, arguments, self._context("", client))
        return ReadResource(uri, offer.mime_type, content)

    async def call(
        self,
        tool: str,
        arguments: JSONObject,
        *,
        call_id: str | None = None,
        listener: ProgressListener | None = None,
        client: CallingClient | None = None,
        model_turn: ModelTurn | Mapping[str, Any] | None = None,
    ) -> Call:
        """Begin a call, or return the one that has this id already; never waits for the tool.

        The call keeps running if the client disconnects.

        Args:
            call_id: The caller's own id, of at most 256 characters; the same id in the same session never
                runs twice, and neither does that of a step that a fork has from its parent.
            model_turn: What the model wrote before the call, for the record; the first one of an id stays.

        Raises:
            InvalidRequestError: If the id is too long, or UTF-8 cannot express it, or if `model_turn` cannot
                be recorded.
            EnvironmentFailedError: If setup has failed.
            CapacityError: If calls of the session wait whose arguments are many bytes, or its API key has
                made its calls of the minute.
            CallIdReusedError: If the id is that of a call with another tool or other arguments.
        """
        if call_id is not None:
            await self._load_recorded(call_id)
        if self._setup.error is not None:
            self._setup.check()
        runner, recorder = self._made_runner or self._runner, self.recorder
        turn = None
        if model_turn is not None:
            turn = check_model_turn(model_turn, recorder.services.options.max_output_bytes)
        if call_id is not None:
            earlier = runner.calls.get(call_id)
        else:
            earlier = self._find_unwritten(tool, arguments) if recorder.unwritten else None
        if earlier is not None:
            earlier.expect(tool, arguments)
        if earlier is not None and not earlier.is_unwritten:
            call = earlier
        else:
            credential_id = recorder.origin.credential_id
            if earlier is None and credential_id is not None:
                recorder.services.call_rates.admit(credential_id, recorder.now)
            call = Call(
                call_id or urandom(16).hex(),
                tool,
                arguments,
                client=client or NO_CLIENT,
                model_turn=turn,
                is_named=call_id is not None,
            )
            if earlier is not None:
                call.id, call.is_named, call.repeats = (
                    earlier.id,
                    earlier.is_named,
                    earlier.repeats or earlier,
                )
            runner.start(call)
        if listener is not None and call.result is None:
            call.listeners.append(listener)
        return call

    async def score_group(self, candidates: list[GroupCandidate], *, call_id: str | None = None) -> Call:
        """Begin to score a group of rollouts of this session's task; it is not a step of the episode.

        Raises:
            NotSupportedError: If the environment scores no groups.
        """
        if call_id is not None:
            await self._load_recorded(call_id)
        hook = self.definition.hooks.score_group
        if hook is None:
            raise NotSupportedError(f"Environment {self.definition.name!r} does not implement score_group")

        arguments: JSONObject = {"candidates": candidates}
        call = self._runner.calls.get(call_id)
        if call is not None:
            call.expect("score_group", arguments)
        else:
            call = Call(call_id or urandom(16).hex(), "score_group", arguments)
            self._runner.start_other(call, partial(_score, hook, self._instance, candidates))
        return call

    async def resume(self, call_id: str) -> Call:
        """Return the call of that id; `UnknownCallError` if the session knows no such call."""
        await self._load_recorded(call_id)
        call = self._runner.calls.get(call_id)
        if call is None:
            raise UnknownCallError("unknown task_id")
        return call

    async def cancel(self, call_id: str) -> bool:
        """Cancel a running call, which is then recorded as cancelled and pays nothing, and wait for its end.

        Returns:
            Whether it was running; a call that is done keeps its result, and an unknown one is an error.
        """
        call = await self.resume(call_id)
        if call.is_done:
            return False
        call.cancel()
        result = await call.wait()
        return isinstance(result, Failure) and isinstance(result.error, CallCancelledError)

    async def _load_recorded(self, call_id: str) -> None:
        """Bring a call whose output left memory back from the record, if this is one."""
        check_call_id(call_id)
        calls = self._runner.calls
        while calls.is_only_on_record(call_id):
            await calls.load_recorded(call_id, self.recorder.origin.episode_id)

    async def aclose(
        self,
        event: EpisodeEvent,
        reason: StopReason,
        *,
        server_stops: bool = False,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """End the session: stop its calls and its setup, tear the environment down once, close the record.

        The ending continues in the background even if the caller leaves; a second call waits for the
        first. Author code that ignores its stop delays the answer briefly, and the teardown for longer.

        Args:
            server_stops: Whether the server goes, and not this session alone.
            on_end: Is called once, by the ending and not by its caller, when the end can be answered.
        """
        if self._ending is None:
            parts = SessionParts(
                self.recorder,
                self.definition,
                self._instance,
                self._runner,
                self._setup,
                self._reward_view,
                self._made_snapshots,
            )
            self._ending = SessionEnding(parts, event, reason, server_stops=server_stops, on_end=on_end)
        await self._ending.answered.wait()

    @property
    def is_released(self) -> bool:
        """Whether nothing is left of a session that was ended."""
        return self._ending is not None and self._ending.released.is_set()

    async def until_released(self) -> None:
        """Wait until nothing is left of a session that was ended, its environment included."""
        if self._ending is not None:
            await self._ending.released.wait()

    def _find_unwritten(self, tool: str, arguments: JSONObject) -> Call | None:
        """Return the call that a caller without ids asks for again: one that ran and is not on record yet."""
        for pending in self.recorder.pending_calls:
            latest = self._runner.calls.get(pending.id)
            is_free = latest is not None and latest.is_unwritten and not latest.is_named
            if latest is not None and is_free and latest.is_same(tool, arguments):
                return latest
        return None

    def _context(self, call_id: str, client: CallingClient | None) -> CallContext:
        step = self.recorder.state.steps + 1
        return CallContext(self.id, call_id, step, self._task_spec, [], client or NO_CLIENT)


async def _score(
    score_group: GroupScorer, instance: Instance, candidates: list[GroupCandidate]
) -> CallResult:
    return Scored(tuple(await score_group(instance, candidates)))
