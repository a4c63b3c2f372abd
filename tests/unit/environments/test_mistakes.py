"""What authors get wrong: each mistake is named, with its place, in one plain line, and none is silent."""

import re
from dataclasses import dataclass

import pytest

from ors_server.cli.main import main

IMPORTS = (
    "from ors_server import Environment, EpisodePolicy, ImageBlock, Message, Split, "
    "TextBlock, ToolOutput, terminal, tool\n"
)
GOOD = f'''{IMPORTS}\


class Quiz(Environment):
    """Asks."""

    name = "quiz"
    version = "1"
    policy = EpisodePolicy(reward_range=(0.0, 1.0))

    @classmethod
    def list_splits(cls):
        return ["train"]

    @classmethod
    def list_tasks(cls, split):
        return [{{"id": 0, "answer": "yes"}}]

    def get_prompt(self):
        return "Is it so?"

    @tool
    def answer(self, text: str) -> ToolOutput:
        """Answers."""
        right = text == self.task_spec["answer"]
        return ToolOutput.final("Noted.", reward=float(right))
'''
FINAL = 'return ToolOutput.final("Noted.", reward=float(right))'
TASKS = 'return [{"id": 0, "answer": "yes"}]'
PROMPT = 'return "Is it so?"'
SPLITS = 'return ["train"]'
TYPES = "'train', 'validation' or 'test'"
UNBOUND = "    @classmethod\n    "
POLICY = "policy = EpisodePolicy(reward_range=(0.0, 1.0))"
NAME = '    name = "quiz"\n'


@dataclass(frozen=True)
class Mistake:
    """A slip in the file above: what is replaced by what, and what the author reads (words, a line)."""

    id: str
    old: str
    new: str
    words: tuple[str | int, ...]


def mistake(name: str, old: str, new: str, *words: str | int) -> Mistake:
    return Mistake(name, old, new, words)


def attribute(name: str, line: str, *words: str | int) -> Mistake:
    return Mistake(name, NAME, f"{NAME}    {line}\n", ("Quiz (quiz.py:4)", *words))


def returned(name: str, value: str, *words: str | int) -> Mistake:
    return Mistake(name, FINAL, value, ("quiz.py", *words))


def image(data: str, kind: str = "image/png") -> str:
    return f'return ToolOutput.ongoing(ImageBlock(data={data}, mimeType="{kind}"))'


