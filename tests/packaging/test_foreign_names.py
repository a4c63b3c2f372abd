"""Private and provisional names of other packages stand in one module each, which a contract test guards."""

import ast
from collections.abc import Iterable, Iterator, Sequence

import pytest

HOMES = {
    "mcp": {"doors/mcp/sdk.py", "client/mcp_connection.py", "conformance/mcp_checks.py"},
    "uvicorn": {"doors/http/bounded_protocol.py"},
    "mpmath": {"rewards/math/precise.py", "adapters/programs/bfcl_program.py"},
}
"""The modules that import a package whose insides are used somewhere."""
PROGRAMS = "adapters/programs/"
"""Programs for one version of a package, which may use what that version has inside."""
PUBLIC_OF_MCP = {"mcp.Client", "mcp.MCPError", "mcp.client.streamable_http.streamable_http_client"}
"""What modules other than `sdk.py` take from `mcp`."""
CANCELLATION = {"cancelling", "uncancel"}
"""How asyncio tells whose cancellation it is: in `boundary.py` only."""
DOCUMENTED = {"os._exit", "sys._current_frames"}
"""Names that are public in spite of their underscore."""
OWN = {"_indices", "_left", "_ors", "_ors_foreign", "_rng", "_sandbox", "_set"}
"""Attributes of the package's own objects that a class or module beside them reads."""
MARKS = {f"_env_tool{end}" for end in ("", "_concurrent", "_exclusive", "_shared", "_terminal")}
"""What a decorator of another SDK leaves on a function."""
NAMED_TUPLE = {"_asdict", "_fields", "_make", "_replace"}
"""The public names of named tuples, which begin with an underscore so that no field can have them."""
BY_NAME = {"getattr", "setattr", "hasattr"}
UVICORN = "ors_server/doors/http/bounded_protocol.py"
"""The one module that uses private names of a class from which it derives."""
LENT = {("ors_server/sandboxes/docker/launcher.py", "_sock")}
"""The socket of an attached container, which docker-py gives in no other way."""


@pytest.fixture(scope="module")
def modules(source_nodes: dict[str, list[ast.AST]]) -> dict[str, list[ast.AST]]:
    """The nodes of each module of the package."""
    return {path: nodes for path, nodes in source_nodes.items() if path.startswith("ors_server/")}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def owner_of(node: ast.Attribute) -> str:
    return ast.unparse(node.value)


def attributes(nodes: Iterable[ast.AST]) -> Iterator[ast.Attribute]:
    yield from (node for node in nodes if isinstance(node, ast.Attribute))


@pytest.fixture(scope="module")
def defined(modules) -> set[str]:
    """The names that the package defines somewhere, fields of slots too."""
    return {
        name
        for nodes in modules.values()
        for node in nodes
        for name in (
            [node.name]
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            else [node.attr]
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            else [node.id]
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            else [element.value for element in ast.walk(node) if isinstance(element, ast.Constant)]
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == "__slots__"
            else []
        )
    }


def private_attributes(path: str, nodes: Iterable[ast.AST], defined: set[str]) -> Iterator[str]:
    for node in attributes(nodes):
        if not is_private(node.attr) or (path, node.attr) in LENT:
            continue
        is_inherited = owner_of(node) in ("self", "cls", "super()")
        allowed = defined if is_inherited else OWN
        if node.attr not in allowed | NAMED_TUPLE and ast.unparse(node) not in DOCUMENTED:
            yield ast.unparse(node)


def private_texts(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BY_NAME:
            name = node.args[1].value if isinstance(node.args[1], ast.Constant) else ""
            if is_private(str(name)) and name not in OWN | MARKS | NAMED_TUPLE:
                yield ast.unparse(node)


def foreign_names(path: str, nodes: Sequence[ast.AST], defined: set[str]) -> list[str]:
    """Return the private names of other packages that a module uses."""
    taken = (
        name
        for name in imported(nodes)
        if not name.startswith(("ors_server", "__future__")) and any(map(is_private, name.split(".")))
    )
    return [*taken, *private_attributes(path, nodes, defined), *private_texts(nodes)]


def test_no_module_uses_a_private_name_of_another_package(modules, defined):
    found = {
        path: foreign_names(path, nodes, defined)
        for path, nodes in modules.items()
        if path != UVICORN and PROGRAMS not in path
    }
    assert not {path: names for path, names in found.items() if names}


@pytest.mark.parametrize("package", HOMES)
def test_a_package_whose_insides_are_used_is_imported_in_its_homes_only(package, modules):
    importers = {
        path.removeprefix("ors_server/")
        for path, nodes in modules.items()
        if any(name.split(".")[0] == package for name in imported(nodes))
    }
    assert importers == HOMES[package]


def test_outside_of_its_home_only_documented_names_of_the_mcp_sdk_are_used(modules):
    taken = {
        name
        for path, nodes in modules.items()
        if not path.endswith("mcp/sdk.py")
        for name in imported(nodes)
        if name.split(".")[0] == "mcp"
    }
    assert taken <= PUBLIC_OF_MCP


def test_whose_cancellation_a_task_sees_is_asked_in_one_module(modules):
    users = {
        path for path, nodes in modules.items() if CANCELLATION & {node.attr for node in attributes(nodes)}
    }
    assert users == {"ors_server/environments/boundary.py"}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from mcp.shared._httpx_utils import create", ["mcp.shared._httpx_utils.create"]),
        ("import uvicorn._types", ["uvicorn._types"]),
        ("from asyncio import _get_running_loop", ["asyncio._get_running_loop"]),
        ("asyncio._get_running_loop()", ["asyncio._get_running_loop"]),
        ("self._unset_keepalive_if_required()", ["self._unset_keepalive_if_required"]),
        ("getattr(client, '_sock')", ["getattr(client, '_sock')"]),
        ("from __future__ import annotations\nos._exit(0)\nsession.__dict__", []),
    ],
)
def test_private_names_are_found(source, found, defined):
    assert foreign_names("example.py", list(ast.walk(ast.parse(source))), defined) == found
