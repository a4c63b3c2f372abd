"""Decides what the clause around a name makes of it: a part, a goal, a neighbour. Pure."""

from collections.abc import Sequence
from typing import Final

from ors_server.rewards.reading.option_phrases import (
    is_choice_of_others,
    is_compared,
    is_only_a_part,
    is_only_done_there,
    is_part_of_place,
    is_related,
    is_too_much,
)
from ors_server.rewards.reading.polarity import Polarity, words_of
from ors_server.rewards.reading.sentences import Clause, TextToken, Value, classes_in

_FORMER: Final = ("my first", "my original", "my initial", "my earlier", "my previous")
_DISTANCES: Final = words_of(
    "miles mile km kilometres kilometers across away far upstream downstream inland hours minutes outskirts "
    "suburb vicinity"
)
_INCLUDING: Final = words_of("include includes included including")
_DEPARTURES: Final = (
    *("came", "come", "hail", "sail", "depart", "left", "start", "set", "originat", "stem", "travel", "flew"),
    *("writ", "wrote", "sent", "post", "report", "mov", "relocat", "transfer", "return", "went", "ship"),
    *("was", "is", "were", "fled", "flee", "led", "lead"),
)
_GIVING_REASONS: Final = words_of("because since as for where")
"""What opens the reasons behind a place that is the answer."""
_KINDS: Final = words_of("city town capital village port place settlement")
_VERBAL: Final = frozenset({"copula", "answer", "first_person", "confirm", "result", "epistemic", "harmless"})
_ONLY: Final = words_of("just only merely simply even")
_REST: Final = words_of("other others else rest remaining alternatives everything")
_PLACING: Final = frozenset({"in", "at"})
_GOVERNORS: Final = words_of(
    "have has going decided decide need needs want wants ought best safe safest reasonable wise logical like "
    "natural happy ready prefer chose choose is was supposed enough led leads forced likely sure glad me "
    "us you up instructed told made answer free compelled obliged bound able here now had "
    "about inclined"
)
"""Words in front of "to choose" whose choice is made."""
_RELOCATING: Final = (
    *("mov", "relocat", "transfer", "shift", "switch", "chang", "pass", "hand"),
    *("tak", "took", "brought", "bring", "ship", "carr", "sent", "send", "deliver"),
)
"""Verbs of which the place behind "to" holds in the end, and the one behind "from" no more."""
_TRADING: Final = ("left", "leav", "trad", "exchang", "swap", "abandon", "desert", "quit")
"""Verbs of which the thing behind "for" takes the place of the other one."""
_ASKING: Final = words_of("asks asked want wants wanted need needs needed is after")
_ASKED: Final = words_of("question task prompt puzzle riddle")
_OPPOSED: Final = words_of("but yet however though although whereas")
_TRACES: Final = words_of("record records mention trace sign evidence entry hint")
_THERE: Final = words_of("there its it")
_REASONS: Final = frozenset({"because", "since", "as", "for"})
_PEOPLE: Final = words_of("she he they")
_TIMES: Final = words_of("week day year month time summer winter spring autumn then night evening morning")


