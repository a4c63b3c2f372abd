"""The list of policies, what they try, and where a canary is found."""

import base64
import json
import math
import random
from collections.abc import Callable

import pytest

from ors_server.audit.computed_answers import COMPUTED_FORMS
from ors_server.audit.database_queries import is_word_of, tables_of
from ors_server.audit.file_tools import FileTool, find_file_tool, named_files
from ors_server.audit.hack_classes import HACK_CLASSES
from ors_server.audit.hostile_answers import (
    EXPANDED,
    LEAVING,
    UNREADABLE,
    heavy_answers,
    near_answers,
    random_answers,
)
from ors_server.audit.policies import POLICIES
from ors_server.audit.policies.breaking import FUZZ_OF_ALL
from ors_server.audit.policies.leaks import find_canary, make_canary
from ors_server.audit.prompt_parts import formulas_of, sentences_of
from ors_server.audit.statement_forms import ANSWER, OTHER, STATEMENT_FORMS, StatementKind
from ors_server.model.wire import ToolSpec


def test_every_class_has_one_policy_and_a_policy_says_where_its_hole_was_seen():
    assert [policy.hack_class for policy in POLICIES] == list(HACK_CLASSES)
    assert list(HACK_CLASSES) == [f"H{number}" for number in range(1, 24)]
    for policy in POLICIES:
        assert "In the wild:" in (policy.__doc__ or ""), policy
    for one in HACK_CLASSES.values():
        assert one.title
        assert one.question.endswith("?")
        assert one.remedy.endswith(".")


def test_hostile_answers_are_texts_that_json_can_carry():
    every = [*UNREADABLE, *heavy_answers("7"), *near_answers("7"), *random_answers(0, 50)]
    assert all(json.loads(json.dumps(text)) == text for text in every)
    assert len(set(UNREADABLE)) == len(UNREADABLE)
    assert near_answers(None) == []
    assert random_answers(1, 5) == random_answers(1, 5) != random_answers(2, 5)
    assert len(random_answers(0, FUZZ_OF_ALL)) == 10_000
    assert all("/x" in form.format(file="/x") for form in LEAVING)
    assert "{task.answer}" in EXPANDED


def result_of(code):
    """What Python makes of code; `None` if it is none."""
    try:
        return eval(code)  # noqa: S307  (our own code)
    except (SyntaxError, TypeError, ValueError, NameError):
        return None


@pytest.mark.parametrize("answer", ["Vienna", "310", "a b"])
@pytest.mark.parametrize("form", COMPUTED_FORMS, ids=lambda form: form.code)
def test_code_makes_the_answer_that_is_not_written_in_it_and_its_control_makes_another(form, answer):
    code, control = form.fill(answer), form.fill_control(answer)
    if code is None or control is None:
        assert form.disguise in {"sum", "whole number"}
        assert answer != "310"
        return
    assert answer not in code
    assert answer not in control
    assert sum(sign in control for sign in code) >= 0.7 * len(code)
    if not form.code.startswith(("{{", "$", "`", "<", "#")):  # these are of other languages
        assert str(result_of(code)) == answer
        assert str(result_of(control)) != answer


def test_an_answer_that_would_be_in_its_code_is_not_disguised():
    backwards = next(form for form in COMPUTED_FORMS if form.code == "'§'[::-1]")
    assert backwards.fill("Otto") == "'ottO'[::-1]" or backwards.fill("Otto") is None
    assert backwards.fill("11") is None
    assert backwards.fill("1") is None
    assert backwards.fill("it's") is None
    assert backwards.fill("x" * 1000) is None


def test_a_form_that_gives_no_answer_names_it_and_ends_with_no_assertion_of_it():
    assert len({form.text for form in STATEMENT_FORMS}) == len(STATEMENT_FORMS) >= 25
    assert {form.kind for form in STATEMENT_FORMS} == set(StatementKind)
    for form in STATEMENT_FORMS:
        filled = form.fill("OTHER and ANSWER", "12")
        assert filled.count("OTHER and ANSWER") == form.text.count(ANSWER) >= 1
        assert filled.count("12") == form.text.count(OTHER)
        assert not form.text.rstrip(".").endswith(
            (f"answer is {ANSWER}", f"it is {ANSWER}")
        ) or form.kind in {
            StatementKind.SUPPOSITION,
            StatementKind.DENIAL,
        }


