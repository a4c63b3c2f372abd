"""The shell vectors through a real server's `bash` tool over ORS, under every isolation and as either user.

The cases are played by `tests/fixtures/bash_over_ors.py`, all of a file in one process. A few of them run
with every other test; all of them are marked `stress`.
"""

import functools
import json
import os
import re
import subprocess
import sys

import pytest

from tests.fixtures import bash_over_ors, escape_checks
from tests.fixtures.shell_server import NOBODY, ROOT, Answer, refusal

DATA = ROOT / "tests" / "data"
PLAY_LIMIT = 400.0
"""Seconds that all cases of a file may take."""
PATIENCE = pytest.mark.timeout(420)
"""For every case, since the first of a configuration plays them all."""

CONFIGURATIONS = (("bubblewrap", 0), ("bubblewrap", NOBODY), ("landlock", 0), ("landlock", NOBODY))

WITHOUT_CGROUP = "without a cgroup memory is limited per process"
SHARED_UID = "the uid is the server's own, and with it its quotas and what its owner may do"
NOT_LIMITED = "disk and inodes are not limited on the server's own file system"
ALL_LISTED = "the processes of the whole host are listed"
LANDLOCK = {
    "server_survives_between_commands": "all but local sockets are refused, the loopback too",
    "zombies_reaped": ALL_LISTED,
    "inode_fill": NOT_LIMITED,
    "cmdlines_visible": "argument lists are readable without a pid namespace",
    "sees_only_own_processes": ALL_LISTED,
    "pathname_unix_socket": "Landlock does not judge connecting to a socket with a path",
    "disk_total": NOT_LIMITED,
    "inodes_total": NOT_LIMITED,
}
EXCEPTIONS = {
    ("bubblewrap", 0): {},
    ("bubblewrap", NOBODY): {"memory_total": WITHOUT_CGROUP},
    ("landlock", 0): LANDLOCK,
    ("landlock", NOBODY): LANDLOCK
    | {
        "memory_total": WITHOUT_CGROUP,
        "inotify_exhaustion": SHARED_UID,
        "renice_sched_server": SHARED_UID,
        "write_host_dir": "Landlock does not judge changing modes, and the folder is the server's own user's",
        "fork_bomb_count": "the process limit is the uid's, which all sessions share",
        "ulimit_as_tiny": "the shell itself may have no room under the limit; it is replaced, which lifts it",
    },
}
"""What a tier cannot hold, and why. A vector in this table must fail: one that passes is to be taken out."""

BY_CHANCE = {"zombies_reaped", "sees_only_own_processes", "fork_bomb_count", "ulimit_as_tiny"}
"""Exceptions that depend on what else the host does, and so may pass."""

QUICK = {
    "nasty": (
        "split_streams",
        "invalid_utf8",
        "one_giant_line",
        "heredoc_unterminated",
        "unbalanced_dquote",
        "exit_codes",
        "exec_replaces_shell",
        "cwd_env_func_alias_array",
        "exec_redirections",
        "cat_gets_eof",
        "bg_output_not_mixed_into_next",
        "timeout_keeps_partial_output_and_state",
        "timeout_pipeline",
        "kill_KILL_self",
        "fd_exhaustion",
    ),
    "escapes": (
        "read_host_canary_0644",
        "environ_of_all_pids",
        "inherited_fds",
        "kill_everything",
        "ptrace_attach_server",
        "bash_dev_tcp",
        "pathname_unix_socket",
        "write_host_dir",
        "mount_syscalls",
        "files_left_after_close",
    ),
}
HARMLESS = (
    "read_host_canary_0644",
    "read_dataset_answers",
    "loopback_server_api",
    "pathname_unix_socket",
    "listen_on_host_port",
)
"""Attacks that do no harm where nothing holds them."""


def names(kind):
    return [case["name"] for case in bash_over_ors.load(DATA / f"bash_{kind}.json")[1]]


@functools.cache
def played(sandbox, uid, kind, only=()):
    path = DATA / f"bash_{kind}.json"
    command = [sys.executable, "-m", "tests.fixtures.bash_over_ors", sandbox, str(uid), str(path), *only]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as player:
        try:
            said, complaints = player.communicate(timeout=PLAY_LIMIT)
        finally:
            player.terminate()  # it takes its server along
    rows = [json.loads(line) for line in said.splitlines()]
    assert {row["name"] for row in rows} == set(only or names(kind)), complaints
    return {row["name"]: row["problems"] for row in rows}


def require(sandbox, uid):
    if os.geteuid() != 0:
        pytest.skip("needs root, which sets the scene and becomes another user")
    if reason := refusal(sandbox, uid):
        pytest.fail(reason)


