"""Classes of other packages, recognised by where their base lives; tests/clients tries the real ones."""
# mypy: disable-error-code="empty-body, name-defined"
# The stand-in package exists only while the tests run.

import sys
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from ors_server.environments.call_context import CallContext
from ors_server.environments.foreign_environments import foreign_base
from ors_server.environments.loading import define
from ors_server.model.errors import EnvironmentDefinitionError, EnvironmentFailedError, ToolOutputError
from ors_server.model.wire import GroupCandidate
from ors_server.timing.workers import LingeringThread

SOURCE = """
from typing import Any
from pydantic import BaseModel

class TextBlock(BaseModel):
    text: str
    detail: dict | None = None
    type: str = "text"

class ToolOutput(BaseModel):
    blocks: list[TextBlock] = []
    metadata: dict | None = None
    reward: float | None = None
    finished: bool = False

class ToolSpec(BaseModel):
    name: str
    description: str
    input_schema: dict | None

class ListToolsOutput(BaseModel):
    tools: list[ToolSpec]

class Split(BaseModel):
    name: str
    type: str

class Message(BaseModel):
    role: str
    blocks: list[TextBlock]

class GroupCandidate(BaseModel):
    messages: list[Any]
    metadata: dict | None = None

class GroupScore(BaseModel):
    reward: float
    metadata: dict | None = None

def tool(function=None, *, shared=True, concurrent=False, exclusive=False):
    def mark(target):
        target._env_tool = True
        target._env_tool_shared = shared
        target._env_tool_concurrent = concurrent
        target._env_tool_exclusive = exclusive
        return target
    return mark if function is None else mark(function)

def terminal(target):
    target._env_tool_terminal = True
    return target

class Environment:
    def __init__(self, task_spec=None, secrets=None):
        self.task_spec = task_spec
        self.secrets = secrets
    async def setup(self): ...
    async def teardown(self): ...
    @classmethod
    def list_splits(cls): raise NotImplementedError
    @classmethod
    def list_tasks(cls, split): raise NotImplementedError
    @classmethod
    def num_tasks(cls, split): return len(cls.list_tasks(split))
    @classmethod
    def get_task(cls, split, index): return cls.list_tasks(split)[index]
    @classmethod
    def get_task_range(cls, split, start=None, stop=None): return cls.list_tasks(split)[start:stop]
    def get_prompt(self): raise NotImplementedError
    def get_messages(self): raise NotImplementedError
    def list_task_tools(self): return ListToolsOutput(tools=[])
    async def score_group(self, candidates): raise NotImplementedError
"""


@pytest.fixture(scope="module")
def theirs():
    """A stand-in for a foreign package, in the module where that package has its base class."""
    module: Any = ModuleType("openreward.environments.stand_in")
    sys.modules[module.__name__] = module
    exec(SOURCE, module.__dict__)  # noqa: S102  (the stand-in's source stands above)
    yield module
    del sys.modules[module.__name__]


class Words(BaseModel):
    text: str


@pytest.fixture
def make(theirs):
    """Makes foreign environment classes."""

    async def echo(self: Any, args: Words) -> theirs.ToolOutput:
        """Echoes."""
        return theirs.ToolOutput(blocks=[theirs.TextBlock(text=args.text)], reward=0.5)

    def list_splits(cls):
        return [theirs.Split(name="train", type="train")]

    def made(name: str = "Foreign", **members: Any) -> Any:
        base = {
            "__doc__": "Comes from elsewhere.",
            "list_splits": classmethod(list_splits),
            "list_tasks": classmethod(lambda cls, split: [{"n": 0}, {"n": 1}]),
            "get_prompt": lambda self: [theirs.TextBlock(text="go")],
            "echo": theirs.tool(echo),
        }
        return type(
            name, (theirs.Environment,), {k: v for k, v in {**base, **members}.items() if v is not None}
        )

    return made


CONTEXT = CallContext("s", "c", 1, {}, [])


async def test_a_foreign_class_is_defined_like_one_of_ours(make, theirs):
    cls = make()
    assert foreign_base(cls) is theirs.Environment
    assert foreign_base(dict) is None
    definition = define(cls)
    assert (definition.name, definition.description) == ("foreign", "Comes from elsewhere.")
    assert [spec.name for spec in definition.listing.tools] == ["echo"]
    assert await definition.tasks.get_task("train", -1) == {"n": 1}
    hooks = definition.hooks
    assert (hooks.setup, hooks.teardown, hooks.task_tools, hooks.score_group) == (None, None, None, None)
    instance = await hooks.make({"n": 1}, {"K": "v"})
    assert (instance.task_spec, instance.secrets) == ({"n": 1}, {"K": "v"})
    assert [block.text for block in await hooks.prompt(instance)] == ["go"]
    assert (await hooks.messages(instance))[0].role == "user"


async def test_a_foreign_tool_runs_and_its_output_becomes_ours(make):
    tool = define(make()).tools["echo"]
    instance = make()()
    output = tool.to_output(await tool.bind(instance)(tool.parse({"text": "hi"}), CONTEXT))
    assert (output.blocks[0].text, output.reward, type(output).__module__) == (
        "hi",
        0.5,
        "ors_server.model.wire",
    )


