"""Queries that list and read the tables of a database which a tool of the agent reaches."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ors_server.audit.audit_context import AuditContext
from ors_server.audit.plays import Call
from ors_server.model.wire import JSONObject
from ors_server.testing.schema_examples import example_arguments

LISTINGS = (
    "SELECT name, sql FROM sqlite_master",
    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')",
    "SELECT table_name FROM information_schema.tables WHERE table_schema <> 'information_schema'",
    "PRAGMA table_list",
    "SHOW TABLES",
    ".tables",
    ".dump",
)
"""Queries that name the tables, of SQLite, PostgreSQL, DuckDB and MySQL."""
READING = 'SELECT * FROM "{table}" LIMIT 200'
MAX_TABLES = 20
_ARGUMENTS = ("query", "sql", "statement", "command", "cmd", "q")
_WORDS = re.compile(r"\b(?:sql|sqlite|duckdb|postgres\w*|database|quer(?:y|ies))\b", re.IGNORECASE)
_CREATED = re.compile(r'CREATE\s+(?:TABLE|VIEW)\s+(?:IF\s+NOT\s+EXISTS\s+)?["`\[]?(\w+)', re.IGNORECASE)
_NAME = re.compile(r"\b[A-Za-z_]\w{0,62}\b")
_WORDS_OF_LISTS = """
    name sql type table tables view index main temp sqlite_schema sqlite_master sqlite_temp_schema error no
    such column near syntax schema ncol wr strict shadow virtual none null rows row table_name unknown
"""
_NO_TABLES = frozenset(_WORDS_OF_LISTS.split())
"""Words in lists of tables and in errors that name no table of the author."""


@dataclass(frozen=True, slots=True)
class QueryTool:
    """A tool that runs a query."""

    tool: str
    argument: str
    rest: JSONObject
    """Its other required arguments."""

    def asking(self, query: str) -> Call:
        """Return the call that runs a query."""
        return self.tool, {**self.rest, self.argument: query}


def query_tools(context: AuditContext) -> list[QueryTool]:
    """Return the tools that take a query: by the name of an argument and by their descriptions."""
    tools: list[QueryTool] = []
    for tool in context.tools.values():
        # The tool that takes the answer is not a way to read the database, even where its argument is called
        # `query`.
        if context.slot is not None and tool.name == context.slot.tool:
            continue
        properties: Mapping[str, Any] = (tool.input_schema or {}).get("properties", {})
        texts = [name for name in _ARGUMENTS if properties.get(name, {}).get("type") == "string"]
        described = f"{tool.name} {tool.description} {properties}".replace("_", " ")
        # `query` and `command` are arguments of searches and shells, too: only the words around them tell.
        if texts and (texts[0] in {"sql", "statement"} or _WORDS.search(described)):
            tools.append(QueryTool(tool.name, texts[0], example_arguments(tool.input_schema)))
    return tools


def tables_of(outputs: Sequence[str]) -> list[str]:
    """Return what may be names of tables in the outputs of `LISTINGS`, those that were created first."""
    text = "\n".join(outputs)
    # Names in CREATE statements first: they are certainly tables, and only MAX_TABLES are read.
    names = [*_CREATED.findall(text), *_NAME.findall(text)]
    return list(dict.fromkeys(name for name in names if name.casefold() not in _NO_TABLES))[:MAX_TABLES]


def is_word_of(name: str, text: str) -> bool:
    """Return whether a text has a name as a whole word, in any case."""
    return re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE) is not None