def vectors():
    for kind in QUICK:
        for sandbox, uid in CONFIGURATIONS:
            for name in names(kind):
                user = "user" if uid else "root"
                yield pytest.param(sandbox, uid, kind, name, id=f"{sandbox}-{user}-{kind}-{name}")


@pytest.mark.stress
@PATIENCE
@pytest.mark.parametrize(("sandbox", "uid", "kind", "name"), list(vectors()))
def test_a_vector_ends_as_the_tier_says(sandbox, uid, kind, name):
    require(sandbox, uid)
    problems = played(sandbox, uid, kind)[name]
    exception = EXCEPTIONS[sandbox, uid].get(name)
    if exception is None:
        assert problems == []
    elif name not in BY_CHANCE:
        assert problems, f"passes, although it was said that {exception}"


@pytest.mark.parametrize("kind", QUICK)
def test_some_vectors_hold_through_the_door(kind):
    require("bubblewrap", 0)
    found = played("bubblewrap", 0, kind, QUICK[kind])
    assert {name: problems for name, problems in found.items() if problems} == {}


def test_the_player_sees_what_gets_through_where_nothing_holds_it():
    require("none", 0)
    found = played("none", 0, "escapes", HARMLESS)
    assert [name for name, problems in found.items() if not problems] == []


def test_every_exception_and_every_quick_vector_names_a_vector():
    known = {name for kind in QUICK for name in names(kind)}
    named = {name for table in EXCEPTIONS.values() for name in table} | BY_CHANCE | set(HARMLESS)
    assert named | {name for kind in QUICK for name in QUICK[kind]} <= known


def test_every_expectation_that_the_vectors_speak_of_is_judged():
    content = json.loads((DATA / "bash_nasty.json").read_text())
    spoken_of = {key for keys in content["expect_keys"] for key in keys.split("/")}
    used = {key for case in content["cases"] for row in case["commands"] for key in row["expect"]}
    assert spoken_of | used <= bash_over_ors.EXPECTATIONS.keys() | {"server_rss_growth_max_mb"}


def test_every_check_that_the_vectors_speak_of_is_made():
    content = json.loads((DATA / "bash_escapes.json").read_text())
    spoken_of = {check for checks in content["checks"] for check in checks.split("/")}
    used = {row["type"] for case in content["escapes"] for row in case["check"]}
    assert used <= escape_checks.CHECKS.keys()
    for check in spoken_of:
        known = [name for name in escape_checks.CHECKS if re.fullmatch(check.replace("*", ".+"), name)]
        assert known, check


RIGHT = Answer(
    None,
    [{"text": "a\nb\n", "detail": {"stream": "stdout"}}, {"text": "e\n", "detail": {"stream": "stderr"}}],
    {"bash": {"exit_code": 0, "timed_out": False, "killed": None, "output_limit": False}},
    seconds=1.0,
)


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("exit_code", 0, 1),
        ("exit_code_any", [0, 1], [1, 2]),
        ("exit_nonzero", False, True),
        ("not_success", False, True),
        ("stdout_equals", "a\nb\n", "a\nb"),
        ("stderr_equals", "e\n", ""),
        ("stdout_b64", "YQpiCg==", "YQpi"),
        ("stdout_contains", ["a\n", "b"], ["a\n", "c"]),
        ("stderr_contains", ["e"], ["a"]),
        ("stdout_not_contains", ["c", "e"], ["c", "b"]),
        ("stdout_endswith", "b\n", "a\n"),
        ("stdout_max_bytes", 4, 3),
        ("timed_out", False, True),
        ("exit_or_output_limit", True, None),
        ("timed_out_or_output_limit", None, True),
        ("max_seconds", 1, 0.9),
    ],
)
def test_an_expectation_tells_right_from_wrong(key, good, bad):
    for want, is_right in ((good, True), (bad, False)):
        if want is not None:
            verdict = bash_over_ors.Verdict()
            bash_over_ors.judge(0, {key: want}, RIGHT, 0, verdict)
            assert (verdict.problems == []) is is_right


def test_what_the_player_does_not_know_is_a_problem():
    verdict = bash_over_ors.Verdict()
    bash_over_ors.judge(0, {"no_such_key": 1}, RIGHT, 0, verdict)
    bash_over_ors.judge(1, {"server_rss_growth_max_mb": 1}, RIGHT, 2 << 20, verdict)
    bash_over_ors.judge(2, {}, Answer("refused"), 0, verdict)
    assert len(verdict.problems) == 3
    bash_over_ors.judge(3, {"rejected_or_any": True, "stdout_contains_soft": ["x"]}, RIGHT, 0, verdict)
    assert (len(verdict.problems), len(verdict.warnings)) == (3, 1)
