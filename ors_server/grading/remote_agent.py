"""The trusted side of hidden tests: what a test does to a mirror becomes a question, the answer a value.

Runs in the trusted process only. It trusts nothing that it reads: an answer can be a plain value, a mirror
or an error, and never a piece of code, nor an object of this process that was not sent out.
"""

import builtins
import collections
import keyword
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, cast

from ors_server.grading.channel import AGENT_LOST, ASK_AGENT, START_WORKER, AgentChannel
from ors_server.grading.encoding import (
    BUILTIN,
    CLASS,
    ERROR,
    FOREIGN,
    HANDLE,
    NAMED_TUPLE,
    PATH,
    PLAIN,
    DecodingError,
    Encoder,
    as_its_base,
    decode,
    from_text,
    to_text,
)
from ors_server.grading.mirrors import (
    RemoteError,
    RemoteModule,
    RemoteObject,
    is_mirror,
    make_class,
    make_error_class,
    make_object,
    reference_of,
)
from ors_server.grading.remote_reference import AgentLostError, RefusedError, RemoteReference, StoppedError

_SIGNS = {
    "==": "eq",
    "!=": "ne",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
    "in": "contains",
    "bool": "bool",
}
_PLAIN_CLASSES = {kind.__name__: kind for kind in (*PLAIN, bool, object, type(None))}
_MAX_FIELDS = 100


