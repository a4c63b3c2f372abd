"""Which of a task's texts a response asserts, as whole words. Pure."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Final

from ors_server.rewards.reading.mentions import (
    OPENERS,
    SENTENCE_START,
    Mention,
    Reading,
    asserted,
    read_mentions,
    single_assertion,
    visible,
)
from ors_server.rewards.reading.polarity import (
    NO_CLASSES,
    Polarity,
    languages_of,
    lexicons,
    option_lexicon,
    words_of,
)
from ors_server.rewards.text.found_words import MAX_SEARCH, word_places
from ors_server.rewards.text.texts import PLAIN_FORM, TextForm, UnparsedAnswerError, normalise_text

GOLD: Final = ""
"""Name of every gold among mentions: any of them is the answer."""
_WORDS: Final = re.compile(r"[^\W\d_]+")
_CJK: Final = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_NAME: Final = rf"[A-Z\u00c0-\u00de\u0410-\u042f][^\W\d_{_CJK}]{{1,40}}"
_PROPER: Final = re.compile(
    rf"(?<![^\W{_CJK}])(?<!['’.-]){_NAME}"
    rf"(?:[ -](?:of |de |da |la |le |al-)?{_NAME}){{0,4}}(?!['’](?:s|t|ll|re|ve|d|m)\b|[^\W{_CJK}])"
)
"""A name: words with a capital letter."""
_EMPHASIS: Final = re.compile(r"(?<!\w)_{1,2}([^_\n]{1,200}[^_\s])_{1,2}(?!\w)")
_DETERMINER: Final = re.compile(r"(?<![\w'-])no\s+(?![,.;:!?])(?=\w)", re.IGNORECASE)
_NUMBER: Final = re.compile(r"(?<![\w.,/-])[-+]?\d[\d.,]{0,40}(?<![.,])(?![\w/])")
_FOLLOWING: Final = re.compile(r"\s{1,3}([^\W\d_]+)")
_YES_NO: Final = frozenset({"yes", "no"})
_YES_OR_NO: Final = re.compile(r"(?<![\w'-])(?:yes|no)(?![\w'-])", re.IGNORECASE)
_JOINING: Final = words_of(
    "or and nor as o ou e y et und oder of en eller och og lub i albo или и veya ya ve"
)
_FOLLOWED: Final = re.compile(r" ([A-Z][^\W\d_]+)")
_LED: Final = re.compile(
    r"(?<![\w'’-])(?:New|Greater|Upper|Lower|Fort|Lake|Mount|Saint|St\.?|San|Santa|North|South|East|West|Northern"
    r"|Southern|Eastern|Western|Old|Port|Cape|Point|Little|Great|Royal|Real|FC|AC|Inner|Outer|Central) \Z"
)
_NOUN_CLASSES: Final = frozenset({"label", "work", "quantity", "neutral", "work_verb", "no_unit", "source"})
_TITLES: Final = frozenset({"jr", "sr"})
_HEADING: Final = re.compile(r"(?: [a-z]+){1,3}\*{0,2}:")
_MODALS: Final = words_of("would will has had might may could also always still never")
_UNBOXED: Final = re.compile(r"\\boxed\{\s*(?:\\text\{([^{}\\]* [^{}\\]*)\}|([^{}\\]* [^{}\\]*))\s*\}")
_REGION_NAMES: Final = """
    afghanistan, albania, algeria, andorra, angola, argentina, armenia, australia, austria, azerbaijan
    bahamas
    bahrain, bangladesh, barbados, belarus, belgium, belize, benin, bhutan, bolivia, bosnia, botswana, brazil
    brunei, bulgaria, burkina faso, burundi, cambodia, cameroon, canada, cape verde, chad, chile, china
    colombia
    comoros, congo, costa rica, croatia, cuba, cyprus, czechia, czech republic, denmark, djibouti, dominica
    ecuador, egypt, el salvador, eritrea, estonia, eswatini, ethiopia, fiji, finland, france, gabon, gambia
    georgia, germany, ghana, greece, grenada, guatemala, guinea, guyana, haiti, honduras, hungary
    iceland, india
    indonesia, iran, iraq, ireland, israel, italy, ivory coast, jamaica, japan, jordan, kazakhstan, kenya
    kiribati, kosovo, kuwait, kyrgyzstan, laos, latvia, lebanon, lesotho, liberia, libya, liechtenstein
    lithuania, luxembourg, madagascar, malawi, malaysia, maldives, mali, malta, mauritania, mauritius, mexico
    micronesia, moldova, monaco, mongolia, montenegro, morocco, mozambique, myanmar, namibia, nauru, nepal
    netherlands, the netherlands, holland, new zealand, nicaragua, niger, nigeria, north korea, macedonia
    north macedonia, norway, oman, pakistan, palau, palestine, panama, papua new guinea, paraguay, peru
    philippines, poland, portugal, qatar, romania, russia, rwanda, samoa, san marino, saudi arabia, senegal
    serbia, seychelles, sierra leone, singapore, slovakia, slovenia, somalia, south africa, south korea, korea
    south sudan, spain, sri lanka, sudan, suriname, sweden, switzerland, syria, taiwan, tajikistan, tanzania
    thailand, togo, tonga, tunisia, turkey, türkiye, turkmenistan, tuvalu, uganda, ukraine, uae, uk, usa, us
    united arab emirates, united kingdom, united states, great britain, britain, england, scotland, wales
    northern ireland, uruguay, uzbekistan, vanuatu, venezuela, vietnam, yemen, zambia, zimbabwe
    alabama, alaska
    arizona, arkansas, california, colorado, connecticut, delaware, florida, hawaii, idaho, illinois, indiana
    iowa, kansas, kentucky, louisiana, maine, maryland, massachusetts, michigan, minnesota, mississippi
    missouri, montana, nebraska, nevada, new hampshire, new jersey, new mexico, new york, north carolina
    north dakota, ohio, oklahoma, oregon, pennsylvania, rhode island, south carolina, south dakota, tennessee
    texas, utah, vermont, virginia, washington, west virginia, wisconsin, wyoming, ontario, quebec, alberta
    british columbia, manitoba, nova scotia, saskatchewan, queensland, victoria, new south wales, tasmania
    bavaria, saxony, prussia, catalonia, andalusia, tuscany, sicily, sardinia, piedmont, lombardy, burgundy
    brittany, normandy, provence, bohemia, moravia, silesia, crete, corsica, siberia, punjab, kerala
    europe, asia, africa, america, north america, south america, oceania
