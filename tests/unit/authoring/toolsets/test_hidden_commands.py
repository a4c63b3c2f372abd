"""Forbidden commands behind braces, `parallel`, `unshare` and files that only `<(...)` writes."""

import itertools
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ors_server.authoring.toolsets.forbidden_commands import parse_patterns, search
from ors_server.authoring.toolsets.shell_braces import MOST_EXPANDED, expand_braces
from ors_server.authoring.toolsets.shell_text import resolve

RM = parse_patterns(["rm -rf"])


@pytest.mark.parametrize(
    "script",
    [
        *("source <(echo rm -rf x)", ". <(printf 'rm -rf x')", "bash <(echo rm -rf x)"),
        *("bash < <(echo 'rm -rf x')", "{rm,-rf,x}", "true; {rm,-rf,x} && ls", "r{m,} -rf x"),
        *("sudo {rm,-rf} x", "{rm,-r{f,v},x}", "{r..r}m -rf x", "r{m..m} -rf x"),
        *("true; {r..r}{m..m} -rf x", "r{{m,m},} -rf x", "{{r},r}m -rf x; rm{},} -rf x"),
        *("parallel rm -rf ::: a b", "parallel ::: 'rm -rf a' ls"),
        *("parallel -j 4 --results d 'rm -rf {}' ::: a", "ls | parallel rm -rf"),
        *("echo 'rm -rf x' | parallel", "unshare -r rm -rf x", "unshare --user -- rm -rf x"),
        "unshare -R /tmp --setuid 0 rm -rf x",
    ],
)
def test_a_forbidden_command_is_found(script):
    assert RM[0].may_occur(script)
    assert search(RM, script) is not None


@pytest.mark.parametrize(
    "script",
    [
        *("echo {rm,-rf,x}", "source <(echo hi); cat <(echo rm -rf x)", "echo '{rm,-rf,x}'"),
        *("'{rm,-rf,x}'", "\\{rm,-rf,x}", "diff <(echo rm -rf x) b", "parallel echo ::: 'rm -rf'"),
        *("unshare echo rm -rf", "ls {a,b}/rm -rf", "git stash show stash@{0}"),
        "awk '{print $1, $2}' rm -rf",
    ],
)
def test_what_only_looks_like_one_is_not(script):
    assert search(RM, script) is None


def words_of_bash(words):
    """Return the words, without empty ones, that bash makes of each word."""
    script = "\n".join(f"printf '%s\\0' {word}; printf '\\1'" for word in words)
    ran = subprocess.run(["/bin/bash"], input=script, capture_output=True, text=True, check=True)
    return [[made for made in part.split("\0") if made] for part in ran.stdout.split("\1")[:-1]]


def own_words(word):
    """Return the words, without empty ones, that we make of one."""
    return [made for made in map(resolve, expand_braces(word)) if made]


@pytest.mark.parametrize("signs", ["a{},", "{1.}", "{},'"])
def test_braces_make_the_words_that_bash_makes_of_every_short_word(signs):
    words = ["".join(drawn) for length in range(1, 7) for drawn in itertools.product(signs, repeat=length)]
    words = [word for word in words if word.count("'") % 2 == 0]
    differing = {
        word: (own_words(word), theirs)
        for word, theirs in zip(words, words_of_bash(words), strict=True)
        if own_words(word) != theirs
    }
    assert len(words) > 1000
    assert differing == {}


@settings(max_examples=15, deadline=None)
@given(words=st.lists(st.text("ab13{},.-\\'", min_size=1, max_size=12), min_size=20, max_size=20))
@example(
    words=[",{},}", "{a},{b,c}}", "{1..3}{a..e..2}", "{09..11}", "{3..-1}", "{a{1..2}..3}", "{x..{a,b}}"]
)
def test_braces_make_the_words_that_bash_makes_of_long_words(words):
    whole = [word for word in words if word.count("'") % 2 == 0 and "\\" not in word]
    for word, theirs in zip(whole, words_of_bash(whole), strict=True):
        assert own_words(word)[:MOST_EXPANDED] == theirs[:MOST_EXPANDED], word


@pytest.mark.parametrize("word", ["{1..1000}", "{1..3}" * 50, "{a," * 200 + "}" * 200, "{a,b}" * 60])
def test_braces_make_no_more_words_than_are_looked_at(word):
    assert 0 < len(expand_braces(word)) <= MOST_EXPANDED
