"""Labels of episodes for clients whose requests have no field for them: by header, or by API key."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from ors_server.doors.access import Caller, Role
from ors_server.model.errors import InvalidRequestError

LABELS_HEADER: Final = "x-ors-labels"
"""`key=value` pairs, separated by commas; `%2C` is a comma in a value."""
MAX_LABELS: Final = 32
MAX_LABEL: Final = 256
"""Maximum number of characters of a label's name, and of its value in the header."""
MAX_BODY_LABELS: Final = 64
"""Maximum number of labels of one request's body: each is a row of the record, and is in every list."""
MAX_LABEL_VALUE: Final = 2_000
"""Maximum number of characters of a value in a request's body, which may be longer than a header."""


def labels_for(
    caller: Caller, headers: Mapping[str, str], named: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return an episode's labels: those of the caller's key, then the header's, then those of the request.

    Later ones replace earlier ones of the same name. An agent's header counts for nothing.

    Raises:
        InvalidRequestError: If the header has another form.
    """
    own: Mapping[str, str] = {} if caller.key is None else caller.key.labels
    header = headers.get(LABELS_HEADER) if caller.role >= Role.TRAINER else None
    return {**own, **(parse_labels(header) if header else {}), **(named or {})}


def parse_labels(text: str) -> dict[str, str]:
    """Read the header's value; `InvalidRequestError` if it has another form."""
    labels: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, separator, value = (unquote(part.strip()) for part in entry.partition("="))
        if not separator or not name or "=" in name or max(len(name), len(value)) > MAX_LABEL:
            raise InvalidRequestError(
                "X-ORS-Labels: expected key=value pairs separated by commas, such as run=monday,seed=3, with "
                f"at most {MAX_LABEL} characters each, got {entry[:80]!r}"
            )
        labels[name] = value
    if len(labels) > MAX_LABELS:
        raise InvalidRequestError(f"X-ORS-Labels: expected at most {MAX_LABELS} labels, got {len(labels)}")
    return labels
