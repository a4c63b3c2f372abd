"""`ors-server check --sandbox`: checks a sandbox backend on this machine."""

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ors_server.cli.command_output import MisuseError

if TYPE_CHECKING:
    from ors_server.sandboxes.base import Backend


async def check_sandbox(name: str, only: Collection[str], report: Callable[[dict[str, Any]], None]) -> None:
    """Check a backend and report the verdicts.

    Args:
        name: A backend's name, or `module:function` that makes one.
        only: Ids of the verdicts to report: their names with hyphens; empty for all.
    """
    from ors_server.testing.sandbox_suite import check_backend

    async with _open_backend(name) as backend:
        for verdict in await check_backend(backend):
            identity = verdict.name.replace(" ", "-").replace(",", "")
            if only and identity not in only:
                continue
            report(
                {
                    "id": identity,
                    "level": "MUST",
                    "outcome": "fail" if verdict.problem else "pass",
                    "text": verdict.name,
                    "reason": verdict.problem,
                }
            )


@asynccontextmanager
async def _open_backend(name: str) -> "AsyncGenerator[Backend]":
    if ":" in name:
        backend = _foreign_backend(name)
        try:
            yield backend
        finally:
            await backend.aclose()
        return
    from ors_server.model.settings import load_settings
    from ors_server.sandboxes.choose import BackendChoice, BackendRequest, choose

    try:
        choice = BackendChoice(name)
    except ValueError:
        names = ", ".join(BackendChoice)
        raise MisuseError(f"--sandbox takes {names}, or module:function; not {name!r}") from None
    settings = load_settings()
    request = BackendRequest(
        choice,
        allow_unsandboxed=choice is BackendChoice.NONE,
        docker_image=settings.docker_image,
        docker_host=settings.docker_host,
    )
    chosen = await choose(request)
    try:
        yield chosen.backend
    finally:
        await chosen.aclose()


def _foreign_backend(place: str) -> "Backend":
    from ors_server.sandboxes.base import Backend

    module, _, name = place.partition(":")
    try:
        made = getattr(import_module(module), name)()
    except (ImportError, AttributeError) as error:
        raise MisuseError(f"cannot find {place!r}: {error}") from error
    if not isinstance(made, Backend):
        raise MisuseError(f"{place!r} gives a {type(made).__name__}; a Backend is needed")
    return made
