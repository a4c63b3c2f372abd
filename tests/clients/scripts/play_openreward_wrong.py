"""Answers two tasks wrongly with the `openreward` client.

Usage: `python play_openreward_wrong.py URL KEY`, with the interpreter of a virtual environment that has it.
"""

import os
import sys

os.environ["OPENREWARD_API_URL"] = os.environ["OPENREWARD_SESSION_URL"] = sys.argv[1]

from openreward import OpenReward

environment = OpenReward(api_key=sys.argv[2]).environments.get("math_word_problems")
for task in environment.list_tasks("test")[3:5]:
    with environment.session(task=task) as session:
        session.get_prompt()
        session.call_tool("submit", {"answer": "-1"})
