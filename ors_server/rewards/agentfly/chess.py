"""AgentFly's rewards for chess puzzles, from the state in which a puzzle was left.

Source: AgentFly at 1256586, whose pages do not have them. There an engine is asked while the reward is
computed; here whoever has one says what it found, and the reward is a function of that.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ors_server.rewards.define import reward
from ors_server.rewards.result import RewardResult

FOR_SOLVING = 0.6
FOR_QUALITY = 0.4
"""Weights of the two parts (AgentFly at 1256586)."""
FOR_PROGRESS = 0.5
"""What the whole way to a solution is worth that was not reached (the same)."""
NO_MOVES = 50.0
"""Quality of no moves at all, of 100 (the same)."""
LOSS_PER_POINT = 3.0
"""Centipawns of loss that cost one point of quality, so that 300 cost all (the same)."""
MOST_MOVES = 10_000
"""Moves that are looked at."""


@reward(range=(0.0, 1.0))
def chess_puzzle_reward(
    is_solved: bool,  # noqa: FBT001  (a field of the task)
    moves_made: Sequence[str],
    solution_moves: Sequence[str] = (),
    current_solution_idx: int = 0,
    analysis: Sequence[Mapping[str, Any]] = (),
) -> RewardResult:
    """Pays 0.6 for solving a puzzle, or for a part of the way, and 0.4 for the quality of the moves.

    Hazards: no moves at all earn 0.2, which is more than an honest failure does: gate it, or use
    `chess_puzzle_reward_simple`.

    Source: AgentFly at 1256586.

    Args:
        is_solved: Whether the puzzle was solved.
        moves_made: The agent's moves, in the notation of UCI.
        solution_moves: The solution's; the first one is the opponent's, which sets the puzzle up.
        current_solution_idx: How many of them were played.
        analysis: What an engine said of each of the moves made, in order: `best`, the best move, and
            `change`, by how many centipawns the move made is worse, at most 0. Moves without an analysis have
            a quality of 0.

    Returns:
        The reward in [0, 1]; `is_solved`, `moves_made` (how many), `best_move_matches`, and
        `centipawn_score`, the mean quality in [0, 100].

    Raises:
        ValueError: If there are more than 10,000 moves, or a `change` is above 0.
    """
    if len(moves_made) > MOST_MOVES:
        raise ValueError(f"{len(moves_made)} moves were made; at most {MOST_MOVES} are looked at")
    matches, quality = _quality(moves_made, analysis)
    way = 1.0 if is_solved else FOR_PROGRESS * _progress(solution_moves, current_solution_idx)
    extras = {
        "is_solved": bool(is_solved),
        "moves_made": len(moves_made),
        "best_move_matches": matches,
        "centipawn_score": quality,
    }
    return RewardResult(FOR_SOLVING * way + FOR_QUALITY * quality / 100.0, extras=extras)


@reward(range=(0.0, 1.0))
def chess_puzzle_reward_simple(is_solved: bool) -> dict[str, Any]:  # noqa: FBT001  (a field of the task)
    """Pays 1 for a solved puzzle, else 0.

    Hazards: none known; it is as good as whoever says that the puzzle is solved.

    Source: AgentFly at 1256586.

    Args:
        is_solved: Whether the puzzle was solved.

    Returns:
        `reward`, 0 or 1; `is_solved`.
    """
    return {"reward": float(bool(is_solved)), "is_solved": bool(is_solved)}


def _progress(solution: Sequence[str], played: int) -> float:
    """Return which part of the solution was played after the move that sets the puzzle up, in [0, 1]."""
    own = len(solution) - 1
    return min(max(0, played - 1), own) / own if own > 0 else 0.0


def _quality(moves: Sequence[str], analysis: Sequence[Mapping[str, Any]]) -> tuple[int, float]:
    """Count the moves that are an engine's best, and return the mean quality of all of them."""
    if not moves:
        return 0, NO_MOVES
    matches, total = 0, 0.0
    for move, said in zip(moves, analysis, strict=False):
        if move == said["best"]:
            matches += 1
            total += 100.0
            continue
        change = float(said["change"])
        if not change <= 0:
            raise ValueError(f"a move is worse than the best one by 0 centipawns or more, not by {-change:g}")
        total += max(0.0, 100.0 + change / LOSS_PER_POINT)
    return matches, total / len(moves)
