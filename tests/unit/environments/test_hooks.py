"""What the server calls on environment objects: prompts, conversations, group scores, setup, teardown."""

import pytest

from ors_server import Environment, GroupScore, ImageBlock, Message, TextBlock, tool
from ors_server.environments.loading import define
from ors_server.model.errors import EnvironmentFailedError
from ors_server.model.wire import GroupCandidate
from ors_server.timing.workers import LingeringThread
from tests.fixtures.single_task import SingleTask


class Good(SingleTask):
    """Describes itself."""

    @tool
    async def good(self) -> str:
        """Is good."""
        return "good"


def make(**members):
    return type("Made", (Good,), members)


async def test_conversation_and_prompt_are_made_from_each_other():
    said = [
        Message(role="system", blocks=[TextBlock(text="be good")]),
        Message(role="user", blocks=[TextBlock(text="hi")]),
    ]
    talking = make(get_prompt=Environment.get_prompt, get_messages=lambda self: said)
    hooks = define(talking).hooks
    flat = await hooks.prompt(talking({}))
    assert [block.text for block in flat] == ["[system]", "be good", "[user]", "hi"]
    assert await hooks.messages(talking({})) == said
    prompting = make(get_prompt=lambda self: ["see", ImageBlock(data="", mimeType="image/png")])
    (message,) = await define(prompting).hooks.messages(prompting({}))
    assert [block.type for block in message.blocks] == ["text", "image"]


@pytest.mark.parametrize("wrong", [None, "text", [TextBlock(text="x")], 5], ids=repr)
async def test_messages_of_another_form_are_the_authors_fault(wrong):
    cls = make(get_messages=lambda self: wrong)
    with pytest.raises(EnvironmentFailedError, match="must return Message objects"):
        await define(cls).hooks.messages(cls({}))


CANDIDATES = [GroupCandidate(messages=[]), GroupCandidate(messages=[])]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1.0], "1 scores for 2"),
        ([1.0, float("nan")], "finite"),
        ([1.0, "x"], "finite scores"),
        (None, "finite scores"),
        ([1.0, GroupScore(reward=1.0, metadata={"x": float("inf")})], "finite scores"),
        ([1.0, GroupScore(reward=1.0, metadata={"x": len})], "finite scores"),
    ],
    ids=str,
)
async def test_group_scores_of_another_form_are_the_authors_fault(given, words):
    cls = make(score_group=lambda self, candidates: given)
    with pytest.raises(EnvironmentFailedError, match=words):
        await define(cls).hooks.score_group(cls({}), CANDIDATES)


async def test_group_scores_may_be_numbers_or_scores():
    cls = make(score_group=lambda self, candidates: [1, GroupScore(reward=0.5, metadata={"why": 1})])
    scores = await define(cls).hooks.score_group(cls({}), CANDIDATES)
    assert [score.reward for score in scores] == [1.0, 0.5]
    assert define(cls).listing.supports_score_group


async def test_setup_and_teardown_are_called_only_where_they_are_written():
    assert define(Good).hooks.setup is None
    assert define(Good).hooks.teardown is None
    done = []
    cls = make(setup=lambda self: done.append("setup"), teardown=lambda self: done.append("teardown"))
    hooks = define(cls).hooks
    instance = await hooks.make({}, {"K": "v"})
    await hooks.setup(instance, LingeringThread())
    await hooks.teardown(instance, LingeringThread())
    assert done == ["setup", "teardown"]
    assert instance.secrets == {"K": "v"}
