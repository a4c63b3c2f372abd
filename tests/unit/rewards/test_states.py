"""Final states at declared paths, and files as an agent left them."""

import hashlib
import math

import anyio
import pytest

from ors_server.grading.evidence import gather_evidence
from ors_server.rewards.evidence.file_rewards import (
    diff_reward,
    file_match_reward,
    files_unchanged_reward,
    hash_content,
)
from ors_server.rewards.scoring import evaluate, score
from ors_server.rewards.structures.states import hash_state, state_match_reward
from ors_server.sandboxes.sandbox_errors import SandboxError
from ors_server.sandboxes.scripted import ScriptedBackend
from tests.fixtures.loop_slices import measured_slices, yardstick

GOAL: dict = {"user": {"name": "Ada", "tags": ["a", "b"]}, "orders": [{"id": 1, "open": False}], "log": ["x"]}
PATHS = ["/user", "/orders/0/open"]


def judged(state, answer=GOAL, paths=PATHS, **options):
    return score(state_match_reward, state=state, answer=answer, paths=paths, **options)


@pytest.mark.parametrize(
    ("state", "fraction", "wrong"),
    [
        (GOAL, 1.0, {}),
        ({**GOAL, "log": ["y", "z"]}, 1.0, {}),
        ({**GOAL, "orders": [{"id": 1.0, "open": False}, {}]}, 1.0, {}),
        ({**GOAL, "orders": [{"open": 0}]}, 0.5, {"/orders/0/open": "different"}),
        ({**GOAL, "orders": []}, 0.5, {"/orders/0/open": "missing"}),
        ({**GOAL, "user": {"name": "Ada", "tags": ["b", "a"]}}, 0.5, {"/user": "different"}),
        ({**GOAL, "user": {**GOAL["user"], "admin": True}}, 0.5, {"/user": "different"}),
        ({}, 0.0, {"/user": "missing", "/orders/0/open": "missing"}),
        (None, 0.0, {"/user": "missing", "/orders/0/open": "missing"}),
    ],
)
def test_only_declared_paths_count(state, fraction, wrong):
    result = judged(state)
    assert (result.reward, result.extras["paths"]) == (float(fraction == 1.0), wrong)
    assert judged(state, pays="fraction").reward == fraction
    by_hash = judged(state, answer=hash_state(GOAL, PATHS))
    assert by_hash.reward == float(fraction == 1.0)


def test_doing_nothing_is_paid_only_where_nobody_says_what_the_start_was():
    start = {**GOAL, "log": []}
    assert judged(start).reward == 1.0
    for answer in (GOAL, hash_state(GOAL, PATHS)):
        assert judged(start, answer=answer, start=start).status == "bad_gold"
        assert judged(GOAL, answer=answer, start={**start, "user": 1}).reward == 1.0


@pytest.mark.parametrize(
    ("answer", "paths", "options"),
    [
        (GOAL, [], {}),
        (GOAL, "/user", {}),
        (GOAL, ["user"], {}),
        (GOAL, ["/user/nickname"], {}),
        (GOAL, ["/orders/1"], {}),
        (GOAL, ["/orders/-1"], {}),
        (GOAL, ["/user"] * 1_001, {}),
        ({"a": math.nan}, ["/a"], {}),
        ("sha256:12", PATHS, {}),
        ("Ada", PATHS, {}),
        (hash_state(GOAL, PATHS), PATHS, {"pays": "fraction"}),
    ],
    ids=lambda value: repr(value)[:25],
)
def test_a_goal_that_cannot_be_judged_by_is_a_bad_gold(answer, paths, options):
    for state in (GOAL, None):
        assert (result := judged(state, answer, paths, **options)).status == "bad_gold"
        assert result.reward is None


def test_a_state_that_is_no_json_is_read_by_nobody():
    assert judged({"user": {1, 2}}).status == "unparsed_answer"


def test_pointers_reach_names_with_slashes_and_tildes_and_the_whole():
    state = {"a/b": {"~": 1}, "": 2}
    assert judged(state, state, ["/a~1b/~0", "/", ""]).reward == 1.0


async def looked(reward, left, /, **fields):
    sandbox = await ScriptedBackend().start("files")
    for name, content in left.items():
        await sandbox.write_file(name, content)
    async with gather_evidence(sandbox) as evidence:
        return await evaluate(reward, {"evidence": evidence, **fields})


def asked(reward, left, /, **fields):
    async def main():
        return await looked(reward, left, **fields)

    return anyio.run(main)


HASH = hashlib.sha256(b"yes\n").hexdigest()