MISTAKES = (
    returned("bool reward", FINAL.replace("float(right)", "right"), "float(...)", "bool", 26),
    returned("reward as text", FINAL.replace("float(right)", '"1.0"'), "a number", "'1.0'", 26),
    returned("reward is NaN", FINAL.replace("float(right)", 'float("nan")'), "finite", 26),
    returned("reward out of range", FINAL.replace("float(right)", "2.0"), "2.0", "[0.0, 1.0]", "Quiz.answer"),
    returned("no reward at the end", 'return ToolOutput.final("Noted.")', "'reward'", 26),
    returned("tool returns nothing", "pass", "NoneType", "ToolOutput.ongoing"),
    returned("tool returns a number", "return 1.0", "returned float; expected ToolOutput"),
    returned(
        "metadata is not JSON", FINAL.replace("))", "), metadata={'seen': {1}})"), "metadata", "Quiz.answer"
    ),
    returned("blocks as text", 'return ToolOutput(blocks="Noted.")', "blocks=[TextBlock(text=", 26),
    returned("blocks of text", 'return ToolOutput(blocks=["Noted."])', "blocks=[TextBlock(text=", 26),
    returned("unknown field of output", 'return ToolOutput(text="Noted.")', "ToolOutput.text", 26),
    returned("image of bytes", image('b"PNG"'), "b64encode"),
    returned("image as data URL", image('"data:image/png;base64,AA=="'), "base64 alone"),
    returned("image of no type", image('"AA=="', "png"), "image/png"),
    returned("image that is a path", image('"a.png"'), "base64"),
    returned(
        "KeyError",
        'return ToolOutput.final("", reward=self.task_spec["gold"])',
        "KeyError: 'gold' (quiz.py:26)",
    ),
    returned("TypeError inside a library", "import json; json.dumps({1})", "TypeError", 26),
    mistake("tool without a type", "text: str", "text", "'text' has no type", 22),
    mistake("tool without a return type", " -> ToolOutput", "", "no return type", 22),
    mistake("tool without self", "self, text", "text", "first parameter is self", 22),
    mistake("tool that yields", FINAL, FINAL.replace("return", "yield"), "yields", 22),
    mistake("tool's name by position", "@tool\n", '@tool("answer")\n', "@tool(name='answer')", 22),
    mistake("tool above a property", "@tool\n", "@tool\n    @property\n", "decorates a method", 22),
    mistake("tool's name with a space", "@tool\n", '@tool(name="my answer")\n', "my answer", 22),
    mistake("terminal without tool", "@tool\n", "@terminal\n", "add @tool", 22),
    mistake("no tool at all", "    @tool\n", "", "has no tools", 4),
    mistake("parameter of an unknown class", ": str)", ": Quizzer)", "Quizzer", 23),
    mistake("split type misspelt", SPLITS, 'return [Split(name="train", type="trian")]', TYPES, 13),
    mistake("split type misspelt in JSON", SPLITS, 'return [{"name": "a", "type": "trian"}]', TYPES, 11),
    mistake("one split as text", SPLITS, 'return "train"', "a list of splits, got str", 11),
    mistake(
        "splits without classmethod", UNBOUND + "def list_splits", "    def list_splits", "@classmethod", 11
    ),
    mistake(
        "tasks without classmethod", UNBOUND + "def list_tasks", "    def list_tasks", "@classmethod", 15
    ),
    mistake("splits are async", "def list_splits", "async def list_splits", "must not be async", 11),
    mistake("no splits", "def list_splits", "def my_splits", "must define list_splits", 4),
    mistake("tasks without split", "list_tasks(cls, split)", "list_tasks(cls)", "must take (cls, split)", 15),
    mistake("tasks of text", TASKS, 'return ["yes"]', 4, "a task must be a JSON object, got str"),
    mistake(
        "tasks that are yielded",
        TASKS,
        'yield {"id": 0, "answer": "yes"}',
        4,
        "list of JSON objects, got generator",
    ),
    mistake("no tasks", "def list_tasks", "def mine", 4, "must define list_tasks, or num_tasks and get_task"),
    mistake("task without split", TASKS, "return [{}][split]", "TypeError", 17),
    mistake("no prompt", "def get_prompt", "def my_own", "must define get_prompt or get_messages", 4),
    mistake("prompt misspelt", "def get_prompt", "def get_promt", "get_promt", "'get_prompt' misspelt", 4),
    mistake("prompt with a parameter", "get_prompt(self)", "get_prompt(self, task)", "must take (self)", 19),
    mistake(
        "setup raises",
        "    @tool\n",
        "    def setup(self):\n        open('/no/such')\n\n    @tool\n",
        "FileNotFoundError",
        23,
    ),
    mistake(
        "constructor without a task",
        "    @tool\n",
        "    def __init__(self):\n        pass\n\n    @tool\n",
        "must take (self, task_spec, secrets)",
        22,
    ),
    mistake(
        "import fails",
        "from ors_server",
        "import no_such_module\nfrom ors_server",
        "No module named 'no_such_module'",
        1,
    ),
    mistake("import raises", "\n\nclass Quiz", "\n1 / 0\n\nclass Quiz", "ZeroDivisionError", 3),
    mistake("syntax error", "def get_prompt(self):", "def get_prompt(self)", "SyntaxError", 19),
    mistake("import with dots", "from ors_server", "from .words import X\nfrom ors_server", "__init__.py", 1),
    mistake("unknown policy", "EpisodePolicy(", "EpisodePolicy(step_limits=3, ", "step_limits", 9),
    mistake("policy out of bounds", "EpisodePolicy(", "EpisodePolicy(step_limit=0, ", "step_limit", 9),
    mistake("version is a number", '"1"', "1", 4, "version must be text", "1 (int)"),
    mistake("name is a number", '"quiz"', "5", 4, "name must be text", "5 (int)"),
    mistake("name with a space", '"quiz"', '"Quiz game"', "Quiz game", "must match", 4),
    mistake("policy is a dict", POLICY, "policy = {}", "policy must be an EpisodePolicy", "{} (dict)", 4),
    mistake("policy misspelt", "policy =", "polcy =", "'polcy' looks like 'policy' misspelt", 4),
    attribute("toolsets as text", 'toolsets = "bash"', "toolsets must be a list"),
    attribute("milestones of numbers", "milestones = (1,)", "milestones must be a list of Milestone"),
    attribute("visibility misspelt", 'visibility = "hiden"', "'hidden'", "'hiden'"),
    attribute("return range backwards", "return_range = (1, 0)", "return_range must be (low, high)"),
    mistake("unknown toolset", NAME, f'{NAME}    toolsets = ["bsh"]\n', 4, "unknown toolset 'bsh'", "bash"),
    mistake("reward is a number", NAME, f"{NAME}    reward = 5\n", "reward"),
    mistake(
        "message with content",
        "    def get_prompt(self):\n        " + PROMPT,
        '    def get_messages(self):\n        return [Message(role="user", content="Is it so?")]',
        "blocks=[TextBlock(text=",
        20,
    ),
    mistake("prompt is nothing", PROMPT, "pass", "get_prompt must return text", "got NoneType"),
    mistake("text block by position", PROMPT, 'return [TextBlock("Is it so?")]', "TypeError", 20),
)


def read(folder, monkeypatch, capsys, source):
    """The status and what a person reads who plays a file."""
    (folder / "quiz.py").write_text(source)
    monkeypatch.chdir(folder)
    listed = main(["list", "quiz.py"])
    shown = capsys.readouterr()
    if listed:
        return listed, shown.out + shown.err
    called = main(["call", "quiz.py", "answer", '{"text": "yes"}'])
    played = capsys.readouterr()
    if called:
        return called, played.out + played.err
    checked = main(["check", "quiz.py", "--only", "prompt-is-there", "--quiet"])
    shown = capsys.readouterr()
    return checked, shown.out + shown.err


def test_the_file_without_a_mistake_is_fine(tmp_path, monkeypatch, capsys):
    assert read(tmp_path, monkeypatch, capsys, GOOD)[0] == 0


@pytest.mark.parametrize("made", MISTAKES, ids=lambda made: made.id)
def test_a_mistake_is_named_with_its_place_in_one_plain_line(made, tmp_path, monkeypatch, capsys):
    assert made.old in GOOD
    status, text = read(tmp_path, monkeypatch, capsys, GOOD.replace(made.old, made.new, 1))
    assert status != 0, f"silent: {text}"
    words = [f"quiz.py:{each}" if isinstance(each, int) else each for each in made.words]
    missing = [each for each in words if each not in text]
    assert not missing, text
    assert not re.search(r"errors\.pydantic\.dev|Traceback|input_value|\[type=|this is a defect", text)
    assert max(map(len, text.splitlines())) < 500


def test_the_table_is_long_enough_and_names_each_mistake_once():
    names = [made.id for made in MISTAKES]
    assert len(set(names)) == len(names) >= 34
