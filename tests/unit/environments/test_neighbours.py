"""Files of environments import what stands beside them, and classes that a factory made are served."""

import sys

import pytest

from ors_server.environments.loading import find_classes, load_environments
from ors_server.model.errors import EnvironmentDefinitionError

QUIZ = """
from ors_server import Environment, tool

class {name}(Environment):
    @classmethod
    def list_splits(cls):
        return ["train"]

    def get_prompt(self):
        return WORD

    @tool
    def answer(self) -> str:
        '''Answers.'''
        return WORD
"""


@pytest.fixture(autouse=True)
def imports_are_forgotten(monkeypatch):
    """Each test has modules and a search path of its own."""
    before, path = set(sys.modules), list(sys.path)
    monkeypatch.setattr("ors_server.files.importing._folders", [])
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def write(tmp_path):
    """Writes files under a folder of the test's own and returns their paths."""

    def write(**files):
        paths = []
        for name, text in files.items():
            path = tmp_path / f"{name.replace('__in__', '/').replace('dunder', '__init__')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            paths.append(path)
        return paths

    return write


def names_of(*paths):
    return [definition.name for definition in load_environments([str(path) for path in paths])]


@pytest.mark.parametrize(
    "line", ["from words_beside import WORD", "import words_beside; WORD = words_beside.WORD"]
)
def test_a_file_imports_its_neighbours(write, line):
    quiz, _ = write(a__in__quiz=line + QUIZ.format(name="Quiz"), a__in__words_beside="WORD = 'a'")
    assert names_of(quiz) == ["quiz"]
    assert find_classes(str(quiz))[0]({}).get_prompt() == "a"


def test_a_neighbour_may_be_imported_when_a_tool_runs(write):
    code = QUIZ.format(name="Quiz").replace("return WORD", "from words_later import WORD; return WORD")
    quiz, _ = write(a__in__quiz=code, a__in__words_later="WORD = 'later'")
    (cls,) = find_classes(str(quiz))
    assert cls({}).get_prompt() == "later"


@pytest.mark.parametrize("line", ["from .words import WORD", "from my_own_package.words import WORD"])
def test_a_package_and_a_file_inside_it_import_their_package(write, line):
    code = line + QUIZ.format(name="Quiz")
    package, quiz, _ = write(
        my_own_package__in__dunder=code.replace("Quiz", "Whole"),
        my_own_package__in__quiz=code,
        my_own_package__in__words="WORD = 'a'",
    )
    assert names_of(package.parent, quiz) == ["whole", "quiz"]
    assert find_classes(str(quiz))[0].__module__ == "my_own_package.quiz"


def test_two_files_whose_neighbours_share_a_name_are_not_mixed_up(write):
    line = "from words_of_both import WORD"
    one, _, other, _ = write(
        a__in__quiz=line + QUIZ.format(name="One"),
        a__in__words_of_both="WORD = 'a'",
        b__in__quiz=line + QUIZ.format(name="Other"),
        b__in__words_of_both="WORD = 'b'",
    )
    assert find_classes(str(one))[0]({}).get_prompt() == "a"
    for _ in range(2):
        with pytest.raises(EnvironmentDefinitionError, match=r"words_of_both.*rename one of them"):
            find_classes(str(other))
    assert sys.modules["words_of_both"].WORD == "a"


def test_two_packages_of_one_name_in_two_folders_are_both_served(write):
    line = "from .words import WORD"
    paths = write(
        a__in__pack_twice__in__dunder=line + QUIZ.format(name="One"),
        a__in__pack_twice__in__words="WORD = 'a'",
        b__in__pack_twice__in__dunder=line + QUIZ.format(name="Other"),
        b__in__pack_twice__in__words="WORD = 'b'",
    )
    folders = [paths[0].parent, paths[2].parent]
    prompts = [find_classes(str(folder))[0]({}).get_prompt() for folder in folders]
    assert prompts == ["a", "b"]


def test_a_neighbour_does_not_take_the_place_of_the_standard_library(write):
    quiz, _ = write(
        a__in__quiz="import sched\nWORD = sched.__name__ + str(hasattr(sched, 'scheduler'))"
        + QUIZ.format(name="Quiz"),
        a__in__sched="",
    )
    assert find_classes(str(quiz))[0]({}).get_prompt() == "schedTrue"


def test_classes_that_a_factory_made_are_served_and_imported_ones_are_not(write):
    factory = (
        "WORD = 'made'\n"
        + QUIZ.format(name="Given")
        + "\ndef make(number):\n"
        + "    return type(f'Made{number}', (Given,), {'__doc__': 'Is made.'})\n"
    )
    quiz, _ = write(
        a__in__quiz="from factory_beside import Given, make\nOne, Two = make(1), make(2)",
        a__in__factory_beside=factory,
    )
    assert names_of(quiz) == ["made1", "made2"]
    assert [cls.__name__ for cls in find_classes(f"{quiz}:Two")] == ["Made2"]


@pytest.mark.parametrize(
    "base",
    [
        "class Base(Environment):\n    @classmethod\n    def list_splits(cls): return ['train']\n",
        "import abc\nclass Base(Environment, abc.ABC):\n    @abc.abstractmethod\n    def setup(self): ...\n",
        "class Base(Environment): pass\n",
    ],
    ids=["without tools", "abstract", "empty"],
)
def test_a_base_class_of_the_same_file_is_not_served(write, base):
    code = QUIZ.format(name="Quiz").replace("(Environment)", "(Base)") + "    def setup(self): pass\n"
    code = (
        "WORD = 'x'\nfrom ors_server import Environment\n"
        + base
        + code.replace("import Environment, tool", "import tool")
    )
    (quiz,) = write(a__in__quiz=code)
    assert names_of(quiz) == ["quiz"]
    with pytest.raises(EnvironmentDefinitionError, match=r"Base \(.*quiz\.py:\d+\)"):
        names_of(f"{quiz}:Base")


def test_a_class_without_tools_from_which_none_derives_is_a_mistake(write):
    (quiz,) = write(a__in__quiz=QUIZ.format(name="Quiz").replace("@tool", ""))
    with pytest.raises(EnvironmentDefinitionError, match="has no tools"):
        names_of(quiz)