"""
_REGIONS: Final = frozenset(
    name for line in _REGION_NAMES.splitlines() for name in line.strip().split(", ") if name
)
"""Countries and states in lower case, which say where a place in front of them is: "Turin, Italy"."""
_PARTICLE: Final = re.compile(r"([이가은는을를와과])\([이가은는을를와과]\)")
_ECHO: Final = re.compile(
    r"(?im)\A(?P<no>[\s*\"“']{0,4}no)[,.;:!\u2013\u2014-]+\s+"
    r"(?P<repeated>(?:never|not|(?:it|he|she|they|there|that|this|the|i|we|you|nobody|nothing|none|neither)\b)[^.;:!?\n]{0,200})"
)
"""What repeats a no: "No, it didn't."."""
_CHOOSING: Final = words_of("picked chose selected preferred picks chooses selects prefers")
_PEOPLE: Final = frozenset({"report", "first_person"})
_DENIALS: Final = frozenset(
    {
        *(Polarity.DENIED, Polarity.BOUNDED, Polarity.ASKED, Polarity.SUPPOSED),
        *(Polarity.QUOTED, Polarity.RETRACTED, Polarity.HEDGED),
    }
)
_DENIAL: Final = re.compile(r"(?i)n't\b|\b(?:not|never|no|nobody|nothing|none|neither|cannot)\b")
_UNSURE: Final = re.compile(
    r"(?i)\b(?:sure|certain|know|tell|right|idea|clear|able|decide|what|which|whether|wrong|correct|if|yes)\b"
)
_GERMAN_NOUN: Final = re.compile(
    r"(?i)(?<!\w)(?:d(?:er|ie|as|em|en|es)|[kms]?ein(?:e[mnrs]?)?|(?:ihr|dein|unser|dies|jed|jen|welch|all|viel|manch)(?:e[mnrs]?)?"
    r"|im|am|zum|zur|vom|beim|ins|ans)(?: [a-zäöü]\w{2,20}(?:e|en|er|em|es))? \Z"
)
"""What is in front of a German noun, which has a capital letter and names nothing: "das alte Museum"."""
_ABSTRACT: Final = words_of(
    "wirklichkeit wahrheit tat gegensatz vergleich folge frage antwort jahr ende anfang"
)
_MAX_LEFT: Final = 48
_SENTENCE_END: Final = re.compile(r"[.!?;\n]")
MAX_SENTENCE: Final = 400
"""Characters behind a word in which its sentence is searched for another name, and that tell a language."""
MAX_CANDIDATES: Final = 2_000


def asserted_words(text: str, sought: Collection[str], form: TextForm = PLAIN_FORM) -> set[str]:
    """Return which normalised texts a response asserts as whole words; of two in one place, the longer."""
    written, searched = _forms(text, form)
    readings = _read(written, _mentions(searched, sought), sought, takes_alternatives=True)
    return {str(reading.mention.name) for reading in asserted(readings)}


def picks_gold(text: str, golds: Sequence[str], wrong: Collection[str], form: TextForm) -> tuple[bool, bool]:
    """Return whether a response asserts a gold in the end, and whether it lists one with another choice."""
    sought = {*golds, *wrong}
    if len(text) * len(sought) > MAX_SEARCH:
        raise UnparsedAnswerError(
            f"the answer is too long to search for {len(sought)} texts: {len(text)} characters"
        )
    if all(gold in _YES_NO for gold in golds):
        text = _without_echo(text)
    written, searched = _forms(text, form)
    listed = _mentions(searched, sought)
    mentions = [replace(mention, name=GOLD) if mention.name in golds else mention for mention in listed]
    if not wrong:
        mentions += _without_appositions(written, mentions, _candidates(written, golds))
    mentions = [mention for mention in mentions if not _is_part_of_name(written, mention, mentions)]
    readings = _read(written, mentions, sought)
    final = single_assertion(written, readings)
    names = {
        reading.mention.name
        for reading in asserted(readings)
        if final is None or reading.is_named is final.is_named
    }
    open_names = names | {r.mention.name for r in readings if r.statement.polarity is Polarity.HEDGED}
    is_list = bool(wrong) and len(names) > max(2, len(wrong) // 2)
    is_gold = final is not None and final.mention.name == GOLD and not is_list
    return is_gold, not is_gold and GOLD in open_names and len(open_names) > 1


def _without_echo(text: str) -> str:
    """Leave out a denial that only repeats a no: "No, it didn't.", but not "No, I am not sure."."""
    echo = _ECHO.match(text)
    if echo is None:
        return text
    repeated = echo["repeated"].replace("’", "'")
    is_denial = _DENIAL.search(repeated) is not None and _UNSURE.search(repeated) is None
    return f"{echo['no']}.{text[echo.end() :]}" if is_denial else text


def _is_part_of_name(text: str, mention: Mention, mentions: Sequence[Mention]) -> bool:
    """Whether a name is a part of a longer one: "Riga Street", "New Riga"."""
    if not text[mention.start].isupper():
        return False
    following = _FOLLOWED.match(text, mention.end)
    is_led = _LED.search(text[max(0, mention.start - 16) : mention.start]) is not None
    if following is None:
        return is_led
    word = following[1].casefold()
    is_other = any(other.start == following.start(1) for other in mentions if other.name is not mention.name)
    is_title = word in _TITLES or following[1].isupper()
    is_said = bool(_classes(word) - _NOUN_CLASSES) or word in OPENERS or word in _foreign_words()
    return is_led or not (is_title or is_other or is_said)


def _without_appositions(
    text: str, golds: Sequence[Mention], candidates: Iterable[Mention]
) -> Iterator[Mention]:
    """Leave out a name that only says more about the gold in front of it: "Paris, France"."""
    ends = {gold.end for gold in golds}
    for candidate in candidates:
        is_last = text[candidate.end : candidate.end + 1] in ("", ".", "\n")
        if not (
            is_last
            and text[candidate.start - 2 : candidate.start] == ", "
            and candidate.start - 2 in ends
            and candidate.name in _REGIONS
        ):
            yield candidate


def denies_golds(text: str, golds: Sequence[str]) -> bool:
    """Return whether a response names golds, and asserts none of those that it names: "not Paris"."""
    form = PLAIN_FORM
    try:
        sought = {normalise_text(gold, form) for gold in golds} - {""}
        written, searched = _forms(text, form)
        mentions = [replace(mention, name=GOLD) for mention in _mentions(searched, sought)]
    except UnparsedAnswerError:
        return True
    readings = _read(written, [*mentions, *_candidates(written, list(sought))], sought)
    named = [reading for reading in readings if reading.mention.name == GOLD]
    return bool(named) and all(reading.statement.polarity in _DENIALS for reading in named)


def _forms(text: str, form: TextForm) -> tuple[str, str]:
    """Return the end of a text with its lines and capital letters, and the same as golds are normalised."""
    unboxed = _UNBOXED.sub(lambda box: f" {box[1] or box[2]} ", visible(text))
    lines = _PARTICLE.sub(r"\1", unboxed).splitlines()
    lines = [_EMPHASIS.sub(r" \1 ", line) for line in lines] if "_" in text else lines
    written = "\n".join(normalise_text(line, replace(form, casefold=False)) for line in lines)
    searched = " ".join(normalise_text(line, form) for line in lines)
    return (written if len(written) == len(searched) else searched), searched


def _mentions(text: str, sought: Collection[str]) -> list[Mention]:
    places = sorted(word_places(text, sought), key=lambda span: (span[0], -len(span[1])))
    return [
        Mention(start, start + len(phrase), phrase)
        for start, phrase in places
        if phrase != "no" or not _DETERMINER.match(text, start)
    ]


def _read(
    text: str, mentions: Sequence[Mention], sought: Collection[str], *, takes_alternatives: bool = False
) -> list[Reading]:
    neutral = {word for phrase in sought if " " in phrase for word in _WORDS.findall(phrase)}
    return read_mentions(
        text, mentions, neutral=neutral, takes_alternatives=takes_alternatives, are_labels=True
    )


def _candidates(text: str, golds: Sequence[str]) -> Iterator[Mention]:
    """Yield other possible answers of the golds' kind: numbers, yes and no, names."""
    pattern = _PROPER
    if all(gold in _YES_NO for gold in golds):
        pattern = _YES_OR_NO
    elif all(any(char.isdigit() for char in gold) for gold in golds):
        pattern = _NUMBER
    length = len(text.rstrip())
    for index, match in enumerate(pattern.finditer(text)):
        if index >= MAX_CANDIDATES:
            return
        # A heading above other text is a title: "### Reasoning".
        is_heading = text.startswith("#", text.rfind("\n", 0, match.start()) + 1)
        if is_heading and text.find("\n", match.end(), length) >= 0:
            continue
        start = _name_start(text, match) if pattern is _PROPER else match.start()
        name = text[start : match.end()].casefold()
        if not name or any(gold in name or name in gold for gold in golds):
            continue
        if pattern is not _YES_OR_NO or not _DETERMINER.match(text, start):
            yield Mention(start, match.end(), name)


