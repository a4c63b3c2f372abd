"""Words that the shell completes while a command is typed."""


def installed_names(incomplete: str) -> list[str]:
    """Return the installed environments, and those of sources, whose names begin so."""
    from importlib.metadata import entry_points  # here, because every command imports this module

    from ors_server.environments.sources import load_source, source_names
    from ors_server.model.errors import OrsServerError

    names = [point.name for point in entry_points(group="ors_server.environments")]
    source, slash, _ = incomplete.partition("/")
    if not slash:
        names += [f"{source}/" for source in source_names()]
    elif source in source_names():
        try:
            names = [f"{source}/{name}" for name in load_source(source).list_names()]
        except OrsServerError:  # a source that cannot be imported completes nothing
            return []
    return sorted(name for name in names if name.startswith(incomplete))


def agents(incomplete: str) -> list[str]:
    """Return the kinds of agents whose names begin so."""
    kinds = ("oracle", "noop", "random", "replay:", "openai:", "command:")
    return [kind for kind in kinds if kind.startswith(incomplete)]
