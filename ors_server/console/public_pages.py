"""The pages of a public server: a visitor chooses a task and plays it, and reads nothing else.

The address of an episode has its agent token, which is all that lets a visitor play it: no cookie, no
sign-in. A page shows what an agent may read: no task, no metadata, no reason of a failure of the
environment's code, and rewards only where the session's visibility shows them to every agent.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from ors_server.console.episode_pages import answer_with_block
from ors_server.console.page_types import Answer, Page, PageRequest, Redirect, Route
from ors_server.console.play_pages import PLAYER, PlayingByHand, read_task
from ors_server.console.views import forms
from ors_server.doors.access import FAILED, Caller, Keyring, Role, may_see_rewards, withhold
from ors_server.doors.control.operations import ControlRequest
from ors_server.doors.http.request_errors import UnknownPathError
from ors_server.doors.mcp.session_access import AttemptLimits
from ors_server.model.errors import AuthorError, ForbiddenError, OrsServerError
from ors_server.model.trajectory import EpisodeRecord, Step, StepStatus
from ors_server.model.visibility import Visibility
from ors_server.sessions.session_request import SessionRequest
from ors_server.store.lookup import find_episode


@dataclass(eq=False)
class PublicPages(PlayingByHand):
    """Answers requests of visitors."""

    _keyring: Keyring
    _attempts: AttemptLimits

    def routes(self) -> tuple[Route, ...]:
        """Return every page; of two that fit a path, the first one counts."""
        return (
            Route("GET", "", self.lead_to_play),
            Route("GET", "play", self.choose),
            Route("POST", "play", self.start),
            Route("GET", "play/{token}", self.show),
            Route("POST", "play/{token}/call", self.call),
            Route("GET", "play/{token}/prompt/{index}", self.prompt_block),
            Route("GET", "play/{token}/steps/{number}/blocks/{index}", self.block),
        )

    async def lead_to_play(self, request: PageRequest) -> Answer:
        """Lead to the only page that begins something."""
        return Redirect(f"{request.root}/play")

    async def choose(self, request: PageRequest) -> Answer:
        """Show the environments, with a form to start a task of each."""
        environments = [*self._manager.environments.values()]
        counts: dict[tuple[str, str], int] = {}
        for definition in environments:
            for split in definition.splits:
                with suppress(AuthorError):  # its splits are shown without a number
                    counts[definition.name, split.name] = await definition.tasks.num_tasks(split.name)
        agent_address = f"{request.base_url}/mcp"
        return Page.of("public_choice", environments=environments, counts=counts, agent_address=agent_address)

    async def start(self, request: PageRequest) -> Answer:
        """Start an episode of the task that was chosen, within the limits of the visitor's address."""
        split, index = read_task(request.form)
        visitor = request.session.caller
        wanted = SessionRequest(
            environment=request.form.get("environment"),
            split=split,
            index=index,
            labels=PLAYER,
            credential_id=visitor.credential_id,
        )
        try:
            session_id = await self._attempts.start(visitor, wanted, self._create)
        except OrsServerError as error:
            raise withhold(error) from error
        token = self._keyring.mint(session_id, self._manager.episode_of(session_id) or "")
        return Redirect(f"{request.root}/play/{token}")

    async def _create(self, request: SessionRequest) -> str:
        return (await self._manager.create(request)).origin.session_id

    async def show(self, request: PageRequest) -> Answer:
        """Show an episode: its prompt, its steps, and a form for each tool while it can be played."""
        return await self._page(request, await self._player(request), None, {})

    async def call(self, request: PageRequest) -> Answer:
        """Call a tool with what a form says; a form that is wrong comes back with its mistakes."""
        player = await self._player(request)
        session_id = player.session_id or ""
        try:
            body, errors = await self._read_call(session_id, request.form)
            if errors:
                return await self._page(request, player, body.name, errors)
            control = ControlRequest(player, request.base_url, "", b"")
            step = await self._make_call(control, session_id, body)
        except OrsServerError as error:
            raise withhold(error) from error
        return Redirect(f"{request.root}/play/{request.path['token']}#s{step}")

    async def prompt_block(self, request: PageRequest) -> Answer:
        """Return one block of the prompt: an image to be shown, anything else to be saved."""
        record = await self._record(await self._player(request))
        return answer_with_block(record.prompt or (), request, "prompt")

    async def block(self, request: PageRequest) -> Answer:
        """Return one block of a step, as `prompt_block` does."""
        record = await self._record(await self._player(request))
        step = await self._find_step(record, request)
        (step,) = as_read_by_agents([step], shows_rewards=False)
        return answer_with_block(step.blocks, request, f"step{step.number}")

    async def _player(self, request: PageRequest) -> Caller:
        """Return the agent whose token an address has; `ForbiddenError` for another episode's."""
        token = request.path["token"]
        player = self._keyring.identify_agent(token)
        if player.role is not Role.AGENT or player.session_id is None:
            raise ForbiddenError("this page is for an agent's token")
        player.require_session(player.session_id, self._manager.episode_of(player.session_id))
        return player

    async def _record(self, player: Caller) -> EpisodeRecord:
        return await find_episode(self._store, _episode_of(player))

    async def _page(
        self, request: PageRequest, player: Caller, wrong: str | None, errors: Mapping[str, str]
    ) -> Answer:
        try:
            played = await self._read(player.session_id or "", _episode_of(player))
        except OrsServerError as error:
            raise withhold(error) from error
        record = played.record
        shows_rewards = may_see_rewards(player, Visibility(record.origin.visibility))
        is_over = record.summary.stop_reason is not None

        return Page.of(
            "public_play",
            422 if errors else 200,
            record=record,
            steps=as_read_by_agents(played.steps, shows_rewards=shows_rewards),
            episode_return=record.summary.episode_return if shows_rewards and is_over else None,
            is_over=is_over,
            can_play=played.can_play,
            forms=forms.make_forms(played.tools, wrong, request.form, errors),
            here=f"{request.root}/play/{request.path['token']}",
            agent_address=f"{request.base_url}/agent/{request.path['token']}/mcp",
        )


def _episode_of(player: Caller) -> str:
    if not player.episode_id:  # the session had ended when its token was made
        raise UnknownPathError("there is no such episode; start another one")
    return player.episode_id


def as_read_by_agents(steps: Sequence[Step], *, shows_rewards: bool) -> list[Step]:
    """Return steps as an agent of a public server may read them, for a view."""
    shown: list[Step] = []
    for step in steps:
        agents = replace(step, metadata=None, components={}, reward=step.reward if shows_rewards else None)
        if step.status is StepStatus.FAILED:
            # The message of the author's code may be the answer; so may blocks of a failed call.
            agents = replace(agents, error=f"{FAILED}.", error_code=None, blocks=())
        shown.append(agents)
    return shown
