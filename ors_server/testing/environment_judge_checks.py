"""Checks that the language model is configured which an environment's reward asks."""

import json
import os
import re

from ors_server.conformance.expectations import NotMetError
from ors_server.conformance.ors_manifest import Level
from ors_server.model.wire import JSONObject
from ors_server.rewards.judges.judge_endpoint import JUDGE_VARIABLES
from ors_server.testing.environment_checks import requirement
from ors_server.testing.environment_subject import SEED, Actions, EnvironmentSubject, attempt
from ors_server.testing.local_client import LocalSession, open_environment

ANSWER = "The answer follows from the question, and this sentence is what a judge may read of it."
"""A text that every judge is asked about: shorter ones may count as no answer."""
_MISSING = re.compile(rf"no {JUDGE_VARIABLES.purpose} is configured: [^\"\\]*")


@requirement(Level.MUST, "a judge that the reward asks is configured here")
async def judge_is_configured(subject: EnvironmentSubject) -> None:
    if os.environ.get(JUDGE_VARIABLES.base_url) and os.environ.get(JUDGE_VARIABLES.model):
        return
    task = (await subject.sample())[0]
    own_actions = subject.some_actions(task)
    schemas = {tool.name: tool.input_schema or {} for tool in subject.definition.listing.tools}
    worded = [(tool, {**arguments, **_texts(schemas.get(tool, {}))}) for tool, arguments in own_actions]
    async with open_environment(
        subject.definition, sandbox=subject.sandboxes, resources=subject.resources
    ) as client:
        for actions in (own_actions, worded):
            session = await client.create(split=task.split, index=task.index, seed=SEED)
            await _refuse_if_unjudged(session, actions)


async def _refuse_if_unjudged(session: LocalSession, actions: Actions) -> None:
    for tool, arguments in actions:
        await attempt(session, tool, arguments)
    for step in await session.steps():
        match = _MISSING.search(json.dumps([step.error, dict(step.metadata or {})], default=str))
        if match:
            raise NotMetError(
                f"{match[0]}; without a judge, no episode is graded (step {step.number}, {step.tool!r})"
            )


def _texts(schema: JSONObject) -> JSONObject:
    """Return an answer with content for each argument that may be any text."""
    texts = {name: json.dumps(property_) for name, property_ in schema.get("properties", {}).items()}
    return {name: ANSWER for name, text in texts.items() if '"string"' in text and '"enum"' not in text}
