"""Our server, in this process and over real sockets, as the Open Reward Standard's suite sees it."""

import itertools
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import SecretStr

from ors_server.app import App, create_app
from ors_server.conformance.ors_suite import Choice, check_server
from ors_server.conformance.report import RequirementVerdict
from ors_server.environments.loading import define, load_environments
from ors_server.model.settings import Settings
from ors_server.testing.fake_clock import FakeClock
from tests.fixtures.loopback import listening

REFENV = Path(__file__).parents[2] / "fixtures" / "refenv.py"
ENVIRONMENTS = tuple(f"{REFENV}:{name}" for name in ("RefEnv", "SecondEnv", "IndexEnv", "TermEnv"))
KEY = "a-trainer-key-of-thirty-two-letters"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "requirement(id): the requirement of ors_manifest that a test demands")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def serve() -> Callable[..., AbstractAsyncContextManager[str]]:
    """Serves the acceptance environments, or one of the test's own, by settings and a clock."""

    def start(
        clock: FakeClock | None = None, environment: type | None = None, **settings: Any
    ) -> AbstractAsyncContextManager[str]:
        found = (
            [load_environments([item]) for item in ENVIRONMENTS]
            if environment is None
            else [[define(environment)]]
        )
        return listening(App(list(itertools.chain.from_iterable(found)), Settings(**settings), clock=clock))

    return start


@pytest.fixture
def listen() -> Callable[[Any], AbstractAsyncContextManager[str]]:
    """Serves any ASGI application on loopback."""
    return listening


async def _judge(ids: frozenset[str]) -> dict[str, RequirementVerdict]:
    keyed = frozenset({"E74"})
    found: list[RequirementVerdict] = []
    async with listening(create_app(ENVIRONMENTS, Settings())) as url:
        choice = Choice(only=(ids - keyed) or frozenset({"none"}), slow=True, risky=True)
        found += (await check_server(url, choice)).verdicts
    if ids & keyed:
        async with listening(
            create_app(ENVIRONMENTS, Settings(api_keys=SecretStr(f"trainer:t:{KEY}")))
        ) as url:
            found += (await check_server(url, Choice(only=keyed, api_key=KEY))).verdicts
    return {verdict.requirement.id: verdict for verdict in found}


@pytest.fixture(scope="session")
def verdicts(request: pytest.FixtureRequest) -> dict[str, RequirementVerdict]:
    """How our server stands to every requirement that a collected test demands; the checks run side by
    side."""
    marks = (m for item in request.session.items for m in item.iter_markers("requirement"))
    return anyio.run(_judge, frozenset(mark.args[0] for mark in marks))


@pytest.fixture
def demand(verdicts: dict[str, RequirementVerdict]) -> Callable[[str], None]:
    """Demands that our server meets a requirement, with which the test is marked."""

    def judge(requirement: str) -> None:
        verdict = verdicts[requirement]
        assert verdict.outcome == "pass", f"{verdict.outcome}: {verdict.reason}"

    return judge
