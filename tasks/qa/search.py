"""Finds articles by words: the ranking BM25, with the words of a title counted several times.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with the
customary parameters. Equal ranks are ordered by title, and ranks are rounded, so that results are the same
on every machine.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from ors_server_tasks.qa.articles import Article
from ors_server_tasks.qa.english import words

SATURATION = 1.2
"""How soon a repeated word stops counting (k1)."""
LENGTH_WEIGHT = 0.75
"""How much a long article is held back, in [0, 1] (b)."""
TITLE_WEIGHT = 3
"""How often a title's words are counted."""
SNIPPET_LENGTH = 160
"""Characters of a snippet, at most."""

_WORD = re.compile(r"[^\W_]+")
_STOP_WORDS = frozenset(
    words(
        "a an and are as at be by did do does for from had has have how in into is it its many most of on or "
        "than that the their there to was were what when where which who whose with"
    )
)


@dataclass(frozen=True, slots=True)
class Hit:
    """An article that a search found."""

    title: str
    snippet: str
    """The sentence that has the most of the words."""


class SearchIndex:
    """An index of articles."""

    def __init__(self, articles: Iterable[Article]) -> None:
        """Counts the words of the articles.

        Args:
            articles: What can be found.
        """
        self._articles = {article.title: article for article in articles}
        self._counts: dict[str, dict[str, int]] = defaultdict(dict)
        self._lengths: dict[str, int] = {}
        for article in self._articles.values():
            counts = Counter(words_of(article.text) + TITLE_WEIGHT * words_of(article.title))
            self._lengths[article.title] = counts.total()
            for word, count in counts.items():
                self._counts[word][article.title] = count
        self._mean_length = sum(self._lengths.values()) / max(1, len(self._lengths))

    def find(self, query: str, limit: int) -> list[Hit]:
        """Finds the articles that fit best.

        Args:
            query: Words; common ones such as "the" are ignored.
            limit: Greatest number of articles.

        Returns:
            The best first, led by the one whose title the query is; none if no article has any of the words.
        """
        words = frozenset(words_of(query))
        ranks: dict[str, float] = defaultdict(float)
        for word in sorted(words):
            for title, count in self._counts.get(word, {}).items():
                ranks[title] += self._rank(word, title, count)
        title_text = " ".join(query.split()).casefold()
        order = sorted(
            ranks, key=lambda title: (title.casefold() != title_text, -round(ranks[title], 6), title)
        )
        return [Hit(title, _snippet(self._articles[title], words)) for title in order[:limit]]

    def _rank(self, word: str, title: str, count: int) -> float:
        having = len(self._counts[word])
        rarity = math.log(1 + (len(self._articles) - having + 0.5) / (having + 0.5))
        length = 1 - LENGTH_WEIGHT + LENGTH_WEIGHT * self._lengths[title] / self._mean_length
        return rarity * count * (SATURATION + 1) / (count + SATURATION * length)


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, without the common ones."""
    return [word for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS]


def _snippet(article: Article, words: frozenset[str]) -> str:
    best = max(article.sentences, key=lambda sentence: len(words.intersection(words_of(sentence))))
    return best if len(best) <= SNIPPET_LENGTH else best[: SNIPPET_LENGTH - 1].rstrip() + "…"
