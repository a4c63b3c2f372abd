"""Whatever clients do, the rewards received are the server's return, and nothing runs or pays twice."""

import functools
import operator
from typing import Any, ClassVar

import anyio
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
    run_state_machine_as_test,
)

from ors_server import EpisodePolicy
from ors_server.model.errors import SessionNotFoundError
from ors_server.sessions.session_call import Completed

CONFLICT, GONE = 409, 404
REWARDS = st.none() | st.floats(-100, 100, allow_nan=False)
POLICY = EpisodePolicy(
    step_limit=12,
    time_limit=500.0,
    reward_range=(-50.0, 50.0),
    invalid_call_penalty=0.1,
    tool_error_penalty=0.2,
    forbidden_penalty=0.3,
    forbidden_ends=True,
    overlong_after=8,
    overlong_penalty=0.07,
)
CALLS = st.one_of(
    st.tuples(st.just("pay"), st.fixed_dictionaries({"reward": REWARDS})),
    st.tuples(st.just("pay"), st.fixed_dictionaries({"reward": REWARDS, "finished": st.booleans()})),
    st.tuples(st.just("block"), st.fixed_dictionaries({"reward": st.floats(-50, 50)})),
    st.tuples(
        st.just("fail"),
        st.fixed_dictionaries(
            {"how": st.sampled_from(["refuse", "raise", "nan", "exit", "refuse", "raise", "forbid"])}
        ),
    ),
    st.just(("nonesuch", {})),
    st.just(("pay", {"reward": "much"})),
)


