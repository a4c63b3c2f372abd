"""Prices: discounts, taxes, mark-ups and offers."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ors_server_tasks.math_word_problems.english import cap, dollars, money, with_article
from ors_server_tasks.math_word_problems.problem import Family, problem, require
from ors_server_tasks.math_word_problems.rounding import is_half_way, nearest
from ors_server_tasks.math_word_problems.vocabulary import CHEAP_GOODS, COSTLY_GOODS, SHOPS, people, person

if TYPE_CHECKING:
    from ors_server_tasks.math_word_problems.draw import Draw
    from ors_server_tasks.math_word_problems.problem import Problem

WHOLE = 100
"""Percent in a whole, and cents in a dollar."""


def sale_price(draw: Draw) -> Problem:
    """Asks for p (1 - d%)."""
    goods, price, cut = draw.pick(COSTLY_GOODS), draw.between(40, 400, 5), draw.between(5, 60, 5)
    question = (
        f"{cap(goods.one)} normally costs {money(price * WHOLE)}. In a sale the price is reduced by {cut}%. "
        "What is the sale price in dollars?"
    )
    return problem(question, Fraction(price * (WHOLE - cut), WHOLE), "$")


def with_sales_tax(draw: Draw) -> Problem:
    """Asks for p (1 + t%)."""
    buyer = person(draw)
    goods, price, tax = draw.pick(COSTLY_GOODS), draw.between(40, 300), draw.between(4, 12)
    question = (
        f"{buyer.name} buys {goods.one} for {money(price * WHOLE)} plus {tax}% sales tax. "
        f"How many dollars does {buyer.he} pay in all?"
    )
    return problem(question, Fraction(price * (WHOLE + tax), WHOLE), "$")


def amount_saved(draw: Draw) -> Problem:
    """Asks for n p d%."""
    buyer = person(draw)
    goods, price, count = draw.pick(CHEAP_GOODS), draw.between(200, 900, 20), draw.between(3, 12)
    cut = draw.between(10, 50, 5)
    question = (
        f"{buyer.name} buys {goods.count(count)} at {money(price)} each and gets a discount of {cut}%. "
        f"How many dollars does {buyer.he} save?"
    )
    return problem(question, dollars(Fraction(price * count * cut, WHOLE)), "$")


def discount_then_tax(draw: Draw) -> Problem:
    """Asks for p (1 - d%) (1 + t%)."""
    buyer = person(draw)
    goods, price = draw.pick(COSTLY_GOODS), draw.between(40, 400, 20)
    cut, tax = draw.between(10, 50, 5), draw.between(4, 12)
    question = (
        f"The price of {goods.one} is {money(price * WHOLE)}. {buyer.name} gets {cut}% off the price and "
        f"then pays {tax}% sales tax on the reduced price. How many dollars does {buyer.he} pay in all?"
    )
    return problem(question, Fraction(price * (WHOLE - cut) * (WHOLE + tax), WHOLE**2), "$")


def price_before_sale(draw: Draw) -> Problem:
    """Asks for s / (1 - d%)."""
    goods, shop = draw.pick(COSTLY_GOODS), draw.pick(SHOPS)
    price, cut = draw.between(40, 400, 4), draw.between(5, 75, 5)
    question = (
        f"After a discount of {cut}%, {goods.one} costs {money(price * (WHOLE - cut))} at "
        f"{with_article(shop)}. What was the price in dollars before the discount?"
    )
    return problem(question, price, "$")


def one_free(draw: Draw) -> Problem:
    """Asks for the price of all but every (k + 1)-th piece."""
    buyer = person(draw)
    goods, price, paid = draw.pick(CHEAP_GOODS), draw.between(120, 900, 5), draw.between(2, 5)
    count = draw.between(paid + 2, 24)
    free = count // (paid + 1)
    question = (
        f"A shop has an offer: for every {paid} {goods.plural} that you pay for, you get one more free. Each "
        f"{goods.singular} costs {money(price)}. {buyer.name} takes home {goods.count(count)}, making the "
        f"best use of the offer. How many dollars does {buyer.he} pay?"
    )
    return problem(question, dollars(price * (count - free)), "$")


def resale_profit(draw: Draw) -> Problem:
    """Asks for n c m%."""
    seller = person(draw)
    goods, cost, count = draw.pick(COSTLY_GOODS), draw.between(20, 150, 5), draw.between(4, 30)
    markup = draw.between(10, 80, 5)
    question = (
        f"{seller.name} buys {goods.count(count)} for {money(cost * WHOLE)} each and sells all of them at a "
        f"price that is {markup}% higher. What is {seller.his} total profit in dollars?"
    )
    return problem(question, Fraction(cost * count * markup, WHOLE), "$")


def restaurant_bill(draw: Draw) -> Problem:
    """Asks for (meals + tax + tip) rounded to the nearest cent."""
    guest = person(draw)
    bill, tax, tip = draw.between(1815, 9995, 5), draw.between(4, 10), draw.between(15, 25)
    total = Fraction(bill * (WHOLE + tax + tip), WHOLE)
    require(not is_half_way(total))
    question = (
        f"The food and drinks on {guest.name}'s restaurant bill cost {money(bill)}. {guest.name} pays {tax}% "
        f"of this amount as tax and {tip}% of this amount as a tip on top of it. How many dollars does "
        f"{guest.he} pay in all? Round to the nearest cent."
    )
    return problem(question, dollars(nearest(total)), "$")


def two_stores(draw: Draw) -> Problem:
    """Asks for |a (1 - p%) - b (1 - q%)|."""
    goods = draw.pick(COSTLY_GOODS)
    first, second = draw.between(80, 400, 5), draw.between(80, 400, 5)
    first_cut, second_cut = draw.pick_some((5, 10, 15, 20, 25, 30, 35, 40), 2)
    first_price, other = first * (WHOLE - first_cut), second * (WHOLE - second_cut)
    require(0 < abs(first_price - other) < 40 * WHOLE)
    question = (
        f"One store sells {goods.one} for {money(first * WHOLE)} with {first_cut}% off. Another store sells "
        f"the same {goods.singular} for {money(second * WHOLE)} with {second_cut}% off. How many dollars "
        "cheaper is the cheaper of the two offers?"
    )
    return problem(question, dollars(abs(first_price - other)), "$")


def basket_with_coupon(draw: Draw) -> Problem:
    """Asks for (n p + m q) (1 - d%) - coupon."""
    buyer = person(draw)
    good, other = draw.pick_some(CHEAP_GOODS, 2)
    first_price, second_price = draw.between(150, 900, 10), draw.between(150, 900, 10)
    first, second = draw.between(2, 8), draw.between(2, 8)
    cut, coupon = draw.between(10, 30, 10), draw.between(2, 6)
    total = Fraction((first * first_price + second * second_price) * (WHOLE - cut), WHOLE) - coupon * WHOLE
    require(total > 5 * WHOLE)
    question = (
        f"{buyer.name} buys {good.count(first)} at {money(first_price)} each and {other.count(second)} at "
        f"{money(second_price)} each. The store takes {cut}% off the total, and then {buyer.name} uses a "
        f"coupon worth {money(coupon * WHOLE)}. How many dollars does {buyer.he} pay?"
    )
    return problem(question, dollars(total), "$")


def margin_after_sale(draw: Draw) -> Problem:
    """Asks for c (1 + m%) (1 - d%) - c."""
    goods, cost = draw.pick(COSTLY_GOODS), draw.between(40, 300, 20)
    markup, cut = draw.between(50, 100, 10), draw.between(10, 30, 5)
    profit = Fraction(cost * (WHOLE + markup) * (WHOLE - cut), WHOLE**2) - cost
    question = (
        f"A shop pays {money(cost * WHOLE)} for {goods.one} and sets the selling price {markup}% above that. "
        f"Later it sells the {goods.singular} at {cut}% below the selling price. How many dollars of profit "
        "does the shop make?"
    )
    return problem(question, profit, "$")


def shared_purchase(draw: Draw) -> Problem:
    """Asks for (p (1 - d%) (1 + t%)) / n, rounded to the nearest cent."""
    first, second, third = people(draw, 3)
    goods, price = draw.pick(COSTLY_GOODS), draw.between(80, 400, 5)
    cut, tax = draw.between(5, 40, 5), draw.between(4, 11)
    share = Fraction(price * (WHOLE - cut) * (WHOLE + tax), WHOLE * 3)
    require(not is_half_way(share))
    question = (
        f"{first.name}, {second.name}, and {third.name} buy {goods.one} together. It costs "
        f"{money(price * WHOLE)}, they get {cut}% off, and {tax}% sales tax is added to the reduced price. "
        "They share the cost equally among the 3 of them. How many dollars is one share? Round to the "
        "nearest cent."
    )
    return problem(question, dollars(nearest(share)), "$")


FAMILY = Family(
    "prices",
    (
        (sale_price, with_sales_tax, amount_saved),
        (discount_then_tax, price_before_sale, one_free, resale_profit),
        (restaurant_bill, two_stores, basket_with_coupon, margin_after_sale, shared_purchase),
    ),
)
