"""Words that the shell completes while a command is typed."""

from importlib.metadata import entry_points


def installed_names(incomplete: str) -> list[str]:
    """Return the installed environments whose names begin so."""
    names = (point.name for point in entry_points(group="ors_server.environments"))
    return sorted(name for name in names if name.startswith(incomplete))


def agents(incomplete: str) -> list[str]:
    """Return the kinds of agents whose names begin so."""
    kinds = ("oracle", "noop", "random", "replay:", "openai:", "command:")
    return [kind for kind in kinds if kind.startswith(incomplete)]
