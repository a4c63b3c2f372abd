"""The program in the fresh sandbox: loads the agent's modules and carries out requests on them.

Needs only the standard library, runs on Python 3.9. It has no expected values, tests or verdicts: code of the
agent's that takes it over gains only a pipe for values.
"""

from __future__ import annotations  # Python 3.9 knows no `X | None` at run time

import builtins
import importlib
import importlib.util
import io
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from ors_server.grading.channel import AgentChannel, ChannelError, take_standard_streams
from ors_server.grading.encoding import (
    BUILTIN,
    ERROR,
    FOREIGN,
    HANDLE,
    PATH,
    DecodingError,
    EncodingError,
    decode,
    from_text,
    to_text,
)
from ors_server.grading.handles import Handles, OpaqueObject
from ors_server.grading.operations import operate

_MAX_PRINTED = 1 << 18


class _Tree:
    """An answer that is a tree already."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree


class Worker:
    """One conversation: messages in, messages out, the agent's code between.

    Messages alternate strictly. While the agent's code runs, this side may answer with a question (a call
    of something that the tests handed over); the next message is the answer to that, or another order.
    """

    def __init__(self, channel: AgentChannel) -> None:
        self._channel = channel
        self._handles = Handles(objects=False)
        self._thread = threading.get_ident()
        self._commands: dict[str, Callable[[dict[str, Any]], Any]] = {
            "hello": lambda _message: list(sys.version_info[:3]),
            "load": self._load,
            "call": self._call,
            "get": self._get,
            "set": self._set,
            "delete": self._delete,
            "operate": lambda message: operate(
                message["name"], [self._value(tree) for tree in message["operands"]]
            ),
            "keep": self._keep,
            "copy": self._copy,
        }

    def work(self) -> None:
        """Answer messages until there are no more."""
        while (payload := self._channel.receive()) is not None:
            self._send(self._obey(from_text(payload)))

    def _send(self, message: dict[str, Any]) -> None:
        if new_classes := self._handles.drain_new_classes():
            message["classes"] = new_classes
        if printed := _take_printed():
            message["printed"] = printed
        try:
            self._channel.send(to_text(message))
        # An answer above the limit is replaced by one that says so.
        except ChannelError as error:
            self._channel.send(to_text({"unfit": str(error)}))

    def _obey(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            value = self._commands[message["command"]](message)
        except EncodingError as error:
            return {"unfit": str(error)}
        except BaseException as error:  # noqa: BLE001 # any error of the agent's code is the answer
            return self._raised(error)
        try:
            return {"value": value.tree if isinstance(value, _Tree) else self._handles.tree(value)}
        except (EncodingError, RecursionError) as error:
            return {"unfit": str(error) or type(error).__name__}
        except BaseException as error:  # noqa: BLE001 # an object may fail while it is looked at
            return self._raised(error)

    def _raised(self, error: BaseException) -> dict[str, Any]:
        # Sent apart from errors: the trusted side raises it again inside its own `for` loops.
        if isinstance(error, StopIteration):
            return {"stop": self._handles.tree(error.value)}
        return {"raised": self._handles.error(error)}

    def _load(self, message: dict[str, Any]) -> Any:
        self._handles = Handles(objects=message["objects"])
        for name, path in message["modules"]:
            _import(name, path)

    def _call(self, message: dict[str, Any]) -> Any:
        function = self._value(message["target"])
        arguments = [self._value(tree) for tree in message["arguments"]]
        keywords = {name: self._value(tree) for name, tree in message["keywords"].items()}
        return function(*arguments, **keywords)

    def _get(self, message: dict[str, Any]) -> Any:
        return getattr(self._value(message["target"]), message["name"])

    def _set(self, message: dict[str, Any]) -> Any:
        setattr(self._value(message["target"]), message["name"], self._value(message["value"]))

    def _delete(self, message: dict[str, Any]) -> Any:
        delattr(self._value(message["target"]), message["name"])

    def _keep(self, message: dict[str, Any]) -> Any:
        return _Tree(self._handles.handle_tree(self._value(message["value"])))

    def _copy(self, message: dict[str, Any]) -> Any:
        return _Tree(Handles(objects=False).tree(self._value(message["target"])))

    def _value(self, tree: Any) -> Any:
        return decode(tree, self._decode_special)

    def _decode_special(self, entry: tuple[str, Any]) -> Any:
        key, content = entry
        if key == PATH:
            target = sys.modules[content[0]]
            for name in content[1:]:
                target = getattr(target, name)
            return target
        if key == HANDLE:
            return self._handles.look_up(content)
        if key == BUILTIN:
            return getattr(builtins, content)
        if key == FOREIGN:
            number, is_callable, *about = content
            return _Callable(number, self, *about) if is_callable else OpaqueObject(number)
        if key == ERROR:
            return self._error(content)
        raise DecodingError(f"unknown type {key!r}")

    def _error(self, description: dict[str, Any]) -> Any:
        kind = self._value(description["class"])
        error: Any = kind(*[self._value(item) for item in description["arguments"]])
        if description["foreign"] is not None:
            error._ors_foreign = description["foreign"]  # noqa: SLF001 # hidden from the agent's sight only
        return error

    def call_back(self, number: int, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call an object of the other side, answering its questions meanwhile; in this thread only."""
        if threading.get_ident() != self._thread:
            raise RuntimeError("a function of the caller's can only be called in the thread it was given to")
        trees = {name: self._handles.tree(value) for name, value in keywords.items()}
        question = {"callback": number, "arguments": [self._handles.tree(item) for item in arguments]}
        self._send({**question, "keywords": trees})
        while (payload := self._channel.receive()) is not None:
            message = from_text(payload)
            if "answer" in message:
                return self._value(message["answer"])
            if "failed" in message:
                raise self._value(message["failed"])
            self._send(self._obey(message))
        os._exit(0)


