"""OpenEnv's acceptance tests, and what answers each of them here.

The names, numbers and meanings are facts of RFC 008 of huggingface/OpenEnv, merged with its pull request
1041 (`rfcs/008-environment-auto-validation.md`, here at commit 071ffd287f2af9120c56eab0b7c1b15ffff4dc96). It
orders the 44 acceptance tests of issue 778 into four levels. This table has the 22 tests of the levels 2
(runtime) and 3 (semantic). Test 25 has two names, so there are 23. `startup` is from the severity policy v2
(`src/openenv/validation/policies/severity-v2.json`, commit 3fc52f15f833396cda49df23699c1fc974244bd6) and has
no number. Level 1 is about containers and manifests, level 4 about reference models: playing judges neither.

```python
report = await audit("quiz.py")
rows = openenv_rows(report, await check_for_openenv("quiz.py"))
```
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ors_server.audit.judgement import AuditVerdict
from ors_server.audit.report import AuditReport, ClassReport
from ors_server.conformance.ors_manifest import Level
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.testing.environment_suite import inspect_environment


@dataclass(frozen=True, slots=True)
class OpenEnvCheck:
    """One check of OpenEnv's levels 2 and 3."""

    name: str
    """As in its reports, without the level: `runtime.seed_control` is `seed_control`."""
    number: int | None
    """The acceptance test of OpenEnv's issue 778; `None` for a check of the policy alone."""
    meaning: str
    answers: tuple[str, ...] = ()
    """Classes of the audit and ids of `ors-server check`. The first one decides whether it was judged."""
    missing: str = ""
    """What cannot be answered here, or only in part."""


def _row(number: int | None, name: str, meaning: str, answers: str, missing: str = "") -> OpenEnvCheck:
    return OpenEnvCheck(name, number, meaning, tuple(answers.split()), missing)


_ROWS = (
    _row(None, "startup", "The environment starts and serves an episode.", "prompt-is-there tasks-exist"),
    _row(
        18,
        "network_policy",
        "What the agent's sandbox can reach is what the environment declares.",
        "network-is-closed",
        "Sandboxes here have no network; a policy with allowed hosts cannot be declared.",
    ),
    _row(19, "host_containment", "The agent reaches nothing of the host.", "host-is-out-of-reach H16"),
    _row(20, "resource_bounds", "An episode has limits on what it uses.", "resources-are-bounded H15"),
    _row(21, "episode_isolation", "What one episode did changes no other one.", "H22 sessions-are-apart"),
    _row(
        22,
        "oracle_containment",
        "The reward's data and the right solution are out of the agent's reach.",
        "H9 H8 prompt-keeps-answers",
    ),
    _row(
        23, "reward_well_formed", "Every reward is a finite number in the declared range.", "H12 reward-range"
    ),
    _row(
        24,
        "rubric_introspectable",
        "The parts of the reward can be listed by name before an episode is played.",
        "reward-parts-are-known",
        "The parts are the tool's own reward, what is withheld, and each penalty.",
    ),
    _row(
        25,
        "oracle_max",
        "The right solution earns the greatest reward.",
        "H18 gold-earns-the-most",
    ),
    _row(
        25,
        "floor_gap",
        "An agent that does nothing earns clearly less than the right solution.",
        "H1 blank-earns-the-least",
    ),
    _row(
        28,
        "canary_floor",
        "Trajectories that are known to be worthless earn no more than doing nothing.",
        "H2 H3 H4 H5 H6 H7 H10 H11 H13 H14 H19 H20 H21 H23",
        "OpenEnv plays the trajectories that a package brings along; here the audit makes them.",
    ),
    _row(
        29,
        "observation_schema",
        "What the agent reads has the form that is declared.",
        "tools-survive prompt-is-there",
    ),
    _row(30, "no_solution_leakage", "No observation has the solution.", "H9 prompt-keeps-answers"),
    _row(31, "state_contract", "The state names the episode and counts its steps.", "steps-are-counted"),
    _row(32, "trajectory_record", "The environment records what was played.", "steps-are-recorded"),
    _row(33, "reward_attribution", "Each reward names its parts.", "rewards-are-itemised"),
    _row(
        34,
        "tool_declaration_accuracy",
        "The tools are those that are declared, and take what their schemas allow.",
        "tools-survive tool-schemas tool-names tools-are-described",
    ),
    _row(
        35,
        "task_declaration_accuracy",
        "The tasks are those that are declared.",
        "tasks-are-stable tasks-exist tasks-are-json tasks-end tasks-share-keys splits-are-disjoint "
        "golds-agree tasks-are-distinct",
    ),
    _row(36, "seed_control", "The seed decides what is random.", "calls-are-repeatable H17"),
    _row(
        37,
        "episode_determinism",
        "The same calls and seed give the same episode.",
        "calls-are-repeatable H17",
    ),
    _row(39, "verifier_determinism", "The same trajectory earns the same reward.", "H17"),
    _row(
        40,
        "verifier_portability",
        "The reward is the same where the verifier has no network.",
        "H17",
        "The audit grades again in a process that reaches this machine alone; programs that it starts may "
        "reach more.",
    ),
    _row(
        11,
        "resource_envelope",
        "Grading uses no more processor time and memory than is declared.",
        "H15",
        "The audit compares with its own limits; an environment declares none for its grader.",
    ),
    _row(
        44,
        "replayability",
        "A recorded episode can be played again.",
        "calls-are-repeatable steps-are-recorded",
    ),
)

