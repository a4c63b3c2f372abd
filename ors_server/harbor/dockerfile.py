"""The part of a Dockerfile that needs no builder: FROM, COPY, ADD of files, ENV, ARG, WORKDIR and USER.

Everything else is refused with its line, or has no effect on a task (CMD, EXPOSE, LABEL and the like: Harbor
replaces the container's command).
"""

import contextlib
import hashlib
import io
import json
import os
import platform
import posixpath
import re
import shlex
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from ors_server.harbor.file_sets import RootFile, as_root_file, list_tree
from ors_server.harbor.ignore_rules import IgnoreRules
from ors_server.harbor.task_config import TaskFolderError
from ors_server.images.image_cache import CachedImage, ImageCache
from ors_server.images.image_errors import UnknownImageError
from ors_server.images.image_files import ARCHITECTURES
from ors_server.model.errors import SettingsError

ROOT_USERS = ("root", "0", "root:root", "0:0")
_NO_EFFECT = frozenset({"CMD", "EXPOSE", "LABEL", "MAINTAINER", "STOPSIGNAL", "VOLUME", "SHELL"})
_REFUSED = {
    "RUN": "RUN needs a builder: ors-server images build makes an image of it; name that as docker_image",
    "ENTRYPOINT": "an ENTRYPOINT is not run here; start what the task needs in its healthcheck or its steps",
    "HEALTHCHECK": "write [environment.healthcheck] in task.toml instead",
    "ONBUILD": "ONBUILD is for images that others build on",
}
_VARIABLE = re.compile(r"\\\$|\$(?:(\w+)|\{(\w+)(?:(:?[-+])((?:[^{}\\]|\\.)*))?\})")
_FLAG = re.compile(r"--([a-z-]+)(?:=(\S*))?\s+")
_ASSIGNMENT = re.compile(r"""\s*(\w+)=("(?:\\.|[^"\\])*"|'[^']*'|(?:\\.|[^\s\\])*)""")


@dataclass
class BuildPlan:
    """The changes that a Dockerfile makes to its base image."""

    base: str = "scratch"
    """The image after FROM."""
    base_line: int = 0
    image: CachedImage | None = None
    """The base image, if it is in the cache: the root of the task's sessions."""
    user: str = ""
    """Who runs programs; empty for root."""
    work_dir: str = "/"
    variables: dict[str, str] = field(default_factory=dict[str, str])
    files: list[RootFile] = field(default_factory=list[RootFile])
    """In order; a later one replaces an earlier one of the same path."""


