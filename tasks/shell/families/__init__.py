"""The families of exercises, in the order in which the tasks go through them."""

from __future__ import annotations

from ors_server_tasks.shell.families import conversion, git, logs, organisation, permissions, text

FAMILIES = (
    text.FAMILY,
    organisation.FAMILY,
    logs.FAMILY,
    git.FAMILY,
    conversion.FAMILY,
    permissions.FAMILY,
)
"""All families; the order is part of the tasks' identity."""
