"""The names that an environment may have."""

import re

ENVIRONMENT_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
RESERVED_NAMES = frozenset(
    {
        *("health", "version", "list_environments", "create_session", "create", "ping"),
        *("delete", "delete_session"),
        *("tools", "splits", "tasks", "num_tasks", "task", "task_range", "get_task", "get_task_range"),
        *("prompt", "messages", "task_tools", "call", "score_group"),
        *("mcp", "sessions", "agent", "console", "docs", "openapi", "metrics"),
    }
)
"""First path segments that the server needs for itself."""
