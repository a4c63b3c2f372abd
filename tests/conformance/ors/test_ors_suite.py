"""The suite itself: whom it judges, what it skips, and that no server makes it hang or raise."""

import json
import socket
from typing import Any

from ors_server import Environment, EpisodePolicy, ToolOutput, tool
from ors_server.conformance.ors_manifest import Level, read_requirements
from ors_server.conformance.ors_suite import RISKY, SLOW, Choice, check_server


class PlainEnv(Environment):
    """An environment that knows nothing of the acceptance tools."""

    name = "plain"

    @classmethod
    def list_splits(cls) -> list[str]:
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, Any]]:
        return [{"n": n} for n in range(20)]

    def get_prompt(self) -> str:
        return "Wait."

    @tool
    async def wait(self) -> ToolOutput:
        """Waits."""
        return ToolOutput.ongoing("waited")


async def says_yes(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI application that answers an empty object, whatever it is asked."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"{}"})


TOOLS = [{"name": name} for name in ("echo", "count", "slow_count", "ledger", "finish", "nan")]
ANSWERS: dict[str, Any] = {
    "/list_environments": ["hollow"],
    "/hollow/tools": {"tools": TOOLS},
    "/hollow/splits": [{"name": "train", "type": "train"}],
    "/hollow/num_tasks": {"num_tasks": 3},
}


async def says_nothing(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI application that discovers well, and answers an empty array to everything else."""
    if scope["type"] == "lifespan":
        await says_yes(scope, receive, send)
        return
    body = json.dumps(ANSWERS.get(scope["path"], [])).encode()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]}
    )
    await send({"type": "http.response.body", "body": body})


async def test_an_environment_without_the_acceptance_tools_meets_or_skips_everything(serve):
    async with serve(environment=PlainEnv) as url:
        report = await check_server(url, Choice(slow=True, risky=True))
    outcomes = {verdict.requirement.id: verdict for verdict in report.verdicts}
    assert report.is_conformant
    assert list(report.failed(Level.SHOULD)) == []
    assert outcomes["E20"].outcome == "pass"
    assert outcomes["E62"].outcome == "skip"
    assert "not the acceptance environment" in outcomes["E62"].reason
    assert outcomes["E71"].reason == "the server has one environment only"


async def test_an_environment_that_charges_for_mistakes_is_conformant(serve):
    class Charging(PlainEnv):
        name = "charging"
        policy = EpisodePolicy(invalid_call_penalty=0.05)

    async with serve(environment=Charging) as url:
        report = await check_server(url, Choice(only=frozenset({"E61", "E61b"})))
    assert [(verdict.outcome, verdict.reason) for verdict in report.verdicts] == [("pass", "")] * 2


async def test_a_server_that_nobody_started_fails_everything_that_is_asked():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    report = await check_server(url)
    assert not report.is_conformant
    assert {v.outcome for v in report.verdicts} == {"fail", "skip"}
    assert all("no server listens" in v.reason for v in report.verdicts if v.outcome == "fail")


async def test_a_server_of_something_else_fails_everything_that_is_asked(listen):
    async with listen(says_yes) as url:
        report = await check_server(url)
    assert {v.outcome for v in report.verdicts} == {"fail", "skip"}


async def test_answers_of_unforeseen_shapes_are_failures_and_not_errors(listen):
    async with listen(says_nothing) as url:
        report = await check_server(url, Choice(slow=True, risky=True))
    failures = {v.requirement.id: v.reason for v in report.verdicts if v.outcome == "fail"}
    assert {"E3", "E9", "E20", "E22", "E24", "E36", "E38", "E50", "E52", "E61", "E62", "E68"} <= set(failures)
    assert "an answer had an unexpected shape" in failures["E9"]
    assert "expected a stream" in failures["E50"]


async def test_only_what_was_asked_for_is_judged_in_the_manifests_order(serve):
    told: list[str] = []
    async with serve() as url:
        choice = Choice(only=frozenset({"E20", "E1", "E40"}))
        report = await check_server(url, choice, lambda verdict: told.append(verdict.requirement.id))
    assert [(v.requirement.id, v.outcome) for v in report.verdicts] == [
        ("E1", "pass"),
        ("E20", "pass"),
        ("E40", "skip"),
    ]
    assert sorted(told) == ["E1", "E20", "E40"]


def test_slow_and_risky_checks_and_those_of_the_process_are_left_out_unless_wanted():
    everything = Choice(slow=True, risky=True)
    for requirement in read_requirements():
        is_special = requirement.id in SLOW | RISKY
        assert (Choice().objection(requirement) is not None) == (
            is_special or requirement.checked == "process"
        )
        assert (everything.objection(requirement) is not None) == (requirement.checked == "process")


def test_a_requirement_is_found_by_its_id():
    assert {each.id: each.level for each in read_requirements()}["E1"] is Level.MUST