def _name_start(text: str, match: re.Match[str]) -> int:
    """Return where a name begins, without the first word of its sentence; its end if it is not an answer."""
    following = _FOLLOWING.match(text, match.end())
    said = following
    while said is not None and said[1] in _MODALS:
        said = _FOLLOWING.match(text, said.end())
    # That says something, or chooses.
    is_person = said is not None and (bool(_classes(said[1]) & _PEOPLE) or said[1] in _CHOOSING)
    words = match[0].split(" ")
    if not _is_english(text) and _is_common_noun(text, match, following):
        has_name = len(words) > 1 and _GERMAN_NOUN.search(f"{words[0]} ") is None
        return match.start() + len(words[0]) + 1 if has_name else match.end()
    is_told = text[max(0, match.start() - 13) : match.start()].casefold() == "according to "
    is_foreign = all(word.casefold() in _foreign_words() for word in words)  # "Die Antwort ist Riga"
    is_inside = SENTENCE_START.search(text[max(0, match.start() - 8) : match.start()]) is None
    if is_person or is_told or is_foreign or is_inside:
        return match.start() if is_inside and not (is_person or is_told or is_foreign) else match.end()
    is_heading = (
        text.startswith((":", "**:", ":**"), match.end()) or _HEADING.match(text, match.end()) is not None
    )
    second = words[1] if len(words) > 1 else following[1] if following is not None else ""
    pair = words[0].casefold(), second.casefold()
    if any(pair in lexicon.phrases for lexicon in (*lexicons().values(), option_lexicon())):
        return match.end() - len(words[-1]) if len(words) > 1 else match.end()  # "Instead of Kyoto"
    if len(words) == 1 and (is_heading or words[0].endswith("ly")):
        return match.end()  # "City: Riga", "Clearly, Riga"
    if _classes(words[0].casefold()) or words[0].casefold() in OPENERS:
        return match.start() + len(words[0]) + 1 if len(words) > 1 else match.end()
    is_common = (
        len(words) == 1
        and following is not None
        and following[1].islower()
        and following[1] not in _JOINING
        and not _classes(following[1])
    )
    return match.end() if is_common else match.start()


