"""AgentFly's rewards for chess puzzles, from the state in which a puzzle was left.

Source: AgentFly at 1256586, whose pages do not have them. AgentFly runs an engine while it computes the
reward; here the caller passes the engine's analysis, and the reward is a function of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ors_server.rewards.define import reward
from ors_server.rewards.result import RewardResult

FOR_SOLVING = 0.6
FOR_QUALITY = 0.4
"""Weights of the two parts (AgentFly at 1256586)."""
FOR_PROGRESS = 0.5
"""Greatest part of the first weight that an unsolved puzzle earns (the same)."""
NO_MOVES = 50.0
"""Quality of an episode without moves, of 100 (the same)."""
LOSS_PER_POINT = 3.0
"""Centipawns of loss that cost one point of quality, so that 300 cost all (the same)."""
MAX_MOVES = 10_000
"""Greatest number of moves."""


@reward(range=(0.0, 1.0))
def chess_puzzle_reward(
    is_solved: bool,  # noqa: FBT001  (a field of the task)
    moves_made: Sequence[str],
    solution_moves: Sequence[str] = (),
    current_solution_idx: int = 0,
    analysis: Sequence[Mapping[str, Any]] = (),
) -> RewardResult:
    """Pays 0.6 for solving a puzzle, or for a part of the way, and 0.4 for the quality of the moves.

    Extras: `is_solved`, `moves_made` (how many), `best_move_matches`, and `centipawn_score`, the mean quality
    in [0, 100].

    Hazards: no moves at all earn 0.2, which is more than an honest failure does: gate it, or use
    `chess_puzzle_reward_simple`.

    Source: AgentFly at 1256586.

    Args:
        moves_made: The agent's moves, in UCI notation.
        solution_moves: The solution's; the first one is the opponent's, which sets the puzzle up.
        current_solution_idx: How many of the solution's moves were played.
        analysis: An engine's analysis of each move, in order: `best`, the best move, and `change`, by how
            many centipawns the move is worse, at most 0. Moves without an analysis have a quality of 0.

    Raises:
        ValueError: If there are more than 10,000 moves, or a `change` is above 0.
    """
    if len(moves_made) > MAX_MOVES:
        raise ValueError(f"expected at most {MAX_MOVES} moves, got {len(moves_made)}")
    matches, quality = _quality(moves_made, analysis)
    progress = 1.0 if is_solved else FOR_PROGRESS * _progress(solution_moves, current_solution_idx)
    extras = {
        "is_solved": bool(is_solved),
        "moves_made": len(moves_made),
        "best_move_matches": matches,
        "centipawn_score": quality,
    }
    return RewardResult(FOR_SOLVING * progress + FOR_QUALITY * quality / 100.0, extras=extras)


@reward(range=(0.0, 1.0))
def chess_puzzle_reward_simple(is_solved: bool) -> dict[str, Any]:  # noqa: FBT001  (a field of the task)
    """Pays 1 for a solved puzzle, else 0. Extras: `is_solved`.

    Hazards: none known; it trusts the task's `is_solved`.

    Source: AgentFly at 1256586.
    """
    return {"reward": float(bool(is_solved)), "is_solved": bool(is_solved)}


def _progress(solution: Sequence[str], played: int) -> float:
    """Return the part of the solution that was played after the opponent's first move, in [0, 1]."""
    own = len(solution) - 1
    return min(max(0, played - 1), own) / own if own > 0 else 0.0


def _quality(moves: Sequence[str], analysis: Sequence[Mapping[str, Any]]) -> tuple[int, float]:
    if not moves:
        return 0, NO_MOVES
    matches, total = 0, 0.0
    for move, verdict in zip(moves, analysis, strict=False):
        if move == verdict["best"]:
            matches += 1
            total += 100.0
            continue
        change = float(verdict["change"])
        if not change <= 0:
            raise ValueError(f"expected a change of at most 0 centipawns for the move {move}, got {change:g}")
        total += max(0.0, 100.0 + change / LOSS_PER_POINT)
    return matches, total / len(moves)