def read_dockerfile(path: Path, task: Path) -> BuildPlan:
    """Read a Dockerfile whose folder is its context.

    Raises:
        TaskFolderError: It needs a builder, or is wrong; the message names file and line.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise TaskFolderError(f"{path}: {error}") from error
    return _DockerfileReader(path, task).read(text)


def find_image(name: str) -> CachedImage | None:
    """Return the image that a task names, if it is in the cache."""
    try:
        cache = ImageCache()
    except SettingsError:
        return None  # a user without a home has no cache
    short = name.removeprefix("docker.io/").removeprefix("library/")
    for candidate in dict.fromkeys((name, short, f"docker.io/library/{short}", f"docker.io/{short}")):
        with contextlib.suppress(UnknownImageError):
            return cache.find(candidate)
    return None


def pack_image(plan: BuildPlan, archive: Path) -> None:
    """Write the image that a Dockerfile without `RUN` makes, as `docker save` does.

    The base image is a layer of it, so that the image depends on no other one of the cache.

    Raises:
        TaskFolderError: The base image is not in the cache.
        OSError: A file cannot be read or written.
    """
    if plan.image is None and plan.base != "scratch":
        raise TaskFolderError(
            f"the base image {plan.base!r} is not in the cache: add it with ors-server images add"
        )
    base = None if plan.image is None else plan.image.path
    files = {file.target: file for file in plan.files if file.target != "/"}  # the last one of a path counts
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        layers: list[Path] = []
        if base is not None:
            layers.append(Path(folder) / "base.tar")
            with tarfile.open(layers[0], "w") as layer:
                for entry in sorted(base.iterdir()):
                    layer.add(entry, entry.name)
        layers.append(Path(folder) / "files.tar")
        with tarfile.open(layers[-1], "w") as layer:
            for target, file in files.items():
                if file.source is None and base is not None and (base / target[1:]).is_symlink():
                    continue  # a link to a folder stays one
                member = tarfile.TarInfo(target[1:])
                member.mode = file.mode
                if file.source is None:
                    member.type = tarfile.DIRTYPE
                    layer.addfile(member)
                    continue
                with file.source.open("rb") as content:
                    status = os.fstat(content.fileno())
                    member.size, member.mtime = status.st_size, int(status.st_mtime)
                    layer.addfile(member, content)
        machine = platform.machine()
        diff_ids: list[str] = []
        for path in layers:
            with path.open("rb") as content:
                diff_ids.append(f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}")
        variables = {**({} if plan.image is None else plan.image.variables), **plan.variables}
        config = {
            "Env": [f"{name}={value}" for name, value in variables.items()],
            "WorkingDir": plan.work_dir,
            "User": plan.user,
        }
        documents = {
            "config.json": {
                "architecture": ARCHITECTURES.get(machine, machine),
                "os": "linux",
                "config": config,
                "rootfs": {"type": "layers", "diff_ids": diff_ids},
            },
            "manifest.json": [{"Config": "config.json", "Layers": [path.name for path in layers]}],
        }
        with tarfile.open(archive, "w") as image:
            for path in layers:
                image.add(path, path.name)
            for name, document in documents.items():
                text = json.dumps(document).encode()
                member = tarfile.TarInfo(name)
                member.size = len(text)
                image.addfile(member, io.BytesIO(text))


class _DockerfileReader:
    def __init__(self, path: Path, task: Path) -> None:
        self._path, self._task, self._context = path, task, path.parent
        self._plan = BuildPlan()
        self._arguments: dict[str, str] = {}
        self._line = 0
        self._has_base = False

    def read(self, text: str) -> BuildPlan:
        handlers: Mapping[str, Callable[[str], None]] = {
            "FROM": self.read_from,
            "COPY": self.read_copy,
            "ADD": self.read_copy,
            "ENV": self.read_env,
            "ARG": self.read_arg,
            "WORKDIR": self.read_workdir,
            "USER": self.read_user,
        }
        for line, name, value in self._instructions(text):
            self._line = line
            if name in _REFUSED:
                raise self._error(_REFUSED[name])
            if name in _NO_EFFECT:
                continue
            if name not in handlers:
                raise self._error(f"unknown instruction {name!r}")
            if not self._has_base and name not in {"FROM", "ARG"}:
                raise self._error(f"{name} before FROM")
            handlers[name](value)
        if not self._has_base:
            raise self._error("it has no FROM")
        return self._plan

    def _error(self, text: str) -> TaskFolderError:
        return TaskFolderError(f"{self._path}:{self._line or 1}: {text}")

    def _instructions(self, text: str) -> Iterator[tuple[int, str, str]]:
        pending, start = "", 0
        for number, raw in enumerate(text.splitlines(), 1):
            line = raw.strip()
            self._line = number
            if line.lower().replace(" ", "").startswith("#escape=`"):
                raise self._error("the escape character ` is for Windows")
            if not line or line.startswith("#"):
                continue
            start = start or number
            if line.endswith("\\"):
                pending += line[:-1] + " "
                continue
            pending += line
            name, _, value = pending.partition(" ")
            if "<<" in value and name.upper() in {"COPY", "ADD", "RUN"}:
                self._line = start
                raise self._error(f"{name.upper()} with a here-document needs a builder")
            yield start, name.upper(), value.strip()
            pending, start = "", 0
        if pending:
            raise self._error("the last line is continued by nothing")

    def _expand(self, text: str) -> str:
        values = {**self._arguments, **self._plan.variables}

        def replace(match: re.Match[str]) -> str:
            if match[0] == r"\$":
                return "$"
            value = values.get(match[1] or match[2], "")
            if match[3] and match[3].endswith("-"):
                return value or match[4]
            if match[3]:
                return match[4] if value else ""
            return value

        return _VARIABLE.sub(replace, text)

    def _flags(self, value: str) -> tuple[dict[str, str], str]:
        flags: dict[str, str] = {}
        while match := _FLAG.match(value):
            flags[match[1]] = match[2] or ""
            value = value[match.end() :]
        return flags, value

    def read_from(self, value: str) -> None:
        """Set the base image."""
        if self._has_base:
            raise self._error("a second FROM needs a builder")
        _, rest = self._flags(value)
        words = rest.split()
        if not words or len(words) not in {1, 3}:
            raise self._error(f"expected FROM IMAGE, got FROM {value}")
        self._plan.base, self._plan.base_line = self._expand(words[0]), self._line
        self._plan.image = find_image(self._plan.base)
        if self._plan.image is not None:
            self._plan.user, self._plan.work_dir = self._plan.image.user, self._plan.image.work_dir
        self._has_base = True

    def read_arg(self, value: str) -> None:
        """Set a variable of the file itself."""
        name, equals, default = value.partition("=")
        if equals:
            self._arguments[name.strip()] = self._expand(default.strip().strip("\"'"))

    def read_env(self, value: str) -> None:
        """Set variables of the root."""
        if "=" not in value.split(" ", 1)[0]:
            name, _, rest = value.partition(" ")
            self._plan.variables[name] = self._expand(rest.strip())
            return
        position = 0
        assignments: dict[str, str] = {}
        while position < len(value):
            match = _ASSIGNMENT.match(value, position)
            if match is None:
                raise self._error(f"expected ENV NAME=VALUE, got {value[position:].strip()!r}")
            raw = match[2]
            text = raw[1:-1] if raw[:1] in {'"', "'"} else re.sub(r"\\(?!\$)(.)", r"\1", raw)
            assignments[match[1]] = text if raw.startswith("'") else self._expand(text)
            position = match.end()
            if not value[position:].strip():
                break
        self._plan.variables |= assignments

    def read_workdir(self, value: str) -> None:
        """Change the work dir, and make it."""
        path = self._expand(value.strip("\"'"))
        self._plan.work_dir = _join(self._plan.work_dir, path)
        self._plan.files.append(RootFile(self._plan.work_dir, None, 0o755))

    def read_user(self, value: str) -> None:
        """Set who runs programs, where the base image has users."""
        user = self._expand(value)
        if self._plan.image is None and user not in ROOT_USERS:
            raise self._error(
                f"USER {value}: expected root, the only user without a base image from the cache"
            )
        self._plan.user = user

    def read_copy(self, value: str) -> None:
        """Copy files of the context."""
        flags, rest = self._flags(value)
        unknown = sorted(set(flags) - {"chown", "chmod", "link"})
        if unknown:
            raise self._error(f"--{unknown[0]} needs a builder")
        if flags.get("chown", "root") not in ROOT_USERS:
            raise self._error(f"--chown={flags['chown']}: expected root, which is the only user here")
        mode = flags.get("chmod")
        if mode is not None and not re.fullmatch(r"0?[0-7]{3}", mode):
            raise self._error(f"expected --chmod of three octal digits without setuid, got {mode}")
        try:
            words = json.loads(rest) if rest.startswith("[") else shlex.split(rest)
        except ValueError as error:
            raise self._error(f"COPY {rest}: {error}") from error
        words = [self._expand(str(word)) for word in words]
        if len(words) < 2:  # noqa: PLR2004  (a source and a target)
            raise self._error(f"expected COPY SOURCE TARGET, got {rest}")
        target = _join(self._plan.work_dir, words[-1])
        is_folder = words[-1].endswith(("/", "/.")) or words[-1] == "." or len(words) > 2  # noqa: PLR2004  (several sources)
        for source in words[:-1]:
            self._plan_copy(source, target, None if mode is None else int(mode, 8), is_folder=is_folder)

    def _plan_copy(self, source: str, target: str, mode: int | None, *, is_folder: bool) -> None:
        if "://" in source or source.startswith("git@"):
            raise self._error(f"ADD {source} needs the network; put the file into {self._context.name}/")
        pattern = posixpath.normpath(source.lstrip("/") or ".")
        if pattern.startswith(".."):
            raise self._error(f"{source} leads out of {self._context.name}/")
        left_out = _docker_ignore(self._context)
        matches = [self._context] if pattern == "." else _match(self._context, pattern)
        if not matches:
            raise self._error(f"there is no {source} in {self._context}, the folder of the Dockerfile")
        for match in matches:
            if match.is_dir():
                self._plan.files.append(RootFile(target, None, 0o755))
                for path in list_tree(match, self._task, None):
                    relative = path.relative_to(self._context).as_posix()
                    if not left_out.leaves_out(relative, is_folder=path.is_dir()):
                        self._append(path, _join(target, path.relative_to(match).as_posix()), mode)
            else:
                if not match.resolve().is_relative_to(self._task.resolve()):
                    raise self._error(f"{source} leads out of the task's folder")
                self._append(match, _join(target, match.name) if is_folder else target, mode)

    def _append(self, path: Path, target: str, mode: int | None) -> None:
        file = as_root_file(path, target)
        if mode is not None and file.source is not None:
            file = RootFile(file.target, file.source, mode)
        self._plan.files.append(file)


def _match(context: Path, pattern: str) -> list[Path]:
    """Return what a source names: each part may have `*`, `?` and `[...]`."""
    level = [context]
    for part in pattern.split("/"):
        if any(mark in part for mark in "*?["):
            children = [child for folder in level if folder.is_dir() for child in sorted(folder.iterdir())]
            level = [child for child in children if fnmatchcase(child.name, part)]
        else:
            level = [folder / part for folder in level if (folder / part).exists()]
    return level


def _docker_ignore(context: Path) -> IgnoreRules:
    file = context / ".dockerignore"
    try:
        lines = file.read_text("utf-8").splitlines() if file.is_file() else []
        return IgnoreRules(lines, anchored=True)
    except ValueError as error:
        raise TaskFolderError(f"{file}: {error}") from error


def _join(folder: str, path: str) -> str:
    joined = posixpath.normpath(posixpath.join(folder, path))
    return "/" + joined.lstrip("/")
