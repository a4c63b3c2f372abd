"""Reads the secrets of a creation, and describes what is wrong with a body."""

import base64
import binascii
import json
import math
from typing import Any

from pydantic import ValidationError

from ors_server.model.errors import InvalidRequestError
from ors_server.model.wire import Secret

MAX_PROBLEMS = 20
"""Most problems of a body that are listed; more are only counted."""

MAX_SHOWN_INPUT = 256
"""Characters of the longest wrong value that is repeated."""


def read_secrets(header: str | None) -> dict[str, str]:
    """Read the `X-Secrets` header: base64 of a JSON object `{name: {"value": …, "allowed_domains": […]}}`.

    Raises:
        InvalidRequestError: If it has another form; the message never repeats the header.
    """
    if header is None:
        return {}
    try:
        decoded = json.loads(base64.b64decode(header, validate=True))
        return {name: Secret.model_validate(secret).value for name, secret in decoded.items()}
    except (binascii.Error, ValueError, AttributeError, RecursionError):
        raise InvalidRequestError(
            'expected X-Secrets as base64 of a JSON object {"NAME": {"value": "..."}}'
        ) from None


def describe_validation(error: ValidationError) -> list[dict[str, Any]]:
    """Describe a body's validation errors as the reference implementation does."""
    count = error.error_count()
    if count > MAX_PROBLEMS:
        return [
            {
                "type": "too_many_problems",
                "loc": ["body"],
                "msg": f"{count} problems; send the documented form",
            }
        ]
    described: list[dict[str, Any]] = []
    for problem in error.errors(include_url=False, include_context=False):
        row = {"type": problem["type"], "loc": ["body", *problem["loc"]], "msg": problem["msg"]}
        if problem["type"] != "json_invalid" and _may_be_shown(problem["input"]):
            row["input"] = problem["input"]
        described.append(row)
    return described


def _may_be_shown(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return (
        value is None or isinstance(value, int) or (isinstance(value, str) and len(value) <= MAX_SHOWN_INPUT)
    )
