"""Finds the tool that writes a file, and the files that a prompt names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ors_server.audit.plays import Call
from ors_server.model.wire import ToolSpec

PROGRAM_ENDS = (".py", ".js", ".ts", ".sh")
"""How the names of programs end."""
_PATHS = ("path", "file_path", "filename", "file_name", "file", "name")
_CONTENTS = ("content", "contents", "file_text", "text", "data", "body", "code")
_FILE = re.compile(r"(?<![\w/])([\w-]+\.(?:txt|json|csv|py|md|out|log|html|js|ts|sh|sql|toml|yaml))\b")


@dataclass(frozen=True, slots=True)
class FileTool:
    """A tool that writes a whole file."""

    tool: str
    path_argument: str
    content_argument: str

    def writing(self, path: str, content: str) -> Call:
        """Return the call that writes a file."""
        return self.tool, {self.path_argument: path, self.content_argument: content}


def find_file_tool(tools: Mapping[str, ToolSpec]) -> FileTool | None:
    """Return the first tool with texts for a path and for a content, and with no other required argument."""
    for tool in tools.values():
        schema: Mapping[str, Any] = tool.input_schema or {}
        properties: Mapping[str, Any] = schema.get("properties", {})
        texts = {name for name, part in properties.items() if part.get("type") == "string"}
        path = next((name for name in _PATHS if name in texts), None)
        content = next((name for name in _CONTENTS if name in texts and name != path), None)
        # A further required argument would need a value that only the author knows.
        if path is not None and content is not None and set(schema.get("required", ())) <= {path, content}:
            return FileTool(tool.name, path, content)
    return None


def named_files(text: str) -> list[str]:
    """Return the names of files in a text, in order, without folders."""
    return list(dict.fromkeys(_FILE.findall(text)))
