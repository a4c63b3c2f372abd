"""Rolls out scripted models through `to_skyrl_gym`, with the real skyrl-gym; prints what came as JSON."""

import json
import sys

import skyrl_gym

from ors_server.adapters import to_skyrl_gym
from ors_server.client import Client
from ors_server.model.errors import OrsServerError


def said(name, **arguments):
    return f"I call it. <tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def roll(env, *texts):
    """Plays texts until the episode is over, as the trainer's generator does."""
    prompt, info = env.init([{"role": "user", "content": "replaced"}])
    steps = []
    for text in texts:
        steps.append(env.step(text))
        if steps[-1]["done"]:
            break
    metrics = env.get_metrics()
    env.close()
    return {
        "prompt": prompt,
        "rewards": [step["reward"] for step in steps],
        "done": [step["done"] for step in steps],
        "observations": [step["observations"] for step in steps],
        "session_id": info["session_id"],
        "metrics": metrics,
    }


def fail(env, *texts):
    """Plays texts, of which the last one's judgement fails."""
    env.init([])
    for text in texts[:-1]:
        env.step(text)
    session_id = env.episode.session_id
    raised = []
    for ask in (lambda: env.step(texts[-1]), env.get_metrics):
        try:
            raised.append(str(ask()))
        except OrsServerError as error:
            raised.append(type(error).__name__)
    env.close()
    return {"raised": raised, "session_id": session_id}


def main():
    url = sys.argv[1]
    skyrl_gym.register(id="ors_math", entry_point=to_skyrl_gym(url, "math_word_problems", split="test"))
    skyrl_gym.register(id="ors_misjudged", entry_point=to_skyrl_gym(url, "misjudged"))
    skyrl_gym.register(id="ors_ladder", entry_point=to_skyrl_gym(url, "ladder"))
    with Client(url) as client:
        answer = client.task("test", 3, "math_word_problems")["answer"]

    def make(name, **extras):
        return skyrl_gym.make(name, env_config={}, extras=extras)

    json.dump(
        {
            "gold": roll(
                make("ors_math", index=3),
                said("calculator", expression="1+1"),
                said("submit", answer=answer),
            ),
            "wrong": roll(make("ors_math", index=3), said("submit", answer="-77")),
            "dense": roll(
                make("ors_ladder", index=1, max_turns=3),
                said("climb", hand="left") + said("climb", hand="right"),
                said("climb"),
                said("jump"),
            ),
            "end": fail(make("ors_misjudged"), said("climb", hand="left"), said("land", answer="x")),
            "middle": fail(make("ors_misjudged"), said("climb", hand="left"), said("weigh", answer="x")),
            "untold": roll(
                make("ors_ladder", max_turns=3),
                "no call at all",
                "<tool_call>{broken</tool_call>",
                "<tool_call>{}",
            ),
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
