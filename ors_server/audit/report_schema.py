"""The JSON Schema of the report that `ors-server audit --json` prints."""

import json
from typing import Any

from ors_server.audit.report import AuditReport
from ors_server.files.attribute_docs import DocumentedJsonSchema


def report_schema() -> str:
    """Return the schema as JSON text: draft 2020-12."""
    schema: dict[str, Any] = AuditReport.model_json_schema(
        mode="serialization", schema_generator=DocumentedJsonSchema
    )
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Audit report"
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