def _is_common_noun(text: str, match: re.Match[str], following: re.Match[str] | None) -> bool:
    """Whether a capital letter is that of a German noun, or only begins a sentence of another language."""
    before = text[max(0, match.start() - _MAX_LEFT) : match.start()]
    if _GERMAN_NOUN.search(before) is not None or match[0].casefold() in _ABSTRACT:
        return True
    is_marked = before.endswith(("(", "|", "*", '"', "“"))
    is_first = not is_marked and SENTENCE_START.search(before[-8:]) is not None
    sentence = _SENTENCE_END.split(text[match.end() : match.end() + MAX_SENTENCE], maxsplit=1)[0]
    return (
        is_first
        and following is not None
        and following[1].islower()
        and following[1] not in _JOINING
        and _PROPER.search(sentence) is not None
    )


@lru_cache(maxsize=8)
def _is_english(text: str) -> bool:
    """Whether no other language has words in a text."""
    return len(languages_of(set(_WORDS.findall(text[:MAX_SENTENCE].casefold())))) == 1


def _classes(word: str) -> frozenset[str]:
    return NO_CLASSES.union(*(lexicon.words.get(word, NO_CLASSES) for lexicon in languages_of({word})))


@cache
def _foreign_words() -> frozenset[str]:
    """Return the words of other languages than English that say something about an answer."""
    listed: set[str] = set()
    for name, lexicon in lexicons().items():
        if name != "english":
            listed.update(lexicon.words)
            listed.update(
                word for entries in lexicon.phrases.values() for words, _ in entries for word in words
            )
    return frozenset(listed)