class _Callable(OpaqueObject):
    """A function of the tests'."""

    def __init__(self, number: int, worker: Worker, name: str, doc: str) -> None:
        super().__init__(number)
        self._worker = worker
        self.__name__ = self.__qualname__ = name
        self.__doc__ = doc

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._worker.call_back(self.ors_number, arguments, keywords)


def _import(name: str, path: str | None) -> None:
    """Load a module from the work dir; its name may be one that the standard library has too."""
    top = name.partition(".")[0]
    file_path = path or next((p for p in (f"{top}.py", f"{top}/__init__.py") if os.path.isfile(p)), None)
    if file_path is None:
        if top in sys.modules or not os.path.isdir(top):  # a start-up path without imports
            raise ModuleNotFoundError(f"there is no {top}.py and no folder {top} in the work dir", name=top)
    # Loaded by its path: a module of the standard library with the same name may be in `sys.modules` already.
    elif top not in sys.modules or getattr(sys.modules[top], "__file__", None) != _absolute(file_path):
        _load_file(top, _absolute(file_path))
    if name != top:
        importlib.import_module(name)


def _absolute(path: str) -> str:
    return os.path.join(os.getcwd(), path)  # a start-up path without imports


def _load_file(name: str, path: str) -> None:
    folders = [os.path.dirname(path)] if os.path.basename(path) == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folders)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Before it runs, as `import` does: modules that import each other need it.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise


def _take_printed() -> str:
    """Return what was printed since the last message, as far as it is kept."""
    out = sys.stdout
    if not isinstance(out, _Printed):
        return ""
    return out.take()


class _Printed(io.TextIOWrapper):
    """Standard output as the agent's code sees it: kept until the next message takes it along."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        super().__init__(self._buffer, encoding="utf-8", errors="backslashreplace", write_through=True)

    def take(self) -> str:
        if not self._buffer.tell():
            return ""
        self.flush()
        text = self._buffer.getvalue()[:_MAX_PRINTED].decode(errors="replace")
        self._buffer.seek(0)
        self._buffer.truncate()
        return text


def main() -> None:
    """Take over standard input and output, and work."""
    channel = take_standard_streams()
    sys.stdout = _Printed()
    sys.argv = ["solution"]
    sys.path.append(os.getcwd())  # last, so that no file shadows the standard library
    Worker(channel).work()
    os._exit(0)
