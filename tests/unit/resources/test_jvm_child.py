"""A JVM in a process of its own: what hangs, dies or runs out of memory is killed, and frees who waits."""

import os
import re
import signal
import socket
import sys
import threading
from pathlib import Path

import pytest

from ors_server.installation import package_hint
from ors_server.resources import JvmChild, MissingRequirementError, ResourceError, find_java
from tests.fixtures.worker_processes import exists, wait_until_gone

pytestmark = pytest.mark.external
PATIENCE = 60.0
"""Seconds that a test waits at most."""


def read_clock(jvm):
    return jvm.classes.java.lang.System.nanoTime()


@pytest.fixture(scope="module")
def jvm():
    child = JvmChild([], heap_mib=32)
    yield child
    child.close()


@pytest.fixture
def own():
    """Starts JVMs of a test's own."""
    started = []

    def start(**options):
        started.append(JvmChild([], **options))
        return started[-1]

    yield start
    for child in started:
        child.close()


def test_identity_hashes_say_nothing_of_what_was_there_before(jvm):
    def hash_of_a_new_object():
        lang = jvm.classes.java.lang
        return lang.System.identityHashCode(lang.Object())

    assert len({jvm.call(hash_of_a_new_object) for _ in range(5)}) == 1


def test_java_objects_are_called_and_what_they_print_is_in_nobody_s_way(jvm):
    def play(text):
        jvm.classes.java.lang.System.out.println(text * 100_000)
        return jvm.classes.java.lang.StringBuilder(text).reverse().toString()

    assert jvm.call(play, "abcé") == "écba"
    assert jvm.call(jvm.classes.java.lang.Integer.parseInt, "12") == 12
    assert jvm.is_alive()
    assert jvm.memory_used() > 2**20


def test_the_heap_is_bounded(jvm):
    most = jvm.call(lambda: jvm.classes.java.lang.Runtime.getRuntime().maxMemory())
    assert most <= 32 * 2**20


def test_what_java_code_throws_is_raised_and_harms_nothing(jvm):
    with pytest.raises(Exception, match="NumberFormatException"):
        jvm.call(jvm.classes.java.lang.Integer.parseInt, "no number")
    assert jvm.call(jvm.classes.java.lang.Integer.parseInt, "12") == 12


def test_java_objects_that_nobody_has_any_more_are_released_with_the_next_call(jvm):
    def make():
        return len([jvm.classes.java.lang.Object() for _ in range(5)])

    assert jvm.call(make) == 5
    assert not jvm._released


def test_nobody_without_the_token_is_answered(jvm):
    with socket.create_connection(("127.0.0.1", jvm._connection.port), PATIENCE) as stranger:
        stranger.sendall(b"c\nz:java.lang.System\nnanoTime\ne\n")
        answer = stranger.recv(1000)
    assert b"Authentication error" in answer


def test_a_call_that_takes_too_long_kills_it(own):
    jvm = own(call_timeout=5.0)
    with pytest.raises(ResourceError, match=r"does not answer within 5 seconds .*; it was killed"):
        jvm.call(lambda: jvm.classes.java.lang.Thread.sleep(600_000))
    wait_until_gone(jvm.pid)
    with pytest.raises(ResourceError, match="does not answer"):
        jvm.call(read_clock, jvm)


def test_one_call_may_be_given_more_time_than_the_others(own):
    jvm = own(call_timeout=5.0)
    jvm.call(lambda: jvm.classes.java.lang.Thread.sleep(6_000), time_limit=60.0)
    with pytest.raises(ResourceError, match=r"does not answer within 5 seconds .*; it was killed"):
        jvm.call(lambda: jvm.classes.java.lang.Thread.sleep(600_000))


def test_a_call_that_is_broken_off_kills_it_for_the_next_one_would_read_its_answer(own):
    jvm = own()

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jvm.call(interrupted)
    wait_until_gone(jvm.pid)


def test_memory_that_runs_out_kills_it(own):
    jvm = own(heap_mib=16)
    with pytest.raises(ResourceError, match="ran out of the 16 MiB of its heap; it was killed"):
        jvm.call(lambda: jvm.classes.java.lang.StringBuilder(1_000_000_000))
    wait_until_gone(jvm.pid)


def test_a_call_that_fails_since_the_jvm_was_closed_is_the_jvms_error(own):
    jvm = own()

    def call():
        jvm.close()
        raise ValueError("I/O operation on closed file")

    with pytest.raises(ResourceError, match="closed meanwhile"):
        jvm.call(call)


def test_closing_a_stopped_one_frees_the_call_that_waits_for_it(own):
    jvm = own()
    os.kill(jvm.pid, signal.SIGSTOP)
    errors = []

    def call():
        try:
            jvm.call(read_clock, jvm)
        except ResourceError as error:
            errors.append(error)

    waiting = threading.Thread(target=call)
    waiting.start()
    jvm.close()
    waiting.join(PATIENCE)
    assert len(errors) == 1
    assert not exists(jvm.pid)
    jvm.close()


def test_one_that_is_killed_is_noticed_and_reaped(own):
    jvm = own()
    os.kill(jvm.pid, signal.SIGKILL)
    with pytest.raises(ResourceError, match="it was killed"):
        jvm.call(read_clock, jvm)
    jvm._child._watcher.join(PATIENCE)
    assert not jvm.is_alive()
    assert not exists(jvm.pid)


def test_a_start_that_fails_says_why_and_leaves_nothing():
    with pytest.raises(
        ResourceError, match=r"the JVM did not start: it printed .*heap.* ended with status 1"
    ):
        JvmChild([], heap_mib=1)
    with pytest.raises(ResourceError, match="the JVM did not start within 0 seconds"):
        JvmChild([], start_timeout=0.0)


def test_java_that_is_missing_is_said_with_the_command_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(
        MissingRequirementError, match="apt-get install -y --no-install-recommends openjdk-17"
    ):
        find_java()
    program = tmp_path / "home/bin/java"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert Path(find_java()) == program


def test_py4j_that_is_missing_is_said_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "py4j.java_gateway", None)
    with pytest.raises(MissingRequirementError, match=re.escape(package_hint("py4j"))):
        JvmChild([])
