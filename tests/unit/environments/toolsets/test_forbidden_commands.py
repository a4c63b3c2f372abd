"""Forbidden commands are found on the parsed command wherever they hide, and never in quoted text."""

import contextlib
import itertools
import os
import string
import subprocess

import anyio
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ors_server.environments.toolsets import forbidden_commands as commands
from ors_server.environments.toolsets.forbidden_commands import (
    CommandPattern,
    UncheckableError,
    every_command,
    find_violation,
    parse_patterns,
    search,
)
from ors_server.environments.toolsets.shell_text import (
    MAX_EXPANDED,
    UNKNOWN,
    cut_roughly,
    expand_braces,
    find_commands,
    resolve,
)
from ors_server.environments.toolsets.wrappers import (
    SHELLS,
    WRAPPERS,
    look_inside,
    reads_script_from_stdin,
    written_by,
)
from ors_server.model.errors import EnvironmentFailedError

RM = parse_patterns(["rm -rf"])
FORBIDDEN = [
    *("rm -rf x", "rm -fr x", "rm -r -f x", "rm -rvf x", "rm x -f -r", "/bin/rm -rf x", "\\rm -rf x"),
    *("r\\m -rf x", "'r''m' -rf x", '"rm" "-rf" x', "$'\\x72m' -rf x", "r\\\nm -rf x", "rm \\\n -rf x"),
    *("true; rm -rf x", "true && rm -rf x || false", "ls | rm -rf x", "rm -rf x &", "! rm -rf x"),
    *("(cd /; rm -rf x)", "{ rm -rf x; }", "if rm -rf x; then :; fi", "if :; then rm -rf x; fi"),
    *("while :; do rm -rf x; done", "for i in a b; do rm -rf $i; done", "case x in x) rm -rf x;; esac"),
    *("f() { rm -rf x; }", "function f { rm -rf x; }", "echo $(rm -rf x)", 'echo "$(rm -rf x)"'),
    *("echo `rm -rf x`", "diff <(rm -rf x) y", "a=$(rm -rf x)", "a=(1 $(rm -rf x))"),
    *("export a=$(rm -rf x)", "[[ -n $(rm -rf x) ]]", "echo $((1 + $(rm -rf x)))"),
    *("cat <<E\n$(rm -rf x)\nE", ">log rm -rf x", "rm -rf x >log 2>&1", "A=1 rm -rf x", "time rm -rf x"),
    *("time -p { rm -rf x; }", "! { rm -rf x; }", "coproc rm -rf x", "coproc { rm -rf x; }"),
    *("coproc NAME { rm -rf x; }", "sudo rm -rf x", "sudo -u root A=1 rm -rf x", "sudo -- rm -rf x"),
    *("doas rm -rf x", "env rm -rf x", "env -i A=1 rm -rf x", "env -u A -C / rm -rf x"),
    *("env -S 'rm -rf x'", "env - rm -rf x", "command rm -rf x", "command -p rm -rf x"),
    *("builtin command rm -rf x", "exec rm -rf x", "exec -a name rm -rf x", "nohup rm -rf x"),
    *("nice -n 5 rm -rf x", "nice rm -rf x", "ionice -c 3 rm -rf x", "timeout 5 rm -rf x"),
    *("timeout -k 1 --signal KILL 5 rm -rf x", "timeout -s9 5 rm -rf x", "setsid -f rm -rf x"),
    *("stdbuf -oL rm -rf x", "stdbuf -o L rm -rf x", "busybox rm -rf x", "xargs rm -rf"),
    *("ls | xargs -0 -n 1 -I {} rm -rf {}", "find . -name x -exec rm -rf {} +"),
    *("find . -exec echo {} \\; -exec rm -rf {} \\;", "find . -execdir rm -rf {} ';'", 'eval "rm -rf x"'),
    *("eval rm -rf x", "eval 'eval \"rm -rf x\"'", "bash -c 'rm -rf x'", "sh -xec 'rm -rf x' name"),
    *("dash -o errexit -c 'rm -rf x'", "/bin/bash --norc -c 'cd x; rm -rf y'", "sudo bash -c 'rm -rf x'"),
    *("busybox sh -c 'rm -rf x'", "find . -exec sh -c 'rm -rf {}' \\;", "su -c 'rm -rf x'"),
    *("trap 'rm -rf x' EXIT", "alias ll='rm -rf x'", "watch 'rm -rf x'", "flock lock rm -rf x"),
    *("flock lock -c 'rm -rf x'", "bash <<E\nrm -rf x\nE", "bash <<'E'\nrm -rf x\nE"),
    *("cat <<E | bash\nrm -rf x\nE", "bash -s <<E\nrm -rf x\nE", "bash <<<'rm -rf x'"),
    *("sudo bash <<<'rm -rf x'", "echo 'rm -rf x' | sh", "echo -e 'true\\nrm -rf x' | sh"),
    *("printf '%s\\n' 'rm -rf x' | bash", "rm -rf x; )", "true\nrm -rf x\nif", "if true; then rm -rf x"),
    *("cat <<E >x; rm -rf y\nE", "true; { [[ rm && rm -rf x"),
]
ALLOWED = [
    *("", " ", "rm x", "rm -r x", "rm -f x", "rm -- -rf", "rm --recursive --force x", "rmdir -rf x"),
    *("echo rm -rf x", "echo 'rm -rf x'", 'echo "rm -rf x"', "grep 'rm -rf' log", "grep -rf rm x"),
    *("# rm -rf x", "ls # ; rm -rf x", "cat <<E\nrm -rf x\nE", "cat <<'E' >clean.sh\nrm -rf x\nE"),
    *("cat <<<'rm -rf x'", "command -v rm -rf", "echo 'rm -rf x' | cat", "bash clean.sh 'rm -rf x'"),
    *("git commit -m 'rm -rf x; really'", "python -c 'print(\"rm -rf\")'", "rm='-rf'; echo rm -rf"),
    *("find . -name rm -rf", "printf 'rm -rf x' >file", "$x -rf y", "xargs -I rm echo -rf"),
]