class Clients(RuleBasedStateMachine):
    """Clients of one server that create, call, leave, come back, repeat, wait and delete."""

    kit: ClassVar[Any]
    policy: ClassVar[EpisodePolicy] = POLICY
    sessions = Bundle("sessions")
    calls = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        make_server, make_happenings, make_arcade = self.kit
        self.happenings = make_happenings()
        self.server = make_server(make_arcade(self.happenings, self.policy), idle_seconds=300.0)
        self.received: dict[tuple[str, str], Any] = {}
        self.left: set[tuple[str, str]] = set()
        self.known: list[str] = []
        self.number = 0

    def teardown(self) -> None:
        try:
            for gate in self.happenings.gates.values():
                self.server.portal.call(gate.set)
            self.server.settle()
            self.what_was_received_is_what_the_server_says()
        finally:
            self.server.close()
        assert self.happenings.teardowns == self.happenings.made

    def fresh(self, kind: str) -> str:
        self.number += 1
        return f"{kind}-{self.number}"

    def take(self, session: str, call_id: str, answer: Any) -> None:
        """Notes what a client was told; the same id must never be told two different things."""
        if answer.status in {404, 410}:
            return
        assert answer.status == 200, answer.body
        assert answer.call_id == call_id
        result = answer.result
        key = (session, call_id)
        if answer.has_left and result is None:
            self.left.add(key)
            return
        assert result is not None
        self.left.discard(key)
        assert self.received.setdefault(key, result) == result

    @rule(target=sessions)
    def create(self) -> str:
        session = self.fresh("session")
        answer = self.server.ask("POST", "/create", session, {"task_spec": {"id": session}})
        assert answer.json == {"sid": session}
        self.known.append(session)
        return session

    @rule(session=sessions)
    def create_again(self, session: str) -> None:
        was_live = self.is_live(session)
        answer = self.server.ask("POST", "/create", session, {"task_spec": {"id": session}})
        assert answer.status == (400 if was_live else 200)
        if answer.status == 200:
            for key in [key for key in (*self.received, *self.left) if key[0] == session]:
                self.received.pop(key, None)
                self.left.discard(key)
                self.happenings.runs.pop(key, None)

    @rule(target=calls, session=sessions, call=CALLS, by_engine=st.booleans())
    def call(self, session: str, call: Any, *, by_engine: bool) -> tuple[str, str, Any]:
        call_id = self.fresh("call")
        if by_engine:
            self.call_engine(session, call_id, call)
        else:
            self.ask(session, call_id, call)
        return session, call_id, call

    @rule(known=calls)
    def repeat(self, known: Any) -> None:
        self.ask(*known)

    @rule(known=calls, call=CALLS)
    def repeat_with_another_tool(self, known: Any, call: Any) -> None:
        session, call_id, first = known
        if (session, call_id) in self.received:
            if call == first:
                self.ask(session, call_id, call)
                return
            answer = self.server.ask("POST", "/call", session, self.body(call_id, call))
            assert answer.status in {CONFLICT, GONE}, answer  # nothing is run, and nothing paid

    @rule(known=calls, leave_after=st.integers(0, 2))
    def repeat_and_leave(self, known: Any, leave_after: int) -> None:
        session, call_id, call = known
        if call[0].startswith("wait"):  # nothing comes after the id until its gate opens
            leave_after = min(leave_after, 1)
        self.server.ask("POST", "/call", session, self.body(call_id, call), leave_after=leave_after)
        self.server.settle()

    @rule(target=calls, session=sessions, call=CALLS, count=st.integers(2, 4))
    def call_many_times_at_once(self, session: str, call: Any, count: int) -> tuple[str, str, Any]:
        self.open_gates_of(session)
        call_id = self.fresh("call")
        request = ("POST", "/call", session, self.body(call_id, call))
        for answer in self.server.ask_many([request] * count):
            self.take(session, call_id, answer)
        return session, call_id, call

    @rule(session=sessions, wanted=st.lists(CALLS, min_size=2, max_size=4))
    def call_side_by_side(self, session: str, wanted: Any) -> None:
        self.open_gates_of(session)
        ids = [self.fresh("call") for _ in wanted]
        pairs = zip(ids, wanted, strict=True)
        requests = [("POST", "/call", session, self.body(call_id, call)) for call_id, call in pairs]
        for call_id, answer in zip(ids, self.server.ask_many(requests), strict=True):
            self.take(session, call_id, answer)

    @rule(
        target=calls,
        session=sessions,
        reward=st.floats(-50, 50),
        tool=st.sampled_from(["wait_beside", "wait_beside", "wait"]),
    )
    def call_and_leave_while_it_runs(self, session: str, reward: float, tool: str) -> tuple[str, str, Any]:
        call_id = self.fresh("call")
        gate = self.fresh("gate")
        call = (tool, {"gate": gate, "reward": reward})
        self.happenings.gates[gate] = anyio.Event()
        answer = self.server.ask("POST", "/call", session, self.body(call_id, call), leave_after=1)
        self.take(session, call_id, answer)
        return session, call_id, call

    @rule()
    def open_all_gates(self) -> None:
        for gate in self.happenings.gates.values():
            self.server.portal.call(gate.set)
        self.server.settle()

    @rule(seconds=st.sampled_from([1.0, 60.0, 299.0, 310.0]))
    def wait(self, seconds: float) -> None:
        self.server.pass_time(seconds)
        self.server.settle()

    @rule(session=sessions)
    def ping(self, session: str) -> None:
        assert self.server.ask("POST", "/ping", session).status in {200, 404}

    @rule(session=consumes(sessions))
    def delete(self, session: str) -> None:
        assert self.server.ask("POST", "/delete", session).json == {"sid": session}
        assert not self.is_live(session)

    @invariant()
    def what_was_received_is_what_the_server_says(self) -> None:
        for session in self.known:
            self.check(session, *self.server.portal.call(self.look, session))

    async def look(self, session: str) -> tuple[Any, Any]:
        try:
            return (await self.server.engine.status(session)).summary, await self.server.engine.steps(session)
        except SessionNotFoundError:
            return None, ()

    def check(self, session: str, summary: Any, steps: Any) -> None:
        if summary is None:
            return
        assert summary.steps == len(steps)
        assert [step.number for step in steps] == list(range(1, len(steps) + 1))
        assert summary.episode_return == add(step.reward for step in steps)
        assert [step.finished for step in steps[:-1]] == [False] * len(steps[:-1])
        self.check_what_is_held(summary, steps)
        by_id = {step.call_id: step for step in steps}
        assert len(by_id) == len(steps), "a call was counted twice"
        mine = {call_id: result for (owner, call_id), result in self.received.items() if owner == session}
        paid = {call_id: paid_by(result) for call_id, result in mine.items() if paid_by(result) is not None}
        for call_id, reward in paid.items():
            assert by_id[call_id].reward == reward
        if set(by_id) <= set(mine):  # everybody was told everything
            assert summary.episode_return == add(paid.get(step.call_id) for step in steps)
        assert all(count == 1 for (owner, _), count in self.happenings.runs.items() if owner == session)

    def check_what_is_held(self, summary: Any, steps: Any) -> None:
        """What was earned was paid or is withheld, never both, whenever it is paid."""
        earned = functools.reduce(operator.add, (step.earned or 0.0 for step in steps), 0.0)
        assert summary.episode_return + summary.withheld == pytest.approx(earned, abs=1e-9)
        assert 0.0 in {summary.episode_return, summary.withheld}
        if self.policy.emit == "final":
            assert [step.reward for step in steps[:-1]] == [None] * len(steps[:-1])
        else:
            assert summary.withheld == 0.0

    def ask(self, session: str, call_id: str, call: Any) -> None:
        key = (session, call_id)
        if key in self.left or call[0].startswith("wait"):
            gate = self.happenings.gates.get(call[1].get("gate", ""))
            if gate is not None:
                self.server.portal.call(gate.set)
            self.open_all_gates()
        self.open_gates_of(session)
        self.take(session, call_id, self.server.ask("POST", "/call", session, self.body(call_id, call)))

    def open_gates_of(self, session: str) -> None:
        """A serial call that waits would keep everybody else waiting for ever."""
        if any(owner == session for owner, _ in self.left):
            self.open_all_gates()

    def call_engine(self, session: str, call_id: str, call: Any) -> None:
        self.open_gates_of(session)

        async def play() -> Any:
            with anyio.fail_after(20):
                begun = await self.server.engine.find(session).call(call[0], call[1], call_id=call_id)
                return await begun.wait()

        try:
            result = self.server.portal.call(play)
        except SessionNotFoundError:
            return
        if isinstance(result, Completed):
            output = {**result.output.model_dump()}
            self.received[session, call_id] = {"ok": True, "output": output}
        else:
            # What the door makes of it is learnt by asking again.
            self.ask(session, call_id, call)

    def body(self, call_id: str, call: Any) -> dict[str, Any]:
        return {"name": call[0], "input": call[1], "task_id": call_id}

    def is_live(self, session: str) -> bool:
        return self.server.engine.episode_of(session) is not None


def add(rewards: Any) -> float:
    return functools.reduce(operator.add, [reward for reward in rewards if reward is not None], 0.0)


def paid_by(result: Any) -> float | None:
    if isinstance(result, tuple | list) or not result["ok"]:
        return None
    reward: float | None = result["output"]["reward"]
    return reward


FINAL = POLICY.model_copy(update={"emit": "final"})


def play_randomly(kit: Any, examples: int, steps: int, policy: EpisodePolicy = POLICY) -> None:
    machine = type("Machine", (Clients,), {"kit": kit, "policy": policy})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_rewards_received_are_the_servers_return_whatever_clients_do(arcade_kit):
    play_randomly(arcade_kit, examples=25, steps=30)


def test_the_rewards_received_are_the_servers_return_when_all_is_paid_at_the_end(arcade_kit):
    play_randomly(arcade_kit, examples=10, steps=30, policy=FINAL)


@pytest.mark.stress
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("policy", [POLICY, FINAL], ids=["dense", "final"])
def test_the_rewards_received_are_the_servers_return_in_many_long_games(arcade_kit, policy):
    play_randomly(arcade_kit, examples=400, steps=60, policy=policy)
