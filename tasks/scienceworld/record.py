"""Records the gold paths: `python -m ors_server_tasks.scienceworld.record`.

The game's own solutions of the first two variations of each task in `train`, and of the first in `validation`
and in `test`, are kept if they reach the full score in a game with the usual heap. To find some takes 3 GiB.
"""

import json
from pathlib import Path

from ors_server_tasks.scienceworld.catalogue import VARIATIONS
from ors_server_tasks.scienceworld.game import ScienceWorldGame

_HEAP_MIB = 3072
_TIMEOUT = 600.0
_PLAYS = 3
"""Times that each path is played."""
_LATE_TASKS = "power-component"
"""Tasks that end when something has current: with the action that connects it, or the one behind that."""
_SPARE = ("wait1",)


def main() -> None:
    """Record all of them."""
    solver = ScienceWorldGame(heap_mib=_HEAP_MIB, call_timeout=_TIMEOUT)
    player = ScienceWorldGame(call_timeout=_TIMEOUT)
    recorded: dict[str, dict[int, list[str]]] = {}
    for task, (train_end, validation_end, _) in VARIATIONS.items():
        for variation in (0, 1, train_end, validation_end):
            path = _shorten(player, task, variation, solver.record_gold(task, variation))
            if path is not None:
                recorded.setdefault(task, {})[variation] = path
    text = json.dumps(recorded, indent=0, ensure_ascii=False)
    Path(__file__).with_name("gold.json").write_text(text + "\n", encoding="utf-8")
    solver.close()
    player.close()


def _shorten(player: ScienceWorldGame, task: str, variation: int, path: list[str]) -> list[str] | None:
    """Return a path up to the last action that it may take to the full score; `None` if it may fall short."""
    lengths = [_length_to_full_score(player, task, variation, path) for _ in range(_PLAYS)]
    if not all(lengths):
        return None
    return [*path[: max(lengths)], *(_SPARE if task.startswith(_LATE_TASKS) else ())]


def _length_to_full_score(player: ScienceWorldGame, task: str, variation: int, path: list[str]) -> int:
    player.reset(task, variation)
    for number, action in enumerate(path, 1):
        turn = player.act(action)
        if turn.is_over:
            return number if turn.score >= 1 else 0
    return 0


if __name__ == "__main__":
    main()
