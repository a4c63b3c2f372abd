"""Every story is solved a second time, from the numbers that stand in its text.

The solvers below read only the question and reason on their own, often by trying all candidates; the stories
compute their answers from the quantities that they drew. Both must agree, so a question that shows another
number than the one computed with, or that has two solutions, is found here.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fractions import Fraction
from math import ceil, floor, gcd, lcm, prod
from typing import TYPE_CHECKING

import pytest

from ors_server_tasks.math_word_problems.english import TIMES
from ors_server_tasks.math_word_problems.families import FAMILIES
from ors_server_tasks.math_word_problems.generator import draw_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ors_server_tasks.math_word_problems.problem import Story

PROBLEMS_PER_STORY = 60

QUANTITY = re.compile(
    r"(?P<hour>\d+):(?P<minute>\d\d) (?P<half>[AP])M"
    r"|(?P<whole>\d+) (?P<part>\d+/\d+)"
    r"|(?P<fraction>\d+/\d+)"
    r"|(?P<number>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)"
)


def quantities(question: str) -> list[Fraction]:
    """All numbers of a text in order; a time of day counts as minutes since midnight."""
    for times, words in TIMES.items():
        question = question.replace(f" {words} as ", f" {times} as ")
    return [quantity(match) for match in QUANTITY.finditer(question)]


def quantity(match: re.Match[str]) -> Fraction:
    if match["hour"]:
        hour = int(match["hour"]) % 12 + (12 if match["half"] == "P" else 0)
        return Fraction(60 * hour + int(match["minute"]))
    if match["whole"]:
        return int(match["whole"]) + Fraction(match["part"])
    return Fraction(match["fraction"] or match["number"].replace(",", ""))


def only(candidates: Iterable[int]) -> int:
    found = list(candidates)
    assert len(found) == 1, f"the question has {len(found)} solutions"
    return found[0]


def first(candidates: Iterable[int]) -> int:
    return next(iter(candidates))


def cents(value: Fraction) -> Fraction:
    return Fraction(floor(value * 100 + Fraction(1, 2)), 100)


def mean(values: Iterable[Fraction]) -> Fraction:
    listed = list(values)
    return Fraction(sum(listed), len(listed))


def percent(*changes: Fraction) -> Fraction:
    return prod((1 + change / 100 for change in changes), start=Fraction(1))


def fewest_coins(price: Fraction, *_: Fraction) -> int:
    amount = int((5 - price) * 100)
    fewest = [0] * (amount + 1)
    for rest in range(1, amount + 1):
        fewest[rest] = 1 + min(fewest[rest - worth] for worth in (1, 5, 10, 25, 100) if worth <= rest)
    return fewest[amount]


def days_between(question: str) -> int:
    dates = re.findall(r"(March|April|May|June|July|August|September|October) (\d+)", question)
    begin, end = (
        datetime.strptime(f"{month} {day} 2023", "%B %d %Y").replace(tzinfo=UTC) for month, day in dates
    )
    return (end - begin).days + 1


def next_number(question: str) -> Fraction:
    *_, before, last = quantities(question)[:4]
    return last * last / before if "multiplies" in question else 2 * last - before


def in_the_dish(question: str) -> Fraction:
    start, period, hours = quantities(question)
    return start * (2 if "doubles" in question else 3) ** int(hours / period)


def largest_consecutive(question: str) -> Fraction:
    count, total = quantities(question)
    return total / count + (count - 1) * (Fraction(1, 2) if "whole" in question else 1)


SOLVERS: dict[str, Callable[..., Fraction | int]] = {
    # arithmetic
    "gave_and_bought": lambda a, b, c: a - b + c,
    "seats_taken": lambda rows, seats, empty: rows * seats - empty,
    "packed_and_loose": lambda boxes, size, loose: boxes * size + loose,
    "packs_handed_out": lambda packs, size, each, pupils: packs * size - each * pupils,
    "unsold_in_a_week": lambda a, days, b, more, sold: a * days + b * more - sold,
    "three_collectors": lambda a, times, fewer: sum((a, a * times, a * times - fewer)),
    "pooled_and_divided": lambda a, b, eaten, baskets: (a + b - eaten) / baskets,
    "reading_catch_up": lambda days, pages, slow, done: (pages - slow * done) / (days - done),
    "library_books": lambda n, days, out, back, boxes, size: n - days * out + days * back + boxes * size,
    "train_stops": lambda n, off, on, more: (n - off + on) / 2 + more,
    "working_backwards": lambda sold, bought, left: 2 * (left - bought + sold),
    "orchard_harvest": lambda rows, trees, each, bad, size: (rows * trees * each - bad) / size,
    # fractions
    "part_left_over": lambda n, part: n - n * part,
    "cake_left": lambda a, b: 1 - (a + b),
    "recipe_scaled": lambda amount, batches: sum([amount] * int(batches)),
    "page_of_book": lambda pages, part, more: pages - pages * part - more,
    "gifts_in_turn": lambda n, a, b: n - n * a - (n - n * a) * b,
    "ribbon_pieces": lambda length, piece: length / piece,
    "tank_filled": lambda before, added, after: added / (after - before),
    "two_lengths": lambda trail, a, b: trail - (a + b),
    "book_in_three_days": lambda a, b, left: left / (1 - b) / (1 - a),
    "farm_animals": lambda a, b: 1 - a - (1 - a) * b,
    "garden_beds": lambda a, b, rest: rest / (1 - a - b) * a,
    "shared_leftover": lambda part, kept, friends: (part - part * kept) / friends,
    # percentages
    "of_visitors": lambda n, p: n * p / 100,
    "sprouted": lambda n, k: 100 * k / n,
    "not_novels": lambda n, p: n * percent(-p),
    "test_result": lambda n, p: n - n * p / 100,
    "membership_growth": lambda before, after: 100 * abs(after - before) / before,
    "whole_from_part": lambda part, p: part / (p / 100),
    "two_groups": lambda girls, boys, p, q: girls * p / 100 + boys * q / 100,
    "whole_before_rise": lambda p, after: after / percent(p),
    "up_then_down": lambda n, up, down: n * percent(up, -down),
    "mixed_drink": lambda a, p, b, q: 100 * (a * p / 100 + b * q / 100) / (a + b),
    "yearly_interest": lambda n, rate, years: n * percent(*[rate] * int(years)),
    "election": lambda n, valid, share: n * valid / 100 * (share - (100 - share)) / 100,
    "two_discounts": lambda a, b: 100 * (1 - percent(-a, -b)),
    "dollars_spent": lambda n, rent, saved: n * percent(-rent, -saved),
    # prices
    "sale_price": lambda price, cut: price - price * cut / 100,
    "with_sales_tax": lambda price, tax: price + price * tax / 100,
    "amount_saved": lambda count, price, cut: count * price * cut / 100,
    "discount_then_tax": lambda price, cut, tax: price * percent(-cut, tax),
    "price_before_sale": lambda cut, price: price / percent(-cut),
    "one_free": lambda group, price, count: (
        price * first(paid for paid in range(100) if paid + paid // group >= count)
    ),
    "resale_profit": lambda count, cost, markup: count * (cost * percent(markup) - cost),
    "restaurant_bill": lambda bill, tax, tip: cents(bill + bill * tax / 100 + bill * tip / 100),
    "two_stores": lambda a, p, b, q: abs(a * percent(-p) - b * percent(-q)),
    "basket_with_coupon": lambda n, p, m, q, cut, coupon: (n * p + m * q) * percent(-cut) - coupon,
    "margin_after_sale": lambda cost, markup, cut: cost * percent(markup, -cut) - cost,
    "shared_purchase": lambda price, cut, tax, shares: cents(price * percent(-cut, tax) / shares),
    # ratios
    "shared_money": lambda total, a, b: total / (a + b) * a,
    "rice_and_water": lambda dry, wet, amount: amount / dry * wet,
    "map_scale": lambda one, scale, distance: distance / one * scale,
    "boys_and_girls": lambda total, a, b: total - total * a / (a + b),
    "from_difference": lambda a, b, more: more / (b - a) * (a + b),
    "three_shares": lambda total, *parts: total * max(parts) / sum(parts),
    "paint_mix": lambda a, b, total: total * b / (a + b),
    "prices_in_proportion": lambda count, cost, wanted: cost / count * wanted,
    "ratio_after_joining": lambda a, b, more, c, d: only(
        boys for boys in range(1, 999) if boys % b == 0 and (a * boys / b + more) / boys == c / d
    ),
    "chained_ratios": lambda total, a, b, c, d: total / (a / b + 1 + d / c) * (d / c),
    "alloy": lambda a, b, c, d, m, n: m * a / (a + b) + n * c / (c + d),
    "partners_profit": lambda a, m, b, n, profit: profit * b * n / (a * m + b * n),
    "juice_from_fruit": lambda count, glasses, jug, jugs: jugs * jug / glasses * count,
    # rates
    "distance_driven": lambda speed, hours: speed * hours,
    "pay_by_the_hour": lambda wage, hours: wage * hours,
    "price_by_weight": lambda weight, cost, wanted: cost / weight * wanted,
    "machine_output": lambda pieces, minutes, hours: hours * 60 / minutes * pieces,
    "two_legs": lambda a, h, b, k: (a + b) / (h + k),
    "filling_and_leaking": lambda rate, leak, volume: volume / (rate - leak),
    "workers_and_days": lambda workers, days, more: workers * days / more,
    "fuel_cost": lambda liters, per, price, distance: distance / per * liters * price,
    "towards_each_other": lambda distance, v, w: 60 * distance / (v + w),
    "catching_up": lambda slow, lead, fast: slow * lead / (fast - slow),
    "working_together": lambda a, b: 1 / (1 / a + 1 / b),
    "there_and_back": lambda distance, v, w: 2 * distance / (distance / v + distance / w),
    "helped_later": lambda a, b, alone: (1 - alone / a) / (1 / a + 1 / b),
    "arrival": lambda _, distance, fast, slow: 60 * (distance / slow - distance / fast),
    # averages
    "mean_of_days": lambda *amounts: mean(amounts),
    "total_from_mean": lambda count, average: count * average,
    "mean_height": lambda *heights: mean(heights),
    "score_needed": lambda *n: n[-2] * n[-1] - sum(n[:-3]),
    "two_classes": lambda n, a, m, b: (n * a + m * b) / (n + m),
    "missing_day": lambda average, days, *known: average * (days + 1) - sum(known),
    "month_average": lambda n, a, m, b, days: (n * a + m * b) / days,
    "one_leaves": lambda count, average, age: (count * average - age) / (count - 1),
    "wrong_entry": lambda count, average, wrong, right: (count * average - wrong + right) / count,
    "weighted_grade": lambda p, q, r, a, b, c: (p * a + q * b + r * c) / (p + q + r),
    "joined_later": lambda before, games, after: after * (games + 1) - before * games,
    "lowest_dropped": lambda *n: mean(sorted(n[:-1])[1:]),
    # money
    "change_from_note": lambda count, price, note: note - count * price,
    "coins_in_jar": lambda *n: sum(count * worth for count, worth in zip(n[:4], n[4:], strict=True)) / 100,
    "two_goods": lambda purse, n, p, m, q: purse - n * p - m * q,
    "saving_weeks": lambda price, purse, weekly: first(w for w in range(999) if purse + w * weekly >= price),
    "outing_shared": lambda friends, rent, ticket: cents(rent / friends + ticket),
    "exchange": lambda amount, fee, rate: (amount - fee) * rate,
    "allowance": lambda count, each, gift, spent: count * each + gift - spent,
    "party_budget": lambda purse, hall, meal: max(n for n in range(999) if hall + n * meal <= purse),
    "fewest_coins": fewest_coins,
    "two_plans": lambda guest, fee, member: only(n for n in range(999) if n * guest == fee + n * member),
    "stall_takings": lambda n, cost, sold, p, q: sold * p + (n - sold) * q - n * cost,
    "equal_after_gift": lambda a, b, spent, earned: (a - spent - (b + earned)) / 2,
    # time
    "film_length": lambda start, end: end - start,
    "exercise_week": lambda a, days, b, more: (a * days + b * more) / 60,
    "seconds_in_all": lambda count, minutes, seconds: count * minutes * 60 + count * seconds,
    "school_morning": lambda start, end, lessons, pause: (end - start + pause) / lessons - pause,
    "buses_in_a_day": lambda start, end, step: len(range(int(start), int(end) + 1, int(step))),
    "slow_clock": lambda error, start, end: error * (end - start) / 60,
    "days_between": days_between,
    "time_zones": lambda ahead, start, end: end - 60 * ahead - start,
    "shift_pay": lambda start, end, days, lunch: days * (end - start - lunch) / 60,
    "signals_coincide": lambda a, b, hours, _: sum(
        minute % a == minute % b == 0 for minute in range(1, int(hours) * 60 + 1)
    ),
    "relay_finish": lambda a, b, c, d, e, f, m, s: 60 * (m - a - c - e) + s - b - d - f,
    # geometry
    "fence_length": lambda a, b, gate: a + b + a + b - gate,
    "floor_area": lambda a, b, c, d: a * b - c * d,
    "triangle_area": lambda side, height: side * height / 2,
    "side_from_perimeter": lambda around, length: (around - 2 * length) / 2 * length,
    "fence_cost": lambda area, width, price: (2 * width + 2 * area / width) * price,
    "floor_tiles": lambda a, b, tile: a * b / (tile / 100) ** 2,
    "box_volume": lambda a, b, _, filled, liter: a * b * filled / liter,
    "path_around": lambda a, b, path: 2 * path * (a + b) + 4 * path * path,
    "notched_plot": lambda a, b, c, d, price: (a * b - c * d) * price,
    "wall_paint": lambda _, a, b, height, holes, can: ceil((2 * a * height + 2 * b * height - holes) / can),
    "stretched_rectangle": lambda up, down: 100 * (percent(up, -down) - 1),
    "sides_in_ratio": lambda longer, around: ((around / 2) ** 2 - longer**2) / 4,
    "trapezoid_field": lambda a, b, height, per: (a * height / 2 + b * height / 2) * per,
    # algebra
    "thought_number": lambda times, added, result: (result - added) / times,
    "sum_and_difference": lambda total, more: only(n for n in range(999) if n + n - more == total),
    "twice_as_many": lambda times, total: only(n for n in range(999) if n + times * n == total),
    "consecutive_numbers": largest_consecutive,
    "ages_and_sum": lambda times, later, total: only(
        n for n in range(99) if (n + later) + (n * times + later) == total
    ),
    "coins_of_two_kinds": lambda count, a, b, worth: only(
        n for n in range(int(count) + 1) if n * a + (count - n) * b == worth * 100
    ),
    "tickets_sold": lambda count, adult, child, takings: only(
        n for n in range(int(count) + 1) if n * child + (count - n) * adult == takings
    ),
    "heads_and_legs": lambda two, four, heads, legs: only(
        n for n in range(int(heads) + 1) if n * four + (heads - n) * two == legs
    ),
    "ages_then_and_now": lambda ago, past, later, future: only(
        age for age in range(130) if (age - ago) / past + ago == (age + later) / future - later
    ),
    "two_orders": lambda a, b, s, c, d, t: (s * d - t * b) / (a * d - b * c),
    "three_parts": lambda total, times, more: only(
        times * n for n in range(999) if n + times * n + n + more == total
    ),
    "candles_burning": lambda a, p, b, q: (a - b) / (p - q),
    "equal_stocks": lambda a, down, b, up: only(n for n in range(999) if a - n * down == b + n * up),
    "digits_reversed": lambda total, more: only(
        n for n in range(10, 100) if n // 10 + n % 10 == total and n % 10 * 10 + n // 10 == n + more
    ),
    "quiz_points": lambda win, lose, count, score: only(
        n for n in range(int(count) + 1) if n * win - (count - n) * lose == score
    ),
    # sequences
    "training_day": lambda start, more, day: start + sum([more] * (int(day) - 1)),
    "next_number": next_number,
    "folding_population": in_the_dish,
    "day_of_reaching": lambda start, more, goal: first(n for n in range(999) if start + n * more >= goal),
    "seats_in_rows": lambda rows, start, more: sum(start + row * more for row in range(int(rows))),
    "weekly_savings": lambda start, more, weeks: sum(start + week * more for week in range(int(weeks))),
    "stacked_cans": lambda bottom, step, top: sum(range(int(top), int(bottom) + 1, int(step))),
    "growing_plant": lambda a, b, c, weeks: c + (weeks - 2) * (b - a),
    "bouncing_ball": lambda height, ratio, bounces: height * prod([ratio] * int(bounces)),
    "squares_of_matches": lambda start, more, sticks: max(
        n for n in range(1, 999) if start + (n - 1) * more <= sticks
    ),
    "falling_price": lambda price, cut, years: price * percent(*[-cut] * int(years)),
    "terms_apart": lambda i, a, j, b, k: a + (b - a) / (j - i) * (k - i),
    "spreading_news": lambda each, _, days: sum(each**day for day in range(int(days) + 1)),
    "falling_unit_price": lambda start, less, count: sum(start - n * less / 100 for n in range(int(count))),
    # remainders
    "left_over": lambda total, friends: total - friends * (total // friends),
    "vehicles_needed": lambda riders, seats: first(n for n in range(999) if n * seats >= riders),
    "full_boxes": lambda total, size: max(n for n in range(999) if n * size <= total),
    "missing_to_full": lambda total, size: ceil(total / size) * size - total,
    "equal_bags": lambda a, b: max(n for n in range(1, 999) if a % n == b % n == 0),
    "together_again": lambda a, b: first(day for day in range(1, 999) if day % a == day % b == 0),
    "two_ways_to_pack": lambda total, big, small: total % big % small,
    "cut_boards": lambda count, piece, board: ceil(count / floor(board / piece)),
    "smallest_with_remainders": lambda a, r, b, s, more: first(
        n for n in range(int(more) + 1, 9999) if n % a == r and n % b == s
    ),
    "between_with_remainder": lambda low, high, a, r, b, s: only(
        n for n in range(int(low) + 1, int(high)) if n % a == r and n % b == s
    ),
    "largest_tile": lambda a, b: a * b / gcd(int(a), int(b)) ** 2,
    "three_signals": lambda *periods: lcm(*map(int, periods)),
    "pages_of_stamps": lambda total, given, bought, size: (total - given + bought - 1) % size + 1,
}
READERS = {"days_between", "next_number", "folding_population", "consecutive_numbers"}
"""Solvers that need the words of the question too."""

STORIES = [story for family in FAMILIES for level in family.levels for story in level]


def test_every_story_has_a_solver_and_every_solver_a_story():
    names = [story.__name__ for story in STORIES]
    assert sorted(names) == sorted(SOLVERS)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_the_answer_follows_from_the_numbers_in_the_question(story: Story):
    solve = SOLVERS[story.__name__]
    for number in range(PROBLEMS_PER_STORY):
        split = ("train", "validation", "test")[number % 3]
        _, problem = draw_problem(f"solve/{number}", (story,), split)
        question = problem.question
        solution = solve(question) if story.__name__ in READERS else solve(*quantities(question))
        assert solution == problem.answer, question
        assert problem.answer > 0, question
