"""The pages about the server: overview, environments, settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio.to_thread

from ors_server.alarms.watched_runs import AlarmBook
from ors_server.console.page_types import Answer, Page, PageRequest, Redirect, note_action
from ors_server.console.play_pages import read_task
from ors_server.console.views import formats
from ors_server.console.views import overview as views
from ors_server.console.views.episode import policy_differences, view_prompt, view_row
from ors_server.doors.access import Keyring, Role
from ors_server.doors.control import models as m
from ors_server.doors.control.handlers import ControlHandlers
from ors_server.files.attribute_docs import attribute_docs
from ors_server.model.clock import Clock
from ors_server.model.errors import OrsServerError
from ors_server.model.recording import task_digest
from ors_server.model.settings import Settings
from ors_server.model.trajectory import EpisodeRecord
from ors_server.model.wire import compact_json
from ors_server.sessions.manager import SessionManager
from ors_server.store.aggregates import PlayedTask
from ors_server.store.base import RecordReader
from ors_server.store.episode_filter import EpisodeFilter

RECENT = 8
"""Episodes of each list of the overview."""
TASKS = 25
"""Tasks of one page."""
SEARCHED = 5_000
"""Tasks that are searched for words at once."""
PREVIEW = {"player": "preview"}
"""Label of an episode that only showed a prompt."""


@dataclass(eq=False)
class ServerPages:
    """Answers requests about the server."""

    _store: RecordReader
    _manager: SessionManager
    _control: ControlHandlers
    _keyring: Keyring
    _clock: Clock
    _alarms: AlarmBook
    _audits: Path | None
    """Folder of audits' reports."""

    async def overview(self, request: PageRequest) -> Answer:
        """Show what needs attention, what runs, what ended, and how to connect."""
        totals = await self._store.totals(EpisodeFilter())
        live = await self._store.page(EpisodeFilter(closed=False), limit=RECENT)
        ended = await self._store.page(EpisodeFilter(closed=True), limit=RECENT)
        now = self._clock.now()
        calls = await self._store.calls_by_minute(now - timedelta(minutes=views.SHOWN_MINUTES))
        failed = await self._store.page(EpisodeFilter(stop_reason="failed"), limit=1)
        health = await self._control.get_health(request.control)
        sessions = await self._manager.sessions()
        alarms = self._alarms.open

        def build() -> Mapping[str, Any]:
            is_open = self._keyring.is_open
            return {
                "alarms": alarms[: views.MAX_ALARMS],
                "alerts": views.alerts_of(
                    health, is_open=is_open, newest_failure=failed[0] if failed else None, now=now
                ),
                "totals": totals,
                "calls": views.view_calls(calls, now),
                "success": totals.successes / totals.graded if totals.graded else None,
                "sessions": len(sessions),
                "running": sum(session.running_calls for session in sessions),
                "live": [view_row(record, now) for record in live],
                "ended": [view_row(record, now) for record in ended],
                "lines": views.lines_to_paste(request.base_url, has_keys=not is_open),
                "environments": len(self._manager.environments),
                "sandbox": health.sandbox,
            }

        return Page("overview", build)

    async def list_environments(self, request: PageRequest) -> Answer:
        """List the environments that are served."""
        del request
        briefs = (await self._control.list_environments()).environments
        tools = {
            name: len(self._manager.environment(name).listing.tools) for name in (b.name for b in briefs)
        }
        splits = {brief.name: self._manager.environment(brief.name).splits for brief in briefs}
        return Page("environments", lambda: {"briefs": briefs, "tools": tools, "splits": splits})

    async def show_environment(self, request: PageRequest) -> Answer:
        """Show an environment: its tasks, its tools, its rules, its audit, and a form to play a task."""
        return await self._environment_page(request, None)

    async def preview_prompt(self, request: PageRequest) -> Answer:
        """Show the prompt of a task too: the one on record, else that of a session, which ends at once."""
        name = (await self._control.get_environment(request.path["name"])).name
        split, index = read_task(request.form)
        task = (await self._control.get_task(name, split, index)).task_spec
        selected = EpisodeFilter(environment=name, task_hash=task_digest(task))
        records = await self._store.page(selected, limit=1)
        if not records or records[0].prompt is None:
            body = m.SessionBody(environment=name, split=split, index=index, labels=PREVIEW)
            session_id = (await self._control.create_session(request.control, body)).session_id
            note_action(request, "preview_prompt", session_id)
            try:
                await self._control.get_prompt(session_id)
            finally:
                await self._control.delete_session(session_id)
            records = await self._store.page(selected, limit=1)
        return await self._environment_page(request, records[0])

    async def _find_tasks(
        self, name: str, split: str, start: int, words: str
    ) -> tuple[list[m.TaskView], int, int]:
        """Return tasks with some words, the index after those that were searched, and how many there are."""
        matching: list[m.TaskView] = []
        end, total = start, start + 1
        while end < min(total, start + SEARCHED) and len(matching) < TASKS:
            query = m.PageQuery(start=end, stop=end + (TASKS if not words else m.MAX_PAGE))
            page = await self._control.list_tasks(name, split, query)
            matching += [t for t in page.tasks if words in compact_json(t.task_spec).casefold()]
            end, total = min(query.end, page.total), page.total
        if len(matching) >= TASKS:
            end = matching[TASKS - 1].index + 1
        return matching[:TASKS], end, total

    async def _environment_page(self, request: PageRequest, preview: EpisodeRecord | None) -> Answer:
        view = await self._control.get_environment(request.path["name"])
        names = [split.name for split in view.splits]
        split = request.value("split") or (names[0] if names else "")
        start, words = request.number("start") or 0, request.value("words") or ""
        problem: str | None = None
        tasks_here: list[m.TaskView] = []
        end = total = 0
        try:
            tasks_here, end, total = await self._find_tasks(view.name, split, start, words.casefold())
        except OrsServerError as error:
            problem = str(error)
        audit = await anyio.to_thread.run_sync(views.read_audit, self._audits, view.name)
        digests = [task_digest(task.task_spec) for task in tasks_here]
        played: Mapping[str, PlayedTask] = {}
        if digests:
            of_page = EpisodeFilter(environment=view.name, task_hash=tuple(digests))
            played = {task.task_hash: task for task in await self._store.by_task(of_page)}

        def build() -> Mapping[str, Any]:
            tasks = [
                (task.index, views.gist_of(task.task_spec), played.get(digest))
                for task, digest in zip(tasks_here, digests, strict=True)
            ]
            return {
                "env": view,
                "split": split,
                "tasks": tasks,
                "problem": problem,
                "total": total,
                "start": start,
                "end": end,
                "words": words,
                "preview": preview,
                "prompt": [] if preview is None else view_prompt(preview),
                "audit": audit,
                "per_page": TASKS,
                "tools": [(tool, views.pretty(tool.input_schema)) for tool in view.tools.tools],
                "policy": policy_differences(view.policy.model_dump(mode="json")),
            }

        return Page("environment", build)

    async def settings(self, request: PageRequest) -> Answer:
        """Show the settings in force, without the values of secrets and keys."""
        caller = request.session.caller
        if caller.role < Role.ADMIN:
            is_open = self._keyring.is_open
            return Page("settings_closed", lambda: {"without_keys": is_open}, 403)
        note_action(request, "show_settings")
        shown = await self._control.get_settings()
        keys = self._keyring.listed()
        docs = attribute_docs(Settings)
        defaults = Settings.model_fields

        def build() -> Mapping[str, Any]:
            rows = [
                (
                    name,
                    formats.plain(value),
                    value != views.plain(defaults[name].get_default(call_default_factory=True)),
                    shown.sources[name],
                    docs.get(name, ""),
                )
                for name, value in shown.values.items()
            ]
            return {"rows": rows, "secrets": shown.secrets, "sources": shown.sources, "keys": keys}

        return Page("settings", build)

    async def renew_token_secret(self, request: PageRequest) -> Answer:
        """Refuse every agent token that was made before, for an admin."""
        request.session.caller.require(Role.ADMIN)
        note_action(request, "renew_token_secret")
        await self._control.renew_token_secret(request.control)
        return Redirect(f"{request.root}/settings")

    async def shut_down(self, request: PageRequest) -> Answer:
        """Stop the server, for an admin."""
        request.session.caller.require(Role.ADMIN)
        note_action(request, "shut_down")
        await self._control.shut_down()
        return Page("stopping", dict)