@pytest.mark.parametrize("script", FORBIDDEN)
def test_a_forbidden_command_is_found_wherever_it_stands(script):
    assert search(RM, script) is not None


@pytest.mark.parametrize("script", ALLOWED)
def test_what_is_no_such_command_is_left_alone(script):
    assert search(RM, script) is None


@pytest.mark.parametrize(
    ("pattern", "script", "matches"),
    [
        ("curl", "curl -s http://x", True),
        ("curl", "curly", False),
        ("pip install", "pip install x", True),
        ("pip install", "pip --quiet install x", True),
        ("pip install", "pip list", False),
        ("pip* install", "pip3.11 install x", True),
        ("git push --force*", "git push --force-with-lease", True),
        ("git push --force*", "git push", False),
        ("git push --force*", "git push -- --force", True),
        ("chmod 777", "chmod -R 777 x", True),
        ("chmod '0777'", "chmod 0777 x", True),
        ("kill -9", "kill -9 1", True),
        ("kill -9", "kill 9", False),
        ("find -delete", "find . -delete", True),
        ("find -delete", "find . -depth -ls -type l", False),
        ("dd of=/dev/*", "dd if=x of=/dev/sda", True),
        ("sudo", "sudo ls", True),
        ("export PATH=*", "export PATH=/x:$PATH", True),
        ("unset HISTFILE", "unset HISTFILE", True),
        ("echo 'a b'", "echo 'a b'", True),
        ("echo 'a b'", "echo a b", False),
        ("cat /etc/*", 'cat "/etc/$name"', True),
        ("cat /etc/passwd", "cat $file", False),
        ("rm -rf /*", "rm -rf /x", True),
        ("rm -rf /*", "rm -rf x", False),
        ("[ -f", "[ -f x ]", False),  # a condition is no command
        ("*", "$name", True),
    ],
)
def test_a_pattern_means_what_its_words_say(pattern, script, matches):
    assert (search(parse_patterns([pattern]), script) is not None) is matches


