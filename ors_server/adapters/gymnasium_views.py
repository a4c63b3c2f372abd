"""How games of gymnasium look as text: rules, names of actions, and the view after each step."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_DIRECTIONS = ("east", "south", "west", "north")
_PLACES = ("Red (R)", "Green (G)", "Yellow (Y)", "Blue (B)")


@dataclass(frozen=True)
class GameRules:
    """What is known about a family of games."""

    rules: str
    actions: tuple[str, ...]
    """Names in the order of the action numbers; empty: the environment names them itself."""
    rewards: tuple[float, float] | None
    """Least and greatest reward of one step."""


_RULES = {
    "FrozenLake": GameRules(
        "Cross the frozen lake from the start S to the goal G without stepping into a hole H; F is ice. The "
        "ice may be slippery: then you move as you chose in a third of the cases, and otherwise to one of "
        "the two sides. Reaching the goal pays 1 and ends the game; a hole ends it and pays nothing.",
        ("left", "down", "right", "up"),
        (0.0, 1.0),
    ),
    "CliffWalking": GameRules(
        "Walk from the start in the lower left corner to the target T in the lower right one. You are at x. "
        "Each step costs 1; stepping onto the cliff C costs 100 and puts you back to the start.",
        ("up", "right", "down", "left"),
        (-100.0, -1.0),
    ),
    "Taxi": GameRules(
        "Drive the taxi to the passenger, pick the passenger up, drive to the destination, and drop the "
        "passenger off there. The four places are R, G, Y and B; a colon can be crossed, a bar is a wall. "
        "Each step costs 1, a wrong pickup or dropoff 10; the right dropoff pays 20 and ends the game.",
        ("south", "north", "east", "west", "pickup", "dropoff"),
        (-10.0, 20.0),
    ),
    "Blackjack": GameRules(
        "Beat the dealer: come closer to 21 than the dealer, and not above. An ace counts 11 where that is "
        "possible (a usable ace), and else 1; faces count 10. The dealer draws up to 17. Winning pays 1, "
        "losing -1, a draw 0.",
        ("stick", "hit"),
        (-1.0, 1.0),
    ),
    "MiniGrid": GameRules(
        "You are in a grid world and have a mission. The view shows the whole grid from above, two "
        "characters per cell: the object, then its colour. W wall, G goal, K key, A ball, B box, V lava, F "
        "floor, D closed door, L locked door, __ open door; you are >> (facing east), VV (south), << (west) "
        "or ^^ (north). `left` and `right` turn you; `forward` moves; `pickup`, `drop` and `toggle` act on "
        "the cell that you face. The reward comes at the end: up to 1, and the less the more steps you took.",
        (),
        (-1.0, 1.0),
    ),
}
UNKNOWN = GameRules("Play the game. Its rewards are those of the package.", (), None)


def rules_of(game: str) -> GameRules:
    """Return what is known about a game by its id."""
    # BabyAI's levels are grids of MiniGrid, with the same rules.
    family = "MiniGrid" if game.startswith("BabyAI-") else game
    return next((rules for name, rules in _RULES.items() if family.startswith(name)), UNKNOWN)


def name_actions(env: Any, game: str) -> Sequence[str]:
    """Return the names of a game's actions, in the order of their numbers."""
    named = rules_of(game).actions
    if named:
        return named
    kinds = getattr(env.unwrapped, "actions", None)
    if kinds is not None:
        return [kind.name for kind in kinds]
    return [str(number) for number in range(int(env.action_space.n))]


def view(env: Any, observation: Any) -> str:
    """Return what an agent sees of a game: the board without colours, and what they would have shown."""
    game = env.unwrapped
    if hasattr(game, "pprint_grid"):
        return _view_grid(game)
    board = env.render() if env.render_mode == "ansi" else ""
    text = _COLOURS.sub("", board or "").strip("\n")
    return "\n".join(part for part in (text, _describe(game, observation)) if part)


def _view_grid(game: Any) -> str:
    column, row = (int(number) for number in game.agent_pos)
    carried = "nothing" if game.carrying is None else f"a {game.carrying.color} {game.carrying.type}"
    return (
        f"Mission: {game.mission}\n{game.pprint_grid()}\n"
        f"You are in row {row}, column {column}, facing {_DIRECTIONS[game.agent_dir]}, and carry {carried}."
    )


def _describe(game: Any, observation: Any) -> str:
    kind = type(game).__name__
    if kind == "TaxiEnv":
        row, column, passenger, target = game.decode(int(observation))
        state = f"waits at {_PLACES[passenger]}" if passenger < len(_PLACES) else "is in the taxi"
        return (
            f"The taxi is in row {row}, column {column}. The passenger {state}, and wants to go to "
            f"{_PLACES[target]}."
        )
    if kind == "BlackjackEnv":
        total, dealer, ace = observation
        return f"Your sum is {total}, {'with a' if ace else 'without'} usable ace. The dealer shows {dealer}."
    if kind in {"FrozenLakeEnv", "CliffWalkingEnv"}:
        columns = game.ncol if kind == "FrozenLakeEnv" else game.shape[1]
        row, column = divmod(int(observation), int(columns))
        return f"You are in row {row}, column {column}."
    return f"Observation: {observation}"
