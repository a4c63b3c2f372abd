"""Checks of what a server tells without a session: environments, tools, splits and tasks (E1 to E18, A4)."""

import uuid
from http import HTTPStatus
from typing import Any

from ors_server.testing.expectations import NotApplicableError, expect
from ors_server.testing.ors_subject import OrsSubject, expect_detail, expect_status
from ors_server.testing.ors_wire import WireAnswer, get, post

TOOL_KEYS = {"name", "description", "input_schema"}
REDIRECTS = (307, 308)
NOWHERE = "no-such-split"


async def tells_its_health(server: OrsSubject) -> None:
    """E1."""
    answer = await server.wire.send(get("/health"))
    expect_status(answer, 200, asked="GET /health")
    expect(answer.json().get("status") == "ok", f"expected status ok, got {answer}")


async def lists_its_environments(server: OrsSubject) -> None:
    """E2."""
    names = server.environments
    kinds = {type(name) for name in names}
    expect(kinds == {str}, f"expected an array of strings, got {names}")
    first = (await server.wire.send(get(f"/{names[0]}/splits"))).json()
    bare = await server.wire.send(get("/splits"))
    if bare.status in REDIRECTS:
        expect(
            bare.headers.get("location", "").endswith(f"/{names[0]}/splits"), f"/splits led to {bare.headers}"
        )
    else:
        expect(bare.json() == first, f"the default environment is not the first one, {names[0]!r}")


async def describes_its_tools(server: OrsSubject) -> None:
    """E3."""
    for name in server.environments:
        for tool in (await server.wire.send(get(f"/{name}/tools"))).json()["tools"]:
            expect(set(tool) == TOOL_KEYS, f"expected exactly {sorted(TOOL_KEYS)}, got {sorted(tool)}")
            expect(isinstance(tool["name"], str) and isinstance(tool["description"], str), f"in {tool}")
            expect(isinstance(tool["input_schema"], dict | None), f"expected an object or null in {tool}")


async def ignores_the_case_of_a_name(server: OrsSubject) -> None:
    """E4."""
    answer = await server.wire.send(get(f"/{server.environment.upper()}/splits"))
    expect_status(answer, 200, asked=f"GET /{server.environment.upper()}/splits")
    expect(answer.json() == server.splits, f"expected the same splits, got {answer}")


async def describes_its_splits(server: OrsSubject) -> None:
    """E5."""
    expect(server.splits, "expected at least one split")
    for split in server.splits:
        expect(set(split) == {"name", "type"}, f"expected a name and a type, got {split}")
        expect(split["type"] in {"train", "validation", "test"}, f"unexpected type in {split}")


async def _list(server: OrsSubject, split: str) -> list[Any]:
    answer = await server.ask("/tasks", {"split": split})
    if answer.status == HTTPStatus.BAD_REQUEST:
        raise NotApplicableError(f"{server.environment!r} does not list its tasks")
    expect_status(answer, 200, asked="POST /tasks")
    body = answer.json()
    expect(
        body.get("env_name") == server.environment, f"expected env_name {server.environment!r}, got {answer}"
    )
    expect(isinstance(body["tasks"], list), f"expected an array of tasks, got {answer}")
    return list(body["tasks"])


async def lists_tasks(server: OrsSubject) -> None:
    """E6."""
    tasks = await _list(server, server.split)
    expect(all(isinstance(task, dict) for task in tasks), "expected every task to be an object")


async def says_that_tasks_cannot_be_listed(server: OrsSubject) -> None:
    """E7."""
    seen = 0
    for name in server.environments:
        splits = (await server.wire.send(get(f"/{name}/splits"))).json()
        answer = await server.wire.send(post(f"/{name}/tasks", {"split": splits[0]["name"]}))
        if answer.status == HTTPStatus.OK:
            continue
        seen += 1
        detail = expect_detail(answer, 400, asked=f"POST /{name}/tasks")
        expect("not supported" in detail, f"expected the words 'not supported', got {detail!r}")
    if not seen:
        raise NotApplicableError("every environment here lists its tasks")


async def counts_tasks(server: OrsSubject) -> None:
    """E8."""
    for split, size in server.sizes.items():
        expect(type(size) is int and size >= 0, f"expected a count for {split!r}, got {size!r}")
    listed = len(await _list(server, server.split))
    expect(server.sizes[server.split] == listed, f"counted {server.sizes[server.split]}, listed {listed}")


async def tells_one_task(server: OrsSubject) -> None:
    """E9."""
    answer = await server.ask("/task", {"split": server.split, "index": 0})
    expect_status(answer, 200, asked="POST /task")
    body = answer.json()
    expect(isinstance(body.get("task"), dict), f"expected a task, got {answer}")
    expect(
        body.get("env_name") == server.environment, f"expected env_name {server.environment!r}, got {answer}"
    )