@pytest.mark.parametrize(
    ("content", "wanted", "reward"),
    [
        (b"yes\n", {"answer": "yes\n"}, 1.0),
        (b"yes", {"answer": "yes\n"}, 0.0),
        (b"\xff", {"answer": "yes"}, 0.0),
        (b"yes\n", {"sha256": HASH}, 1.0),
        (b"yes\n", {"sha256": f"sha256:{HASH.upper()}"}, 1.0),
        (b"no\n", {"sha256": HASH}, 0.0),
        (b"a\nyes\n", {"pattern": "^yes$"}, 1.0),
        (b"oh yes\n", {"pattern": "^yes$"}, 0.0),
        (b"yes\xff", {"pattern": "yes"}, 0.0),
        (b"", {"answer": ""}, 1.0),
        (b"x" * 4_194_305, {"pattern": "x"}, 0.0),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_file_is_compared_by_content_hash_or_pattern(content, wanted, reward):
    result = asked(file_match_reward, {"out/a.txt": content}, path="out/a.txt", **wanted)
    assert (result.status, result.reward) == ("graded", reward)


@pytest.mark.parametrize("path", ["nothing", "out", "../x", "/etc/passwd"])
def test_what_is_no_file_of_the_work_dir_earns_nothing_and_says_why(path):
    result = asked(file_match_reward, {"out/a.txt": b""}, path=path, answer="")
    assert (result.status, result.reward) == ("graded", 0.0)
    assert path in str(result.reason)


@pytest.mark.parametrize(
    "wanted",
    [{}, {"answer": "", "pattern": "x"}, {"sha256": "12"}, {"pattern": ""}, {"pattern": "("}, {"answer": 1}],
    ids=str,
)
def test_a_file_is_wanted_in_one_way(wanted):
    for files in ({"a": b""}, {}):
        assert asked(file_match_reward, files, path="a", **wanted).status == "bad_gold"


def test_a_text_in_which_the_pattern_takes_too_long_is_wrong():
    result = asked(file_match_reward, {"a": b"a" * 300 + b"!"}, path="a", pattern=r"^(a|aa)+$")
    assert (result.status, result.reward) == ("graded", 0.0)
    assert "longer than 1 seconds" in result.reason


def test_a_diff_of_many_lines_holds_up_nobody():
    files = {"a": b"".join(b"%d\n" % number for number in range(500_000))}
    with measured_slices() as slices:
        result = asked(diff_reward, files, path="a", start="1\n", answer="2\n", pays="fraction")
    assert (result.status, result.extras["wanted"]) == ("graded", 2)
    assert slices.worst < yardstick(), slices.where


class Broken:
    async def read_file(self, path, *, most=None):
        raise SandboxError(f"{path} is on a disk that failed")


@pytest.mark.parametrize(
    ("reward", "fields"),
    [
        (file_match_reward, {"path": "a", "answer": ""}),
        (files_unchanged_reward, {"files": {"a": HASH}}),
        (diff_reward, {"path": "a", "start": "", "answer": "x"}),
    ],
    ids=["match", "unchanged", "diff"],
)
def test_a_file_that_cannot_be_read_is_an_error_and_no_number(reward, fields):
    result = score(reward, evidence=Broken(), **fields)
    assert (result.status, result.reward) == ("error", None)
    assert "disk" in str(result.reason)


def test_files_that_are_changed_or_gone_are_named():
    files = {"a": HASH, "b/c": f"sha256:{HASH}", "d": hash_content(b"")}
    left = {"a": b"yes\n", "b/c": b"yes\n", "d": b"", "new": b"x"}
    assert asked(files_unchanged_reward, left, files=files).reward == 1.0
    result = asked(files_unchanged_reward, {"a": b"yes", "d": b""}, files=files)
    assert (result.reward, dict(result.extras)) == (0.0, {"changed": ["a"], "missing": ["b/c"]})
    for nonsense in ({}, {"a": "12"}, {"a": "z" * 64}, {"a": None}):
        assert asked(files_unchanged_reward, left, files=nonsense).status == "bad_gold"


START = "one\ntwo\nthree\n"
WANTED = "one\n2\nthree\nfour\n"


@pytest.mark.parametrize(
    ("text", "f1"),
    [
        (WANTED, 1.0),
        (START, 0.0),
        ("one\n2\nthree\n", 2 * 2 / (3 + 2)),
        ("2\none\nthree\nfour\n", 1.0),
        ("one\ntwo\nthree\nfour\nfive\nsix\n", 2 * 1 / (3 + 3)),
        ("", 2 * 1 / (3 + 3)),
    ],
)
def test_changes_are_paid_and_leaving_things_is_not(text, f1):
    fields = {"path": "f", "start": START, "answer": WANTED}
    result = asked(diff_reward, {"f": text.encode()}, **fields)
    assert result.reward == float(text == WANTED)
    assert result.extras["f1"] == pytest.approx(f1)
    paid = asked(diff_reward, {"f": text.encode()}, pays="fraction", **fields)
    assert paid.reward == pytest.approx(f1 if text == WANTED else min(0.99, f1))


def test_a_change_of_nothing_is_a_bad_gold_and_a_missing_file_is_none():
    assert asked(diff_reward, {}, path="f", start="x", answer="x").status == "bad_gold"
    assert asked(diff_reward, {}, path="f", start=None, answer="x").status == "bad_gold"
    assert asked(diff_reward, {}, path="f", start="x", answer="y").reward == 0.0
