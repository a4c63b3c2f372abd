"""What the shell offers while a command is typed."""

from importlib.metadata import entry_points


def installed_names(incomplete: str) -> list[str]:
    """Return the installed environments that a word may become.

    Args:
        incomplete: What was typed of it.
    """
    names = (point.name for point in entry_points(group="ors_server.environments"))
    return sorted(name for name in names if name.startswith(incomplete))


def agents(incomplete: str) -> list[str]:
    """Return the kinds of agents that a word may become.

    Args:
        incomplete: What was typed of it.
    """
    kinds = ("oracle", "noop", "random", "replay:", "openai:", "command:")
    return [kind for kind in kinds if kind.startswith(incomplete)]
