"""How a call comes and goes over MCP: ids, leaving clients, progress, questions.

Sources: MCP 2026-07-28, basic/utilities (cancellation, progress, MRTR) and server/tools; 2025-11-25, client
(sampling, elicitation, roots).
"""

import gc
import tracemalloc
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import MCPError

from ors_server import Ability, AbilityError, AskError, CallContext, tool
from ors_server.doors.mcp import calling_clients as calling_clients_module
from ors_server.doors.mcp import input_requests as input_requests_module
from ors_server.doors.mcp import mcp_calls as mcp_calls_module
from ors_server.doors.mcp.mcp_results import CALL_ID_KEY
from tests.conformance.mcp.conftest import text_of
from tests.fixtures.single_task import SingleTask

LIMIT = 20.0


# Call ids


async def test_a_repeated_call_id_is_answered_from_the_record(site, era):
    async with site.play(era) as (session_id, client):
        first = await client.call_tool("say", {"text": "test0"}, meta={CALL_ID_KEY: "once"})
        again = await client.call_tool("say", {"text": "test0"}, meta={CALL_ID_KEY: "once"})
    assert text_of(first) == text_of(again)
    summary = await site.summary(session_id)
    assert (summary.steps, summary.episode_return) == (1, 1.0)


async def test_a_call_id_means_the_same_call_on_both_eras_of_one_session(site):
    session_id = await site.start()
    texts = []
    for era in ("2026-07-28", "2025-11-25"):
        async with site.client(f"/sessions/{session_id}/mcp", era) as client:
            texts.append(text_of(await client.call_tool("look", {}, meta={CALL_ID_KEY: "shared"})))
    assert texts == ["step 1", "step 1"]
    assert (await site.summary(session_id)).steps == 1


@pytest.mark.parametrize("call_id", ["", "x" * 129, 5, ["a"]])
async def test_a_call_id_of_the_wrong_form_is_a_protocol_error(site, call_id):
    session_id = await site.start()
    params = {"name": "look", "_meta": {CALL_ID_KEY: call_id}}
    answer = (await site.post(f"/sessions/{session_id}/mcp", "tools/call", params)).json()
    assert answer["error"]["code"] == types.INVALID_PARAMS
    assert (await site.summary(session_id)).steps == 0


async def test_the_longest_call_id_is_accepted(site):
    session_id = await site.start()
    params = {"name": "look", "_meta": {CALL_ID_KEY: "x" * 128}}
    assert "result" in (await site.post(f"/sessions/{session_id}/mcp", "tools/call", params)).json()


# Leaving clients


async def leave_during_call(site, session_id: str, signals, meta: dict[str, Any]) -> None:
    async with anyio.create_task_group() as tasks:

        async def call() -> None:
            await site.post(f"/sessions/{session_id}/mcp", "tools/call", {"name": "wait", "_meta": meta})

        tasks.start_soon(call)
        with anyio.fail_after(LIMIT):
            await signals.started.wait()
        tasks.cancel_scope.cancel()


async def test_a_client_that_leaves_withdraws_its_call(site, signals):
    session_id = await site.start()
    await leave_during_call(site, session_id, signals, {})
    with anyio.fail_after(LIMIT):
        await signals.cancelled.wait()
    async with site.client(f"/sessions/{session_id}/mcp") as client:
        assert text_of(await client.call_tool("look", {})) == "step 2"


async def test_a_client_that_leaves_an_id_behind_finds_its_answer_when_it_comes_back(site, signals):
    session_id = await site.start()
    meta = {CALL_ID_KEY: "mine"}
    await leave_during_call(site, session_id, signals, meta)
    assert not signals.cancelled.is_set()
    signals.go.set()
    answer = (
        await site.post(f"/sessions/{session_id}/mcp", "tools/call", {"name": "wait", "_meta": meta})
    ).json()
    assert answer["result"]["content"][0]["text"] == "waited, step 1"
    assert signals.runs == 1


