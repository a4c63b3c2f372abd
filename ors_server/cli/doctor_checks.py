"""The checks of `ors-server doctor`: one function for each part of the machine."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ors_server._version import __version__
from ors_server.cli.command_output import CommandError
from ors_server.installation import (
    COMMAND,
    EMPTY_OPENREWARD,
    find_activation,
    find_intruders,
    install_hint,
    openreward_hint,
)
from ors_server.model.errors import OrsServerError

if TYPE_CHECKING:
    from ors_server.environments.loading import UnusableEnvironment
    from ors_server.model.settings import Settings
    from ors_server.rewards.judges import EndpointVariables
    from ors_server.sandboxes.isolation_report import IsolationReport
    from ors_server.store.location import StoreLocation

MIN_PYTHON = (3, 11)
EXTRAS = {
    "docker": ("docker", "sandboxes in Docker containers"),
    "eval": ("openai", "language models as agents of `eval`"),
    "export": ("pyarrow", "parquet files"),
    "grading": ("pytest", "hidden tests of the environment `code`"),
    "huggingface": ("datasets", "data sets of the Hugging Face hub"),
    "judges": ("openai", "rewards by language models"),
    "parquet": ("pyarrow", "data of environments in parquet files"),
    "postgres": ("psycopg", "the record in PostgreSQL"),
    "text": ("rapidfuzz", "rewards that compare texts"),
}
"""Extra -> a package that it installs, and its purpose."""
TEST_PROGRAMS = {
    "java": ("java", "default-jdk-headless", "only tests use it: the Java client"),
    "chromium": ("chromium chromium-browser google-chrome", "chromium", "only tests use it: the report page"),
}
"""Name -> programs, any of which is enough; the package that has it; its purpose."""
_INSTALLERS = {
    "apt-get": "apt-get install -y",
    "dnf": "dnf install -y",
    "pacman": "pacman -S",
    "apk": "apk add",
}
_ABSENT = " not installed"
_MIN_FREE_BYTES = 1 << 30


class CheckOutcome(StrEnum):
    """The result of checking one part."""

    OK = "ok"
    MISSING = "missing"
    """An optional part is not installed."""
    PROBLEM = "problem"
    """The server cannot start or work with these settings."""


OK, MISSING, PROBLEM = CheckOutcome


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the output."""

    name: str
    outcome: CheckOutcome
    text: str
    remedy: str = ""
    """The command to type, or the change to make; empty if there is nothing to do."""

    def as_json(self) -> dict[str, str]:
        """Render the finding with JSON types."""
        return {"name": self.name, "outcome": self.outcome, "text": self.text, "remedy": self.remedy}


async def examine() -> list[Finding]:
    """Check every part of this machine that the server uses, without changing anything."""
    from ors_server.model.settings import Settings, load_settings

    findings = [*versions(), *other_packages(), command()]
    try:
        settings = load_settings()
        config = os.environ.get("ORS_CONFIG")
        variables = sorted(name for name in os.environ if name.upper().startswith("ORS_"))
        sources = [f"file {config}" if config else "", ", ".join(variables)]
        findings.append(Finding("settings", OK, "; ".join(filter(None, sources)) or "the defaults"))
    except OrsServerError as error:
        findings.append(Finding("settings", PROBLEM, str(error), "correct it and run this again"))
        settings = Settings.model_construct()
    findings += environments(settings)
    findings += [*await sandbox(settings), docker(settings), store(settings), port(settings)]
    return [*findings, judge(), user_model(), *extras(), *test_programs()]


def versions() -> Iterator[Finding]:
    """Check Python and the packages of the protocols."""
    python = platform.python_version()
    is_new = sys.version_info[:2] >= MIN_PYTHON
    least = ".".join(map(str, MIN_PYTHON))
    remedy = "" if is_new else f"install Python {least} or newer and make a new virtual environment"
    yield Finding("python", OK if is_new else PROBLEM, f"{python}, {sys.executable}", remedy)
    yield Finding("ors-server", OK, f"{__version__}, mcp {version_of('mcp')}")


def other_packages() -> Iterator[Finding]:
    """Check whether another distribution has this package's names; yields nothing if none has."""
    for intruder in find_intruders():
        outcome = MISSING if intruder.is_harmless else PROBLEM
        yield Finding("name clash", outcome, intruder.text, intruder.remedy)
    name, _, version = EMPTY_OPENREWARD.partition(" ")
    if _version(name) == version:
        yield Finding(name, MISSING, f"{EMPTY_OPENREWARD} is empty", openreward_hint())


def command() -> Finding:
    """Check whether the shell finds the command `ors-server` of this installation."""
    activation = find_activation()
    path = shutil.which(COMMAND)
    if not activation:
        return Finding("command", OK, str(path))
    text = f"the shell finds {path}" if path else f"the shell does not find {COMMAND}"
    own = Path(sys.executable).with_name(COMMAND)
    return Finding("command", MISSING, f"{text}; this installation's is {own}", activation)


