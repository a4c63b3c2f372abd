"""What `/schema` of OpenEnv says of actions, observations and the state.

Source: `CallToolAction`, `ListToolsAction`, `CallToolObservation` and `State` of openenv 0.10.
"""

from typing import Any

ACTION: dict[str, Any] = {
    "title": "Action",
    "type": "object",
    "properties": {
        "type": {"enum": ["call_tool", "list_tools"]},
        "tool_name": {"type": "string"},
        "arguments": {"type": "object"},
        "metadata": {"type": "object"},
    },
    "required": ["type"],
}
OBSERVATION: dict[str, Any] = {
    "title": "Observation",
    "type": "object",
    "properties": {
        "prompt": {"type": "string", "description": "Of a reset: the task."},
        "session_id": {"type": "string", "description": "Of a reset: the session, to connect to it again."},
        "tool_name": {"type": "string"},
        "result": {
            "type": "object",
            "properties": {
                "content": {"type": "array", "items": {"type": "object"}},
                "structured_content": {"type": ["object", "null"]},
                "data": {},
                "is_error": {"type": "boolean"},
            },
        },
        "error": {
            "type": ["object", "null"],
            "properties": {"error_type": {"type": "string"}, "message": {"type": "string"}},
        },
        "tools": {"type": "array", "items": {"type": "object"}},
        "reward": {"type": ["number", "null"], "description": "Null where nothing was judged."},
        "done": {"type": "boolean"},
        "metadata": {"type": "object"},
    },
}
STATE: dict[str, Any] = {
    "title": "State",
    "type": "object",
    "properties": {
        "episode_id": {"type": ["string", "null"]},
        "step_count": {"type": "integer", "minimum": 0},
        "session_id": {"type": ["string", "null"]},
        "last_reward": {"type": ["number", "null"]},
        "done": {"type": "boolean"},
    },
}
