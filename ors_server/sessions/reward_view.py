"""An episode as its own rewards see it, read from the recorder and the store."""

from ors_server.environments.call_context import running_call
from ors_server.environments.definition import Blocks, EnvironmentDefinition, Instance
from ors_server.environments.environment import Environment
from ors_server.environments.episode_rewards import give_episode, grade_ending, take_episode
from ors_server.model.logs import get_logger
from ors_server.model.policy import EpisodePolicy
from ors_server.model.wire import TextBlock, ToolOutput
from ors_server.resources.resource_context import Context
from ors_server.rewards.define import Reward
from ors_server.rewards.group import is_group_reward
from ors_server.rewards.recorded_trajectory import trajectory_of
from ors_server.rewards.result_output import graded_output
from ors_server.rewards.reward_trajectory import Trajectory
from ors_server.sessions.episode_recorder import EpisodeRecorder

log = get_logger("ors_server.session")


class RewardView:
    """The view that a session hands its instance; a foreign one, which asks no rewards, gets none."""

    __slots__ = ("_context", "_definition", "_instance", "_prompt", "_recorder")

    def __init__(
        self, recorder: EpisodeRecorder, definition: EnvironmentDefinition, instance: Instance
    ) -> None:
        self._recorder = recorder
        self._definition = definition
        self._instance = instance
        self._context: Context | None = None
        self._prompt: str | None = None
        if isinstance(instance, Environment):
            give_episode(instance, self)

    def __deepcopy__(self, memo: object) -> "RewardView":
        return self  # a copy that an author makes of the instance plays the same episode

    @property
    def reward(self) -> Reward | None:
        """The reward that the class names."""
        return self._definition.reward

    @property
    def judges_episodes(self) -> bool:
        """Whether the class names a reward of single episodes, not of groups."""
        return self.reward is not None and not is_group_reward(self.reward)

    @property
    def policy(self) -> EpisodePolicy:
        """The rules of the episode."""
        return self._recorder.policy

    @property
    def context(self) -> Context:
        """The resources that the episode's tools and rewards share; each is started when it is first used."""
        if self._context is None:
            origin = self._recorder.origin
            self._context = Context(
                origin.session_id, metadata=origin.task_spec, pool=self._recorder.services.resources
            )
        return self._context

    @property
    def seed(self) -> int:
        """What the episode's chances are drawn from."""
        return self._recorder.origin.seed

    @property
    def step(self) -> int | None:
        """The number of the running call; `None` outside of calls."""
        call = running_call.get()
        is_own = call is not None and call.session_id == self._recorder.origin.session_id
        return call.step if call is not None and is_own else None

    async def trajectory(self, final_response: str) -> Trajectory:
        """Return the steps that were answered so far, with the prompt."""
        prompt = await self.prompt_text()
        origin = self._recorder.origin
        return trajectory_of(
            origin,
            await self._recorder.services.store.steps(origin.episode_id),
            self._recorder.summary(),
            prompt=prompt,
            final_response=final_response,
            metadata=self._instance.task_spec,
        )

    async def grade(self, output: ToolOutput, final_response: str) -> ToolOutput:
        """Grade an output that ends the episode and has no result yet.

        Returns:
            The same output, unless the class names a reward that can judge it.
        """
        result = await grade_ending(self._instance, final_response, {"output": output})
        if result is None:
            return output
        return graded_output(result, *output.blocks, finished=True, metadata=output.metadata)

    async def aclose(self) -> None:
        """Give the resources back and take the view from the instance; for after the teardown."""
        if isinstance(self._instance, Environment):
            take_episode(self._instance)
        if self._context is None:
            return
        try:
            await self._context.aclose()
        except Exception as error:
            log.warning("resources_not_closed", session_id=self._recorder.origin.session_id, exc_info=error)

    def record_prompt(self, blocks: Blocks) -> None:
        """Record the prompt; only the first one is kept."""
        if self._prompt is None:
            self._prompt = "\n\n".join(block.text for block in blocks if isinstance(block, TextBlock))
            self._recorder.services.store.record_prompt(self._recorder.origin.episode_id, blocks)

    async def prompt_text(self) -> str:
        """Return the texts of the prompt, without its images; it is made if no agent has read it yet."""
        if self._prompt is None:
            self.record_prompt(await self._definition.hooks.prompt(self._instance))
        return self._prompt or ""
