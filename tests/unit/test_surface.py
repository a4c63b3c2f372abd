"""The public names: all of them load, and nothing else is there."""

import subprocess
import sys

import pytest

import ors_server
import ors_server.rewards


@pytest.mark.parametrize("name", ors_server.__all__)
def test_every_public_name_loads(name):
    assert getattr(ors_server, name) is not None


def test_another_name_is_no_attribute():
    with pytest.raises(AttributeError, match="nosuch"):
        _ = ors_server.nosuch


def test_importing_the_package_loads_no_server():
    code = "import sys, ors_server; print({'mcp', 'uvicorn', 'pydantic', 'sympy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_command_line_loads_no_event_loop_before_a_command_needs_it():
    code = (
        "import sys, ors_server.cli.main; print({'asyncio', 'ssl', 'pydantic', 'tomllib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("name", ors_server.rewards.__all__)
def test_every_name_of_the_rewards_loads(name):
    assert getattr(ors_server.rewards, name) is not None


def test_every_reward_of_the_catalogue_is_a_name_of_the_rewards_and_nothing_else_is():
    for entry in ors_server.list_rewards():
        assert getattr(ors_server.rewards, entry.name) is not None
    with pytest.raises(AttributeError, match="nosuch"):
        _ = ors_server.rewards.nosuch


def test_loading_environments_loads_no_judge_and_no_computer_algebra():
    code = (
        "import sys\n"
        "from ors_server.app import create_app\n"
        "create_app(['math_word_problems'])\n"
        "dear = {'sympy', 'openai', 'ors_server.rewards.judges', 'ors_server.rewards.judged'}\n"
        "print(dear & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