def environments(settings: "Settings") -> list[Finding]:
    """Check the environments that would be served."""
    from ors_server.cli.serve_command import choose
    from ors_server.environments.loading import check_names, definitions_of

    unusable: list[UnusableEnvironment] = []
    try:
        chosen = choose(settings.environments, unusable).items()
        found = [
            definition for reference, loaded in chosen for definition in definitions_of(loaded or reference)
        ]
        check_names(found)
    except OrsServerError as error:
        remedy = "correct it, or serve others: ors-server serve REF"
        return [Finding("environments", PROBLEM, str(error), remedy)]
    names = ", ".join(definition.name for definition in found)
    if not names:
        return [Finding("environments", MISSING, "none is installed", "ors-server new my_environment")]
    return [Finding("environments", OK, names), *map(_describe_unusable, unusable)]


def _absent(name: str, purpose: str, missing: str, remedy: str) -> Finding:
    """Return the line of an optional part: its purpose, what is not installed, and the command."""
    return Finding(name, MISSING, f"{purpose}: {missing}{_ABSENT}", remedy)


def _describe_unusable(environment: "UnusableEnvironment") -> Finding:
    if not environment.is_missing_requirement:
        return Finding(environment.name, PROBLEM, environment.reason, "correct it, or uninstall its package")
    reason = environment.reason.removeprefix(f"{environment.name}: ")
    missing, separator, remedy = reason.partition(f"{_ABSENT}: run ")
    if not separator:  # something else is wrong with what it needs
        return Finding(environment.name, MISSING, "an optional environment", reason)
    return _absent(environment.name, "an optional environment", missing, remedy)


async def sandbox(settings: "Settings") -> list[Finding]:
    """Find out what would isolate agents' commands, what would do it better, and whether images run."""
    from ors_server.app import sandbox_request
    from ors_server.images.image_cache import image_to_try
    from ors_server.sandboxes.choose import choose
    from ors_server.sandboxes.isolation_report import Strength

    strongest = int(max(Strength))
    try:
        chosen = await choose(replace(sandbox_request(settings), image=image_to_try()))
    except OrsServerError as error:
        outcome = MISSING if settings.sandbox == "auto" else PROBLEM
        text = f"none, level 0 of {strongest}: {error}"
        return [Finding("sandbox", outcome, text, _sandbox_remedy(str(error)))]
    await chosen.aclose()
    images = _describe_images(chosen.report)
    text = f"{chosen.report.backend}, level {int(chosen.report.strength)} of {strongest}"
    refused = "; ".join(f"{name}: {reason}" for name, reason in chosen.refused.items())
    if chosen.report.strength < max(Strength):
        text += f"; not stronger, because {refused or 'the setting `sandbox` asks for it'}"
        return [Finding("sandbox", MISSING, text, _sandbox_remedy(refused)), images]
    return [Finding("sandbox", OK, text), images]


def _describe_images(report: "IsolationReport") -> Finding:
    if report.images is not None:
        return Finding("images", OK, f"as roots of sandboxes: {report.images}")
    if report.images_refused is not None:
        remedy = "serve with bubblewrap, which has them, or add an image with /bin/bash"
        return Finding("images", PROBLEM, report.images_refused, remedy)
    text = "no image with /bin/bash is in the cache, so none was tried as a root"
    return Finding("images", MISSING, text, "ors-server images add FILE")


def _sandbox_remedy(reason: str) -> str:
    if shutil.which("bwrap") is None:
        return install_command("bubblewrap")
    if "apt-get install" in reason:
        return install_command("bubblewrap util-linux")
    return "let this user make namespaces (docs/sandboxes.md), or set docker_image to use Docker"


def docker(settings: "Settings") -> Finding:
    """Check whether a Docker engine can be used."""
    from ors_server.sandboxes.docker.engine import Engine
    from ors_server.sandboxes.sandbox_errors import SandboxUnavailableError

    if find_spec("docker") is None:
        return _absent("docker", "sandboxes in Docker containers", "docker", install_hint("docker"))
    outcome = PROBLEM if settings.sandbox == "docker" else MISSING
    try:
        engine = Engine(settings.docker_host)
    except SandboxUnavailableError as error:
        remedy = install_command("docker.io") if shutil.which("docker") is None else "start the Docker engine"
        return Finding("docker", outcome, str(error), remedy)
    try:
        if settings.docker_image is None:
            return Finding("docker", OK, f"engine at {engine.host}; no image is set (docker_image)")
        facts = engine.facts(settings.docker_image)
        return Finding("docker", OK, f"engine {facts.version}, image {facts.image}")
    except SandboxUnavailableError as error:
        return Finding("docker", outcome, str(error), f"docker pull {settings.docker_image}")
    finally:
        engine.close()