async def refuses_an_index_past_the_end(server: OrsSubject) -> None:
    """E10."""
    answer = await server.ask("/task", {"split": server.split, "index": server.sizes[server.split]})
    detail = expect_detail(answer, 400, asked="POST /task past the end")
    expect(isinstance(detail, str), f"expected a message, got {detail!r}")


async def counts_a_negative_index_from_the_end(server: OrsSubject) -> None:
    """E10b."""
    last = (await _list(server, server.split))[-1]
    answer = await server.ask("/task", {"split": server.split, "index": -1})
    expect_status(answer, 200, asked="POST /task with index -1")
    expect(answer.json()["task"] == last, f"expected the last task, got {answer}")


async def slices_tasks(server: OrsSubject) -> None:
    """E11."""
    size = server.sizes[server.split]
    whole = await server.ask("/task_range", {"split": server.split, "start": 0, "stop": min(size, 12)})
    tasks = whole.json()["tasks"]
    expect(whole.json().get("env_name") == server.environment, "expected env_name in the answer")
    expect(len(tasks) == min(size, 12), f"expected {min(size, 12)} tasks, got {len(tasks)}")
    start = max(size - 2, 0)
    for bounds, first, last in (
        ({"start": 1, "stop": 3}, 1, min(3, size)),
        ({"start": start}, start, size),
        ({"start": -2, "stop": None}, start, size),
        ({"start": None, "stop": 2}, 0, min(2, size)),
        ({"start": 2, "stop": 1}, 0, 0),
        ({"start": start, "stop": 10**6 + size}, start, size),
        ({"start": size + 5}, 0, 0),
    ):
        answer = await server.ask("/task_range", {"split": server.split, **bounds})
        expect_status(answer, 200, asked=f"POST /task_range {bounds}")
        got = answer.json()["tasks"]
        expect(len(got) == max(last - first, 0), f"{bounds} of {size} gave {len(got)} tasks")
        known = tasks[first:last]
        expect(got[: len(known)] == known, f"{bounds} gave other tasks")


async def refuses_an_unknown_split(server: OrsSubject) -> None:
    """E12."""
    bodies: dict[str, dict[str, Any]] = {
        "/tasks": {},
        "/num_tasks": {},
        "/task": {"index": 0},
        "/task_range": {"start": 0, "stop": 1},
    }
    for path, body in bodies.items():
        expect_detail(
            await server.ask(path, {"split": NOWHERE, **body}), 400, asked=f"{path} with an unknown split"
        )
    _, answer = await server.create({"split": NOWHERE, "index": 0})
    expect_detail(answer, 400, asked="/create with an unknown split")


async def _bare(server: OrsSubject) -> list[WireAnswer]:
    return [
        await server.wire.send(get("/tools")),
        await server.wire.send(get("/splits?x=1")),
        await server.wire.send(post("/num_tasks", {"split": server.split})),
        await server.wire.send(post("/task", {"split": server.split, "index": 0})),
    ]


async def reaches_the_default_environment_by_bare_paths(server: OrsSubject) -> None:
    """E13."""
    for answer in await _bare(server):
        expect_status(answer, 200, *REDIRECTS, asked="a bare path")
        if answer.status in REDIRECTS:
            target = answer.headers.get("location", "")
            expect(f"/{server.environment}/" in target, f"expected the default environment, got {target!r}")


async def answers_bare_paths_directly(server: OrsSubject) -> None:
    """E13b."""
    for answer in await _bare(server):
        expect_status(answer, 200, asked="a bare path")


async def routes_bare_paths_by_deployment(server: OrsSubject) -> None:
    """E13c."""
    for name in server.environments:
        for value in (name, f"owner/{name}", name.upper()):
            bare = await server.wire.send(get("/tools", X_Deployment=value))
            named = await server.wire.send(get(f"/{name}/tools"))
            expect(bare.json() == named.json(), f"X-Deployment: {value} with /tools answered {bare}")
    body = {"split": server.split, "index": 0}
    for request in (get("/tools", X_Deployment=NOWHERE), post("/task", body, X_Deployment=NOWHERE)):
        detail = expect_detail(await server.wire.send(request), 404, asked="X-Deployment without such a name")
        expect(server.environment in str(detail), f"expected the names that are served, got {detail!r}")
    _, answer = await server.create(body, X_Deployment=NOWHERE)
    expect_detail(answer, 404, asked="/create with an X-Deployment that is not served")


