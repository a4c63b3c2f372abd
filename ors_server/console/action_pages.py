"""Actions on the page of an episode: add a note, replay, regrade, fork and export.

Each calls the control API's operation, checks the same roles, and writes a line to the log.
"""

import json
from dataclasses import dataclass
from typing import cast

from pydantic import ValidationError

from ors_server.console.page_types import (
    Answer,
    Download,
    Page,
    PageGroup,
    PageRequest,
    Redirect,
    note_action,
)
from ors_server.doors.control import models as m
from ors_server.doors.control.episode_jobs import EpisodeJobs, ExportQuery, RegradeBody, RegradedEpisode
from ors_server.doors.control.episodes import EpisodeHandlers, NoteBody
from ors_server.model.errors import InvalidRequestError, OrsServerError
from ors_server.model.wire import JSONObject


@dataclass(eq=False)
class ActionPages(PageGroup):
    """Handles the forms of an episode's actions."""

    _episodes: EpisodeHandlers
    _jobs: EpisodeJobs

    async def add_note(self, request: PageRequest) -> Answer:
        """Write a note about an episode or a step."""
        episode_id = await self._episode_id(request)
        form = request.form
        step = form.get("step", "").strip()
        try:
            body = NoteBody(
                text=form.get("text", "").replace("\r\n", "\n").strip(),
                verdict=form.get("verdict", "").strip() or None,
                step=int(step) if step else None,
            )
        except (ValidationError, ValueError) as error:
            raise InvalidRequestError(
                "expected a text of 1 to 10,000 characters, a verdict of at most 100, the number of a step"
            ) from error
        await self._episodes.add_note(request.control, episode_id, body)
        note_action(request, "note", episode_id=episode_id)
        return Redirect(f"{request.root}/episodes/{episode_id}#notes")

    async def replay(self, request: PageRequest) -> Answer:
        """Play an episode again, and lead to the new one, which is live."""
        episode_id = await self._episode_id(request)
        replayed = await self._jobs.replay_episode(request.control, episode_id)
        note_action(request, "replay", replayed.session_id, episode_id)
        return Redirect(f"{request.root}/episodes/{replayed.episode_id}")

    async def fork(self, request: PageRequest) -> Answer:
        """Copy a live session, and lead to the copy."""
        record = await self._find(request)
        session_id = record.origin.session_id
        forks = await self._control.fork_session(request.control, session_id, m.ForkBody())
        note_action(request, "fork", session_id, record.origin.episode_id)
        return Redirect(f"{request.root}/episodes/{forks.sessions[0].status.episode_id}")

    async def export(self, request: PageRequest) -> Answer:
        """Return an episode as a file of lines."""
        episode_id = await self._episode_id(request)
        try:
            query = ExportQuery.model_validate({"format": request.value("format") or "openai"})
        except ValidationError as error:
            raise InvalidRequestError("expected the format openai, sharegpt, trl or plain") from error
        exported = await self._jobs.export_episode(episode_id, query)
        if exported.left_out is not None:
            raise InvalidRequestError(f"{query.format} cannot hold this episode: {exported.left_out}")
        note_action(request, "export", episode_id=episode_id)
        lines = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in exported.rows)
        name = f"{episode_id[:8]}-{query.format}.jsonl"
        return Download(lines.encode(errors="replace"), "application/x-ndjson", name)

    async def show_regrade(self, request: PageRequest) -> Answer:
        """Ask by which reward an episode is judged again."""
        return await self._regrade_page(request)

    async def regrade(self, request: PageRequest) -> Answer:
        """Judge an episode by the reward that a form names, and show the result; nothing is recorded."""
        try:
            options: object = json.loads(request.form.get("options", "").strip() or "{}")
        except (ValueError, RecursionError):
            options = None
        if not isinstance(options, dict):
            return await self._regrade_page(request, problem="Options: expected a JSON object.")
        try:
            body = RegradeBody(reward=request.form.get("reward", ""), options=cast("JSONObject", options))
        except ValidationError:
            return await self._regrade_page(request, problem="Choose a reward.")
        episode_id = await self._episode_id(request)
        note_action(request, "regrade", episode_id=episode_id)
        try:
            return await self._regrade_page(request, await self._jobs.regrade_episode(episode_id, body))
        except OrsServerError as error:
            return await self._regrade_page(request, problem=str(error))

    async def _regrade_page(
        self, request: PageRequest, regraded: RegradedEpisode | None = None, problem: str | None = None
    ) -> Answer:
        record, rewards = await self._find(request), self._jobs.reward_names()
        values = {"record": record, "rewards": rewards, "problem": problem, "regraded": regraded}
        return Page("regrade", lambda: values, 200 if problem is None else 422)

    async def _episode_id(self, request: PageRequest) -> str:
        return (await self._find(request)).origin.episode_id