def store(settings: "Settings") -> Finding:
    """Check whether the record can be written, and how much disk space is free."""
    from ors_server.store.location import StoreKind, parse_location

    try:
        location = parse_location(settings.record)
        if location.kind is StoreKind.POSTGRES:
            _reach(location)
            return Finding("store", OK, location.display_name)
    except OrsServerError as error:
        return Finding("store", PROBLEM, str(error), "correct the setting `store`")
    if location.path is None:
        return Finding("store", OK, "memory: it ends with the server")
    folder = next(above for above in location.path.parents if above.is_dir())
    if not os.access(location.path if location.path.exists() else folder, os.W_OK):
        return Finding("store", PROBLEM, f"{location.path} cannot be written", "set `store` to another file")
    free = shutil.disk_usage(folder).free
    state = "" if location.path.exists() else " (not made yet)"
    text = f"{location.path}{state}, {free / (1 << 30):.1f} GiB free"
    if free < _MIN_FREE_BYTES:
        return Finding("store", PROBLEM, text, "free disk space: ors-server store prune")
    return Finding("store", OK, text)


def _reach(location: "StoreLocation") -> None:
    from ors_server.store.sql.components import make_components
    from ors_server.store.sql.database import snapshot
    from ors_server.store.store_options import DEFAULTS

    database = make_components(location, DEFAULTS).database
    engine = database.reading_engine()
    try:
        with snapshot(database, engine):
            pass
    finally:
        engine.dispose()


def port(settings: "Settings") -> Finding:
    """Check whether the address is free."""
    from ors_server.cli.listening import bind

    address = f"{settings.host}:{settings.port}"
    try:
        bind(settings.host, settings.port).close()
    except CommandError as error:
        return Finding("port", MISSING, f"{error}; another server may use it", "ors-server serve --port 0")
    return Finding("port", OK, f"{address} is free")


def judge() -> Finding:
    """Check whether rewards that ask a language model have one."""
    from ors_server.rewards.judges.judge_endpoint import JUDGE_VARIABLES

    return _endpoint("judge", JUDGE_VARIABLES) or Finding(
        "judge",
        MISSING,
        "none is configured: rewards that ask a language model give no reward",
        f"export {JUDGE_VARIABLES.base_url}=http://127.0.0.1:8000/v1 {JUDGE_VARIABLES.model}=MODEL",
    )


def user_model() -> Finding:
    """Check which model plays simulated users."""
    from ors_server.environments.simulated_user.model_user import USER_VARIABLES

    scripted = f"simulated users follow their scripts; {USER_VARIABLES.base_url} names a model's endpoint"
    return _endpoint("user model", USER_VARIABLES) or Finding("user model", OK, scripted)


def _endpoint(name: str, variables: "EndpointVariables") -> Finding | None:
    url, model = os.environ.get(variables.base_url), os.environ.get(variables.model)
    if not url:
        return None
    parts = urlsplit(url)
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
    if not model:
        missing = f"{variables.base_url} is set, and {variables.model} is not"
        return Finding(name, PROBLEM, missing, f"export {variables.model}=MODEL")
    if find_spec("openai") is None:
        return Finding(name, PROBLEM, f"{model} at {shown}: openai{_ABSENT}", install_hint("judges"))
    return Finding(name, OK, f"{model} at {shown}")


def extras() -> Iterator[Finding]:
    """Check the optional packages."""
    for extra, (package, purpose) in EXTRAS.items():
        if find_spec(package) is None:
            yield _absent(f"[{extra}]", purpose, package, install_hint(extra))
        else:
            yield Finding(f"[{extra}]", OK, f"{package} {_version(package)}: {purpose}")


def test_programs() -> Iterator[Finding]:
    """Check the programs that only the project's own tests use."""
    for name, (programs, package, purpose) in TEST_PROGRAMS.items():
        program_path = next(filter(None, map(shutil.which, programs.split())), None)
        if program_path is None:
            yield _absent(name, purpose, name, install_command(package))
        else:
            yield Finding(name, OK, f"{program_path} ({purpose})")


def install_command(packages: str) -> str:
    """Return the command that installs packages, by their names on Debian."""
    installer = next((words for program, words in _INSTALLERS.items() if shutil.which(program)), None)
    if installer is None:
        return f"install {packages} with the package manager of this system"
    is_root = os.name == "posix" and os.geteuid() == 0
    return f"{'' if is_root else 'sudo '}{installer} {packages}"


def _version(package: str) -> Any:
    try:
        return version_of(package)
    except PackageNotFoundError:
        return "of an unknown version"
