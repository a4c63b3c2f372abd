"""Checks of what a server tells without a session: environments, tools, splits and tasks (E1 to E18, A4)."""

import uuid
from http import HTTPStatus
from typing import Any

from ors_server.conformance.expectations import NotApplicableError, expect
from ors_server.conformance.ors_subject import OrsChecks, OrsSubject, expect_detail, expect_status
from ors_server.conformance.ors_wire import WireAnswer, get, post

TOOL_KEYS = {"name", "description", "input_schema"}
REDIRECTS = (307, 308)
NOWHERE = "no-such-split"

CHECKS = OrsChecks()
"""Requirement id -> the check of it."""


@CHECKS.of("E1")
async def reports_its_health(server: OrsSubject) -> None:
    answer = await server.wire.send(get("/health"))
    expect_status(answer, 200, request="GET /health")
    expect(answer.json().get("status") == "ok", f"expected status ok, got {answer}")


@CHECKS.of("E2")
async def lists_its_environments(server: OrsSubject) -> None:
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


@CHECKS.of("E3")
async def describes_its_tools(server: OrsSubject) -> None:
    for name in server.environments:
        for tool in (await server.wire.send(get(f"/{name}/tools"))).json()["tools"]:
            expect(set(tool) == TOOL_KEYS, f"expected exactly {sorted(TOOL_KEYS)}, got {sorted(tool)}")
            expect(isinstance(tool["name"], str) and isinstance(tool["description"], str), f"in {tool}")
            expect(isinstance(tool["input_schema"], dict | None), f"expected an object or null in {tool}")


@CHECKS.of("E4")
async def ignores_the_case_of_a_name(server: OrsSubject) -> None:
    answer = await server.wire.send(get(f"/{server.environment.upper()}/splits"))
    expect_status(answer, 200, request=f"GET /{server.environment.upper()}/splits")
    expect(answer.json() == server.splits, f"expected the same splits, got {answer}")


@CHECKS.of("E5")
async def describes_its_splits(server: OrsSubject) -> None:
    expect(server.splits, "expected at least one split")
    for split in server.splits:
        expect(set(split) == {"name", "type"}, f"expected a name and a type, got {split}")
        expect(split["type"] in {"train", "validation", "test"}, f"unexpected type in {split}")


async def _list(server: OrsSubject, split: str) -> list[Any]:
    answer = await server.ask("/tasks", {"split": split})
    if answer.status == HTTPStatus.BAD_REQUEST:
        raise NotApplicableError(f"{server.environment!r} does not list its tasks")
    expect_status(answer, 200, request="POST /tasks")
    body = answer.json()
    expect(
        body.get("env_name") == server.environment, f"expected env_name {server.environment!r}, got {answer}"
    )
    expect(isinstance(body["tasks"], list), f"expected an array of tasks, got {answer}")
    return list(body["tasks"])


@CHECKS.of("E6")
async def lists_tasks(server: OrsSubject) -> None:
    tasks = await _list(server, server.split)
    expect(all(isinstance(task, dict) for task in tasks), "expected every task to be an object")


@CHECKS.of("E7")
async def reports_that_tasks_cannot_be_listed(server: OrsSubject) -> None:
    seen = 0
    for name in server.environments:
        # Any environment of the server may be one that cannot list its tasks.
        splits = (await server.wire.send(get(f"/{name}/splits"))).json()
        answer = await server.wire.send(post(f"/{name}/tasks", {"split": splits[0]["name"]}))
        if answer.status == HTTPStatus.OK:
            continue
        seen += 1
        detail = expect_detail(answer, 400, request=f"POST /{name}/tasks")
        expect("not supported" in detail, f"expected the words 'not supported', got {detail!r}")
    if not seen:
        raise NotApplicableError("every environment here lists its tasks")


@CHECKS.of("E8")
async def counts_tasks(server: OrsSubject) -> None:
    for split, size in server.sizes.items():
        expect(type(size) is int and size >= 0, f"expected a count for {split!r}, got {size!r}")
    listed = len(await _list(server, server.split))
    expect(server.sizes[server.split] == listed, f"counted {server.sizes[server.split]}, listed {listed}")


@CHECKS.of("E9")
async def returns_one_task(server: OrsSubject) -> None:
    answer = await server.ask("/task", {"split": server.split, "index": 0})
    expect_status(answer, 200, request="POST /task")
    body = answer.json()
    expect(isinstance(body.get("task"), dict), f"expected a task, got {answer}")
    expect(
        body.get("env_name") == server.environment, f"expected env_name {server.environment!r}, got {answer}"
    )


@CHECKS.of("E10")
async def refuses_an_index_past_the_end(server: OrsSubject) -> None:
    answer = await server.ask("/task", {"split": server.split, "index": server.sizes[server.split]})
    detail = expect_detail(answer, 400, request="POST /task past the end")
    expect(isinstance(detail, str), f"expected a message, got {detail!r}")


@CHECKS.of("E10b")
async def counts_a_negative_index_from_the_end(server: OrsSubject) -> None:
    last = (await _list(server, server.split))[-1]
    answer = await server.ask("/task", {"split": server.split, "index": -1})
    expect_status(answer, 200, request="POST /task with index -1")
    expect(answer.json()["task"] == last, f"expected the last task, got {answer}")