async def test_a_client_that_leaves_another_attached_does_not_disturb_it(site, signals):
    session_id = await site.start()
    meta = {CALL_ID_KEY: "shared"}
    params = {"name": "wait", "_meta": meta}
    answers = []

    async def stay() -> None:
        answers.append((await site.post(f"/sessions/{session_id}/mcp", "tools/call", params)).json())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stay)
        await leave_during_call(site, session_id, signals, meta)
        signals.go.set()
    assert answers[0]["result"]["content"][0]["text"] == "waited, step 1"


async def test_a_client_of_the_handshake_era_withdraws_a_call_by_saying_so(site, signals):
    async with site.play("2025-11-25") as (_, client):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "wait", {})
            with anyio.fail_after(LIMIT):
                await signals.started.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(LIMIT):
            await signals.cancelled.wait()
        assert text_of(await client.call_tool("look", {})) == "step 2"


# Progress


async def test_a_tools_progress_reaches_a_client_that_asked_and_never_goes_back(site, era):
    session_id = await site.start()
    seen = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with site.client(f"/sessions/{session_id}/mcp", era) as client:
        result = await client.call_tool("count", {}, progress_callback=note)
    assert text_of(result) == "counted"
    assert seen == [(1.0, 3.0, "1 of 3"), (2.0, 3.0, "2 of 3"), (3.0, 3.0, "3 of 3")]


async def test_a_long_silent_call_shows_signs_of_life(site, era, signals, monkeypatch):
    monkeypatch.setattr(mcp_calls_module, "HEARTBEAT", 0.01)
    session_id = await site.start()
    seen = []

    async def note(progress: float, _total: float | None, message: str | None) -> None:
        seen.append((progress, message))
        if len(seen) == 3:
            signals.go.set()

    async with site.client(f"/sessions/{session_id}/mcp", era) as client:
        with anyio.fail_after(LIMIT):
            result = await client.call_tool("wait", {}, progress_callback=note)
    assert text_of(result) == "waited, step 1"
    assert [one[0] for one in seen[:3]] == sorted({one[0] for one in seen[:3]})
    assert "still running" in str(seen[0][1])


async def test_a_call_without_a_wish_for_progress_gets_a_plain_answer(site):
    session_id = await site.start()
    answer = await site.post(f"/sessions/{session_id}/mcp", "tools/call", {"name": "count"})
    assert answer.headers["content-type"].startswith("application/json")


# Questions


