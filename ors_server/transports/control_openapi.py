"""Describes the control API as OpenAPI 3.1, from the table of routes and the models alone."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeAlias, cast

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from ors_server._version import __version__
from ors_server.transports.control_models import Problem
from ors_server.transports.control_routes import PATH_PARAMETERS, PREFIX, Operation

REF = "#/components/schemas/{model}"
RETRY_STATUSES = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
"""Statuses that say when a repeat is sensible."""

_Schemas: TypeAlias = Mapping[tuple[type[BaseModel], JsonSchemaMode], dict[str, Any]]

DESCRIPTION = """\
Sessions, tasks, records and settings for whoever trains or evaluates; JSON throughout.

Every failure has the form of `Problem`: `detail` in words, `code` for programs, `blame` for who has to act.
A credential is an API key or an agent token, as `X-API-Key` or as a bearer token. A server without keys
binds to loopback only and takes every caller for a trainer. Requests with a foreign Host or Origin are
refused before they reach anything (421, 403).
"""


def describe(operations: Sequence[Operation], *, needs_credential: bool) -> dict[str, Any]:
    """Write the description.

    Args:
        operations: The table of routes.
        needs_credential: Whether keys are configured.

    Returns:
        An OpenAPI 3.1 document.
    """
    schemas, components = _schemas(operations)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        described = _describe_operation(operation, schemas, needs_credential=needs_credential)
        paths.setdefault(PREFIX + operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "ors-server control API", "version": __version__, "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _schemas(operations: Sequence[Operation]) -> tuple[_Schemas, dict[str, Any]]:
    wanted: dict[tuple[type[BaseModel], JsonSchemaMode], None] = {(Problem, "serialization"): None}
    for operation in operations:
        wanted[operation.answer, "serialization"] = None
        if operation.body is not None:
            wanted[operation.body, "validation"] = None
    schemas, definitions = models_json_schema(list(wanted), by_alias=True, ref_template=REF)
    return cast(_Schemas, schemas), definitions["$defs"]


def _describe_operation(operation: Operation, schemas: _Schemas, *, needs_credential: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": [*_path_parameters(operation), *_query_parameters(operation)],
        "responses": _responses(operation, schemas),
        "security": _security(operation, needs_credential=needs_credential),
        "x-role": None if operation.role is None else operation.role.name.lower(),
    }
    if operation.body is not None:
        content = {"application/json": {"schema": schemas[operation.body, "validation"]}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": PATH_PARAMETERS[name].json_schema()}
        for name in operation.parameters
    ]


def _query_parameters(operation: Operation) -> list[dict[str, Any]]:
    if operation.query is None:
        return []
    return [
        {
            "name": name,
            "in": "query",
            "required": field.is_required(),
            "schema": _without_null(TypeAdapter(field.rebuild_annotation()).json_schema()),
            **({} if field.description is None else {"description": field.description}),
        }
        for name, field in operation.query.model_fields.items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Take the null out of a parameter's schema: what is not sent is not there, and text is never null."""
    options = [option for option in schema.get("anyOf", []) if option != {"type": "null"}]
    return options[0] if len(options) == 1 else schema


def _responses(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    answer = _content(operation, schemas)
    problem = {"application/json": {"schema": schemas[Problem, "serialization"]}}
    responses: dict[str, Any] = {
        str(int(operation.status)): {"description": operation.summary, "content": answer}
    }
    for status in _failures(operation):
        responses[str(status)] = {"description": HTTPStatus(status).phrase, "content": problem}
        headers = _headers(status)
        if headers:
            responses[str(status)]["headers"] = headers
    return responses


def _content(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    if operation.is_stream:
        name = operation.answer.__name__
        told = (
            f"Events `step` (data: {name}, id: its number), `summary`, then one `end` or `error` (Problem)."
        )
        return {"text/event-stream": {"schema": {"type": "string", "description": told}}}
    return {"application/json": {"schema": schemas[operation.answer, "serialization"]}}


def _headers(status: int) -> dict[str, Any]:
    if status == HTTPStatus.UNAUTHORIZED:
        return {"WWW-Authenticate": {"required": True, "schema": {"type": "string"}}}
    if status in RETRY_STATUSES:
        return {
            "Retry-After": {
                "required": True,
                "description": "Seconds after which a repeat is sensible.",
                "schema": {"type": "integer", "minimum": 1},
            }
        }
    return {}


def _failures(operation: Operation) -> list[int]:
    found = {*operation.failures}
    if operation.role is not None:
        found |= {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
    if operation.body is not None:
        found |= {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE}
    if operation.body is not None or operation.query is not None or operation.parameters:
        found.add(HTTPStatus.UNPROCESSABLE_ENTITY)
    return sorted(map(int, found))


def _security(operation: Operation, *, needs_credential: bool) -> list[dict[str, list[str]]]:
    if operation.role is None:
        return []
    either: list[dict[str, list[str]]] = [{"apiKey": []}, {"bearer": []}]
    return either if needs_credential else [{}, *either]
