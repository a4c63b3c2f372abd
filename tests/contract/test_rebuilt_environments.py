"""Live sessions of every bundled environment come back from the record, and can still be won.

docs/restarts.md has the table of what comes back.
"""

import sqlite3
from contextlib import asynccontextmanager, closing
from typing import Any

import anyio
import httpx2
import pytest

from ors_server.app import create_app
from ors_server.environments.loading import installed_environments, load_environments
from ors_server.model.settings import Settings
from tests.contract.test_replay import WORK
from tests.fixtures.ordinary_cases import leave_to_stress

LIMIT = 240.0
CLOCKS = [
    "date +%s.%N",
    "mktemp",
    "echo $RANDOM $RANDOM $RANDOM",
    "touch a && stat -c %y a",
    # The time of a commit has whole seconds, which may be the same when it is played again.
    'git init -q && git -c user.name=a -c user.email=a commit -qm "$(date +%N)" --allow-empty && git log',
]
"""Commands whose output shows the clock or chance: each interrupts its own session."""
ENDINGS = ("answer", "close_case", "submit")
"""Tools that end an episode, or may."""
SLOW = ("alfworld", "code", "scienceworld", "shell")

pytestmark = pytest.mark.timeout(LIMIT + 30)


@asynccontextmanager
async def serving(name, record, **settings):
    app = create_app([name], Settings(store=str(record), **settings))
    transport = httpx2.ASGITransport(app)
    async with (
        app.running(),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=LIMIT) as http,
    ):
        yield http


async def create(http, name, session_id):
    body = {"environment": name, "split": "train", "index": 0, "session_id": session_id}
    created = await http.post("/_ors/sessions", json=body)
    assert created.status_code == 201, created.text
    await http.get(f"/_ors/sessions/{session_id}/prompt")


async def call(http, session_id, tool, arguments):
    body = {"name": tool, "arguments": arguments}
    return await http.post(f"/_ors/sessions/{session_id}/calls", json=body)


def kill(record, left):
    """Copy the record as a kill leaves it: the server that runs does not write to the copy."""
    with closing(sqlite3.connect(record)) as source, closing(sqlite3.connect(left)) as copy:
        source.backup(copy)
    return left


@pytest.mark.parametrize("name", leave_to_stress(installed_environments(), lambda name: name not in SLOW))
async def test_sessions_of_a_bundled_environment_come_back_and_are_won(name, tmp_path):
    [definition] = load_environments([name])
    task = await definition.tasks.get_task("train", 0)
    source: Any = definition.source
    *gold, last = source.gold_actions(task)
    record = tmp_path / "episodes.db"
    with anyio.fail_after(LIMIT):
        async with serving(name, record) as http:
            for session_id in ("won", "worked"):
                await create(http, name, session_id)
            for tool, arguments in gold:
                assert (await call(http, "won", tool, arguments)).status_code == 200
            for tool, arguments in WORK[name]:
                if tool not in ENDINGS:
                    await call(http, "worked", tool, arguments)
            before = (await http.get("/_ors/sessions/worked")).json()["episode"]
            left = kill(record, tmp_path / "left.db")
        async with serving(name, left) as http:
            ended = (await call(http, "won", *last)).json()
            assert ended["step"] == len(gold) + 1, ended
            assert ended["output"]["finished"]
            assert (await http.get("/_ors/sessions/won")).json()["episode"]["return"] == 1.0
            # A prompt needs the session itself, not only its record.
            assert (await http.get("/_ors/sessions/worked/prompt")).status_code == 200
            after = (await http.get("/_ors/sessions/worked")).json()["episode"]
    assert after == before
    assert (after["phase"], after["steps"] > 1) == ("playing", True)


@pytest.mark.stress
async def test_what_shows_the_clock_or_chance_interrupts_a_session_of_shell_unless_texts_may_differ(tmp_path):
    record = tmp_path / "episodes.db"
    names = [f"session-{number}" for number in range(len(CLOCKS))]
    with anyio.fail_after(LIMIT):
        async with serving("shell", record) as http:
            for session_id, command in zip(names, CLOCKS, strict=True):
                await create(http, "shell", session_id)
                ran = (await call(http, session_id, "bash", {"command": command})).json()
                assert ran["output"]["blocks"][0]["text"], command
            left, again = (kill(record, tmp_path / f"{name}.db") for name in ("strict", "lenient"))
        async with serving("shell", left) as http:
            answers = [await http.get(f"/_ors/sessions/{session_id}/prompt") for session_id in names]
            assert [answer.status_code for answer in answers] == [410] * len(names)
            assert all("step 1 ('bash') differs from the record" in answer.text for answer in answers)
        async with serving("shell", again, recover="lenient") as http:
            answers = [await http.get(f"/_ors/sessions/{session_id}/prompt") for session_id in names]
            assert [answer.status_code for answer in answers] == [200] * len(names)
