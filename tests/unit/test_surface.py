"""The public names: all of them load, and nothing else is there."""

import subprocess
import sys

import pytest

import ors_server


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