async def test_foreign_outputs_are_checked(make, theirs):
    tool = define(make()).tools["echo"]
    with pytest.raises(ToolOutputError, match="returned int; expected ToolOutput"):
        tool.to_output(5)
    with pytest.raises(ToolOutputError, match="illegal ToolOutput"):
        tool.to_output(theirs.ToolOutput(reward=float("nan")))


async def test_foreign_marks_are_kept(make, theirs):
    async def bare(self) -> theirs.ToolOutput:
        """Takes nothing."""
        return theirs.ToolOutput()

    async def grade(self, args: Words) -> theirs.ToolOutput:
        """Grades."""
        return theirs.ToolOutput(finished=True)

    def two(self, a: int, b: int) -> theirs.ToolOutput:
        """Is no tool: it takes two parameters."""

    def wrong(self) -> int:
        """Is no tool: it returns something else."""

    async def hidden(self) -> theirs.ToolOutput:
        """Is there in some tasks."""
        return theirs.ToolOutput()

    cls = make(
        bare=theirs.tool(concurrent=True)(bare),
        grade=theirs.terminal(theirs.tool(grade)),
        two=theirs.tool(two),
        wrong=theirs.tool(wrong),
        hidden=theirs.tool(shared=False)(hidden),
        list_task_tools=lambda self: theirs.ListToolsOutput(
            tools=[theirs.ToolSpec(name="hidden", description="d", input_schema=None)]
        ),
    )
    definition = define(cls)
    assert sorted(definition.tools) == ["bare", "echo", "grade", "hidden"]
    assert definition.tools["bare"].concurrent
    assert definition.tools["grade"].exclusive
    assert (definition.listing.terminal_tool.name, definition.listing.terminal_tool.arg) == ("grade", "text")
    assert [spec.name for spec in await definition.hooks.task_tools(cls())] == ["hidden"]
    output = definition.tools["bare"].to_output(await definition.tools["bare"].bind(cls())(None, CONTEXT))
    assert output.blocks == []


async def test_foreign_setup_teardown_and_messages_are_called_where_they_are_written(make, theirs):
    done: list[str] = []

    async def setup(self):
        done.append("setup")

    cls = make(
        setup=setup,
        teardown=lambda self: done.append("teardown"),
        get_prompt=None,
        get_messages=lambda self: [theirs.Message(role="system", blocks=[theirs.TextBlock(text="x")])],
    )
    hooks = define(cls).hooks
    await hooks.setup(cls(), LingeringThread())
    await hooks.teardown(cls(), LingeringThread())
    assert done == ["setup", "teardown"]
    assert [block.text for block in await hooks.prompt(cls())] == ["[system]", "x"]


@pytest.mark.parametrize("wrong", [None, "text", 5, [5], [{"type": "video"}]], ids=repr)
async def test_what_a_foreign_class_gives_wrongly_is_its_authors_fault(make, wrong):
    cls = make(get_prompt=lambda self: wrong, list_task_tools=lambda self: wrong)
    hooks = define(cls).hooks
    with pytest.raises(EnvironmentFailedError):
        await hooks.prompt(cls())
    with pytest.raises(EnvironmentFailedError):
        await hooks.task_tools(cls())


async def test_foreign_group_scores_are_given_foreign_candidates(make, theirs):
    async def score_group(self, candidates):
        assert all(type(candidate) is theirs.GroupCandidate for candidate in candidates)
        return [theirs.GroupScore(reward=1.0), 0.5]

    cls = make(score_group=score_group)
    definition = define(cls)
    candidates = [GroupCandidate(messages=[]), GroupCandidate(messages=[])]
    scores = await definition.hooks.score_group(cls(), candidates)
    assert [score.reward for score in scores] == [1.0, 0.5]
    assert definition.listing.supports_score_group


async def test_a_foreign_constructor_that_raises_is_its_authors_fault(make):
    def fail(self, task_spec=None, secrets=None):
        raise SystemExit(1)

    with pytest.raises(EnvironmentFailedError, match="SystemExit"):
        await define(make(__init__=fail)).hooks.make({}, {})


def test_a_foreign_class_without_tools_is_refused(make):
    with pytest.raises(EnvironmentDefinitionError, match="has no tools"):
        define(make(echo=None))


async def test_foreign_toolsets_are_made_with_the_environment_if_they_take_it(make, theirs):
    async def saw(self) -> theirs.ToolOutput:
        """Saws."""
        return theirs.ToolOutput()

    async def nail(self) -> theirs.ToolOutput:
        """Nails."""
        return theirs.ToolOutput()

    def keep(self, env):
        self.env = env

    with_env = type("WithEnv", (), {"__init__": keep, "saw": theirs.tool(saw)})
    without = type("Without", (), {"nail": theirs.tool(nail)})
    definition = define(make(toolsets=[with_env, without]))
    assert [spec.name for spec in definition.listing.tools] == ["echo", "saw", "nail"]
    made = [toolset.make("the environment") for toolset in definition.toolsets]
    assert made[0].env == "the environment"
