"""Two JSON values field by field: what is right, different, missing, and extra. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from ors_server.model.json_values import JSONValue, canonical_text, is_array, is_object, same_values

MatchMode: TypeAlias = Literal["equal", "subset"]
"""Whether objects have the gold's names and no others, or at least those."""
FieldVerdict: TypeAlias = Literal["right", "different", "missing", "extra"]
MAX_REPORTED = 100
"""Fields that a report names."""


@dataclass(frozen=True, slots=True)
class FieldReport:
    """The verdict on every field of the gold value, and the extra fields.

    A field is a value without values in it, or an empty array or object. Names are JSON pointers (RFC 6901).
    """

    fields: tuple[tuple[str, FieldVerdict], ...]

    @property
    def fraction(self) -> float:
        """The part of the fields that is right, in [0, 1]; extra fields count as wrong."""
        return sum(verdict == "right" for _, verdict in self.fields) / max(1, len(self.fields))

    @property
    def is_match(self) -> bool:
        """Whether every field is right."""
        return all(verdict == "right" for _, verdict in self.fields)

    def as_extras(self) -> dict[str, Any]:
        """Return the fraction, the counts, and up to 100 fields that are not right."""
        counts = Counter(verdict for _, verdict in self.fields)
        wrong = [(name, verdict) for name, verdict in self.fields if verdict != "right"]
        return {
            "fraction": self.fraction,
            **{verdict: counts[verdict] for verdict in get_args(FieldVerdict)},
            "fields": dict(wrong[:MAX_REPORTED]),
        }


def compare_values(
    gold: JSONValue, answer: JSONValue, *, mode: MatchMode = "equal", is_ordered: bool = True
) -> FieldReport:
    """Compare two JSON values field by field, arrays place by place or, unless `is_ordered`, as bags.

    Places need the gold's length in both modes. In a bag each of the gold's elements has to be there, equal
    as a whole, as many times as in the gold; others are extra in the mode `equal`.
    """
    return FieldReport(tuple(_Comparison(mode, is_ordered).of(gold, answer, "")))


def pointer(path: str, name: str) -> str:
    """Return the JSON pointer of a member of the object or array at `path`, by its name or number."""
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"


_Fields: TypeAlias = Iterator[tuple[str, FieldVerdict]]


@dataclass(frozen=True, slots=True)
class _Comparison:
    mode: MatchMode
    is_ordered: bool

    def of(self, gold: JSONValue, answer: JSONValue, path: str) -> _Fields:
        if is_object(gold) and gold and is_object(answer):
            yield from self._objects(gold, answer, path)
        elif is_array(gold) and gold and is_array(answer):
            compare = self._arrays if self.is_ordered else self._bags
            yield from compare(gold, answer, path)
        elif not _holds_others(gold):
            yield path, ("right" if self._is_same(gold, answer) else "different")
        else:
            yield from _with_verdict(_leaves(gold, path), "different")

    def _is_same(self, gold: JSONValue, answer: JSONValue) -> bool:
        if self.mode == "subset" and is_object(gold):
            return is_object(answer)  # an empty object: no name is asked for
        if self.mode == "subset" and not self.is_ordered and is_array(gold):
            return is_array(answer)  # an empty array: no element is asked for
        return same_values(gold, answer)

    def _objects(self, gold: Mapping[str, Any], answer: Mapping[str, Any], path: str) -> _Fields:
        for name, value in gold.items():
            if name in answer:
                yield from self.of(value, answer[name], pointer(path, name))
            else:
                yield from _with_verdict(_leaves(value, pointer(path, name)), "missing")
        if self.mode == "equal":
            yield from _with_verdict((pointer(path, name) for name in answer if name not in gold), "extra")

    def _arrays(self, gold: Sequence[Any], answer: Sequence[Any], path: str) -> _Fields:
        for index, value in enumerate(gold):
            if index < len(answer):
                yield from self.of(value, answer[index], pointer(path, str(index)))
            else:
                yield from _with_verdict(_leaves(value, pointer(path, str(index))), "missing")
        yield from _with_verdict(
            (pointer(path, str(index)) for index in range(len(gold), len(answer))), "extra"
        )

    def _bags(self, gold: Sequence[Any], answer: Sequence[Any], path: str) -> _Fields:
        left = Counter(canonical_text(value) for value in answer)
        for index, value in enumerate(gold):
            text = canonical_text(value)
            is_there = left[text] > 0
            left[text] -= is_there
            yield pointer(path, str(index)), ("right" if is_there else "missing")
        if self.mode == "equal":
            count = sum(left.values())
            yield from _with_verdict(
                (pointer(path, f"extra {number}") for number in range(1, count + 1)), "extra"
            )


def _with_verdict(places: Iterable[str], verdict: FieldVerdict) -> _Fields:
    for path in places:
        yield path, verdict


def _holds_others(value: object) -> bool:
    return bool(value) and (is_object(value) or is_array(value))


def _leaves(value: Any, path: str) -> Iterator[str]:
    if not _holds_others(value):
        yield path
    elif is_object(value):
        for name, item in value.items():
            yield from _leaves(item, pointer(path, name))
    else:
        for index, item in enumerate(value):
            yield from _leaves(item, pointer(path, str(index)))