OPENENV_CHECKS: Mapping[str, OpenEnvCheck] = {row.name: row for row in _ROWS}
"""OpenEnv's checks of the levels 2 and 3 by name, in the order of its tables of properties."""


@dataclass(frozen=True, slots=True)
class OpenEnvRow:
    """What is known about one of OpenEnv's checks of an environment."""

    name: str
    number: int | None
    meaning: str
    verdict: AuditVerdict
    answered_by: tuple[str, ...]
    """The classes of the audit and the ids of `ors-server check` that were judged."""
    message: str
    """Why it did not pass, or what was not judged; empty for a pass that answers all of it."""


def openenv_rows(report: AuditReport, check_verdicts: Mapping[str, str]) -> list[OpenEnvRow]:
    """Answer OpenEnv's checks from an audit and from the requirements of `ors-server check`.

    A check passes only if the first of its answers passed. The others can make it worse, and are named in the
    message where they were not judged.

    Args:
        check_verdicts: `pass`, `fail`, `warn` or `skip` by the id of the requirement, as `check_for_openenv`
            returns them. What is left out counts as not judged.
    """
    answers = {class_report.id: _class_answer(class_report) for class_report in report.classes}
    answers |= {name: _check_answer(name, outcome) for name, outcome in check_verdicts.items()}
    return [_answer(check, answers) for check in OPENENV_CHECKS.values()]


async def check_for_openenv(environment: type | str | EnvironmentDefinition) -> dict[str, str]:
    """Run the requirements of `ors-server check` that OpenEnv's checks need.

    Args:
        environment: A class, a reference as for the command line, or a definition; not a URL. Where it leads
            to several environments, the worst outcome of each requirement counts.

    Returns:
        `pass`, `fail`, `warn` (a SHOULD that failed) or `skip` by the requirement's id.

    Raises:
        UnknownEnvironmentError: If a reference is unknown.
        EnvironmentDefinitionError: If the class cannot be loaded.
    """
    needed = {name for check in OPENENV_CHECKS.values() for name in check.answers if name[0] != "H"}
    report = await inspect_environment(environment, only=needed)
    outcomes: dict[str, str] = {}
    for verdict in report.verdicts:
        # Only a failed MUST counts as a failure.
        is_soft = verdict.outcome == "fail" and verdict.check.level is not Level.MUST
        outcome = "warn" if is_soft else verdict.outcome
        # A reference may lead to several environments with the same requirement: the worst outcome counts.
        outcomes[verdict.check.id] = max(outcomes.get(verdict.check.id, outcome), outcome, key=_BADNESS.index)
    return outcomes


_BADNESS = ("skip", "pass", "warn", "fail")
_VERDICTS = {"pass": AuditVerdict.PASS, "fail": AuditVerdict.FAIL, "warn": AuditVerdict.WARN}


@dataclass(frozen=True, slots=True)
class _Answer:
    verdict: AuditVerdict
    message: str


def _class_answer(report: ClassReport) -> _Answer:
    if report.is_waived:
        return _Answer(AuditVerdict.WARN, f"{report.id} is waived: {report.reason}")
    if report.verdict is AuditVerdict.NOT_JUDGED:
        return _Answer(report.verdict, f"{report.id}: {report.reason}")
    return _Answer(report.verdict, f"{report.id}: {report.findings[0].message}" if report.findings else "")


def _check_answer(name: str, outcome: str) -> _Answer:
    verdict = _VERDICTS.get(outcome, AuditVerdict.NOT_JUDGED)
    words = {
        AuditVerdict.FAIL: "failed",
        AuditVerdict.WARN: "failed",
        AuditVerdict.NOT_JUDGED: "had nothing to judge",
    }
    return _Answer(verdict, "" if verdict is AuditVerdict.PASS else f"{name} {words[verdict]}")


def _answer(check: OpenEnvCheck, answers_by_id: Mapping[str, _Answer]) -> OpenEnvRow:
    unknown = _Answer(AuditVerdict.NOT_JUDGED, "")
    answers = {name: answers_by_id.get(name, unknown) for name in check.answers}
    judged = {
        name: answer for name, answer in answers.items() if answer.verdict is not AuditVerdict.NOT_JUDGED
    }
    worst = max(judged.values(), key=lambda answer: answer.verdict.weight, default=unknown)
    is_bad = worst.verdict in {AuditVerdict.FAIL, AuditVerdict.WARN}
    # The first answer names the check's main evidence: without it, passes of the others prove nothing.
    is_passed = bool(check.answers) and check.answers[0] in judged
    verdict = worst.verdict if is_bad or is_passed else AuditVerdict.NOT_JUDGED
    reasons = [
        answer.message or f"{name} was not judged" for name, answer in answers.items() if name not in judged
    ]
    parts = [worst.message] if is_bad else [*reasons, check.missing]
    message = "; ".join(part.rstrip(".") for part in parts if part)
    return OpenEnvRow(check.name, check.number, check.meaning, verdict, tuple(judged), message)
