"""Money in hand: change, coins, saving and sharing."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ors_server_tasks.math_word_problems.english import cap, decimal, dollars, listing, money, noun
from ors_server_tasks.math_word_problems.problem import Family, problem, require, require_within
from ors_server_tasks.math_word_problems.rounding import is_half_way, nearest
from ors_server_tasks.math_word_problems.vocabulary import CHEAP_GOODS, COSTLY_GOODS, people, person

if TYPE_CHECKING:
    from ors_server_tasks.math_word_problems.draw import Draw
    from ors_server_tasks.math_word_problems.problem import Problem

CENTS = 100
COINS = (
    (noun("quarter"), 25),
    (noun("dime"), 10),
    (noun("nickel"), 5),
    (noun("penny", "pennies"), 1),
)
"""Coins of the United States, largest first, with their worth in cents."""


def change_from_note(draw: Draw) -> Problem:
    """Asks for note - n p."""
    buyer, goods = person(draw), draw.pick(CHEAP_GOODS)
    count, price, note = draw.between(2, 9), draw.between(115, 895, 5), draw.pick((20, 50, 100))
    require(0 < note * CENTS - count * price < note * CENTS // 2)
    question = (
        f"{buyer.name} buys {goods.count(count)} at {money(price)} each and pays with a "
        f"{money(note * CENTS)} bill. How many dollars of change does {buyer.he} get?"
    )
    return problem(question, dollars(note * CENTS - count * price), "$")


def coins_in_jar(draw: Draw) -> Problem:
    """Asks for the sum of counts times worths, in cents."""
    owner = person(draw)
    counts = [draw.between(3, 28) for _ in COINS]
    total = sum(count * worth for count, (_, worth) in zip(counts, COINS, strict=True))
    names = [coin.count(count) for count, (coin, _) in zip(counts, COINS, strict=True)]
    question = (
        f"{owner.name} empties a jar and finds {listing(names)}. Quarters are worth 25 cents, dimes 10 "
        "cents, nickels 5 cents, and pennies 1 cent. How many dollars are in the jar?"
    )
    return problem(question, dollars(total), "$")


def two_goods(draw: Draw) -> Problem:
    """Asks for money - n p - m q."""
    buyer, (good, other) = person(draw), draw.pick_some(CHEAP_GOODS, 2)
    first, second = draw.between(2, 6), draw.between(2, 6)
    price, other_price = draw.between(110, 890, 5), draw.between(110, 890, 5)
    spent = first * price + second * other_price
    purse = (spent // CENTS + draw.between(3, 30)) * CENTS
    question = (
        f"{buyer.name} has {money(purse)} and buys {good.count(first)} at {money(price)} each and "
        f"{other.count(second)} at {money(other_price)} each. How many dollars does {buyer.he} have left?"
    )
    return problem(question, dollars(purse - spent), "$")


def saving_weeks(draw: Draw) -> Problem:
    """Asks for ceil((price - have) / weekly)."""
    saver, goods = person(draw), draw.pick(COSTLY_GOODS)
    price, have, weekly = draw.between(90, 420, 5), draw.between(12, 75), draw.between(7, 24)
    weeks = -((have - price) // weekly)
    question = (
        f"{saver.name} wants to buy {goods.one} for {money(price * CENTS)}. {cap(saver.he)} has "
        f"{money(have * CENTS)} and saves {money(weekly * CENTS)} at the end of every week. After how many "
        f"weeks does {saver.he} have enough money for the first time?"
    )
    return problem(question, weeks, "weeks")


def outing_shared(draw: Draw) -> Problem:
    """Asks for (fixed + n ticket) / n, rounded to the nearest cent."""
    friends = draw.between(3, 9)
    rent, ticket = draw.between(4100, 19900, 50), draw.between(650, 2900, 25)
    share = Fraction(rent, friends) + ticket
    require(not is_half_way(share))
    goal = draw.pick(("lake", "beach", "national park", "theme park", "mountains"))
    question = (
        f"{friends} friends rent a van for {money(rent)} to drive to the {goal} and share the rent equally. "
        f"In addition each of them pays {money(ticket)} for a ticket. How many dollars does each of them pay "
        "in all? Round to the nearest cent."
    )
    return problem(question, dollars(nearest(share)), "$")


def exchange(draw: Draw) -> Problem:
    """Asks for (amount - fee) * rate."""
    traveler = person(draw)
    currency, low, high = draw.pick(
        (("euros", 85, 96), ("pounds", 72, 84), ("Swiss francs", 81, 93), ("Canadian dollars", 131, 142))
    )
    amount, fee, rate = draw.between(120, 900, 20), draw.between(4, 12), draw.between(low, high)
    question = (
        f"{traveler.name} changes {money(amount * CENTS)} into {currency}. The bank keeps a fee of "
        f"{money(fee * CENTS)} and then gives {decimal(Fraction(rate, CENTS))} {currency} for each remaining "
        f"dollar. How many {currency} does {traveler.name} get?"
    )
    return problem(question, Fraction((amount - fee) * rate, CENTS), currency)


def allowance(draw: Draw) -> Problem:
    """Asks for what is left of money earned in two ways, after spending."""
    worker = person(draw)
    job, unit = draw.pick(
        (
            ("washes", "cars"),
            ("mows", "lawns"),
            ("walks", "dogs"),
            ("tutors", "pupils"),
            ("cleans", "windows"),
        )
    )
    count, wage, gift = draw.between(4, 16), draw.between(350, 1500, 25), draw.between(10, 40, 5)
    spent = draw.between(1095, 3995, 100)
    left = count * wage + gift * CENTS - spent
    require(left > CENTS)
    question = (
        f"{worker.name} {job} {count} {unit} at {money(wage)} each and gets {money(gift * CENTS)} as a "
        f"birthday present. Then {worker.he} spends {money(spent)}. How many dollars does {worker.he} have "
        "left of this money?"
    )
    return problem(question, dollars(left), "$")


def fewest_coins(draw: Draw) -> Problem:
    """Asks for the coins of the change that a machine pays, largest first."""
    buyer, goods = person(draw), draw.pick(CHEAP_GOODS)
    price = draw.between(101, 499)
    note = 5
    rest, coins = note * CENTS - price, 0
    for worth in (CENTS, *(worth for _, worth in COINS)):
        taken, rest = divmod(rest, worth)
        coins += taken
    question = (
        f"{buyer.name} pays for {goods.one} that costs {money(price)} with a {money(note * CENTS)} bill. The "
        "machine gives the change with as few coins as possible. It has enough dollar coins, quarters (25 "
        "cents), dimes (10 cents), nickels (5 cents), and pennies (1 cent). How many coins does "
        f"{buyer.name} get?"
    )
    require(coins > 1)
    return problem(question, coins, "coins")


def two_plans(draw: Draw) -> Problem:
    """Asks for the units at which two tariffs cost the same."""
    service, unit = draw.pick(
        (
            ("gym", "visits"),
            ("car-sharing club", "hours"),
            ("swimming pool", "visits"),
            ("climbing hall", "visits"),
        )
    )
    per_use, cheaper = draw.pick_some(range(300, 1500, 50), 2)
    count = draw.between(3, 24)
    require(cheaper < per_use)
    fee = (per_use - cheaper) * count
    question = (
        f"At a {service}, guests pay {money(per_use)} per {unit[:-1]}. Members pay {money(fee)} a month and "
        f"{money(cheaper)} per {unit[:-1]}. For how many {unit} in a month do guests and members pay the "
        "same in all?"
    )
    return problem(question, count, unit)


def stall_takings(draw: Draw) -> Problem:
    """Asks for the takings minus costs at a stall with a reduced rest."""
    seller, goods = person(draw), draw.pick(CHEAP_GOODS[:8])
    count, cost = draw.between(40, 120, 5), draw.between(60, 240, 10)
    price, reduced = cost + draw.between(90, 260, 10), cost - draw.between(10, 50, 10)
    sold = draw.between(count // 2, count - 6)
    profit = sold * price + (count - sold) * reduced - count * cost
    question = (
        f"{seller.name} buys {goods.count(count)} for {money(cost)} each to sell them at a fair. "
        f"{cap(seller.he)} sells {sold} of them for {money(price)} each and all the others at the end of the "
        f"day for {money(reduced)} each. How many dollars of profit does {seller.he} make?"
    )
    return problem(question, dollars(profit), "$")


def equal_after_gift(draw: Draw) -> Problem:
    """Asks for the gift that makes two amounts equal, after both have spent."""
    first, second = people(draw, 2)
    rich, poor = draw.between(40, 120), draw.between(10, 60)
    spent, earned = draw.between(3, 15), draw.between(2, 12)
    gap = (rich - spent) - (poor + earned)
    require(gap > 1)
    question = (
        f"{first.name} has {money(rich * CENTS)} and {second.name} has {money(poor * CENTS)}. {first.name} "
        f"spends {money(spent * CENTS)} on lunch, and {second.name} earns {money(earned * CENTS)}. How many "
        f"dollars must {first.name} now give to {second.name} so that both have the same amount?"
    )
    return problem(question, Fraction(gap, 2), "$")


def party_budget(draw: Draw) -> Problem:
    """Asks for the most guests for a budget: floor((budget - fixed) / per guest)."""
    host = person(draw)
    budget, hall, meal = draw.between(250, 900, 10), draw.between(60, 180, 5), draw.between(850, 2450, 25)
    guests = (budget - hall) * CENTS // meal
    require_within(guests, 4, 100)
    question = (
        f"{host.name} has {money(budget * CENTS)} for a party. The hall costs {money(hall * CENTS)}, and "
        f"food costs {money(meal)} for each guest. What is the largest number of guests that {host.he} can "
        "pay for?"
    )
    return problem(question, guests, "guests")


FAMILY = Family(
    "money",
    (
        (change_from_note, coins_in_jar, two_goods),
        (saving_weeks, outing_shared, exchange, allowance, party_budget),
        (fewest_coins, two_plans, stall_takings, equal_after_gift),
    ),
)
