"""The self-check of any store: every promise of the interface.

```python
for verdict in await check_store(MemoryStore):
    print(verdict.name, verdict.problem or "ok")
```
"""

import inspect
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

from ors_server.store.base import EpisodeStore
from ors_server.testing.promises import PromiseVerdict, find_problem
from ors_server.testing.store_promises import STORE_PROMISES, StoreCheck

MakeStore: TypeAlias = Callable[[], EpisodeStore | Awaitable[EpisodeStore]]
"""Makes an empty store."""
TIME_LIMIT = 60.0
"""Seconds that one check may take."""


async def check_store(make: MakeStore, only: Collection[str] = ()) -> list[PromiseVerdict]:
    """Check every promise, or those that are named, each on a new store, which is closed afterwards."""
    return [
        PromiseVerdict(name, await _check(make, check))
        for name, check in STORE_PROMISES.items()
        if not only or name in only
    ]


async def _check(make: MakeStore, check: StoreCheck) -> str:
    created = make()
    store = await created if inspect.isawaitable(created) else created
    try:
        return await find_problem(check(store), TIME_LIMIT)
    finally:
        await store.aclose()
