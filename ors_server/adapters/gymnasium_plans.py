"""Finds the actions that earn the most in a game of gymnasium, with knowledge of its random numbers."""

from collections import deque
from copy import deepcopy
from typing import Any

HORIZON = 100
"""Maximum number of actions of a plan."""
EXPANSIONS = 3_000
"""Maximum number of positions of a game that are searched."""


def find_plan(env: Any) -> list[int] | None:
    """Return the actions of a game that was just reset; `None` if no plan is found that ends it well.

    A game with a table of its transitions is solved exactly: the random numbers that it will draw are drawn
    from a copy of its generator, one per step. Others are searched breadth first on copies.
    """
    game = env.unwrapped
    if hasattr(game, "P"):
        return _plan_by_table(game)
    if hasattr(game, "pprint_grid") or type(game).__name__ == "BlackjackEnv":
        return _plan_by_copies(game)
    return None


def _plan_by_table(game: Any) -> list[int] | None:
    # A copy, so that the game itself draws the same numbers when the plan is played.
    chance = deepcopy(game.np_random)
    layer: dict[int, tuple[float, list[int]]] = {int(game.s): (0.0, [])}
    best: tuple[float, list[int]] | None = None
    for _ in range(HORIZON):
        # One draw per step, the same for every state of the layer, as the game draws once per step, too.
        drawn = float(chance.random())
        following: dict[int, tuple[float, list[int]]] = {}
        for state, (earned, path) in layer.items():
            for action, outcomes in game.P[state].items():
                target, reward, is_over = _outcome(outcomes, drawn)
                reached = (earned + float(reward), [*path, int(action)])
                if not is_over:
                    if target not in following or following[target][0] < reached[0]:
                        following[target] = reached
                elif best is None or best[0] < reached[0]:
                    best = reached
        layer = following
    return None if best is None else best[1]


def _outcome(outcomes: Any, drawn: float) -> tuple[int, float, bool]:
    """Return state, reward and end for a random number, as `categorical_sample` chooses."""
    total = 0.0
    for probability, state, reward, is_over in outcomes:
        total += probability
        if total > drawn:
            return int(state), float(reward), bool(is_over)
    # Rounding may leave the sum below the draw; `argmax` of nothing then gives the first outcome.
    _, state, reward, is_over = outcomes[0]
    return int(state), float(reward), bool(is_over)


def _plan_by_copies(game: Any) -> list[int] | None:
    seen, queue = {_fingerprint(game)}, deque([(game, list[int]())])
    for _ in range(EXPANSIONS):
        if not queue:
            return None
        position, path = queue.popleft()
        for action in range(int(game.action_space.n)):
            copy = deepcopy(position)
            _, reward, terminated, truncated, _ = copy.step(action)
            if terminated or truncated:
                # A lost game is no step of a plan; the search continues with other actions.
                if float(reward) > 0:
                    return [*path, action]
                continue
            mark = _fingerprint(copy)
            if mark not in seen and len(path) + 1 < HORIZON:
                seen.add(mark)
                queue.append((copy, [*path, action]))
    return None


def _fingerprint(game: Any) -> Any:
    if hasattr(game, "grid"):
        carried = game.carrying and (game.carrying.type, game.carrying.color)
        return tuple(game.agent_pos), game.agent_dir, carried, game.grid.encode().tobytes()
    return tuple(game.player), tuple(game.dealer)