def limited(
    value: Value, left: Sequence[TextToken], right: Sequence[TextToken], *, is_english: bool
) -> Polarity | None:
    """Return what a name is that its clause restricts, or picks from others."""
    before, words = {token.word for token in left}, [token.word for token in right]
    last = left[-1] if left else None
    is_open = value.polarity in (Polarity.ASSERTED, Polarity.INTERMEDIATE)
    is_own = any(token.word.startswith(_FORMER) and "answer" in token.classes for token in left)
    is_selected = value.is_weak and last is not None and last.word in ("only", "but only")
    is_goal = last is not None and last.word in ("from", "to") and value is value.clause.values[-1]
    is_goal = is_goal and any(
        token.word.startswith(_DEPARTURES) or (token.word.endswith("ed") and not token.classes)
        for token in left[:-1]
    )
    if value.polarity is Polarity.INTERMEDIATE and (is_selected or is_goal):
        return Polarity.ASSERTED  # "only Riga has a harbour", "the letter came from Riga"
    if not is_open:
        return None
    is_name = value.token.end - value.token.start > 2  # noqa: PLR2004  (a name, not a letter)
    rules = (
        (is_own and "was" in before, Polarity.RETRACTED),  # "my first choice was Riga"
        (
            len(words) > 1 and words[0] in _ONLY and not right[1].classes & {"confirm", "copula", "answer"},
            Polarity.INTERMEDIATE,  # "Riga merely hosted the talks"
        ),
        (_is_picked_for_rejection(right), Polarity.DENIED),
        (bool(before & _DISTANCES) and last is not None and last.word in ("from", "of"), Polarity.BOUNDED),
        (bool(before & _INCLUDING) and not classes_in(left) & {"answer", "copula"}, Polarity.INTERMEDIATE),
        (_is_noun_phrase(left, right) or is_only_a_part(right), Polarity.INTERMEDIATE),
        (is_part_of_place(value, left, right) or is_only_done_there(left), Polarity.INTERMEDIATE),
        (is_name and is_related(left, right, is_english=is_english), Polarity.INTERMEDIATE),
        (is_too_much(right), Polarity.DENIED),
        (_is_origin(value, left), Polarity.INTERMEDIATE),
        (is_compared(left), Polarity.BOUNDED),
        (is_choice_of_others(right), Polarity.QUOTED),
    )
    return next((polarity for holds, polarity in rules if holds), None)


def _is_origin(value: Value, left: Sequence[TextToken]) -> bool:
    """Whether a name is where a thing came from that a clause took to another place: "to Riga from Porto"."""
    words = [token.word for token in left]
    if words[-1:] == ["from"] and "by" in words[-4:-2]:
        return True  # "by troops from Riga"
    tokens = value.clause.tokens
    at = tokens.index(value.token)
    is_route = at > 2 and tokens[at - 1].word == "from" and tokens[at - 2].kind == "value"  # noqa: PLR2004  ("to", a name, "from")
    return is_route and tokens[at - 3].word == "to" and any(t.word.startswith(_RELOCATING) for t in left)


def _is_picked_for_rejection(right: Sequence[TextToken]) -> bool:
    """Whether a predicate picks a name to reject it: "is the first that I would eliminate"."""
    if not right or "copula" not in right[0].classes:
        return False
    at = next((index for index, token in enumerate(right) if "reject" in token.classes), 0)
    is_refused = any(token.word == "last" for token in right[:4]) and "would" in classes_in(right)
    is_rejected = any(
        "first_person" in token.classes or token.word == "you" for token in right[max(0, at - 4) : at]
    )
    spares = any(_opening(token) in _REST for token in right[at + 1 : at + 4])
    return is_refused or (is_rejected and not spares and "negative" not in classes_in(right[:at]))