async def refuses_malformed_bodies(server: OrsSubject) -> None:
    """E14."""
    bodies: tuple[Any, ...] = ({}, {"split": 1}, {"split": None}, [], "text")
    for body in bodies:
        answer = await server.ask("/num_tasks", body)
        expect(answer.is_refusal, f"/num_tasks with {body!r}: expected 4xx, got {answer}")
        expect_detail(answer, answer.status, asked=f"/num_tasks with {body!r}")
    for raw in (b"", b"not json", b'{"split":', b"\xff\xfe"):
        request = post(f"/{server.environment}/num_tasks", {}, Content_Length=str(len(raw)))
        answer = await server.wire.send(type(request)(request.method, request.path, raw, request.headers))
        expect(answer.is_refusal, f"/num_tasks with {raw!r}: expected 4xx, got {answer}")
        expect_detail(answer, answer.status, asked=f"/num_tasks with {raw!r}")


async def says_application_json(server: OrsSubject) -> None:
    """E15."""
    name = server.environment
    requests = [
        get("/health"),
        get("/list_environments"),
        get(f"/{name}/tools"),
        get(f"/{name}/splits"),
        post(f"/{name}/num_tasks", {"split": server.split}),
        post(f"/{name}/num_tasks", {}),
        post(f"/{name}/task", {"split": server.split, "index": 0}),
        post("/ping"),
        post("/ping", X_Session_ID="nobody"),
        post("/create", {}, X_Session_ID="nobody"),
        post("/delete", X_Session_ID="nobody"),
        get(f"/{name}/prompt", X_Session_ID="nobody"),
        get(f"/{name}/no-such-page"),
        post(f"/{name}/call", {"name": "x", "input": {}}, X_Session_ID="nobody"),
    ]
    for request in requests:
        answer = await server.wire.send(request)
        kind = answer.headers.get("content-type", "")
        expect(kind.startswith("application/json"), f"{request.method} {request.path} answered {kind!r}")


async def has_the_names_of_the_specification(server: OrsSubject) -> None:
    """E16."""
    for ours, theirs, body in (
        ("/task", "/get_task", {"index": 0}),
        ("/task_range", "/get_task_range", {"start": 0, "stop": 1}),
    ):
        question = {"split": server.split, **body}
        answer = await server.ask(theirs, question)
        expect_status(answer, 200, asked=theirs)
        expect(answer.json() == (await server.ask(ours, question)).json(), f"{theirs} differs from {ours}")


async def does_not_know_an_unknown_environment(server: OrsSubject) -> None:
    """E17."""
    for request in (get("/no-such-env/tools"), post("/no-such-env/num_tasks", {"split": server.split})):
        expect_detail(await server.wire.send(request), 404, asked=request.path)


async def ignores_a_session_in_discovery(server: OrsSubject) -> None:
    """E18."""
    for sid in (str(uuid.uuid4()), "never created"):
        for request in (
            get(f"/{server.environment}/tools", X_Session_ID=sid),
            get(f"/{server.environment}/splits", X_Session_ID=sid),
            post(f"/{server.environment}/num_tasks", {"split": server.split}, X_Session_ID=sid),
            post(f"/{server.environment}/task", {"split": server.split, "index": 0}, X_Session_ID=sid),
        ):
            expect_status(
                await server.wire.send(request), 200, asked=f"{request.path} with a fresh session id"
            )


async def describes_a_terminal_tool(server: OrsSubject) -> None:
    """A4."""
    for name in server.environments:
        body = (await server.wire.send(get(f"/{name}/tools"))).json()
        terminal = body.get("terminal_tool")
        if terminal is None:
            continue
        expect(isinstance(terminal["name"], str), f"expected a name in {terminal}")
        expect(
            terminal["name"] not in {tool["name"] for tool in body["tools"]}, f"{terminal['name']} is listed"
        )
        return
    raise NotApplicableError("no environment here has a terminal tool")


CHECKS = {
    "E1": tells_its_health,
    "E2": lists_its_environments,
    "E3": describes_its_tools,
    "E4": ignores_the_case_of_a_name,
    "E5": describes_its_splits,
    "E6": lists_tasks,
    "E7": says_that_tasks_cannot_be_listed,
    "E8": counts_tasks,
    "E9": tells_one_task,
    "E10": refuses_an_index_past_the_end,
    "E10b": counts_a_negative_index_from_the_end,
    "E11": slices_tasks,
    "E12": refuses_an_unknown_split,
    "E13": reaches_the_default_environment_by_bare_paths,
    "E13b": answers_bare_paths_directly,
    "E13c": routes_bare_paths_by_deployment,
    "E14": refuses_malformed_bodies,
    "E15": says_application_json,
    "E16": has_the_names_of_the_specification,
    "E17": does_not_know_an_unknown_environment,
    "E18": ignores_a_session_in_discovery,
    "A4": describes_a_terminal_tool,
}
"""Requirement id -> the check of it."""
