"""Compares two answers by their kinds.

Conventions (each is a rule of
[`AnswerComparison`][ors_server.rewards.math.answer_comparison.AnswerComparison]):

* kinds are kept apart: a point is not a set, an interval not a list, `(0, 1)` is not `[0, 1]`, a list is not
  its member;
* lists and sets have no order, and repetitions count only if both sides have some; points and vectors
  have an order; a list without brackets may stand for a point in order;
* `25%` is 25 and 0.25, but 25 is not 0.25 ("either" convention of MATH's golds);
* a unit counts only if both sides have one; so does a base (`204_5`), so do words after a number;
* an angle in degrees is its number, and its radians where π is written;
* `a ± b` is the list of both values;
* an inequality in one variable is the interval that it describes, `x ∈ S` is `S`; but `x > 5` is not `y > 5`;
* inequalities joined by "and" are their intersection, or, where that is empty, their union, as by "or";
* a ratio `a:b` is that of any multiple, and the quotient.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from ors_server.rewards.math import units
from ors_server.rewards.math.identity import number_of, same_value, spell
from ors_server.rewards.math.limits import LimitError, MathError, StepBudget
from ors_server.rewards.math.math_options import MathOptions
from ors_server.rewards.math.names import are_alike, are_distinct, are_one, names_of
from ors_server.rewards.math.pairing import can_pair
from ors_server.rewards.math.parts import (
    bounds_another,
    cases_of,
    drop_declarations,
    is_derivation,
    joins_otherwise,
    members,
    peel_unit,
    prepare,
    quotients,
    rows_of,
    united,
    value_of,
)
from ors_server.rewards.math.realsets import read_set
from ors_server.rewards.math.relations import same_relation, split_name, without_remark
from ors_server.rewards.math.tree import (
    Add,
    Based,
    Brackets,
    Constant,
    Function,
    Listing,
    Matrix,
    Multiply,
    Node,
    Number,
    Quantity,
    Ratio,
    Relation,
    Set,
    SetOperation,
    Words,
    contains,
)

_COMPARISON_STEPS: Final = 4
_MIN_SET_PAIRS: Final = 64
"""Pairs of members from which two lists are compared as sets of numbers."""
_PERCENT: Final = Number(Fraction(1, 100))
_SETS: Final = (Add, Brackets, Set, SetOperation, Constant, Relation, Listing)


@dataclass(slots=True)
class AnswerComparison:
    """Compares one gold answer with one answer, within a budget."""

    options: MathOptions
    budget: StepBudget = field(default_factory=StepBudget)

    def same(self, gold: Node, answer: Node) -> bool:
        """Return whether an answer equals the gold answer.

        Raises:
            LimitError: The comparison would take more than the grader spends.
        """
        # Equal trees are equal, even where a value would exceed a limit.
        if gold == answer:
            return True
        gold, answer = drop_declarations(gold, answer)
        # Every call costs: rules call `same` for members, so that long lists exhaust the budget instead of
        # time.
        self.budget.spend(_COMPARISON_STEPS)
        gold, answer = prepare(gold), prepare(answer)
        # Derivations are compared step by step and keep their `≈`.
        if not is_derivation(gold, answer):
            gold, answer = without_remark(gold), without_remark(answer)
        # The first rule of either side's kind decides; an expression is what no rule claims.
        for kinds, rule in _RULES:
            if isinstance(gold, kinds) or isinstance(answer, kinds):
                return rule(self, gold, answer)
        return self._same_expression(gold, answer)

    def _same_expression(self, gold: Node, answer: Node) -> bool:
        match gold, answer:
            case Function("mod", (_, modulus)), Function("mod", (_, other)) if not self.same(modulus, other):
                return False  # residues of different moduli, as those of `7 (mod 11)` are
            case _:
                pass
        if same_value(gold, answer, self.budget):
            return True
        # Only after the exact comparison, and only with a printed decimal gold answer.
        if not self.options.rounds_to_gold:
            return False
        value = number_of(answer, self.budget)
        if not (isinstance(gold, Number) and gold.places) or value is None:
            return False
        # At most half a unit of the gold's last digit, without division: 2 · 10^places · |gap| ≤ 1.
        gap: Fraction = Fraction(2 * 10**gold.places) * abs(Fraction(gold.value) - Fraction(value))
        return gap <= 1

    # One rule per kind of answer, in the order of `_RULES`.

    def same_words(self, gold: Node, answer: Node) -> bool:
        """Words are compared without case, articles and plurals; signs among them exactly."""
        return isinstance(gold, Words) and isinstance(answer, Words) and gold.tokens == answer.tokens != ()

    def same_quantity(self, gold: Node, answer: Node) -> bool:
        """A unit counts if both sides have one; percent signs and degrees have conventions of their own."""
        if isinstance(gold, Quantity) and isinstance(answer, Quantity):
            return self._same_quantities(gold, answer)
        with_unit, other = (gold, answer) if isinstance(gold, Quantity) else (answer, gold)
        if not isinstance(with_unit, Quantity):
            # For the type checker: the rule applies only if one side is a quantity.
            return False
        if isinstance(other, Relation):
            return self.same_relation(gold, answer)
        return self._same_without_unit(with_unit, other)

    def _same_without_unit(self, quantity: Quantity, other: Node) -> bool:
        value = quantity.value
        if self.same(value, other):
            return True
        # `5m` was read as a product; with the gold's unit it is a quantity.
        peeled = peel_unit(other)
        if peeled is not None and peeled[1] == quantity.unit:
            return self.same(value, peeled[0])
        # As in the golds of MATH, 25 % is both 25 and 0.25.
        if quantity.unit == "%":
            return self.same(Multiply((value, _PERCENT)), other)
        # Degrees against radians: only a value with a constant such as π is in radians.
        return quantity.unit == "°" and contains(other, Constant) and same_value(quantity, other, self.budget)

    def _same_quantities(self, gold: Quantity, answer: Quantity) -> bool:
        if units.agree(gold.unit, answer.unit):
            return self.same(gold.value, answer.value)
        factor = units.conversion(answer.unit, gold.unit) if self.options.converts_units else None
        if factor is None or "~" in gold.unit + answer.unit:
            return False
        return self.same(gold.value, Multiply((Number(factor), answer.value)))

    def same_relation(self, gold: Node, answer: Node) -> bool:
        """An equation that names a value is that value; other relations are compared as such."""
        # Two derivations are compared step by step; longer ones as they are written.
        if is_derivation(gold, answer):
            is_long = len(gold.operators) > 1  # type: ignore[union-attr]  # both are relations, as `is_derivation` says
            same: Callable[[Node, Node], bool] = (
                (lambda first, second: spell(first) == spell(second)) if is_long else self.same
            )
            return same_relation(gold, answer, same, self.budget)  # type: ignore[arg-type]  # both are relations
        # The names must be alike; a value without a name answers any equation for a name.
        gold_name, answer_name = split_name(gold, self.same), split_name(answer, self.same)
        if gold_name is not None and answer_name is not None:
            (name, value), (other_name, other) = gold_name, answer_name
            if are_alike(name, other_name):
                if self.same(value, other):
                    return True
                both = isinstance(gold, Relation) and isinstance(answer, Relation)
                return both and same_relation(gold, answer, self.same, self.budget)  # type: ignore[arg-type]  # both are relations
        if isinstance(gold, Relation) and isinstance(answer, Relation):
            return same_relation(gold, answer, self.same, self.budget) or self._same_spans(gold, answer)
        return self._same_spans(gold, answer)

    def same_listing(self, gold: Node, answer: Node) -> bool:
        """Lists are compared by name, in order, or without order, as far as their members have names."""
        gold_members, answer_members = members(gold), members(answer)
        # "3/4, or 0.75" says one value twice; a list of different values would not be the gold value.
        if isinstance(answer, Listing) and answer.joiner == "or" and not isinstance(gold, Listing):
            once = self._distinct(answer.items)
            if len(once) == 1:  # `3/4, or 0.75`
                return self.same(gold, once[0])
        if gold_members is None or answer_members is None or joins_otherwise(gold, answer):
            return self._same_spans(gold, answer)
        if isinstance(gold, Brackets) or isinstance(answer, Brackets):
            # Only round brackets are a point; other brackets are intervals, and a set has no order.
            are_points = all(
                (node.opening, node.closing) == ("(", ")")
                if isinstance(node, Brackets)
                else not isinstance(node, Set)
                for node in (gold, answer)
            )
            return are_points and self._same_in_order(gold_members, answer_members)
        if (verdict := self._same_numbers(gold_members, answer_members)) is not None:
            return verdict
        # Repetitions count only if both sides have some.
        once, other_once = self._distinct(gold_members), self._distinct(answer_members)
        if len(once) == len(gold_members) or len(other_once) == len(answer_members):
            gold_members, answer_members = once, other_once
        if len(gold_members) == len(answer_members) and self._same_named(gold_members, answer_members):
            return True
        return self._same_spans(gold, answer)

    def _same_numbers(self, gold: Sequence[Node], answer: Sequence[Node]) -> bool | None:
        """Compare two long lists of plain numbers at once; `None` for anything else."""
        # Pairing 64 or more members would compare each with each.
        if len(gold) * len(answer) < _MIN_SET_PAIRS or not all(
            isinstance(item, Number) for item in (*gold, *answer)
        ):
            return None
        return {number_of(item, self.budget) for item in gold} == {
            number_of(item, self.budget) for item in answer
        }

    def _same_in_order(self, gold: Sequence[Node], answer: Sequence[Node]) -> bool:
        if len(gold) != len(answer):
            return False
        gold_split, answer_split = self._split(gold), self._split(answer)
        return (
            gold_split is not None
            and answer_split is not None
            and all(
                self.same(value, other)
                for (_, value), (_, other) in zip(gold_split, answer_split, strict=True)
            )
        )

    def _split(self, items: Sequence[Node]) -> list[tuple[Node | None, Node]] | None:
        split = [split_name(item, self.same) for item in items]
        return None if None in split else [pair for pair in split if pair is not None]

    def _same_named(self, gold: Sequence[Node], answer: Sequence[Node]) -> bool:
        gold_split, answer_split = self._split(gold), self._split(answer)
        if gold_split is None or answer_split is None:
            return can_pair(gold, answer, self.same)
        names, other_names = names_of(gold_split), names_of(answer_split)
        if names and other_names:
            is_alike = sorted(map(spell, names)) == sorted(map(spell, other_names))
            # The same names must belong to the same values; but names that only number solutions, or one
            # unknown under two names, do not count.
            is_free = not are_distinct(names) if is_alike else are_one(names, other_names)
            if not is_free:
                return can_pair(gold, answer, self.same)
        # Without names on one side the order is that of the names: `x = 1, y = 2` and `1, 2`.
        elif are_distinct(names) or are_distinct(other_names):
            return self._same_in_order(gold, answer)
        return can_pair([value for _, value in gold_split], [value for _, value in answer_split], self.same)

    def _distinct(self, items: Sequence[Node]) -> list[Node]:
        distinct: list[Node] = []
        for item in items:
            if not any(self.same(item, other) for other in distinct):
                distinct.append(item)
        return distinct

    def same_group(self, gold: Node, answer: Node) -> bool:
        """Brackets are kept; points are compared in order; a vector may be written as a point."""
        if isinstance(gold, Brackets) and isinstance(answer, Brackets):
            is_alike = (gold.opening, gold.closing) == (answer.opening, answer.closing)
            return is_alike and self._same_in_order(gold.items, answer.items)
        if isinstance(gold, Matrix) or isinstance(answer, Matrix):
            return self.same_matrix(gold, answer)
        return self._same_spans(gold, answer)

    def same_set(self, gold: Node, answer: Node) -> bool:
        """Sets have no order; a set of one number may be written as the number."""
        for single, whole in ((gold, answer), (answer, gold)):
            if (
                isinstance(single, Set)
                and len(single.items) == 1
                and not isinstance(whole, SetOperation | Constant)
            ):
                return self.same(single.items[0], whole)
        gold_union, answer_union = united(gold), united(answer)
        # Parts of a union, before the spans: members may be symbols, which no span has.
        if len(gold_union) == len(answer_union) > 1 and can_pair(gold_union, answer_union, self.same):
            return True
        return self._same_spans(gold, answer)

    def _same_spans(self, gold: Node, answer: Node) -> bool:
        if not (isinstance(gold, _SETS) and isinstance(answer, _SETS)) or bounds_another(gold, answer):
            return False
        try:
            return read_set(gold, self.budget) == read_set(answer, self.budget)
        # A limit must reach the caller, which has a verdict for it; it is a subclass of `MathError`.
        except LimitError:
            raise
        except MathError:
            return False

    def same_matrix(self, gold: Node, answer: Node) -> bool:
        """Matrices are compared cell by cell; sums and products of them are computed; cases have no order."""
        if isinstance(gold, Matrix) and isinstance(answer, Matrix) and gold.kind == answer.kind == "cases":
            return can_pair(cases_of(gold), cases_of(answer), self._same_row)
        gold_rows, answer_rows = rows_of(gold), rows_of(answer)
        if (
            gold_rows is None
            or answer_rows is None
            or [len(row) for row in gold_rows] != [len(row) for row in answer_rows]
        ):
            return False
        return all(map(self._same_row, gold_rows, answer_rows))

    def _same_row(self, gold: Sequence[Node], answer: Sequence[Node]) -> bool:
        return len(gold) == len(answer) and all(map(self.same, gold, answer))

    def same_ratio(self, gold: Node, answer: Node) -> bool:
        """A ratio is that of any multiple; one of two numbers is their quotient; a time is its digits."""
        gold_quotients, answer_quotients = quotients(gold), quotients(answer)
        if isinstance(gold, Ratio) and isinstance(answer, Ratio):
            if len(gold.parts) != len(answer.parts):
                return False
            if all(map(self.same, gold.parts, answer.parts)):
                return True
            return (
                gold_quotients is not None
                and answer_quotients is not None
                and all(map(self.same, gold_quotients, answer_quotients))
            )
        # One quotient only: `1:2:3` is not a number.
        ratio, other = (gold_quotients, answer) if isinstance(gold, Ratio) else (answer_quotients, gold)
        return ratio is not None and len(ratio) == 1 and self.same(ratio[0], other)

    def same_numeral(self, gold: Node, answer: Node) -> bool:
        """Numerals are compared in their base; a side without a base is in the other's."""
        if isinstance(gold, Based) and isinstance(answer, Based):
            return gold.base == answer.base and gold.numeral.lstrip("0") == answer.numeral.lstrip("0")
        based, other = (gold, answer) if isinstance(gold, Based) else (answer, gold)
        return (
            isinstance(based, Based)
            and isinstance(other, Number)
            and (based.numeral.lstrip("0") == str(other.value) or value_of(based) == other.value)
        )


# The first rule of either side's kind is used, so containers come before what they contain: lists of
# relations before relations, relations between quantities before quantities.
_RULES: Final[tuple[tuple[type | tuple[type, ...], Callable[[AnswerComparison, Node, Node], bool]], ...]] = (
    (Words, AnswerComparison.same_words),
    (Listing, AnswerComparison.same_listing),
    (Relation, AnswerComparison.same_relation),
    (Quantity, AnswerComparison.same_quantity),
    (Brackets, AnswerComparison.same_group),
    ((Set, SetOperation), AnswerComparison.same_set),
    (Matrix, AnswerComparison.same_matrix),
    (Ratio, AnswerComparison.same_ratio),
    (Based, AnswerComparison.same_numeral),
)
