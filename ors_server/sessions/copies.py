"""The server's own copies of JSON that somebody else wrote."""

import json

from pydantic_core import from_json

from ors_server.authoring.boundary import encodable
from ors_server.wire import JSONObject

_write = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class NotJSONError(ValueError):
    """A value is not JSON that every door can write."""


def write_json(value: JSONObject) -> str:
    """Write a value, with what UTF-8 cannot express replaced by question marks.

    Args:
        value: What somebody gave.

    Raises:
        NotJSONError: If it holds NaN, an infinity, or something that is no JSON.
    """
    try:
        return encodable(_write(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJSONError(str(error)) from error


def read_json(text: str) -> JSONObject:
    """Read what `write_json` wrote.

    Args:
        text: A JSON object.

    Raises:
        NotJSONError: If it is nested deeper than 200 levels: the doors' serialisers give up at 255, and they
            wrap it.
    """
    try:
        value: JSONObject = from_json(text)
    except ValueError as error:
        raise NotJSONError(str(error)) from error
    return value


def copy_json(value: JSONObject) -> JSONObject:
    """Copy a value.

    Args:
        value: What somebody gave.

    Raises:
        NotJSONError: If it is not JSON, or nested too deeply.
    """
    return read_json(write_json(value))
