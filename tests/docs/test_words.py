"""The lint of words finds what the glossary retires, in names and in sentences, and nothing else."""

from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from tests.script_modules import load_script

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def lint():
    return load_script("check_words")


@pytest.fixture
def words(lint):
    return lint.Words(
        names={"scribe": "writer", "go back in chance": "restore_rng"},
        class_names={"Order": "Request"},
        prose={"told": "received", "by chance": "at random", "stands": "is"},
        fine=("stands for",),
    )


@pytest.fixture
def found(lint, words):
    def find(text: str, path: str = "ors_server/room.py") -> list[tuple[int, str]]:
        return sorted((hit.line, hit.word) for hit in lint.find(path, dedent(text), words))

    return find


@pytest.mark.parametrize(
    "text",
    [
        *("class Scribe: pass", "class BusyScribe: pass", "class HTTPScribe2: pass"),
        *("def make_scribe(): pass", "async def scribe(): pass", "def make(scribe): pass"),
        *("def make(*, old_scribe=None): pass", "make = lambda scribe: 1"),
    ],
)
def test_a_retired_word_is_found_in_every_kind_of_name(found, text):
    assert found(text) == [(1, "scribe")]


def test_a_retired_word_is_found_in_the_name_of_a_file(found):
    assert found("", "ors_server/store/scribe.py") == [(1, "scribe")]
    assert found("", "ors_server/store/scribes.py") == []


def test_several_words_are_found_only_side_by_side(found):
    assert found("def go_back_in_chance(): pass") == [(1, "go back in chance")]
    assert found("def go_back(chance): pass") == []


def test_a_class_name_is_judged_by_its_last_word(found):
    assert found("class SessionOrder: pass") == [(1, "Order")]
    assert found("class OrderBook: pass\nclass Border: pass\ndef order(): pass") == []


@pytest.mark.parametrize("name", ["describe", "scribes", "subscriber", "inscribed", "transcribe_all"])
def test_a_part_of_a_longer_word_is_no_finding(found, name):
    assert found(f"class {name.title()}: pass\ndef {name}({name}): pass") == []


def test_sentences_of_a_module_are_docstrings_comments_messages_and_help(found):
    text = '''
    """Was told."""
    limit = 3  # it was Told
    """It stands here."""

    class Thing:
        """A line.

        Another line, told late.
        """

        def act(self):
            if limit:
                raise ValueError(f"nothing {limit} was told")
            return Option("told", help="what is told")
    '''
    assert found(text) == [(2, "told"), (3, "told"), (4, "stands"), (9, "told"), (14, "told"), (15, "told")]


def test_code_beside_sentences_is_not_read_as_one(found):
    assert found("told = {'told': 1}\nprint('told', told.told)\nstands('told')") == []


@pytest.mark.parametrize(
    "sentence",
    [
        "An untold or retold story, told-off or foretold.",
        *("The field `told` and ``told`` and `a told b`.", 'The answer has "told" and "was told so".'),
        *("Zero stands for its start.", "Zero stands\nfor its start.", "See [the page](told.md)."),
        *("<!-- told -->", "by mere chance"),
    ],
)
def test_near_misses_in_sentences_are_no_findings(found, sentence):
    assert found(sentence, "docs/page.md") == []
    assert found(f"r'''{sentence}'''") == []


def test_a_phrase_is_found_across_a_line_break(found):
    assert found("It plays by\nchance.", "docs/page.md") == [(1, "by chance")]


def test_documents_are_read_without_their_code_blocks(found):
    text = """
    Nothing was told.

    ```python
    told = "told"
    ```

    It was told.
    ~~~text
    told ``` told
    ~~~
    Told again, [told](x.md), `told`.
    """
    assert found(text, "docs/page.md") == [(2, "told"), (8, "told"), (12, "told"), (12, "told")]


def test_a_path_that_is_unchecked_is_left_out_until_it_is_clean(lint, words):
    listed = replace(words, unchecked=("docs/old.md", "ors_server/room"))
    files = {"docs/old.md": "told", "ors_server/room/a.py": "# told", "ors_server/rooms.py": "# told"}
    assert lint.check(files, listed) == ["ors_server/rooms.py:1: 'told' is retired; write: received"]
    clean = files | {"docs/old.md": "received", "ors_server/rooms.py": ""}
    assert lint.check(clean, listed) == [
        "retired_words.toml: 'docs/old.md' is clean: remove it from `unchecked`"
    ]
    del clean["docs/old.md"]
    assert lint.check(clean, listed) == [
        "retired_words.toml: no file is at 'docs/old.md': remove it from `unchecked`"
    ]


def test_a_word_that_is_kept_needs_to_be_there(lint, words):
    kept = replace(words, kept={"tasks/seats.py: told": "the tale is told"})
    assert lint.check({"tasks/seats.py": "# told\n# stands"}, kept) == [
        "tasks/seats.py:2: 'stands' is retired; write: is"
    ]
    assert lint.check({"tasks/seats.py": ""}, kept) == [
        "retired_words.toml: 'tasks/seats.py: told' does not occur: remove it from `kept`"
    ]


def test_paths_may_not_be_added_to_the_unchecked_ones(lint):
    words = lint.read_words()
    assert lint.added_to_unchecked(words) == []
    (problem,) = lint.added_to_unchecked(replace(words, unchecked=(*words.unchecked, "docs/glossary.md")))
    assert "'docs/glossary.md' is new" in problem


def test_the_project_passes(lint):
    assert lint.check(lint.read_files(), lint.read_words()) == []
