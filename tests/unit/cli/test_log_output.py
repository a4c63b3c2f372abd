"""What a server that runs really logs: an episode a line, and nothing that must stay secret."""

import base64
import json
import signal
import urllib.error
import urllib.request

import pytest

PLANTED = {
    "api key": "trainer-key-PLANTED-0001",
    "session secret": "session-secret-PLANTED-0002",
    "answer in the task": "task-answer-PLANTED-0003",
    "answer in a call": "call-answer-PLANTED-0004",
}
ENVIRONMENT = '''
from ors_server import ToolOutput, tool
from tests.fixtures.single_task import SingleTask

class Quiz(SingleTask):
    name = "quiz"

    @classmethod
    def list_tasks(cls, split):
        return [{"answer": "task-answer-PLANTED-0003"}]

    @tool
    async def submit(self, answer: str) -> ToolOutput:
        """Grades."""
        local_copy = (answer, self.task_spec["answer"], self.secrets)
        if answer.startswith("raise"):
            raise RuntimeError("the grader broke")
        return ToolOutput.final("graded", reward=float(answer == self.task_spec["answer"]))
'''


def post(url, path, body, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url + path, json.dumps(body).encode(), named, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.read()


def play(server):
    """Plays one episode with everything that is secret in it; gives the agent's token."""
    key = {"X_API_Key": PLANTED["api key"], "Content_Type": "application/json"}
    place, answer = {"split": "train", "index": 0}, PLANTED["answer in a call"]

    def ask(path, body, session="s", **headers):
        return post(server.url, path, body, X_Session_ID=session, **headers, **key)

    secrets = base64.b64encode(json.dumps({"TOKEN": {"value": PLANTED["session secret"]}}).encode()).decode()
    ask("/create", place, X_Secrets=secrets)
    for given in ({"answer": f"raise {answer}"}, {"answer": answer}, {"answer": answer}, {"wrong": answer}):
        ask("/quiz/call", {"name": "submit", "input": given})
    order = {**place, "secrets": {"A": PLANTED["session secret"]}}
    made = json.loads(post(server.url, "/_ors/sessions", order, **key))
    post(server.url, f"/agent/{made['agent_token']}/mcp", {"nonsense": answer}, **key)
    ask("/create", {**place, "index": answer}, session="t")
    ask("/delete", {})
    return made["agent_token"]


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_secret_key_or_answer_is_ever_logged(serve, tmp_path, form):
    file = tmp_path / "quiz.py"
    file.write_text(ENVIRONMENT)
    keys = f"trainer:me:{PLANTED['api key']}"
    server = serve(str(file), "--log-level", "debug", "--log-format", form, ORS_API_KEYS=keys)
    token = play(server)
    logged = server.stop(with_signal=signal.SIGTERM)
    assert "the grader broke" in logged
    for what, secret in {**PLANTED, "agent token": token}.items():
        assert secret not in logged, what


def test_there_is_a_line_for_each_episode_and_at_debug_for_each_call(serve, tmp_path):
    file = tmp_path / "quiz.py"
    file.write_text(ENVIRONMENT)
    for level, calls in (("debug", 3), ("info", 0)):
        server = serve(str(file), "--log-level", level, "--log-format", "json")
        post(server.url, "/create", {"split": "train", "index": 0}, X_Session_ID="s")
        for _ in range(3):
            body = {"name": "submit", "input": {"answer": "no"}}
            post(server.url, "/quiz/call", body, X_Session_ID="s")
        events = [json.loads(line) for line in server.stop(with_signal=signal.SIGTERM).splitlines()]
        names = [event["event"] for event in events]
        assert (names.count("call"), names.count("episode")) == (calls, 1)
        (episode,) = [event for event in events if event["event"] == "episode"]
        named = {"session_id", "environment", "steps", "episode_return", "stop_reason", "timestamp"}
        assert named <= set(episode)


SHELL = """
from ors_server import BashTools
from tests.fixtures.single_task import SingleTask

class Shell(SingleTask):
    name = "shelled"
    toolsets = (BashTools,)
"""


def test_the_log_names_the_sandbox_and_leaves_its_report_to_the_banner(serve, tmp_path):
    file = tmp_path / "shelled.py"
    file.write_text(SHELL)
    for level, reports in (("info", 0), ("debug", 1)):
        server = serve(str(file), "--log-level", level, "--log-format", "json")
        events = [json.loads(line) for line in server.stop(with_signal=signal.SIGTERM).splitlines()]
        (sandbox,) = [event for event in events if event["event"] == "sandbox"]
        assert set(sandbox) == {"event", "level", "logger", "timestamp", "backend", "isolation"}
        assert [event["event"] for event in events].count("sandbox_report") == reports