def test_the_rule_that_matched_is_named_with_its_command():
    found = search(parse_patterns(["curl", "rm  -rf"]), "ls; sudo rm -r -f 'a b'")
    assert found.rule == "rm  -rf"
    assert found.command == "rm -r -f 'a b'"


@pytest.mark.parametrize("text", ["", "  ", "'", "rm 'x", "/bin/rm -rf", "''"])
def test_what_is_no_pattern_is_refused_with_its_text(text):
    with pytest.raises(ValueError, match="a forbidden command"):
        CommandPattern.parse(text)


@pytest.mark.parametrize(
    ("word", "resolved"),
    [
        ("a'b c'\"d e\"f", "ab cd ef"),
        ("$'\\x41\\u00e9\\101\\n\\''", "AéA\n'"),
        ("$'\\UFFFFFFFF'", UNKNOWN),
        ('"a\\"b\\c$x"', f'a"b\\c{UNKNOWN}'),
        ("${x:-{}}y", f"{UNKNOWN}y"),
        ("$(echo (a))z", f"{UNKNOWN}z"),
        ("a$xyz/b$1c", f"a{UNKNOWN}/b{UNKNOWN}c"),
        ("`x`y", f"{UNKNOWN}y"),
        ('"`x`$(a)\\\nb"', f"{UNKNOWN}{UNKNOWN}b"),
        ("a\\", "a"),
        ("'open", "open"),
        ("$", "$"),
    ],
)
def test_words_are_resolved_as_the_shell_would(word, resolved):
    assert resolve(word) == resolved


def test_what_is_nested_too_deeply_is_not_guessed_at():
    deep = "rm -rf x"
    for _ in range(commands.MAX_DEPTH + 1):
        deep = f"eval {deep}"
    with pytest.raises(UncheckableError, match="deep"):
        search(RM, deep)
    with pytest.raises(UncheckableError, match="deep"):
        search(RM, "sudo " * 100 + "ls")


def test_shells_that_share_their_input_are_looked_into_once():
    script = "rm -rf x"
    for level in range(4):
        script = f"bash <<E{level} | bash | bash | bash\n{script}\nE{level}"
    assert len(list(every_command(script))) < 50


def test_a_script_is_searched_in_a_process_of_its_own():
    async def run():
        found = await find_violation(RM, "true\nrm -rf 'x y'")
        assert await find_violation(RM, "echo rm -rf") is None
        assert await find_violation((), "rm -rf x") is None
        with pytest.raises(UncheckableError, match="deep"):
            await find_violation(RM, f"rm x; {'sudo ' * 100} ls")
        return found

    found = anyio.run(run)
    assert (found.rule, found.command) == ("rm -rf", "rm -rf 'x y'")


def test_a_script_that_the_grammar_chokes_on_is_given_up(monkeypatch):
    monkeypatch.setattr(commands, "TIME_LIMIT", 2)
    with pytest.raises(UncheckableError, match=r"breaks the parser|takes too much"):
        anyio.run(find_violation, RM, "rm|" * 30_000)


def crash(*_):
    os.abort()


def lack_a_parser(*_):
    raise ModuleNotFoundError("No module named 'no_such_module'")


@pytest.mark.parametrize(
    ("broken", "error", "said"),
    [
        (crash, UncheckableError, "breaks the parser"),
        (lack_a_parser, EnvironmentFailedError, "no_such_module"),
    ],
)
def test_a_script_that_breaks_the_parser_breaks_nothing_else_and_a_parser_that_is_not_there_is_our_fault(
    monkeypatch, broken, error, said
):
    monkeypatch.setattr(commands, "search_texts", broken)
    with pytest.raises(error, match=said):
        anyio.run(find_violation, RM, "rm -rf x")