def _is_noun_phrase(left: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether a name only says more about a thing: "a train leaving Riga"."""
    if len(left) < 3 or right or left[0].word not in ("a", "an"):  # noqa: PLR2004  ("a", a noun and its participle)
        return False
    is_joined = left[-1].word in _PLACING or left[-1].word.endswith("ing")
    has_verb = any(token.classes & _VERBAL or token.word.endswith("ed") for token in left[:-1])
    return is_joined and not has_verb and not any(token.word in _KINDS for token in left)


def _opening(word: TextToken) -> str:
    return word.word.partition(" ")[0]


def is_only_considered(left: Sequence[TextToken]) -> bool:
    """Whether a choice is only considered or avoided: "I was tempted to choose", "it is easy to pick"."""
    at = next(
        (index for index, token in enumerate(left) if "choosing" in token.classes or token.word == "say"), 0
    )
    if at < 2 or left[at - 1].word != "to":  # noqa: PLR2004  (a word and "to")
        return False
    governor = left[at - 2]
    return governor.word not in _GOVERNORS and not governor.classes & {"confirm", "harmless", "answer"}


def moves(first: Value, second: Value) -> bool:
    """Whether a clause tells a move between two places: "moved from Riga to Porto", "left Riga for Porto"."""
    tokens = second.clause.tokens
    if second.clause is not first.clause:
        return False
    start, end = tokens.index(first.token), tokens.index(second.token)
    if not start or end - start != 2:  # noqa: PLR2004  (only "to", or "for")
        return False
    if tokens[start - 1].word == "from" and tokens[end - 1].word == "to":
        return any(token.word.startswith(_RELOCATING) for token in tokens[: start - 1])
    return tokens[end - 1].word == "for" and tokens[start - 1].word.startswith(_TRADING)


def is_before_main(first: Value, second: Value) -> bool:
    """Whether a name is in a phrase of time in front of the sentence: "after a stop in Riga, it reached"."""
    clause, lead = first.clause, second.clause.lead
    if lead is None or lead.word != "," or clause.lead is not None:
        return False
    has_subject = second.clause.tokens[0] is not second.token
    return has_subject and clause.tokens[0].word in ("after", "following")


def is_narrowed(first: Value, second: Value) -> bool:
    """Whether a clause only narrows the choice to names: "I have narrowed it down to Riga and Porto"."""
    lead = second.clause.lead
    is_listed = lead is not None and lead.word in ("and", "or", ",") and second.clause.tokens[0].word != "of"
    is_listed = is_listed and second.clause.tokens[-1] is second.token and len(second.clause.tokens) <= 2  # noqa: PLR2004  (perhaps "and")
    return is_listed and any(token.word.startswith("narrow") for token in first.clause.tokens)


def asks_for_other(clause: Clause) -> bool:
    """Whether a remark says that another thing is asked for, or that nothing was found at a place."""
    lead, words = clause.lead, [word for token in clause.tokens for word in token.word.split()]
    is_denied = "negative" in clause.classes() or "no" in words
    if is_denied and _TRACES.intersection(words) and _THERE.intersection(words) and not clause.values:
        return True  # "and the archive there has no record of it"
    if lead is None or lead.word not in _OPPOSED or clause.values:
        return False
    words = [word for word in words if word not in _OPPOSED]
    is_task = bool(_ASKED.intersection(words[:3])) and bool(_ASKING.intersection(words[:4]))
    is_own = words[:1] in (["we"], ["i"]) and bool(_ASKING.intersection(words[1:4])) and "the" in words[2:]
    return is_task or is_own


def is_elsewhere_then(first: Value, second: Value) -> bool:
    """Whether a reason tells where a person was instead: "not Riga, since she was in Porto that week"."""
    tokens, lead = second.clause.tokens, second.clause.lead
    at = tokens.index(second.token)
    words = [token.word for token in tokens[:at] if lead is None or token.word != lead.word]
    is_place = lead is not None and lead.word in _REASONS and len(words) > 1 and words[0] in _PEOPLE
    is_place = is_place and words[-1] in _PLACING
    is_time = any(word in _TIMES for token in tokens[at + 1 :] for word in token.word.split())
    return is_place and is_time and first.polarity is not Polarity.ASSERTED and not second.is_framed


def gives_reason(clauses: Sequence[Clause]) -> bool:
    """Whether the rest of a sentence gives reasons for a place: "In Riga, because the register is there"."""
    if not clauses or clauses[0].lead is None:
        return False
    words = [clauses[0].lead.word, *(token.word for token in clauses[0].tokens[:2])]
    is_reason = words[0] in _GIVING_REASONS or (
        words[0] in "\u2013\u2014-:" and words[1] in ("that's", "that is", "that")
    )
    # Lazily: a sentence may have thousands of clauses, of each of which this is asked.
    following = (clause.lead.word for clause in clauses[1:] if clause.lead is not None)
    return is_reason and next((word for word in following if word in (",", ";")), "") != ","
