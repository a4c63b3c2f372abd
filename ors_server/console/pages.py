"""The table of pages, and the pages about many episodes and the server."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import anyio.to_thread

from ors_server.alarms.watched_runs import AlarmBook
from ors_server.console.episode_pages import EpisodePages
from ors_server.console.page_types import Answer, Page, PageGroup, PageRequest, Redirect, Route
from ors_server.console.play_pages import PlayPages
from ors_server.console.server_pages import ServerPages
from ors_server.console.views import comparison, formats, runs
from ors_server.console.views.episode_list import COLUMNS, EPISODES_PER_PAGE, ListQuery, read_list_query
from ors_server.model.errors import EpisodeNotFoundError
from ors_server.model.trajectory import EpisodeRecord
from ors_server.store.episode_filter import EpisodeFilter
from ors_server.store.lookup import find_episode

RECORDS_AT_ONCE = 500
"""Episodes that are read at once for figures over many."""


@dataclass(eq=False)
class Pages(PageGroup):
    """Answers requests about many episodes, and knows all the others."""

    _alarms: AlarmBook
    episodes: EpisodePages
    server: ServerPages
    play: PlayPages

    def routes(self) -> tuple[Route, ...]:
        """Return every page but the sign-in; of two that fit a path, the first one counts."""
        episodes, server, play = self.episodes, self.server, self.play
        return (
            Route("GET", "", server.overview),
            Route("GET", "environments", server.list_environments),
            Route("GET", "environments/{name}", server.show_environment),
            Route("POST", "environments/{name}/prompt", server.preview_prompt),
            Route("GET", "settings", server.settings),
            Route("POST", "settings/secret", server.renew_token_secret),
            Route("POST", "settings/shutdown", server.shut_down),
            Route("POST", "play", play.start),
            Route("GET", "play/{episode}", play.show),
            Route("POST", "play/{episode}/call", play.call),
            Route("POST", "play/{episode}/undo", play.undo),
            Route("GET", "compare", self.compare),
            Route("GET", "episodes", self.list_episodes),
            Route("GET", "runs", self.list_runs),
            Route("GET", "episodes/{episode}", episodes.show),
            Route("GET", "episodes/{episode}/events", episodes.follow),
            Route("POST", "episodes/{episode}/end", episodes.end),
            Route("POST", "episodes/{episode}/note", episodes.add_note),
            Route("POST", "episodes/{episode}/replay", episodes.replay),
            Route("POST", "episodes/{episode}/fork", episodes.fork),
            Route("GET", "episodes/{episode}/regrade", episodes.show_regrade),
            Route("POST", "episodes/{episode}/regrade", episodes.regrade),
            Route("GET", "episodes/{episode}/export", episodes.export),
            Route("GET", "episodes/{episode}/prompt/{index}", episodes.prompt_block),
            Route("GET", "episodes/{episode}/steps/{number}", episodes.show_raw),
            Route("GET", "episodes/{episode}/steps/{number}/blocks/{index}", episodes.block),
            Route("GET", "episodes/{episode}/steps/{number}/call", episodes.call_file),
        )

    async def list_episodes(self, request: PageRequest) -> Answer:
        """List episodes, newest first; a condition that was typed becomes a part of the address."""
        typed = (request.value("add") or "").strip()
        parts = [part for part in request.query_string.split("&") if part.partition("=")[0] != "add"]
        query = read_list_query("&".join(parts))
        if typed:
            return await self._add_condition(typed, query, request)
        store, selected = self._store, query.episode_filter
        before = None if query.after else query.before
        records = await store.page(
            selected, after=query.after, before=before, limit=EPISODES_PER_PAGE + 1, order=query.order
        )
        has_more = len(records) > EPISODES_PER_PAGE
        # Backwards, the episode that is too many is the first one.
        shown = records[-EPISODES_PER_PAGE:] if before else records[:EPISODES_PER_PAGE]
        totals = await store.totals(selected)
        histogram = await store.histogram(selected)
        is_first = query.after is None and (before is None or not has_more)
        is_last = not has_more and before is None
        ids = [record.origin.episode_id for record in shown]
        return Page.of(
            "episodes",
            q=query,
            rows=shown,
            totals=totals,
            histogram=histogram,
            columns=query.columns or COLUMNS,
            all_columns=COLUMNS,
            newer=None if is_first or not ids else query.link(before=ids[0]),
            older=None if is_last or not ids else query.link(after=ids[-1]),
        )

    async def list_runs(self, request: PageRequest) -> Answer:
        """List the runs, and compare those that are chosen."""
        values = [value for key, value in request.pairs if key == "compare"]
        figures = await self._store.runs()
        steps = {run.run: run.steps for run in figures}
        # A comma divides names, unless it is a part of one.
        chosen = [name for value in values for name in ([value] if value in steps else value.split(","))]
        names = [name for name in dict.fromkeys(chosen) if name in steps][: runs.MAX_COMPARED]
        groups = {
            name: runs.ChosenRun(
                await self._newest(EpisodeFilter(labels={runs.RUN: name})),
                await self._alarms.for_charts(name, steps[name]),
            )
            for name in names
        }
        view = await anyio.to_thread.run_sync(
            partial(
                runs.view_runs,
                figures,
                groups,
                shows_all=request.value("all") is not None,
                axis=request.value("x") or "",
                alarms=self._alarms.open,
            )
        )
        return Page.of("runs", **view)

    async def _newest(self, selected: EpisodeFilter) -> Sequence[EpisodeRecord]:
        """Return the newest episodes that match, oldest first."""
        records: list[EpisodeRecord] = []
        after: str | None = None
        while len(records) < runs.MAX_EPISODES:
            page = await self._store.page(selected, after=after, limit=RECORDS_AT_ONCE)
            records += page
            if len(page) < RECORDS_AT_ONCE:
                break
            after = page[-1].origin.episode_id
        return records[::-1]

    async def compare(self, request: PageRequest) -> Answer:
        """Compare two episodes call by call; without a second one, offer those of the same task."""
        left = await find_episode(self._store, request.value("a") or "")
        name = request.value("b")
        right = None if name is None else await find_episode(self._store, name)
        same_task = EpisodeFilter(environment=left.origin.environment, task_hash=left.origin.task_hash)
        others: Sequence[EpisodeRecord] = (
            [] if right else await self._store.page(same_task, limit=EPISODES_PER_PAGE)
        )
        pair = [] if right is None else [left, right]
        steps = [
            await self._store.steps(record.origin.episode_id, 0, comparison.MAX_STEPS) for record in pair
        ]
        return Page.of(
            "compare",
            left=left,
            right=right,
            others=[record for record in others if record != left],
            steps=steps,
            is_cut=any(record.summary.steps > comparison.MAX_STEPS for record in pair),
            max_steps=comparison.MAX_STEPS,
        )

    async def _add_condition(self, typed: str, query: ListQuery, request: PageRequest) -> Answer:
        """Lead to the episode that was typed, else to the list with one more condition."""
        name, separator, value = typed.partition("=")
        if not separator:
            try:
                record = await find_episode(self._store, typed)
            except EpisodeNotFoundError:
                name, value = "environment", typed
            else:
                return Redirect(f"{request.root}/episodes/{record.origin.episode_id}")
        pair = (name.strip(), value.strip())
        if read_list_query(f"{formats.query([pair])[1:]}").mistakes:
            pair = ("label", typed)
        return Redirect(f"{request.root}/episodes{query.with_pair(*pair)}")
