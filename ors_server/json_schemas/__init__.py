"""JSON Schema for hostile input: values are checked with bounded work, and no reference is ever fetched.

Tools, rewards, the command line and the conformance suites all check with `SchemaChecker`. The package
jsonschema gives the meta-schemas and the keywords of each draft, and `referencing` finds identifiers and
anchors; the keywords are ours, because those of jsonschema take quadratic or exponential time, search with
`re`, and quote whole values. Nothing here measures time: each step is counted (`CheckRun`), so a value is
refused or accepted alike on every machine.
"""

from ors_server.json_schemas.check_run import (
    MAX_CHECKS,
    PatternSearch,
    TooMuchWorkError,
    Violation,
)
from ors_server.json_schemas.linear_patterns import LinearPatterns
from ors_server.json_schemas.schema_checker import BadSchemaError, SchemaChecker, check_schema

__all__ = [
    "MAX_CHECKS",
    "BadSchemaError",
    "LinearPatterns",
    "PatternSearch",
    "SchemaChecker",
    "TooMuchWorkError",
    "Violation",
    "check_schema",
]
