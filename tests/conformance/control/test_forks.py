"""Snapshots and forks over the control API."""

import pytest

from ors_server import Environment, ToolOutput, tool
from tests.fixtures.single_task import SingleTask


class Adder(SingleTask):
    """Adds up."""

    name = "adder"
    total = 0

    def get_prompt(self):
        return "add"

    def save_state(self):
        return {"total": self.total}

    def load_state(self, state):
        self.total = state["total"]

    @tool
    async def add(self, amount: int) -> ToolOutput:
        """Adds.

        Args:
            amount: How much.
        """
        self.total += amount
        return ToolOutput(blocks=[], reward=float(amount), metadata={"total": self.total})


@pytest.fixture
async def control(open_control):
    return await open_control(Adder)


async def test_a_live_session_is_forked_into_several(control):
    parent = await control.create()
    await control.call(parent, "add", {"amount": 2})
    answer = await control.post(f"/sessions/{parent}/fork", {"count": 3})
    made = answer.json()["sessions"]
    assert answer.status_code == 201
    assert len({one["session_id"] for one in made} | {parent}) == 4
    for number, one in enumerate(made):
        told = await control.call(one["session_id"], "add", {"amount": number})
        assert told["output"]["metadata"]["total"] == 2 + number
        status = (await control.get(f"/sessions/{one['session_id']}")).json()
        assert status["forked_from"] == {"session_id": parent, "steps": 1}
        assert status["episode"]["return"] == 2.0 + number
        assert one["agent_token"] == control.app.agent_token(one["session_id"])


async def test_a_session_goes_back_to_what_was_kept(control):
    session = await control.create()
    kept = await control.post(f"/sessions/{session}/snapshots")
    assert kept.status_code == 201
    place = f"/sessions/{session}/snapshots"
    await control.call(session, "add", {"amount": 9})
    assert (await control.get(place)).json() == {"snapshots": [kept.json()]}
    restored = await control.post(f"{place}/{kept.json()['snapshot_id']}/restore")
    assert restored.json() == kept.json()
    assert (await control.call(session, "add", {"amount": 1}))["output"]["metadata"]["total"] == 1
    left = await control.ask("DELETE", f"{place}/{kept.json()['snapshot_id']}")
    assert left.json() == {"snapshots": []}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/fork", {"count": 0}, 422, "invalid_request"),
        ("POST", "/fork", {"count": 65}, 422, "invalid_request"),
        ("POST", "/fork", {"snapshot_id": "none"}, 404, "unknown_snapshot"),
        ("POST", "/snapshots/none/restore", None, 404, "unknown_snapshot"),
        ("DELETE", "/snapshots/none", None, 404, "unknown_snapshot"),
    ],
)
async def test_wrong_wishes_are_told(control, method, path, body, status, code):
    session = await control.create()
    answer = await control.ask(method, f"/sessions/{session}{path}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


class Forgetful(Adder):
    """Cannot be copied."""

    save_state = Environment.save_state
    load_state = Environment.load_state


async def test_an_environment_that_cannot_be_copied_says_so(open_control):
    control = await open_control(Forgetful)
    session = await control.create()
    answer = await control.post(f"/sessions/{session}/fork", {})
    assert (answer.status_code, answer.json()["code"]) == (404, "not_supported")
    assert "save_state" in answer.json()["detail"]


async def test_agents_take_no_copies(open_control, keys, api_keys):
    control = await open_control(Adder, api_keys=api_keys)
    session = await control.create(key=keys["trainer"])
    token = control.app.agent_token(session)
    for path in ("/fork", "/snapshots"):
        for key in (keys["agent"], token):
            assert (await control.post(f"/sessions/{session}{path}", {}, key=key)).status_code == 403