class Asker(SingleTask):
    """Asks the client."""

    name = "asker"
    SPLIT = "test"
    WORDS = "Answer."

    @tool
    async def ask_name(self, context: CallContext) -> str:
        """Asks for a name."""
        answer = await context.elicit("Name?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return f"{answer.action} {answer.content.get('name')}, step {context.step}"

    @tool
    async def ask_name_and_age(self, context: CallContext) -> str:
        """Asks two questions of one kind, one after the other."""
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        name = await context.elicit("Name?", schema)
        age = await context.elicit("Age?", schema)
        return f"{name.content.get('name')} {age.content.get('name')}"

    @tool
    async def ask_twice(self, context: CallContext) -> str:
        """Asks the model, then for the folders."""
        said = await context.sample("Hello?", system_prompt="Be kind.")
        roots = await context.list_roots()
        return f"{said.text} by {said.model}, {roots[0].uri}"

    @tool
    async def ask_gently(self, context: CallContext) -> str:
        """Goes on without an answer."""
        try:
            return (await context.sample("Hello?")).text
        except AbilityError as error:
            return f"no {', '.join(error.missing)}, {context.can(Ability.SAMPLING)}"
        except AskError:
            return "no answer"

    @tool
    async def insist(self, context: CallContext) -> str:
        """Cannot go on without an answer."""
        return (await context.sample("Hello?")).text


async def elicited(_context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def sampled(_context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    said = f"{params.system_prompt} {params.messages[0].content.text}"
    return types.CreateMessageResult(
        role="assistant", content=types.TextContent(text=said), model="m", stop_reason="endTurn"
    )


async def roots(_context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///desk", name="work")])


async def refused(_context: Any, params: object) -> types.ErrorData:
    return types.ErrorData(code=-1, message="no")


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_a_person_behind_the_client_answers_a_tool_in_one_step(make_site, era):
    site = await make_site(Asker)
    async with site.play(era, "asker", elicitation_callback=elicited) as (session_id, client):
        result = await client.call_tool("ask_name", {})
    assert text_of(result) == "accept Ada, step 1"
    assert (await site.summary(session_id)).steps == 1


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_a_tool_may_ask_again_and_again(make_site, era):
    site = await make_site(Asker)
    session_id = await site.start("asker")
    options = {"sampling_callback": sampled, "list_roots_callback": roots}
    async with site.client(f"/sessions/{session_id}/mcp", era, **options) as client:
        result = await client.call_tool("ask_twice", {})
    assert text_of(result) == "Be kind. Hello? by m, file:///desk"
    assert (await site.summary(session_id)).steps == 1


async def test_a_tool_may_go_on_without_an_answer(make_site, era):
    site = await make_site(Asker)
    async with site.play(era, "asker") as (_, client):
        result = await client.call_tool("ask_gently", {})
    assert text_of(result) == "no sampling, False"


async def test_a_client_that_offers_something_else_is_told_what_is_missing(make_site, era):
    site = await make_site(Asker)
    async with site.play(era, "asker", elicitation_callback=elicited) as (session_id, client):
        with pytest.raises(MCPError) as caught:
            await client.call_tool("insist", {})
    assert caught.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert caught.value.data == {"requiredCapabilities": {"sampling": {}}}
    summary = await site.summary(session_id)
    assert (summary.failed_steps, summary.episode_return) == (1, 0.0)


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_a_client_of_the_handshake_era_may_refuse_an_answer(make_site):
    site = await make_site(Asker)
    session_id = await site.start("asker")
    path = f"/sessions/{session_id}/mcp"
    async with site.client(path, "2025-11-25", sampling_callback=refused) as client:
        gentle = await client.call_tool("ask_gently", {})
        insisting = await client.call_tool("insist", {})
    assert text_of(gentle) == "no answer"
    assert insisting.is_error


async def ask(site, session_id: str, tool_name: str = "ask_name", **params: Any) -> dict[str, Any]:
    capabilities: dict[str, Any] = {"elicitation": {}, "sampling": {}}
    meta = {"io.modelcontextprotocol/clientCapabilities": capabilities}
    given = {"name": tool_name, "arguments": {}, **params, "_meta": {**meta, **params.get("_meta", {})}}
    answer: httpx2.Response = await site.post(f"/sessions/{session_id}/mcp", "tools/call", given)
    body: dict[str, Any] = answer.json()
    return body


def accept(name: str) -> dict[str, Any]:
    return {"elicitation": {"action": "accept", "content": {"name": name}}}


async def test_only_the_request_that_asked_can_be_gone_on_with(make_site):
    site = await make_site(Asker)
    session_id, other = await site.start("asker"), await site.start("asker")
    state = (await ask(site, session_id))["result"]["requestState"]
    wrong = [
        await ask(site, session_id, requestState=f"{state}x", inputResponses=accept("Eve")),
        await ask(site, other, requestState=state, inputResponses=accept("Eve")),
        await ask(site, session_id, "insist", requestState=state, inputResponses=accept("Eve")),
        await ask(site, session_id, requestState=state, arguments={"a": 1}, inputResponses=accept("Eve")),
    ]
    assert [answer["error"]["code"] for answer in wrong] == [types.INVALID_PARAMS] * 4
    right = await ask(site, session_id, requestState=state, inputResponses=accept("Ada"))
    assert right["result"]["content"][0]["text"] == "accept Ada, step 1"
    late = await ask(site, session_id, requestState=state, inputResponses=accept("Eve"))
    assert late["error"]["code"] == types.INVALID_PARAMS


async def test_an_answer_of_the_wrong_kind_is_asked_for_again(make_site):
    site = await make_site(Asker)
    session_id = await site.start("asker")
    first = (await ask(site, session_id))["result"]
    sample = {"role": "assistant", "content": {"type": "text", "text": "?"}, "model": "m"}
    answers = {"elicitation": sample}
    again = (await ask(site, session_id, requestState=first["requestState"], inputResponses=answers))[
        "result"
    ]
    assert again["resultType"] == "input_required"
    assert again["requestState"] != first["requestState"]


async def test_a_second_question_is_not_answered_by_the_first_answer(make_site):
    site = await make_site(Asker)
    session_id = await site.start("asker")
    first = (await ask(site, session_id, "ask_name_and_age"))["result"]
    accepted = {"requestState": first["requestState"], "inputResponses": accept("Ada")}
    second = (await ask(site, session_id, "ask_name_and_age", **accepted))["result"]
    assert second["inputRequests"]["elicitation"]["params"]["message"] == "Age?"
    accepted = {"requestState": second["requestState"], "inputResponses": accept("36")}
    answer = await ask(site, session_id, "ask_name_and_age", **accepted)
    assert answer["result"]["content"][0]["text"] == "Ada 36"


async def test_responses_to_no_question_and_old_states_are_not_kept(make_site):
    site = await make_site(Asker)
    session_id = await site.start("asker")
    state = (await ask(site, session_id, inputResponses=accept("early")))["result"]["requestState"]
    states = [state]
    tracemalloc.start()
    try:
        for number in range(20):
            unasked = {f"unasked-{number}": {"action": "accept", "content": {"name": f"{number}" * 200_000}}}
            answer = await ask(site, session_id, requestState=state, inputResponses=unasked)
            state = answer["result"]["requestState"]
            states.append(state)
        gc.collect()
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 2_000_000
    stale = await ask(site, session_id, requestState=states[0], inputResponses=accept("Eve"))
    assert stale["error"]["code"] == types.INVALID_PARAMS
    right = await ask(site, session_id, requestState=states[-2], inputResponses=accept("Ada"))
    assert right["result"]["content"][0]["text"] == "accept Ada, step 1"


async def test_a_client_that_does_not_come_back_leaves_the_tool_without_an_answer(make_site, monkeypatch):
    monkeypatch.setattr(input_requests_module, "ASK_LIMIT", 0.01)
    site = await make_site(Asker)
    session_id = await site.start("asker")
    meta = {CALL_ID_KEY: "mine"}
    await ask(site, session_id, "ask_gently", _meta=meta)
    answer = await ask(site, session_id, "ask_gently", _meta=meta)
    while "requestState" in answer["result"]:
        answer = await ask(site, session_id, "ask_gently", _meta=meta)
    assert answer["result"]["content"][0]["text"] == "no answer"
    assert (await site.summary(session_id)).steps == 1


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_a_client_of_the_handshake_era_that_is_silent_leaves_the_tool_without_an_answer(
    make_site, monkeypatch
):
    monkeypatch.setattr(calling_clients_module, "ASK_LIMIT", 0.01)

    async def silent(_context: Any, params: object) -> types.CreateMessageResult:
        await anyio.sleep_forever()
        raise AssertionError

    site = await make_site(Asker)
    session_id = await site.start("asker")
    path = f"/sessions/{session_id}/mcp"
    async with site.client(path, "2025-11-25", sampling_callback=silent) as client:
        result = await client.call_tool("ask_gently", {})
    assert text_of(result) == "no answer"


async def test_a_client_that_comes_back_by_call_id_is_asked_the_open_question(make_site):
    site = await make_site(Asker)
    session_id = await site.start("asker")
    meta = {CALL_ID_KEY: "mine"}
    await ask(site, session_id, _meta=meta)
    again = await ask(site, session_id, _meta=meta)
    state = again["result"]["requestState"]
    answer = await ask(site, session_id, _meta=meta, requestState=state, inputResponses=accept("Ada"))
    assert answer["result"]["content"][0]["text"] == "accept Ada, step 1"
    replayed = await ask(site, session_id, _meta=meta)
    assert replayed["result"]["content"][0]["text"] == "accept Ada, step 1"
    assert (await site.summary(session_id)).steps == 1
