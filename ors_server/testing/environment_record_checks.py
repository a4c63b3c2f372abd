"""Checks what the record of an episode holds: every call, its number, and the parts of its reward."""

import math

from ors_server.conformance.expectations import NotApplicableError, expect
from ors_server.conformance.ors_manifest import Level
from ors_server.model.policy import TOOL_PART, WITHHELD, PenaltyCause
from ors_server.model.trajectory import EpisodeSummary, Step
from ors_server.model.wire import JSONObject
from ors_server.sandboxes.isolation_report import IsolatedResource
from ors_server.testing.environment_checks import requirement
from ors_server.testing.environment_subject import SEED, EnvironmentSubject, Task, attempt
from ors_server.testing.local_client import open_environment


@requirement(Level.MUST, "an episode's record holds every call that ran, in order, with what it returned")
async def steps_are_recorded(subject: EnvironmentSubject) -> None:
    task, made, steps, _ = await _play_recorded(subject)
    ran = [(tool, arguments) for tool, arguments, result in made if "refused" not in result]
    recorded = [(step.tool, dict(step.arguments)) for step in steps]
    expect(recorded == ran, f"the record of {task} holds the calls {recorded}; {ran} ran")
    rewards = [result.get("reward") for _, _, result in made if "refused" not in result]
    found = [step.reward for step in steps]
    expect(found == rewards, f"the record of {task} holds the rewards {found}; the calls returned {rewards}")


@requirement(Level.MUST, "an episode counts its steps from 1, and its summary has their number")
async def steps_are_counted(subject: EnvironmentSubject) -> None:
    task, _, steps, summary = await _play_recorded(subject)
    numbers = [step.number for step in steps]
    expect(numbers == list(range(1, len(steps) + 1)), f"the steps of {task} have the numbers {numbers}")
    expect(summary.steps == len(steps), f"{task} has {len(steps)} steps; its summary counts {summary.steps}")


@requirement(Level.MUST, "the named parts of each reward add up to it, and the rewards to the return")
async def rewards_are_itemised(subject: EnvironmentSubject) -> None:
    task, _, steps, summary = await _play_recorded(subject)
    for step in steps:
        if step.reward is not None:
            parts = math.fsum(step.components.values())
            is_same = math.isclose(parts, step.reward, rel_tol=1e-9, abs_tol=1e-9)
            expect(
                is_same, f"step {step.number} of {task}: parts {dict(step.components)}, reward {step.reward}"
            )
    paid = math.fsum(step.reward or 0.0 for step in steps)
    is_same = math.isclose(paid, summary.episode_return, rel_tol=1e-9, abs_tol=1e-9)
    expect(is_same, f"the rewards of {task} add up to {paid}; its return is {summary.episode_return}")


@requirement(Level.MUST, "the parts of each reward have names that the policy lists before the episode")
async def reward_parts_are_known(subject: EnvironmentSubject) -> None:
    task, _, steps, _ = await _play_recorded(subject)
    policy = subject.definition.policy
    charged = {cause.value for cause in PenaltyCause if policy.penalty(cause)}
    known = {TOOL_PART, WITHHELD} | charged
    for step in steps:
        unknown = sorted(set(step.components) - known)
        expect(not unknown, f"step {step.number} of {task} pays {unknown}; the policy lists {sorted(known)}")


@requirement(Level.SHOULD, "an agent's commands reach no network")
async def network_is_closed(subject: EnvironmentSubject) -> None:
    _expect_isolation(subject, (IsolatedResource.NETWORK,))


@requirement(Level.SHOULD, "an agent's commands reach no file and no process of the host")
async def host_is_out_of_reach(subject: EnvironmentSubject) -> None:
    _expect_isolation(
        subject, (IsolatedResource.FILES, IsolatedResource.SESSIONS, IsolatedResource.PROCESSES)
    )


@requirement(Level.SHOULD, "an agent's commands have limits on memory, processes and disk space")
async def resources_are_bounded(subject: EnvironmentSubject) -> None:
    _expect_isolation(subject, (IsolatedResource.MEMORY, IsolatedResource.PIDS, IsolatedResource.DISK))


def _expect_isolation(subject: EnvironmentSubject, resources: tuple[IsolatedResource, ...]) -> None:
    """Require that the sandbox isolates resources; without a sandbox, an agent runs no commands."""
    if not subject.definition.may_need_sandbox:
        return
    report = subject.sandboxes.report
    if report is None:
        raise NotApplicableError(f"there is no sandbox here: {subject.sandboxes.refusal}")
    open_ones = [resource.value for resource in resources if not report.isolates(resource)]
    expect(not open_ones, f"the sandbox backend {report.backend!r} does not isolate {', '.join(open_ones)}")


async def _play_recorded(
    subject: EnvironmentSubject,
) -> tuple[Task, list[tuple[str, JSONObject, JSONObject]], list[Step], EpisodeSummary]:
    """Play the first task, and return the calls with their results, the recorded steps and the summary."""
    task = (await subject.sample())[0]
    made: list[tuple[str, JSONObject, JSONObject]] = []
    async with open_environment(
        subject.definition, sandbox=subject.sandboxes, resources=subject.resources
    ) as client:
        session = await client.create(split=task.split, index=task.index, seed=SEED)
        for tool, arguments in subject.some_actions(task):
            subject.on_progress(f"{task}: {tool}")
            made.append((tool, dict(arguments), await attempt(session, tool, arguments)))
        return task, made, list(await session.steps()), await session.summary()
