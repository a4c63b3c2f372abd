"""Extras as JSON can have them: metrics come from an author's code, and may be anything."""

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, cast

MAX_SHOWN_CHARACTERS = 200
"""Characters that are kept of a value that is not JSON."""
MAX_DEPTH = 20
"""Levels of a value that are kept."""


def plain(value: object, depth: int = 0) -> Any:
    """Return a value at some depth as JSON can have it."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else None
    if depth < MAX_DEPTH and isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(key): plain(entry, depth + 1) for key, entry in items}
    if depth < MAX_DEPTH and isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [plain(entry, depth + 1) for entry in cast("Sequence[object]", value)]
    return f"{value!r:.{MAX_SHOWN_CHARACTERS}}"