def test_no_process_is_started_where_the_name_does_not_occur(monkeypatch):
    monkeypatch.setattr(commands, "search_texts", crash)
    assert anyio.run(find_violation, RM, "ls -l; echo 'r' 'm'") is None


@pytest.mark.parametrize("script", FORBIDDEN)
def test_a_name_is_never_overlooked_before_parsing(script):
    assert RM[0].may_occur(script)


NAMES = sorted(
    {*WRAPPERS, *SHELLS, "find", "eval", "trap", "alias", "su", "flock", "watch", "echo", "printf"}
)
SHELL_PIECES = st.sampled_from(
    [
        *("rm", "-rf", "x", ";", "|", "&", "(", ")", "{", "}", "$(", "${", "`", "'", '"', "\\", "<<E", "E"),
        *("bash", "-c", "eval", "sudo", "if", "then", "fi", "case", "in", "esac", "[[", "]]", "((", "=", "#"),
        *("\0", "\udc80", "echo", "find", "-exec", "$'", "<", ">", "<(", "<<<", "!", "function"),
        *("do", "done"),
        *("*", "é", " ", "\n"),
    ]
)


@settings(max_examples=25)
@given(st.one_of(st.text(), st.text(string.printable), st.lists(SHELL_PIECES, max_size=60).map("".join)))
def test_no_text_breaks_the_search(script):
    with contextlib.suppress(UncheckableError):
        anyio.run(find_violation, parse_patterns(["rm -rf", "* x"]), script)


@settings(max_examples=300)
@given(st.lists(SHELL_PIECES | st.text(), min_size=1, max_size=20), st.sampled_from(NAMES))
def test_no_command_breaks_the_look_inside_it(words, name):
    look_inside((name, *words))
    assert reads_script_from_stdin((name, *words)) in {True, False}
    assert all(isinstance(path, str) for path in written_by((name, *words)))
    assert all(isinstance(part, tuple) for part in cut_roughly(" ".join(words)))


@settings(max_examples=200)
@given(st.text(), st.text())
def test_no_word_breaks_its_resolution(before, after):
    assert isinstance(resolve(before + "$'\\x" + after), str)


@settings(max_examples=100)
@given(st.lists(st.from_regex(r"[a-z]{1,8}", fullmatch=True), min_size=1, max_size=5))
def test_plain_words_come_back_as_they_are(words):
    reserved = {"if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "for", "in", "while"}
    reserved |= {"until", "select", "function", "time", "declare", "typeset", "export", "readonly", "local"}
    reserved |= {"unset", "unsetenv"}
    if words[0] not in reserved:
        assert [found.words for found in find_commands(" ".join(words))] == [tuple(words)]


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


@settings(max_examples=15)
@given(words=st.lists(st.text("ab13{},.-\\'", min_size=1, max_size=12), min_size=20, max_size=20))
@example(
    words=[",{},}", "{a},{b,c}}", "{1..3}{a..e..2}", "{09..11}", "{3..-1}", "{a{1..2}..3}", "{x..{a,b}}"]
)
def test_braces_make_the_words_that_bash_makes_of_long_words(words):
    whole = [word for word in words if word.count("'") % 2 == 0 and "\\" not in word]
    for word, theirs in zip(whole, words_of_bash(whole), strict=True):
        assert own_words(word)[:MAX_EXPANDED] == theirs[:MAX_EXPANDED], word


@pytest.mark.parametrize("word", ["{1..1000}", "{1..3}" * 50, "{a," * 200 + "}" * 200, "{a,b}" * 60])
def test_braces_make_no_more_words_than_are_looked_at(word):
    assert 0 < len(expand_braces(word)) <= MAX_EXPANDED