class RemoteAgent:
    """The agent's modules, behind the channel to the server.

    Attributes:
        failures: Why tests were stopped so far, in their order.
        modules: Mirrors of the agent's modules, and of the packages above them, by name.
    """

    def __init__(self, channel: AgentChannel, modules: Sequence[str], classes: Sequence[str]) -> None:
        self.failures: list[str] = []
        self._channel = channel
        self._named = {tuple(name.split(".")) for name in classes}
        # Importing a module makes its packages available, too.
        names: dict[str, None] = {}
        for module in modules:
            parts = module.split(".")
            names.update(dict.fromkeys(".".join(parts[: end + 1]) for end in range(len(parts))))
        self.modules = {name: RemoteModule(name, self) for name in names}
        self._generation = 0
        self._is_lost = False
        self._classes: dict[int, type] = {}
        self._classes_by_name: dict[tuple[str, str], type] = {}
        self._foreign: list[Any] = []

    def install(self) -> None:
        """Make `import` find the agent's modules."""
        mirrors: dict[str, Any] = dict(self.modules)
        sys.modules.update(mirrors)

    # Requests of mirrors

    def get(self, mirror: Any, name: str) -> Any:
        """Return an attribute of a mirror's object."""
        path = reference_of(mirror).path
        below = self.modules.get(".".join((*path, name))) if isinstance(mirror, RemoteModule) else None
        if below is not None:
            return below
        attribute = self._request({"command": "get", "target": self._reference(mirror), "name": name})
        # A path leads only through modules and classes: what an object's attribute names may change at any
        # time.
        has_path = path and isinstance(mirror, RemoteModule | type)
        if has_path and is_mirror(attribute) and not isinstance(attribute, RemoteError):
            reference = reference_of(attribute)
            if not reference.path:
                reference.path = (*path, name)
                reference.is_built = reference.path in self._named and isinstance(attribute, type)
        return attribute

    def set(self, mirror: Any, name: str, value: Any) -> None:
        """Set an attribute of a mirror's object; an object of this process can only be kept and called."""
        self._request(
            {"command": "set", "target": self._reference(mirror), "name": name, "value": self._tree(value)}
        )

    def delete(self, mirror: Any, name: str) -> None:
        """Delete an attribute of a mirror's object."""
        self._request({"command": "delete", "target": self._reference(mirror), "name": name})

    def call(self, mirror: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call a mirror's object."""
        keyword_trees = {name: self._tree(value) for name, value in keywords.items()}
        trees = [self._tree(value) for value in arguments]
        target = self._reference(mirror)
        returned = self._request(
            {"command": "call", "target": target, "arguments": trees, "keywords": keyword_trees}
        )
        # Only an object that the test itself made, by calling a class that the author named, may judge.
        if isinstance(returned, RemoteObject) and isinstance(mirror, type):
            reference_of(returned).is_built = reference_of(mirror).is_built
        return returned

    def operate(self, name: str, *operands: Any) -> Any:
        """Apply an operator to mirrors' objects, in the order of its function."""
        trees = [self._tree(value) for value in operands]
        return self._request({"command": "operate", "name": name, "operands": trees})

    def ask(self, sign: str, *operands: Any) -> bool:
        """Return the result of the agent's own operator on its objects.

        Args:
            sign: `==`, `!=`, `<`, `<=`, `>`, `>=`, `in` or `bool`.
            *operands: Two, in the order around the sign, or the one of `bool`.
        """
        name = _SIGNS[sign]
        ordered = tuple(reversed(operands)) if sign == "in" else operands
        answer = self.operate(name, *ordered)
        if not isinstance(answer, bool):
            self.stop(AgentLostError(f"{sign} of an object gave a {type(answer).__name__}"))
        return answer

    def stop(self, error: StoppedError) -> NoReturn:
        """Record that the running test failed for good, and raise the error."""
        self.failures.append(str(error))
        raise error

    def copy_to_agent(self, value: Any) -> Any:
        """Copy a plain value to the agent's code, and return its mirror."""
        return self._request({"command": "keep", "value": self._tree(value)})

    def fetch(self, mirror: Any) -> Any:
        """Return a copy of a mirror's object: a plain value, or one of a class that derives from such."""
        return self._request({"command": "copy", "target": self._reference(mirror)})

    # Questions and answers

    def _request(self, message: dict[str, Any]) -> Any:
        answer = self._exchange(message)
        while "callback" in answer:
            # The agent's code may call back any number of times before it answers.
            answer = self._exchange(self._run_callback(answer))
        try:
            if "value" in answer:
                return self._value(answer["value"])
            agent_error = self._error(answer)
        except (DecodingError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            self._is_lost = True
            self.stop(AgentLostError(f"the agent's code answered with an invalid value: {error}"))
        raise agent_error

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        if self._is_lost:
            self._renew()
        self._channel.send(ASK_AGENT + to_text(message))
        answer = self._receive()
        try:
            response: dict[str, Any] = from_text(answer)
            self._add_classes(response)
        except (DecodingError, ValueError, TypeError, KeyError, AttributeError) as error:
            self._is_lost = True
            self.stop(AgentLostError(f"the agent's code answered with an invalid message: {error}"))
        return response

    def _receive(self) -> bytes:
        message_bytes = self._channel.receive()
        if message_bytes is None:
            os._exit(0)  # the server is gone, and no process reads the verdict
        if message_bytes[:1] == AGENT_LOST:
            self._is_lost = True
            self.stop(AgentLostError(message_bytes[1:].decode()))
        return message_bytes[1:]

    def _renew(self) -> None:
        self._channel.send(START_WORKER)
        self._receive()
        self._is_lost = False
        # Handles of the lost worker mean nothing in the new one; what has a path is looked up again.
        self._generation += 1
        self._classes.clear()

    def _run_callback(self, callback: dict[str, Any]) -> dict[str, Any]:
        try:
            function = self._foreign[callback["callback"]]
            arguments = [self._value(tree) for tree in callback["arguments"]]
            keywords = {str(name): self._value(tree) for name, tree in callback["keywords"].items()}
        except (DecodingError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            self._is_lost = True
            self.stop(AgentLostError(f"the agent's code sent an invalid callback: {error}"))
        try:
            return {"answer": self._tree(function(*arguments, **keywords))}
        except StoppedError:
            raise
        except BaseException as error:  # noqa: BLE001 # the agent's code gets it; it comes back if not caught
            return {"failed": self._error_tree(error)}

    # Values to the agent's code

    def _tree(self, value: Any) -> Any:
        return Encoder(self._encode_special).tree(value)

    def _encode_special(self, value: Any) -> Any:
        if is_mirror(value):
            return self._reference(value)
        name = getattr(value, "__name__", None)
        if isinstance(name, str) and getattr(builtins, name, None) is value:
            return {BUILTIN: name}
        if isinstance(value, BaseException):
            return self._error_tree(value)
        if isinstance(value, PLAIN):
            return as_its_base(cast("object", value))
        about = (getattr(value, "__name__", ""), getattr(value, "__doc__", ""))
        return {FOREIGN: [self._send_out(value), callable(value), *[str(text or "") for text in about]]}

    def _send_out(self, value: Any) -> int:
        # By identity, in order: an object that is sent twice must be the same object on the other side.
        for number, sent in enumerate(self._foreign):
            if sent is value:
                return number
        self._foreign.append(value)
        return len(self._foreign) - 1

    def _reference(self, mirror: Any) -> Any:
        reference = reference_of(mirror)
        if self._is_lost:
            self._renew()
        if reference.number is not None and reference.generation == self._generation:
            return {HANDLE: reference.number}
        if not reference.path:
            self.stop(AgentLostError("an object of the agent's was lost with its process"))
        return {PATH: list(reference.path)}

    def _error_tree(self, error: BaseException) -> Any:
        if isinstance(error, RemoteError) and is_mirror(error):
            return self._reference(error)
        kind = next(base for base in type(error).__mro__ if is_mirror(base) or base.__module__ == "builtins")
        # Only plain arguments: others could be mirrors, or objects that only this process should hold.
        text = [
            self._tree(item) for item in error.args if item is None or isinstance(item, str | int | float)
        ]
        class_tree = self._reference(kind) if is_mirror(kind) else {BUILTIN: kind.__name__}
        return {ERROR: {"class": class_tree, "arguments": text, "foreign": self._send_out(error)}}

    # Values from the agent's code

    def _value(self, tree: Any) -> Any:
        return decode(tree, self._decode_special)

    def _decode_special(self, entry: tuple[str, Any]) -> Any:
        key, content = entry
        if key == HANDLE:
            return self._object(*content)
        if key == CLASS:
            return self._classes[content]
        if key == FOREIGN:
            return self._foreign[content]
        if key == BUILTIN:
            return _python_class(content)
        if key == NAMED_TUPLE:
            name, fields, items = content
            values = [self._value(item) for item in items]
            # A new class of the same shape: the agent's class stays on its side.
            if len(fields) > _MAX_FIELDS or keyword.iskeyword(name):
                raise DecodingError("not the tree of a named tuple")
            tuple_class: Any = collections.namedtuple(name, fields)  # type: ignore[misc] # noqa: PYI024 # pyright: ignore[reportUntypedNamedTuple]
            return tuple_class(*values)
        raise DecodingError(f"unknown type {key!r}")

    def _object(self, number: int, kind: int, *plain: Any) -> Any:
        mirror = make_object(self._classes[kind], self._new_reference(number))
        reference_of(mirror).plain = [_require_plain(self._value(tree)) for tree in plain]
        return mirror

    def _new_reference(self, number: int) -> RemoteReference:
        reference = RemoteReference(self)
        reference.number, reference.generation = number, self._generation
        return reference

    def _add_classes(self, response: dict[str, Any]) -> None:
        for description in response.get("classes", ()):
            number = int(description["class"])
            self._classes[number] = self._class(description)
        printed = response.get("printed", "")
        if isinstance(printed, str) and printed:
            sys.stdout.write(printed)

    def _class(self, description: dict[str, Any]) -> type:
        key = (str(description["module"]), str(description["name"]))
        earlier_class = self._classes_by_name.get(key)
        reference = self._new_reference(int(description["class"]))
        if earlier_class is not None and reference_of(earlier_class).generation < self._generation:
            reference_of(earlier_class).number, reference_of(earlier_class).generation = (
                reference.number,
                reference.generation,
            )
            mirrored = earlier_class
        else:
            mirrored = self._make_class(description, reference)
        self._classes_by_name[key] = mirrored
        return mirrored

    def _make_class(self, description: dict[str, Any], reference: RemoteReference) -> type:
        bases = tuple(
            self._classes[base] if isinstance(base, int) else _python_class(base)
            for base in description["bases"]
        )
        name = str(description["name"])
        if description["error"]:
            return make_error_class(name, bases[0], reference)
        return make_class(name, bases, [str(operator) for operator in description["operators"]], reference)

    def _error(self, answer: dict[str, Any]) -> BaseException:
        if "stop" in answer:
            return StopIteration(self._value(answer["stop"]))
        if "unfit" in answer:
            self.failures.append("the agent's code returned a value that cannot be sent")
            return RefusedError(f"the agent's code returned a value that cannot be sent: {answer['unfit']}")
        description = answer["raised"]
        if "foreign" in description:
            error = self._foreign[description["foreign"]]
            return error if isinstance(error, BaseException) else RefusedError("no error was raised")
        kind: Any = description.get("class", "Exception")
        cls = self._classes[kind] if isinstance(kind, int) else _python_class(kind)
        # Such as KeyboardInterrupt, which would end pytest itself.
        if not issubclass(cls, Exception | SystemExit):
            self.failures.append(f"the agent's code raised {cls.__name__}")
            return RefusedError(f"the agent's code raised {cls.__name__}")
        raised = _make_error(cls, [self._value(tree) for tree in description["arguments"]])
        if isinstance(raised, RemoteError):
            raised.mirror(self._new_reference(int(description["handle"])), str(description["text"]))
        return raised


def _require_plain(value: Any) -> Any:
    """Return an object exactly of a plain type; raises DecodingError for any other."""
    if type(value) not in PLAIN:
        raise DecodingError("not the plain side of an object")
    return value


def _make_error(kind: type[BaseException], arguments: list[Any]) -> BaseException:
    """Return an error with these `args`, also if its constructor requires others."""
    try:
        return kind(*arguments)
    except Exception:  # noqa: BLE001 # its constructor wants something else
        error = kind.__new__(kind)
        error.args = tuple(arguments)
        return error


def _python_class(name: str) -> Any:
    """Return a class of Python's plain values or errors by name; raises DecodingError for any other."""
    if name in _PLAIN_CLASSES:
        return _PLAIN_CLASSES[name]
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, BaseException):
        return kind
    raise DecodingError(f"a class that cannot be named: {name[:100]}")
