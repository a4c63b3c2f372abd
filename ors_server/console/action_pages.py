"""Actions on the page of an episode: add a note, replay, regrade, fork and export.

Each calls the control API's operation, checks the same roles, and writes a line to the log.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import ValidationError

from ors_server.console.page_types import Answer, Download, Page, PageRequest, Redirect, note_action
from ors_server.console.views import formats
from ors_server.console.views.episode import pretty, task_title
from ors_server.doors.control import models as m
from ors_server.doors.control.episode_jobs import EpisodeJobs, ExportQuery, RegradeBody, RegradedEpisode
from ors_server.doors.control.episodes import EpisodeHandlers, NoteBody
from ors_server.doors.control.handlers import ControlHandlers
from ors_server.model.errors import InvalidRequestError, OrsServerError
from ors_server.model.wire import JSONObject
from ors_server.store.base import RecordReader
from ors_server.store.lookup import find_episode


@dataclass(eq=False)
class ActionPages:
    """Handles the forms of an episode's actions."""

    _store: RecordReader
    _control: ControlHandlers
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
        record = await find_episode(self._store, request.path["episode"])
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
        return await self._regrade_page(request, None, None)

    async def regrade(self, request: PageRequest) -> Answer:
        """Judge an episode by the reward that a form names, and show the result; nothing is recorded."""
        options = request.form.get("options", "").strip()
        try:
            fields: object = json.loads(options or "{}")
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            return await self._regrade_page(request, None, "Options: expected a JSON object.")
        try:
            body = RegradeBody(reward=request.form.get("reward", ""), options=cast("JSONObject", fields))
        except ValidationError:
            return await self._regrade_page(request, None, "Choose a reward.")
        episode_id = await self._episode_id(request)
        note_action(request, "regrade", episode_id=episode_id)
        try:
            regraded = await self._jobs.regrade_episode(episode_id, body)
        except OrsServerError as error:
            return await self._regrade_page(request, None, str(error))
        return await self._regrade_page(request, regraded, None)

    async def _regrade_page(
        self, request: PageRequest, regraded: RegradedEpisode | None, problem: str | None
    ) -> Answer:
        record = await find_episode(self._store, request.path["episode"])

        def build() -> Mapping[str, Any]:
            result: Mapping[str, Any] = {} if regraded is None else regraded.result
            return {
                "title": task_title(record),
                "episode_id": record.origin.episode_id,
                "rewards": self._jobs.reward_names(),
                "chosen": request.form.get("reward", ""),
                "options": request.form.get("options", ""),
                "problem": problem,
                "regraded": regraded,
                "reward": result.get("reward"),
                "status": result.get("status"),
                "rest": [
                    (name, formats.plain(value))
                    for name, value in result.items()
                    if name not in {"reward", "status"} and value not in (None, {}, [])
                ],
                "whole": pretty(result),
            }

        return Page("regrade", build, 200 if problem is None else 422)

    async def _episode_id(self, request: PageRequest) -> str:
        return (await find_episode(self._store, request.path["episode"])).origin.episode_id
