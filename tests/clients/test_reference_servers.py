"""The suite can fail: it finds on the two other servers what they are known to do, and accepts what works.

Both serve the same acceptance environments as ours does, written for their own packages.
"""

from pathlib import Path

import anyio
import pytest

from ors_server.conformance.ors_manifest import Level
from ors_server.conformance.ors_suite import Choice, check_server
from ors_server.conformance.report import ConformanceReport

REFENV = Path(__file__).parents[1] / "fixtures" / "refenv.py"
LACKS = {
    "E13b",
    "E13c",
    "E16",
    "E17",
    "E21",
    "E28b",
    "E39b",
    "E42",
    "E51b",
    "E56",
    "E60b",
    "E64",
    "E65",
    "E72b",
    "E73",
}
"""What neither of the two servers does, though a server should."""


def check(url: str) -> ConformanceReport:
    return anyio.run(check_server, url, Choice())


def failed(report: ConformanceReport, level: Level) -> set[str]:
    return {verdict.requirement.id for verdict in report.failed(level)}


@pytest.fixture(scope="module")
def openreward(reference_server) -> ConformanceReport:
    return check(reference_server("openreward"))


@pytest.fixture(scope="module")
def ors_sdk(reference_server) -> ConformanceReport:
    return check(reference_server("ors_sdk"))


def test_the_openreward_server_does_everything_that_a_server_must(openreward):
    assert failed(openreward, Level.MUST) == set()
    assert openreward.is_conformant


def test_the_openreward_server_lacks_what_it_is_known_to_lack(openreward):
    racy = {"E27b"}
    assert failed(openreward, Level.SHOULD) - racy == LACKS | {"E29", "E69", "E78"}


def test_the_ors_sdk_server_names_no_environment_and_ignores_the_secrets_header(ors_sdk):
    assert failed(ors_sdk, Level.MUST) == {"E9", "E11", "E28"}
    assert not ors_sdk.is_conformant


def test_the_ors_sdk_server_lacks_what_it_is_known_to_lack(ors_sdk):
    known = LACKS | {"E29", "E61b", "E68", "E70", "E77", "E78"}
    assert failed(ors_sdk, Level.SHOULD) == known


@pytest.mark.parametrize(
    ("client", "package", "names"),
    [
        ("openreward", "openreward", ("RefEnv", "SecondEnv", "IndexEnv", "TermEnv")),
        ("ors_sdk", "ors", ("RefEnv", "SecondEnv", "IndexEnv")),
    ],
)
def test_an_environment_of_theirs_is_served_unchanged_by_ours(serve_with, client, package, names):
    url = serve_with(client, *(f"{REFENV}:{name}" for name in names), REFENV_PACKAGE=package)
    report = anyio.run(check_server, url, Choice(risky=True))
    assert failed(report, Level.MUST) == set()
    assert failed(report, Level.SHOULD) == set()