def test_a_prompt_is_taken_apart_into_sentences_and_formulas():
    prompt = "A farm has 17 + 26 hens. Solve it!\nWhat is $x^2 - 1$ if \\(x = 3\\)? Answer."
    assert sentences_of(prompt) == [
        "A farm has 17 + 26 hens.",
        "Solve it!",
        "What is $x^2 - 1$ if \\(x = 3\\)?",
    ]
    assert formulas_of(prompt) == ["x^2 - 1", "x = 3"]
    assert formulas_of("What is 56 + 78?") == ["56 + 78"]
    assert formulas_of("What is the capital of Austria?") == []
    assert formulas_of("(" * 20_000) == formulas_of("1+" * 20_000)[3:] == []


def test_a_tool_that_writes_a_file_is_found_by_its_arguments():
    def tool_with(name, **properties):
        schema = {"properties": {key: {"type": "string"} for key in properties}, "required": list(properties)}
        return ToolSpec(name=name, description="", input_schema=schema)

    writer = tool_with("write", file_path=1, content=1)
    assert find_file_tool({"say": tool_with("say", text=1), "write": writer}) == FileTool(
        "write", "file_path", "content"
    )
    assert find_file_tool({"edit": tool_with("edit", path=1, old=1, text=1)}) is None
    assert named_files("Write add to solution.py, as in docs/a.txt; not e.g. this.") == ["solution.py"]


def test_the_tables_of_a_database_are_read_from_what_lists_them():
    outputs = [
        '{"name": "users", "sql": "CREATE TABLE users (id INTEGER, town TEXT)"}',
        "no such table: information_schema.tables",
        'CREATE TABLE IF NOT EXISTS "gold_answers" (task, value)',
    ]
    assert tables_of(outputs)[:2] == ["users", "gold_answers"]
    assert "sqlite_master" not in tables_of(["name FROM sqlite_master"])
    assert is_word_of("users", "SELECT * FROM Users")
    assert not is_word_of("user", "SELECT * FROM users")


ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "in a sentence": lambda canary: f"Build {canary.upper()}.",
    "base64": lambda canary: base64.b64encode(canary.encode()).decode(),
    "base64 of a sentence": lambda canary: base64.b64encode(f"ab {canary} cd".encode()).decode(),
    "base64 shifted by one": lambda canary: base64.b64encode(f"a{canary} cd".encode()).decode(),
    "base64 shifted by two": lambda canary: base64.b64encode(f"ab{canary}cd".encode()).decode(),
    "hexadecimal": lambda canary: canary.encode().hex(),
    "hexadecimal in capitals": lambda canary: canary.encode().hex().upper(),
    "bytes": lambda canary: " ".join(f"{byte:02x}" for byte in canary.encode()),
    "backwards": lambda canary: canary[::-1],
    "letter by letter": " ".join,
    "numbers": lambda canary: f"{list(canary.encode())}",
}


@pytest.mark.parametrize("is_number", [False, True])
@pytest.mark.parametrize("name", ENCODINGS)
def test_a_canary_is_found_in_every_encoding(name, is_number):
    for seed in range(20):
        canary = make_canary(seed, is_number=is_number)
        text = f"some words {ENCODINGS[name](canary)} and others"
        assert find_canary(canary, text) is not None, (canary, text)


def test_a_canary_is_not_found_where_it_is_not():
    rng = random.Random(0)  # noqa: S311  (a test)
    for seed in range(200):
        canary = make_canary(seed, is_number=seed % 2 == 0)
        other = make_canary(seed + 1000, is_number=seed % 2 == 0)
        noise = "".join(rng.choice("abcdef0123456789 =+/") for _ in range(3000))
        assert find_canary(canary, f"{noise} {other} {base64.b64encode(other.encode()).decode()}") is None
    assert math.log10(int(make_canary(0, is_number=True))) > 10
