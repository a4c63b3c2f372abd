"""The self-check of a store, ours or a stranger's: what the interface promises, played and judged.

```python
for verdict in await check_store(MemoryStore):
    print(verdict.name, verdict.problem or "ok")
```
"""

import inspect
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

import anyio

from ors_server.store.base import EpisodeStore
from ors_server.testing.store_plays import PLAYS, Play, StorePromiseError

MakeStore: TypeAlias = Callable[[], EpisodeStore | Awaitable[EpisodeStore]]
"""Makes an empty store."""
TIME_LIMIT = 60.0
"""Seconds that one check may take."""


@dataclass(frozen=True, slots=True)
class StoreVerdict:
    """How a store stands to one promise."""

    name: str
    problem: str = ""
    """What was expected and what came; empty for a pass."""


async def check_store(make: MakeStore, only: Collection[str] = ()) -> list[StoreVerdict]:
    """Check every promise of the interface, each on an empty store.

    Args:
        make: Makes an empty store, which is closed afterwards.
        only: Names of the promises to check; all by default.

    Returns:
        One verdict per promise, in order.
    """
    return [
        StoreVerdict(name, await _judge(make, play))
        for name, play in PLAYS.items()
        if not only or name in only
    ]


async def _judge(make: MakeStore, play: Play) -> str:
    made = make()
    store = await made if inspect.isawaitable(made) else made
    try:
        with anyio.fail_after(TIME_LIMIT):
            await play(store)
    except StorePromiseError as error:
        return str(error)
    except TimeoutError:
        return f"it took longer than {TIME_LIMIT:g} seconds"
    except Exception as error:  # noqa: BLE001  (whatever a stranger's store raises is its verdict)
        return f"unexpected {type(error).__name__}: {error}"
    finally:
        await store.aclose()
    return ""
