"""The programs of worker processes, which are read and not imported: their packages are elsewhere."""

import ast
from pathlib import Path

import pytest

import ors_server.adapters

PROGRAMS = sorted((Path(ors_server.adapters.__file__).parent / "programs").glob("*_program.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_worker_can_be_kept_for_the_next_session(program):
    tree = ast.parse(program.read_text(encoding="utf-8"))
    (kind,) = [
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name != "ReplyingModel"  # a part of the environment
    ]
    methods = {node.name for node in kind.body if isinstance(node, ast.FunctionDef)}
    assert "reset" in methods, "without it, the pool ends the process after each session"
