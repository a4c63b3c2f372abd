"""Reads ids of classes that people write: on the command line, in tests and in `audit.toml`."""

from collections.abc import Iterable

from ors_server.audit.hack_classes import HACK_CLASSES
from ors_server.model.errors import ClientError


class UnknownHackClassError(ClientError):
    """The audit has no class with an id; the message lists all ids."""

    code = "unknown_hack_class"


def read_class_ids(ids: Iterable[str]) -> frozenset[str]:
    """Return ids as the audit spells them: `h9` is `H9`.

    Raises:
        UnknownHackClassError: If there is no such class.
    """
    written = {text.strip().upper(): text for text in ids}
    unknown = [text for spelled, text in written.items() if spelled not in HACK_CLASSES]
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise UnknownHackClassError(f"unknown class {names}: expected some of {', '.join(HACK_CLASSES)}")
    return frozenset(written)
