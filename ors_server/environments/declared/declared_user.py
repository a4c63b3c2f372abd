"""The simulated user of a declared environment: a script whose texts may be templates of the row."""

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from ors_server.environments.declared.declaration import UserReplyTable, UserTable
from ors_server.environments.declared.row_faults import RowFaultError, show_value
from ors_server.environments.declared.templates import ValueSource, as_text
from ors_server.environments.simulated_user.user_errors import UserSettingsError
from ors_server.environments.simulated_user.user_script import ScriptedReply, UserScript
from ors_server.model.wire import JSONObject

Parse: TypeAlias = Callable[[str, str], ValueSource]
"""Reads a template, given its key for messages."""
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")


class DeclaredUser:
    """Makes the script of a task's user. A text without a template is used as it is."""

    def __init__(self, table: UserTable, parse: Parse) -> None:
        """Read every template; raises `EnvironmentDefinitionError` if the syntax of one is wrong."""
        self._table = table
        self._sources = {
            text: parse(text, key) for key, text in self._texts() if _TEMPLATE.search(text) is not None
        }

    @property
    def sources(self) -> list[ValueSource]:
        """The templates."""
        return list(self._sources.values())

    def script(self, task: JSONObject) -> UserScript:
        """Return the script for a task; raises `RowFaultError` if its row does not give one."""
        table = self._table
        try:
            return UserScript(
                goal=self._text(table.goal, task),
                facts=tuple(self._reply(fact, task) for fact in table.facts),
                refusals=tuple(self._reply(refusal, task) for refusal in table.refusals),
                answers=tuple(self._text(answer, task) for answer in table.answers),
                otherwise=self._text(table.otherwise, task),
            )
        except UserSettingsError as error:
            raise RowFaultError("user", "texts with words", show_value(str(error))) from error

    def _reply(self, table: UserReplyTable, task: JSONObject) -> ScriptedReply:
        return ScriptedReply(
            tuple(self._text(text, task) for text in table.asked), self._text(table.says, task)
        )

    def _text(self, text: str, task: JSONObject) -> str:
        source = self._sources.get(text)
        return text if source is None else as_text(source.value(task), "user")

    def _texts(self) -> Iterator[tuple[str, str]]:
        table = self._table
        yield from (("user.goal", table.goal), ("user.otherwise", table.otherwise))
        yield from (("user.answers", text) for text in table.answers)
        for key, replies in (("user.facts", table.facts), ("user.refusals", table.refusals)):
            for reply in replies:
                yield from ((key, text) for text in (*reply.asked, reply.says))


def declared_make_user(user: DeclaredUser) -> Callable[[Any], Any]:
    """Return the method `make_user` of a declared environment."""
    from ors_server.environments.simulated_user.model_user import choose_user  # noqa: PLC0415  (loads the judges)

    def make_user(self: Any) -> Any:
        """Return the user that the declaration describes."""
        return choose_user(user.script(self.task_spec))

    return make_user
