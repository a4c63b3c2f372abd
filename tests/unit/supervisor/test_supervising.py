"""The supervisor with small programs in the place of hosts: what it starts again, and when it gives up."""

import asyncio
import os
import socket

import pytest

from ors_server.supervisor.front_control import FrontControl
from ors_server.supervisor.supervising import HostsFailedError, Program, Supervisor, inheritable

READY = "printf '{}\\n'"
"""A line of JSON, with which a host says that it is ready."""
STAYS = "exec sleep 3600"


@pytest.fixture
def listener(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "h0.sock"))
        listener.listen()
        yield listener


def supervise(folder, listener, script, *, front=STAYS, on_ready=lambda _: None):
    """Run a supervisor of one host and a front, which are shell scripts, to its end."""

    def program(name, script, listener=None):
        descriptors = () if listener is None else (inheritable(listener),)
        return Program(name, ["sh", "-c", script], dict(os.environ), descriptors, listener)

    async def run():
        control = FrontControl(folder, [f"unix:{folder / 'h0.sock'}"])
        supervisor = Supervisor(
            [program("h0", script, listener)], program("haproxy", front), control, lambda: None
        )
        await supervisor.run(lambda _: on_ready(supervisor))

    asyncio.run(run())


@pytest.mark.parametrize(
    ("host", "front", "name"), [(READY, STAYS, "h0"), (f"{READY}; {STAYS}", "true", "haproxy")]
)
def test_a_process_that_ends_five_times_within_a_minute_ends_the_server(
    tmp_path, listener, host, front, name
):
    noted = tmp_path / "starts"
    scripts = {"h0": host, "haproxy": front}
    scripts[name] = f"echo >> {noted}; {scripts[name]}"
    with pytest.raises(HostsFailedError, match=rf"{name} ended 5 times within 60 s; see the log above"):
        supervise(tmp_path, listener, scripts["h0"], front=scripts["haproxy"])
    assert noted.read_text() == "\n" * 5


def test_a_host_that_was_never_ready_is_started_once(tmp_path, listener):
    noted = tmp_path / "starts"
    with pytest.raises(HostsFailedError, match=r"h0 did not start \(exit status 1\); its message is above"):
        supervise(tmp_path, listener, f"echo >> {noted}; exit 1")
    assert noted.read_text() == "\n"


def test_a_host_that_takes_long_to_return_is_answered_for(tmp_path, listener, monkeypatch):
    monkeypatch.setattr("ors_server.supervisor.supervising.HOLD_SECONDS", 0.1)
    was_ready = tmp_path / "was_ready"
    answers = []

    async def ask(supervisor):
        """Send the requests of two clients while the host is starting again."""
        for _ in range(2):
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "h0.sock"))
            writer.write(b"POST /call HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
            answers.append((await reader.read()).decode())
            writer.close()
        supervisor.stop()

    # The second process of the host never says that it is ready.
    script = f"if [ -e {was_ready} ]; then {STAYS}; fi; touch {was_ready}; {READY}"
    supervise(tmp_path, listener, script, on_ready=lambda supervisor: supervisor.start(ask(supervisor)))
    for answer in answers:
        head, _, body = answer.partition("\r\n\r\n")
        assert head.startswith("HTTP/1.1 503 ")
        assert {"Retry-After: 1", "X-Backend-State: starting"} <= set(head.split("\r\n"))
        assert '"code": "starting"' in body
    assert len(answers) == 2
