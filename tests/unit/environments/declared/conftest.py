"""A cache of its own for each test, and files in the formats of data sets."""

import json
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture
def write(tmp_path):
    """Writes a file below the test's folder: rows as JSON lines, or text."""

    def write(name: str, content: str | bytes | list) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            content = "".join(f"{json.dumps(row)}\n" for row in content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
