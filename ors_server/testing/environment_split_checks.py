"""Checks that compare tasks with each other: across splits, and within one."""

from ors_server.conformance.expectations import expect
from ors_server.conformance.ors_manifest import Level
from ors_server.testing.environment_checks import requirement
from ors_server.testing.environment_subject import EnvironmentSubject
from ors_server.testing.task_survey import TaskSurvey, survey_tasks


@requirement(Level.MUST, "no task is in two splits of different types, such as train and test")
async def splits_are_disjoint(subject: EnvironmentSubject) -> None:
    text = (await _survey(subject)).leak_text
    expect(not text, f"{text}; keep what decides the solution in one split")


@requirement(Level.MUST, "tasks with the same prompt have the same gold, where nothing else decides it")
async def golds_agree(subject: EnvironmentSubject) -> None:
    text = (await _survey(subject)).contradiction_text
    expect(not text, f"{text}; correct the golds, or remove all but one of these tasks")


@requirement(Level.SHOULD, "every task differs from the others in what its agent is given")
async def tasks_are_distinct(subject: EnvironmentSubject) -> None:
    text = (await _survey(subject)).repeat_text
    expect(not text, f"{text}; a repeated task counts several times, so count it once")


async def _survey(subject: EnvironmentSubject) -> TaskSurvey:
    """Compare the tasks when the first of these checks needs it."""
    if subject.survey is None:
        subject.survey = await survey_tasks(subject.definition, subject.resources, subject.on_progress)
    return subject.survey
