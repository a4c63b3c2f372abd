"""The list of policies, what they try, and where a canary is found."""

import base64
import json
import math
import random
from collections.abc import Callable

import pytest

from ors_server.audit.hack_classes import HACK_CLASSES
from ors_server.audit.hostile_answers import (
    EVALUATED,
    EXPANDED,
    LEAVING,
    UNREADABLE,
    heavy_answers,
    in_code,
    near_answers,
    random_answers,
)
from ors_server.audit.policies import POLICIES
from ors_server.audit.policies.breaking import FUZZ_OF_ALL
from ors_server.audit.policies.leaks import find_canary, make_canary


def test_every_class_has_one_policy_and_a_policy_says_where_its_hole_was_seen():
    assert [policy.hack_class for policy in POLICIES] == list(HACK_CLASSES)
    assert list(HACK_CLASSES) == [f"H{number}" for number in range(1, 23)]
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


@pytest.mark.parametrize("form", EVALUATED)
def test_code_around_a_number_is_the_number_when_it_is_evaluated_and_its_control_is_nothing(form):
    code, control = in_code(form, "7")
    assert "7" in control
    if not form.startswith(("{{", "$", "`", "<", "#")):  # these are of other languages
        assert str(eval(code)) == "7"  # noqa: S307  (our own code)
        with pytest.raises(SyntaxError):
            eval(control)  # noqa: S307  (our own code)


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
