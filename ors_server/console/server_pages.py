"""The pages about the server: overview, environments, settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import anyio.to_thread

from ors_server.alarms.watched_runs import AlarmBook
from ors_server.console.page_types import Answer, Page, PageGroup, PageRequest, Redirect, note_action
from ors_server.console.play_pages import read_task
from ors_server.console.views.environments import read_audit
from ors_server.doors.access import Keyring, Role
from ors_server.doors.control import models as m
from ors_server.files.attribute_docs import attribute_docs
from ors_server.model.errors import OrsServerError
from ors_server.model.recording import task_digest
from ors_server.model.settings import Settings
from ors_server.model.trajectory import EpisodeRecord
from ors_server.model.wire import compact_json
from ors_server.store.aggregates import PlayedTask, fill_minutes
from ors_server.store.episode_filter import EpisodeFilter

DRAWN_MINUTES = 60
"""Minutes whose calls are drawn."""
MAX_ALARMS = 10
"""Alarms of runs that the overview shows."""
RECENT_FAILURE = timedelta(days=1)
MAX_RECENT_EPISODES = 8
"""Episodes of each list of the overview."""
TASKS = 25
"""Tasks of one page."""
MAX_SEARCHED_TASKS = 5_000
"""Tasks that are searched for words at once."""
PREVIEW = {"player": "preview"}
"""Label of an episode that only showed a prompt."""


@dataclass(eq=False)
class ServerPages(PageGroup):
    """Answers requests about the server."""

    _keyring: Keyring
    _alarms: AlarmBook
    _audits: Path | None
    """Folder of audits' reports."""

    async def overview(self, request: PageRequest) -> Answer:
        """Show what needs attention, what runs, what ended, and how to connect."""
        totals = await self._store.totals(EpisodeFilter())
        now = self._clock.now()
        calls = await self._store.calls_by_minute(now - timedelta(minutes=DRAWN_MINUTES))
        failed = await self._store.page(EpisodeFilter(stop_reason="failed"), limit=1)
        health = await self._control.get_health(request.control)
        sessions = await self._manager.sessions()
        return Page.of(
            "overview",
            alarms=self._alarms.open[:MAX_ALARMS],
            sandbox=health.sandbox,
            late=health.loop.get("worst_seconds"),
            queues=health.queues,
            failure=next((r for r in failed if now - r.origin.created_at <= RECENT_FAILURE), None),
            totals=totals,
            # The current minute is left out, because it is not over.
            minutes=fill_minutes(calls, now, DRAWN_MINUTES + 1)[:-1],
            success=totals.successes / totals.graded if totals.graded else None,
            sessions=len(sessions),
            running=sum(session.running_calls for session in sessions),
            live=await self._store.page(EpisodeFilter(closed=False), limit=MAX_RECENT_EPISODES),
            ended=await self._store.page(EpisodeFilter(closed=True), limit=MAX_RECENT_EPISODES),
            environments=len(self._manager.environments),
        )

    async def list_environments(self, request: PageRequest) -> Answer:
        """List the environments that are served."""
        del request
        briefs = (await self._control.list_environments()).environments
        return Page.of("environments", briefs=briefs, definitions=self._manager.environments)

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
        while end < min(total, start + MAX_SEARCHED_TASKS) and len(matching) < TASKS:
            query = m.PageQuery(start=end, stop=end + (TASKS if not words else m.MAX_PAGE))
            page = await self._control.list_tasks(name, split, query)
            matching += [t for t in page.tasks if words in compact_json(t.task_spec).casefold()]
            end, total = min(query.end, page.total), page.total
        end = matching[TASKS - 1].index + 1 if len(matching) >= TASKS else end
        return matching[:TASKS], end, total

    async def _environment_page(self, request: PageRequest, preview: EpisodeRecord | None) -> Answer:
        view = await self._control.get_environment(request.path["name"])
        names = [split.name for split in view.splits]
        split = request.value("split") or (names[0] if names else "")
        start, words = request.number("start") or 0, request.value("words") or ""
        problem: str | None = None
        tasks: list[m.TaskView] = []
        end = total = 0
        try:
            tasks, end, total = await self._find_tasks(view.name, split, start, words.casefold())
        except OrsServerError as error:
            problem = str(error)
        audit = await anyio.to_thread.run_sync(read_audit, self._audits, view.name)
        digests = [task_digest(task.task_spec) for task in tasks]
        of_page = EpisodeFilter(environment=view.name, task_hash=tuple(digests))
        played: Sequence[PlayedTask] = await self._store.by_task(of_page) if digests else ()
        return Page.of(
            "environment",
            env=view,
            split=split,
            tasks=list(zip(tasks, digests, strict=True)),
            played_tasks={task.task_hash: task for task in played},
            problem=problem,
            total=total,
            start=start,
            end=end,
            words=words,
            preview=preview,
            audit=audit,
            per_page=TASKS,
            tools=view.tools.tools,
        )

    async def settings(self, request: PageRequest) -> Answer:
        """Show the settings in force, without the values of secrets and keys."""
        if request.session.caller.role < Role.ADMIN:
            return Page.of("settings_closed", 403)
        note_action(request, "show_settings")
        shown = await self._control.get_settings()
        # Without any source: `Settings()` would read the environment and the file of this server, too.
        defaults = Settings.model_construct().model_dump(mode="json")
        return Page.of(
            "settings",
            shown=shown,
            defaults=defaults,
            docs=attribute_docs(Settings),
            keys=self._keyring.listed(),
        )

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
        return Page.of("stopping")
