"""The JSON Schema of `environment.toml`, with which editors complete and check it."""

import json
from typing import Any

from ors_server.environments.declared.declaration import Declaration
from ors_server.environments.declared.declaration_file import recipe_names
from ors_server.environments.toolset_names import TOOLSETS
from ors_server.files.attribute_docs import DocumentedJsonSchema
from ors_server.rewards.catalogue import reward_names


def declaration_schema() -> str:
    """Return the schema as JSON text: draft 2020-12, with the names of recipes, rewards and toolsets."""
    schema: dict[str, Any] = Declaration.model_json_schema(
        by_alias=True, schema_generator=DocumentedJsonSchema
    )
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "environment.toml"
    properties = schema["properties"]
    properties["recipe"] = {**properties["recipe"], "examples": recipe_names()}
    properties["toolsets"] = {**properties["toolsets"], "examples": [[name] for name in TOOLSETS]}
    schema["$defs"]["EpisodePolicy"]["properties"]["overridable"]["default"].sort()
    rewards = schema["$defs"]["RewardChoice"]["properties"]["name"]
    rewards["examples"] = list(reward_names())
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