@CHECKS.of("E11")
async def slices_tasks(server: OrsSubject) -> None:
    size = server.sizes[server.split]
    whole = await server.ask("/task_range", {"split": server.split, "start": 0, "stop": min(size, 12)})
    tasks = whole.json()["tasks"]
    expect(whole.json().get("env_name") == server.environment, "expected env_name in the answer")
    expect(len(tasks) == min(size, 12), f"expected {min(size, 12)} tasks, got {len(tasks)}")
    start = max(size - 2, 0)
    # Python's slices decide: negative and missing bounds, and bounds past the end.
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
        expect_status(answer, 200, request=f"POST /task_range {bounds}")
        got = answer.json()["tasks"]
        expect(len(got) == max(last - first, 0), f"{bounds} of {size} gave {len(got)} tasks")
        expected = tasks[first:last]
        expect(got[: len(expected)] == expected, f"{bounds} gave other tasks")


@CHECKS.of("E12")
async def refuses_an_unknown_split(server: OrsSubject) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "/tasks": {},
        "/num_tasks": {},
        "/task": {"index": 0},
        "/task_range": {"start": 0, "stop": 1},
    }
    for path, body in bodies.items():
        expect_detail(
            await server.ask(path, {"split": NOWHERE, **body}), 400, request=f"{path} with an unknown split"
        )
    _, answer = await server.create({"split": NOWHERE, "index": 0})
    expect_detail(answer, 400, request="/create with an unknown split")


async def _bare(server: OrsSubject) -> list[WireAnswer]:
    return [
        await server.wire.send(get("/tools")),
        await server.wire.send(get("/splits?x=1")),
        await server.wire.send(post("/num_tasks", {"split": server.split})),
        await server.wire.send(post("/task", {"split": server.split, "index": 0})),
    ]


@CHECKS.of("E13")
async def reaches_the_default_environment_by_bare_paths(server: OrsSubject) -> None:
    for answer in await _bare(server):
        expect_status(answer, 200, *REDIRECTS, request="a bare path")
        if answer.status in REDIRECTS:
            target = answer.headers.get("location", "")
            expect(f"/{server.environment}/" in target, f"expected the default environment, got {target!r}")


@CHECKS.of("E13b")
async def answers_bare_paths_directly(server: OrsSubject) -> None:
    for answer in await _bare(server):
        expect_status(answer, 200, request="a bare path")


@CHECKS.of("E13c")
async def routes_bare_paths_by_deployment(server: OrsSubject) -> None:
    for name in server.environments:
        for value in (name, f"owner/{name}", name.upper()):
            bare = await server.wire.send(get("/tools", X_Deployment=value))
            named = await server.wire.send(get(f"/{name}/tools"))
            expect(bare.json() == named.json(), f"X-Deployment: {value} with /tools answered {bare}")
    body = {"split": server.split, "index": 0}
    for request in (get("/tools", X_Deployment=NOWHERE), post("/task", body, X_Deployment=NOWHERE)):
        detail = expect_detail(
            await server.wire.send(request), 404, request="X-Deployment without such a name"
        )
        expect(server.environment in str(detail), f"expected the names that are served, got {detail!r}")
    _, answer = await server.create(body, X_Deployment=NOWHERE)
    expect_detail(answer, 404, request="/create with an X-Deployment that is not served")


@CHECKS.of("E14")
async def refuses_malformed_bodies(server: OrsSubject) -> None:
    bodies: tuple[Any, ...] = ({}, {"split": 1}, {"split": None}, [], "text")
    for body in bodies:
        answer = await server.ask("/num_tasks", body)
        expect(answer.is_refusal, f"/num_tasks with {body!r}: expected 4xx, got {answer}")
        expect_detail(answer, answer.status, request=f"/num_tasks with {body!r}")
    for raw in (b"", b"not json", b'{"split":', b"\xff\xfe"):
        request = post(f"/{server.environment}/num_tasks", {}, Content_Length=str(len(raw)))
        answer = await server.wire.send(type(request)(request.method, request.path, raw, request.headers))
        expect(answer.is_refusal, f"/num_tasks with {raw!r}: expected 4xx, got {answer}")
        expect_detail(answer, answer.status, request=f"/num_tasks with {raw!r}")


@CHECKS.of("E15")
async def answers_application_json(server: OrsSubject) -> None:
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


@CHECKS.of("E16")
async def has_the_names_of_the_specification(server: OrsSubject) -> None:
    for path, alias, body in (
        ("/task", "/get_task", {"index": 0}),
        ("/task_range", "/get_task_range", {"start": 0, "stop": 1}),
    ):
        question = {"split": server.split, **body}
        answer = await server.ask(alias, question)
        expect_status(answer, 200, request=alias)
        expect(answer.json() == (await server.ask(path, question)).json(), f"{alias} differs from {path}")


@CHECKS.of("E17")
async def does_not_know_an_unknown_environment(server: OrsSubject) -> None:
    for request in (get("/no-such-env/tools"), post("/no-such-env/num_tasks", {"split": server.split})):
        expect_detail(await server.wire.send(request), 404, request=request.path)


@CHECKS.of("E18")
async def ignores_a_session_in_discovery(server: OrsSubject) -> None:
    for sid in (str(uuid.uuid4()), "never created"):
        for request in (
            get(f"/{server.environment}/tools", X_Session_ID=sid),
            get(f"/{server.environment}/splits", X_Session_ID=sid),
            post(f"/{server.environment}/num_tasks", {"split": server.split}, X_Session_ID=sid),
            post(f"/{server.environment}/task", {"split": server.split, "index": 0}, X_Session_ID=sid),
        ):
            expect_status(
                await server.wire.send(request), 200, request=f"{request.path} with a fresh session id"
            )


@CHECKS.of("A4")
async def describes_a_terminal_tool(server: OrsSubject) -> None:
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
