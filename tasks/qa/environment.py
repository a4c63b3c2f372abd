"""The environment: a question, an encyclopaedia to search and read, and one answer compared by words."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from ors_server import (
    EpisodePolicy,
    IndexedTasks,
    JSONObject,
    ToolError,
    ToolOutput,
    graded_output,
    qa_f1_reward,
    tool,
)
from ors_server_tasks.qa.articles import Article
from ors_server_tasks.qa.generator import EDITION, SPLIT_SIZES, generate, open_encyclopaedia

MAX_RESULTS = 10
QUERY_LENGTH = 200
"""Longest query, in characters."""
ANSWER_LENGTH = 200
"""Longest answer, in characters: enough for an answer, too short for a list of guesses."""
PAGE_SENTENCES = 4
"""Sentences of an article on one page."""
_SUGGESTIONS = 3


class QuestionAnswering(IndexedTasks):
    """Questions of six kinds about an invented encyclopaedia; the reward is the token F1 of the answer.

    A subclass with another `seed` has other encyclopaedias, one for each split.
    """

    name = "qa"
    version = f"{EDITION}.2"
    split_sizes = SPLIT_SIZES
    """The edition of the tasks, and that of the prompt, the tools' texts and the reward."""
    policy = EpisodePolicy(
        step_limit=20,
        reward_range=(0.0, 1.0),
        invalid_call_penalty=0.05,
        tool_error_penalty=0.02,
    )
    answer_fields = ("answer",)
    seed: ClassVar[str] = "qa-1"
    """Decides all articles and tasks of all splits."""

    def __init__(self, task_spec: JSONObject, secrets: Mapping[str, str] | None = None) -> None:
        """Open the encyclopaedia of the task's split.

        Raises:
            ValueError: The task is not one of this environment's.
        """
        super().__init__(task_spec, secrets)
        split = task_spec.get("split")
        if not isinstance(split, str) or split not in SPLIT_SIZES:
            raise ValueError(
                f"a task of qa names one of the splits {', '.join(SPLIT_SIZES)}, got {split!r:.80}"
            )
        self._book = open_encyclopaedia(self.seed, split)

    @override
    @classmethod
    def make_task(cls, split: str, index: int) -> JSONObject:
        return {**generate(cls.seed, split, index)}

    @classmethod
    def gold_actions(cls, task_spec: JSONObject) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return tool calls, as (name, arguments) in order, that earn the greatest return of the task."""
        reading = [("read", {"title": title}) for title in task_spec["evidence"]]
        return [*reading, ("answer", {"answer": task_spec["answer"][0]})]

    @classmethod
    def blank_actions(cls, task_spec: JSONObject) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return tool calls, as (name, arguments) in order, that do no work and earn the least return."""
        del task_spec  # an empty answer is the same everywhere
        return [("answer", {"answer": ""})]

    @override
    def save_state(self) -> JSONObject:
        return {}

    @override
    def load_state(self, state: JSONObject) -> None:
        """Restore nothing: an instance has no state."""

    @override
    def get_prompt(self) -> str:
        return (
            f"{self.task_spec['question']}\n\n"
            "The answer is in an encyclopaedia: in one article, or in several that refer to one another. "
            "Find articles with search and open them with read, then call answer once. Answer with the name, "
            "the date, the number, or yes or no. Add no unit and no other words: each additional word lowers "
            "the reward."
        )

    @tool(concurrent=True)
    async def search(self, query: str, limit: int = 5) -> ToolOutput:
        """Search the encyclopaedia. Returns titles with one sentence of each article, the best match first.

        Args:
            query: Words to search for; at most 200 characters.
            limit: Maximum number of articles, from 1 to 10.
        """
        if not 1 <= limit <= MAX_RESULTS:
            raise ToolError(f"The limit must be from 1 to {MAX_RESULTS}, got {limit}.")
        if len(query) > QUERY_LENGTH:
            raise ToolError(f"The query has {len(query):,} characters; at most {QUERY_LENGTH} are allowed.")
        hits = self._book.index.find(query, limit)
        if not hits:
            return ToolOutput.ongoing("No article contains any of these words.")
        return ToolOutput.ongoing("\n".join(f"{hit.title}: {hit.snippet}" for hit in hits))

    @tool(concurrent=True)
    async def read(self, title: str, page: int = 1) -> ToolOutput:
        """Read a page of an article of the encyclopaedia.

        Args:
            title: The article's title, as search returns it, or another name of its subject.
            page: Number of the page, from 1.
        """
        article = self._find(title)
        pages = -(-len(article.sentences) // PAGE_SENTENCES)
        if not 1 <= page <= pages:
            raise ToolError(f"The article {article.title} has pages 1 to {pages}, but no page {page}.")
        text = " ".join(article.sentences[(page - 1) * PAGE_SENTENCES : page * PAGE_SENTENCES])
        return ToolOutput.ongoing(f"{article.title} (page {page} of {pages})\n\n{text}")

    @tool(exclusive=True)
    async def answer(self, answer: str) -> ToolOutput:
        """Give the answer, which ends the episode.

        Args:
            answer: Only the name, the date, the number, or yes or no; at most 200 characters.
        """
        if len(answer) > ANSWER_LENGTH:
            raise ToolError(f"The answer has {len(answer):,} characters, more than {ANSWER_LENGTH}.")
        result = await self.grade(qa_f1_reward, final_response=answer, denials=True)
        return graded_output(result, "Answered.", finished=True)

    def _find(self, title: str) -> Article:
        title_number = self._book.titles.get(" ".join(title.split()).casefold())
        if title_number is not None:
            return self._book.articles[title_number]
        near = self._book.index.find(title[:QUERY_LENGTH], _SUGGESTIONS)
        hint = f" Similar titles: {', '.join(hit.title for hit in near)}." if near else ""
        raise ToolError(f"There is no article with the title {title[:QUERY_LENGTH]!a}.{hint}")
