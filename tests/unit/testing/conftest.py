"""Environments that break rules, importable beside the tests."""

import importlib.util
import sys
from pathlib import Path

import pytest


def load_environments():
    """Imports the module beside this one, once."""
    name = "unit_testing_environments"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("environments.py"))
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture
def environments():
    return load_environments()


@pytest.fixture
def good(environments):
    return environments.Good


def pytest_generate_tests(metafunc):
    if "broken" in metafunc.fixturenames:
        pairs = list(load_environments().BROKEN.items())
        metafunc.parametrize("broken, check", pairs, ids=[check for _, check in pairs])
