"""Playing by hand: a session with a form for each tool, recorded like any other episode."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ors_server.console.page_types import (
    Answer,
    Page,
    PageGroup,
    PageRequest,
    Redirect,
    note_action,
    whole_number,
)
from ors_server.console.views import episode as views
from ors_server.console.views import forms
from ors_server.doors.control import models as m
from ors_server.doors.control.handlers import RefusedCall
from ors_server.doors.control.operations import ControlRequest
from ors_server.doors.http.request_errors import UnknownPathError
from ors_server.model.errors import InvalidRequestError, OrsServerError
from ors_server.model.logs import get_logger
from ors_server.model.trajectory import EpisodeRecord, Step
from ors_server.model.wire import ToolSpec
from ors_server.store.lookup import find_episode

log = get_logger("ors_server.console")

PLAYER = {"player": "human"}
"""Label of every episode that is played here."""
MAX_UNDO = 3
"""Snapshots of one session that are kept for undoing."""


def read_task(form: Mapping[str, str]) -> tuple[str, int]:
    """Return the split and the index that a form names; `InvalidRequestError` if they are none."""
    text = form.get("index", "0").strip() or "0"
    index = whole_number(text)
    if index is None:
        raise InvalidRequestError(f"expected the index of a task, from 0, got {text!r:.80}")
    split = form.get("split") or None
    if split is None:
        raise InvalidRequestError("expected the split of the task, got none")
    return split, index


@dataclass(frozen=True)
class HandPlayedEpisode:
    """An episode that a person plays by hand."""

    record: EpisodeRecord
    steps: Sequence[Step]
    """The latest ones."""
    tools: Sequence[ToolSpec]
    can_play: bool


@dataclass(eq=False)
class PlayingByHand(PageGroup):
    """What players on every server do: read an episode, and call its tools with forms."""

    async def _read(self, session_id: str, episode_id: str) -> HandPlayedEpisode:
        is_live = self._manager.episode_of(session_id) is not None
        tools = (await self._control.get_tools(session_id)).tools if is_live else []
        if is_live:
            await self._control.get_prompt(session_id)  # waits for the setup, and puts the prompt on record
        record = await find_episode(self._store, episode_id)
        count = record.summary.steps
        steps = await self._store.steps(record.origin.episode_id, max(0, count - views.STEPS_PER_PAGE), count)
        return HandPlayedEpisode(record, steps, tools, is_live and record.summary.stop_reason is None)

    async def _read_call(
        self, session_id: str, form: Mapping[str, str]
    ) -> tuple[m.CallBody, Mapping[str, str]]:
        """Return the call that a form stands for, and what is wrong with the form by field."""
        name = form.get("tool", "")
        tools = (await self._control.get_tools(session_id)).tools
        spec = next((tool for tool in tools if tool.name == name), None)
        if spec is None:
            raise UnknownPathError("the session has no such tool")
        arguments, errors = forms.read_form(spec.input_schema, form)
        return m.CallBody(name=name, arguments=arguments), errors

    async def _make_call(self, control: ControlRequest, session_id: str, body: m.CallBody) -> int:
        """Call a tool, and return the number of the step."""
        answer = (await self._control.call_tool(control, session_id, body)).root
        if isinstance(answer, RefusedCall) and answer.step is None:
            raise InvalidRequestError(answer.detail)
        return answer.step or 1


@dataclass(eq=False)
class PlayPages(PlayingByHand):
    """Answers requests about playing by hand."""

    _undo: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Snapshots before the last calls of each session that is played here."""

    async def start(self, request: PageRequest) -> Answer:
        """Create a session of the task that was chosen."""
        split, index = read_task(request.form)
        environment = request.form.get("environment")
        body = m.SessionBody(environment=environment, split=split, index=index, labels=PLAYER)
        created = await self._control.create_session(request.control, body)
        note_action(request, "play", created.session_id)
        return Redirect(f"{request.root}/play/{created.status.episode_id}")

    async def show(self, request: PageRequest) -> Answer:
        """Show a session that is played: its prompt, its steps, and a form for each tool."""
        return await self._page(request, None, {})

    async def call(self, request: PageRequest) -> Answer:
        """Call a tool with what a form says; a form that is wrong comes back with its mistakes."""
        session_id = (await self._find(request)).origin.session_id
        body, errors = await self._read_call(session_id, request.form)
        if errors:
            return await self._page(request, body.name, errors)
        await self._keep(session_id)
        note_action(request, "call", session_id)
        step = await self._make_call(request.control, session_id, body)
        return Redirect(f"{request.root}/play/{request.path['episode']}#s{step}")

    async def undo(self, request: PageRequest) -> Answer:
        """Restore the snapshot from before the last call; the record keeps the call, and says so."""
        session_id = (await self._find(request)).origin.session_id
        snapshots = self._undo.get(session_id, [])
        if snapshots:
            snapshot = snapshots.pop()
            note_action(request, "undo", session_id)
            await self._control.restore_snapshot(session_id, snapshot)
            await self._control.discard_snapshot(session_id, snapshot)
        return Redirect(f"{request.root}/play/{request.path['episode']}#tools")

    async def _keep(self, session_id: str) -> None:
        """Take a snapshot to come back to, where the environment allows it."""
        snapshots = self._undo.setdefault(session_id, [])
        try:
            snapshots.append((await self._control.take_snapshot(session_id)).snapshot_id)
            if len(snapshots) > MAX_UNDO:
                await self._control.discard_snapshot(session_id, snapshots.pop(0))
        except OrsServerError as error:
            log.debug("console_no_snapshot", session_id=session_id, error=str(error))
        # An ended session has nothing to undo; without this the dictionary would grow with every session.
        for ended in [name for name in self._undo if self._manager.episode_of(name) is None]:
            del self._undo[ended]

    async def _page(self, request: PageRequest, wrong: str | None, errors: Mapping[str, str]) -> Answer:
        session_id = (await self._find(request)).origin.session_id
        played = await self._read(session_id, request.path["episode"])
        last, has_keys = played.steps[-1] if played.steps else None, request.session.key is not None
        return Page.of(
            "play",
            422 if errors else 200,
            record=played.record,
            steps=played.steps,
            here=f"{request.root}/play/{played.record.origin.episode_id}",
            forms=forms.make_forms(played.tools, wrong, request.form, errors),
            can_play=played.can_play,
            can_undo=bool(self._undo.get(session_id)),
            curl=last and forms.curl_line(request.base_url, session_id, last, has_keys=has_keys),
        )
