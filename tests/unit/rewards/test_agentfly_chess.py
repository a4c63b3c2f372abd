"""Chess puzzles: the way to the solution, the quality of the moves."""

import pytest

from ors_server.rewards.agentfly.chess import MOST_MOVES, chess_puzzle_reward, chess_puzzle_reward_simple
from ors_server.rewards.scoring import score

BEST = {"best": "e2e4", "change": 0}


@pytest.mark.parametrize(
    ("analysis", "matches", "quality"),
    [
        ([BEST, BEST], 2, 100.0),
        ([BEST, {"best": "d2d4", "change": -150}], 1, 75.0),
        ([BEST, {"best": "d2d4", "change": -900}], 1, 50.0),
        ([BEST], 1, 50.0),
        ([BEST, BEST, BEST], 2, 100.0),
        ([], 0, 0.0),
    ],
)
def test_the_quality_is_the_mean_over_all_moves(analysis, matches, quality):
    result = score(chess_puzzle_reward, is_solved=True, moves_made=["e2e4", "e2e4"], analysis=analysis)
    assert result.extras["best_move_matches"] == matches
    assert result.extras["centipawn_score"] == quality
    assert result.reward == pytest.approx(0.6 + 0.4 * quality / 100)


@pytest.mark.parametrize(
    ("solution", "played", "paid"),
    [
        ("abcd", 0, 0.0),
        ("abcd", 1, 0.0),
        ("abcd", 2, 0.1),
        ("abcd", 4, 0.3),
        ("abcd", 99, 0.3),
        ("a", 1, 0.0),
        ("", 3, 0.0),
    ],
)
def test_half_of_the_way_counts_where_the_puzzle_is_not_solved(solution, played, paid):
    fields = {"moves_made": ["x"], "solution_moves": list(solution), "current_solution_idx": played}
    assert score(chess_puzzle_reward, is_solved=False, **fields).reward == pytest.approx(paid)


def test_no_moves_are_worth_what_they_are_there():
    assert score(chess_puzzle_reward, is_solved=False, moves_made=[]).reward == 0.2


@pytest.mark.parametrize(
    ("moves", "analysis"),
    [
        (["a"], [{"best": "b", "change": 1}]),
        (["a"], [{"best": "b", "change": float("nan")}]),
        (["a"], [{"best": "b"}]),
        (["a"] * (MOST_MOVES + 1), []),
    ],
)
def test_what_cannot_be_is_an_error_and_no_number(moves, analysis):
    result = score(chess_puzzle_reward, is_solved=False, moves_made=moves, analysis=analysis)
    assert (result.reward, result.status) == (None, "error")


def test_the_simple_one_looks_at_nothing_else():
    assert score(chess_puzzle_reward_simple, is_solved=True).reward == 1.0
    assert score(chess_puzzle_reward_simple, is_solved=False, moves_made=["a"]).reward == 0.0
