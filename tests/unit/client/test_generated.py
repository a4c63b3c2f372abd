"""The blocking client is what its script makes of the async one."""

from pathlib import Path

import pytest

from ors_server import client
from ors_server.client import blocking, mcp_blocking
from tests.script_modules import load_script

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def script():
    return load_script("blocking_client")


def test_the_blocking_client_is_up_to_date(script):
    for name, text in script.generate().items():
        written = (ROOT / "ors_server/client" / name).read_text()
        assert written == text, f"run .venv/bin/python scripts/blocking_client.py, which writes {name}"


@pytest.mark.parametrize(
    ("blocking_class", "async_class"),
    [
        (blocking.Client, client.AsyncClient),
        (blocking.Episode, client.AsyncEpisode),
        (mcp_blocking.McpClient, client.AsyncMcpClient),
    ],
)
def test_every_public_method_has_a_blocking_twin(blocking_class, async_class, script):
    names = {name for name in vars(async_class) if not name.startswith("_")} - script.LEFT_OUT
    assert names <= set(vars(blocking_class))
