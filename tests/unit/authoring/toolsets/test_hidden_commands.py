"""Forbidden commands behind braces, `parallel`, `unshare` and files that only `<(...)` writes."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ors_server.authoring.toolsets.forbidden_commands import parse_patterns, search
from ors_server.authoring.toolsets.shell_text import expand_braces, resolve

RM = parse_patterns(["rm -rf"])


@pytest.mark.parametrize(
    "script",
    [
        "source <(echo rm -rf x)",
        ". <(printf 'rm -rf x')",
        "bash <(echo rm -rf x)",
        "bash < <(echo 'rm -rf x')",
        "{rm,-rf,x}",
        "true; {rm,-rf,x} && ls",
        "r{m,} -rf x",
        "sudo {rm,-rf} x",
        "{rm,-r{f,v},x}",
        "parallel rm -rf ::: a b",
        "parallel ::: 'rm -rf a' ls",
        "parallel -j 4 --results d 'rm -rf {}' ::: a",
        "ls | parallel rm -rf",
        "echo 'rm -rf x' | parallel",
        "unshare -r rm -rf x",
        "unshare --user -- rm -rf x",
        "unshare -R /tmp --setuid 0 rm -rf x",
    ],
)
def test_a_forbidden_command_is_found(script):
    assert RM[0].may_occur(script)
    assert search(RM, script) is not None


@pytest.mark.parametrize(
    "script",
    [
        "echo {rm,-rf,x}",
        "source <(echo hi); cat <(echo rm -rf x)",
        "echo '{rm,-rf,x}'",
        "'{rm,-rf,x}'",
        "\\{rm,-rf,x}",
        "diff <(echo rm -rf x) b",
        "parallel echo ::: 'rm -rf'",
        "unshare echo rm -rf",
        "ls {a,b}/rm -rf",
        "git stash show stash@{0}",
        "awk '{print $1, $2}' rm -rf",
    ],
)
def test_what_only_looks_like_one_is_not(script):
    assert search(RM, script) is None


@settings(max_examples=15, deadline=None)
@given(words=st.lists(st.text("ab{},\\'", min_size=1, max_size=9), min_size=20, max_size=20))
def test_braces_make_the_words_that_bash_makes_of_them(words):
    whole = [word for word in words if word.count("'") % 2 == 0 and "\\" not in word]
    script = "\n".join(f"printf '%s\\0' {word}; printf '\\1'" for word in whole)
    ran = subprocess.run(["/bin/bash", "-c", script], capture_output=True, text=True, check=True)
    made = [part.split("\0")[:-1] for part in ran.stdout.split("\1")[:-1]]
    ours = [[resolve(part) for part in expand_braces(word)] for word in whole]
    known = [(theirs, own) for theirs, own in zip(made, ours, strict=True) if "{}" not in "".join(theirs)]
    assert [[word for word in own if word] for _, own in known] == [
        [word for word in theirs if word] for theirs, _ in known
    ]
