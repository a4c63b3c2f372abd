"""The pipes of commands: used again when nobody holds them, read to the last byte, never mixed up."""

import os
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.poller import Poller
from ors_server.sandboxes.shell.command_pipes import BackgroundOutput, CommandStreams
from ors_server.sandboxes.shell.persistent_shell import ControlFile

LIMITS = Limits()


@pytest.fixture
def folder(tmp_path):
    return f"{tmp_path}/"


@asynccontextmanager
async def opened(folder):
    """The streams of a command, and what its background jobs write."""
    poller = Poller()
    background = BackgroundOutput(1000)
    streams = CommandStreams.make(poller, folder, 1, None)
    streams.begin(LIMITS, lambda: None)
    try:
        yield streams, background
    finally:
        background.close()
        streams.close()
        poller.close()


def writer(folder, letter="o"):
    return os.open(f"{folder}{letter}1", os.O_WRONLY)


def write(folder, data, letter="o"):
    descriptor = writer(folder, letter)
    os.write(descriptor, data)
    os.close(descriptor)


def finish(streams):
    for reader in streams.both:
        reader.finish()
    return streams.stdout.output().text, streams.stderr.output().text


async def test_pipes_that_nobody_holds_serve_the_next_command(folder):
    async with opened(folder) as (streams, background):
        seen = []
        for word in ("one", "two"):
            write(folder, word.encode())
            write(folder, word.upper().encode(), "e")
            seen.append((finish(streams), streams.are_clear))
            assert background.keep_reading(streams) is streams
            streams.begin(LIMITS, lambda: None)
        assert seen == [(("one", "ONE"), True), (("two", "TWO"), True)]


async def test_a_pipe_that_a_job_holds_is_left_to_the_job(folder):
    async with opened(folder) as (streams, background):
        job = writer(folder)
        os.write(job, b"from the command")
        assert finish(streams) == ("from the command", "")
        assert background.keep_reading(streams) is None
        assert not any(os.access(f"{folder}{letter}1", os.F_OK) for letter in "oe")
        os.write(job, b"from the job")
        assert background.take().text == "from the job"
        os.close(job)
        background.take()
        assert (streams.stdout.is_open, streams.stderr.is_open) == (False, False)


async def test_what_is_written_between_two_commands_belongs_to_neither(folder):
    async with opened(folder) as (streams, background):
        finish(streams)
        background.keep_reading(streams)
        write(folder, b"between")
        streams.stdout.finish()
        streams.begin(LIMITS, lambda: None)
        write(folder, b"after")
        assert (finish(streams)[0], background.take().text) == ("after", "between")


async def test_a_flood_is_read_to_its_last_byte_though_nothing_new_happens(folder):
    async with opened(folder) as (streams, _background):
        job = writer(folder)
        os.set_blocking(job, False)
        sent = 0
        with anyio.fail_after(20):
            while sent < 1_000_000:
                try:
                    sent += os.write(job, bytes(65_536))
                except BlockingIOError:  # full: the reader has to come back by itself
                    await anyio.lowlevel.checkpoint()
            os.close(job)
            while streams.stdout.total < sent:
                await anyio.lowlevel.checkpoint()
        assert streams.stdout.total - sent == 0


async def spend(streams, background, folder):
    """Let the pipes serve a command that says nothing, and hear of its end."""
    write(folder, b"")
    with anyio.fail_after(20):
        while not streams.stdout.was_opened:
            await anyio.lowlevel.checkpoint()
    finish(streams)
    background.keep_reading(streams)
    streams.begin(LIMITS, lambda: None)


@pytest.mark.parametrize("served", [0, 1, 2])
async def test_whether_the_shell_came_is_known_of_each_command(folder, served):
    async with opened(folder) as (streams, background):
        for _ in range(served):
            await spend(streams, background, folder)
        await anyio.lowlevel.checkpoint()
        finish(streams)
        assert streams.stdout.was_opened is False


def test_a_control_file_holds_the_last_writing_and_nothing_of_those_before(tmp_path):
    control_file = ControlFile(str(tmp_path / "control_file"))
    for data in (b"a long first command", b"short", b"", b"longer again", b"x" * 100_000, b"y"):
        control_file.write(data)
        assert (tmp_path / "control_file").read_bytes() == data
    control_file.close()
    control_file.close()
    control_file.write(b"after")
    assert (tmp_path / "control_file").read_bytes() == b"after"
    control_file.close()


def test_a_control_file_does_not_follow_a_link(tmp_path):
    (tmp_path / "control_file").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        ControlFile(str(tmp_path / "control_file")).write(b"x")
    assert not (tmp_path / "elsewhere").exists()
