"""Servers for tests: in this process without a socket, and in this process on a loopback socket.

Also which tests stay together when several processes share them out.
"""

import atexit
import contextlib
import gc
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from ors_server.app import App, create_app
from ors_server.doors.http.bounded_server import BoundedServer
from ors_server.doors.http.connection_limits import ConnectionLimits
from ors_server.files import importing
from ors_server.model.settings import Settings
from ors_server.processes.garbage_collector import collect_rarely

# Many images set it; then everything that tests start would compile what it imports anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Neither the tests' own applications nor the servers that they start write into somebody's record.
os.environ["ORS_STORE"] = "memory"
# Catalogues of the bundled shop are built once for all processes of a run, and not into somebody's cache.
if "WEBSHOP_CACHE" not in os.environ:
    os.environ["WEBSHOP_CACHE"] = tempfile.mkdtemp(prefix="ors-test-webshop-")
    atexit.register(shutil.rmtree, os.environ["WEBSHOP_CACHE"], ignore_errors=True)
VENVS = Path(os.environ.get("ORS_TEST_VENVS", Path(__file__).parents[1] / ".venvs"))
os.environ.setdefault("ORS_ALFWORLD_PYTHON", str(VENVS / "alfworld" / "bin" / "python"))

# As the command line does: collecting as often as Python does takes time of every test and frees nothing.
collect_rarely()
# How long a random example takes is the machine's, and judges nothing.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

collect_ignore = ["data"]  # has tests of its own, which tasks give to their graders
pytest_plugins = [
    "tests.postgres",
    "tests.prepared_processes",
    "tests.processor_times",
    "tests.shared_statements",
]
REFENV = str(Path(__file__).parent / "fixtures" / "refenv.py")
START_LIMIT = 30.0
"""Seconds that a server in a thread may take to start or to stop."""


TOGETHER = (
    "tests/clients/test_reference_servers",
    "tests/conformance/ors/",
    "tests/packaging/",
    "tests/unit/sandboxes/",
)
"""How the files begin that one process plays: what they share is dear to make, or the whole machine's."""
FORKING = (
    "tests/clients/test_audit_foreign_server.py",
    "tests/clients/test_bridges.py",
    "tests/clients/test_consumers_",
    "tests/clients/test_export_inspect.py",
    "tests/clients/test_export_trl.py",
    "tests/clients/test_foreign_",
    "tests/clients/test_inspect_openreward.py",
    "tests/clients/test_killed_hosts.py",
    "tests/clients/test_mcp_clients.py",
    "tests/clients/test_mcp_hosts.py",
    "tests/clients/test_openenv_door.py",
    "tests/clients/test_ors_clients.py",
    "tests/clients/test_packages.py",
    "tests/clients/test_prepared_clients.py",
    "tests/clients/test_recovery.py",
    "tests/clients/test_reward_adapters.py",
    "tests/clients/test_stock_client_record.py",
    "tests/clients/test_trl.py",
)
"""How the files begin that one process plays: the processes that fork their clients are its children."""
APART = (
    "tests/contract/test_audit_reading.py",
    "tests/contract/test_audit_rewards.py",
    "tests/contract/test_class_cheats.py",
    "tests/contract/test_code.py",
    "tests/docs/test_documents.py",
)
"""Files whose tests share nothing and take long, so that several processes play them."""
SLOW = (
    "tests/contract/test_alfworld.py",
    "tests/contract/test_audit.py",
    "tests/contract/test_audit_faults.py",
    "tests/contract/test_audit_judges.py",
    "tests/contract/test_audit_reach.py",
    "tests/contract/test_audit_reading.py",
    "tests/contract/test_audit_rewards.py",
    "tests/contract/test_audit_trouble.py",
    "tests/contract/test_audited_environments.py",
    "tests/contract/test_class_cheats.py",
    "tests/contract/test_code.py",
    "tests/contract/test_eval.py",
    "tests/contract/test_every_environment.py",
    "tests/contract/test_forging.py",
    "tests/contract/test_hosts.py",
    "tests/contract/test_inferred_gold.py",
    "tests/contract/test_qa.py",
    "tests/contract/test_ray_hosts.py",
    "tests/contract/test_recipes_at_the_door.py",
    "tests/contract/test_replay.py",
    "tests/contract/test_sandbox_backends.py",
    "tests/contract/test_scienceworld.py",
    "tests/contract/test_shell.py",
    "tests/contract/test_stores.py",
    "tests/contract/test_traces.py",
    "tests/contract/test_ungradable.py",
    "tests/contract/test_webshop.py",
    "tests/contract/test_webshop_loop.py",
    "tests/contract/test_workers.py",
    "tests/unit/adapters/test_gymnasium.py",
    "tests/unit/adapters/test_imports.py",
    "tests/unit/adapters/test_reasoning_gym.py",
    "tests/unit/adapters/test_scored_answers.py::test_a_flaky_endpoint_counts_no_right_answer_as_wrong",
    "tests/unit/alarms/test_run_alarms.py",
    "tests/unit/audit/recorded/test_honest_batches.py",
    "tests/unit/audit/recorded/test_planted_tricks.py",
    "tests/unit/audit/recorded/test_recorded_audit.py",
    "tests/unit/audit/test_pytest_plugin.py",
    "tests/unit/cli/episodes/test_list.py",
    "tests/unit/cli/episodes/test_tail.py",
    "tests/unit/cli/test_audit.py",
    "tests/unit/cli/test_commands.py",
    "tests/unit/cli/test_data_files.py",
    "tests/unit/cli/test_doctor.py",
    "tests/unit/cli/test_eval.py",
    "tests/unit/cli/test_exit_statuses.py",
    "tests/unit/cli/test_export.py",
    "tests/unit/cli/test_hostile_servers.py",
    "tests/unit/cli/test_log_output.py",
    "tests/unit/cli/test_main.py",
    "tests/unit/cli/test_missing_requirements.py",
    "tests/unit/cli/test_regrade.py",
    "tests/unit/cli/test_replay.py",
    "tests/unit/cli/test_score.py",
    "tests/unit/cli/test_serve.py",
    "tests/unit/cli/test_serve_ending.py",
    "tests/unit/cli/test_serve_operations.py",
    "tests/unit/cli/test_store.py",
    "tests/unit/cli/test_store_damage.py",
    "tests/unit/cli/test_suites.py",
    "tests/unit/cli/test_typical_mistakes.py",
    "tests/unit/cli/test_walk.py",
    "tests/unit/cli/test_watch.py",
    "tests/unit/client/test_blocking.py",
    "tests/unit/client/test_bounded_http.py",
    "tests/unit/client/test_left_open.py",
    "tests/unit/doors/ors/test_app.py::test_numbers_of_any_form_hold_nobody_up",
    "tests/unit/environments/declared/test_declared_environment.py",
    "tests/unit/environments/declared/test_index_files.py",
    "tests/unit/environments/declared/test_recipes.py",
    "tests/unit/environments/test_mistakes.py",
    "tests/unit/environments/toolsets/test_bash.py",
    "tests/unit/environments/toolsets/test_file_tools.py",
    "tests/unit/environments/toolsets/test_forbidden_commands.py",
    "tests/unit/environments/toolsets/test_milestones.py",
    "tests/unit/environments/toolsets/test_python.py",
    "tests/unit/environments/toolsets/test_replaced_shell.py",
    "tests/unit/environments/toolsets/test_served_toolsets.py",
    "tests/unit/grading/test_evidence.py",
    "tests/unit/grading/test_forgeries.py",
    "tests/unit/grading/test_function_cases.py",
    "tests/unit/grading/test_pytest_cases.py",
    "tests/unit/grading/test_stdio_cases.py",
    "tests/unit/harbor/test_harbor_tasks.py",
    "tests/unit/harbor/test_image_programs.py",
    "tests/unit/harbor/test_image_tasks.py",
    "tests/unit/harbor/test_lint_rules.py",
    "tests/unit/harbor/test_verifier_attacks.py",
    "tests/unit/images/test_image_cache.py::test_holes_of_a_sparse_file_stay_holes",
    "tests/unit/images/test_image_environments.py",
    "tests/unit/json_schemas/test_schema_checker.py",
    "tests/unit/model/test_json_bounds.py",
    "tests/unit/model/test_user_folders.py",
    "tests/unit/packaging/test_packages.py",
    "tests/unit/processes/offload/",
    "tests/unit/recovery/test_rebuilding.py",
    "tests/unit/resources/test_jvm_child.py",
    "tests/unit/resources/test_worker_env_endings.py",
    "tests/unit/rewards/judges/test_replies.py::test_reading_a_hostile_reply_costs_in_proportion_to_its_length",
    "tests/unit/rewards/math/test_algebra.py",
    "tests/unit/rewards/math/test_generated_answers.py",
    "tests/unit/rewards/math/test_generated_pairs.py",
    "tests/unit/rewards/math/test_lists_with_zero.py",
    "tests/unit/rewards/math/test_rewrites.py",
    "tests/unit/rewards/reading/test_bad_input.py::test_a_mebibyte_is_refused_or_read_without_an_exception",
    "tests/unit/rewards/reading/test_bad_input.py::test_reading_costs_in_proportion_to_the_length",
    "tests/unit/rewards/reading/test_bad_input.py::test_ten_thousand_statements_without_the_gold_are_never_paid",
    "tests/unit/rewards/reading/test_composed_responses.py",
    "tests/unit/rewards/reading/test_generated_responses.py",
    "tests/unit/rewards/reading/test_statements.py::test_hostile_text_is_read_in_linear_time_and_not_paid",
    "tests/unit/rewards/reading/test_untried_rules.py",
    "tests/unit/rewards/reading/test_written_responses.py",
    "tests/unit/rewards/test_adapters_catalogue.py",
    "tests/unit/rewards/test_batch.py",
    "tests/unit/rewards/test_code.py",
    "tests/unit/rewards/test_ifeval.py::test_every_instruction_is_followed_or_not_as_in_the_reference",
    "tests/unit/rewards/test_ifeval.py::test_long_responses_are_checked",
    "tests/unit/rewards/test_learned.py::test_processes_that_add_at_the_same_time_lose_nothing",
    "tests/unit/rewards/test_matches.py::test_an_answer_that_is_too_long_is_wrong_and_one_that_fits_is_graded",
    "tests/unit/rewards/test_numerals.py::test_long_responses_are_read_in_linear_time",
    "tests/unit/rewards/test_numerals.py::test_the_final_statement_wins_over_what_was_said_before",
    "tests/unit/rewards/test_numerals.py::test_whatever_is_written_at_most_one_choice_is_paid",
    "tests/unit/rewards/test_sql.py::test_a_gold_that_takes_too_much_memory_is_a_limit",
    "tests/unit/rewards/test_sql.py::test_an_answer_that_takes_too_much_memory_is_wrong",
    "tests/unit/rewards/test_sql.py::test_what_a_query_does_wrong_is_the_agent_s_and_nothing",
    "tests/unit/rewards/test_text_hacks.py::test_every_text_is_paid_the_least",
    "tests/unit/rewards/transcripts/test_every_shape.py::test_an_episode_earns_the_same_in_every_shape",
    "tests/unit/sandboxes/",
    "tests/unit/sandboxes/host/test_image_programs.py",
    "tests/unit/sandboxes/host/test_image_shell.py",
    "tests/unit/sessions/test_old_outputs.py",
    "tests/unit/store/sql/test_kept_totals.py",
    "tests/unit/store/sql/test_opening.py",
    "tests/unit/store/test_record_audit.py",
    "tests/unit/supervisor/test_supervising.py",
    "tests/unit/tasks/alfworld/test_game.py",
    "tests/unit/tasks/math_word_problems/test_environment.py",
    "tests/unit/tasks/math_word_problems/test_gold_answers.py",
    "tests/unit/tasks/qa/test_encyclopaedia.py",
    "tests/unit/tasks/shell/",
    "tests/unit/tasks/webshop/test_catalogue_files.py",
    "tests/unit/test_app.py::test_a_server_imports_what_makes_events_before_it_serves",
    "tests/unit/test_app.py::test_hosts_of_one_machine_divide_the_resources",
    "tests/unit/test_prepared_processes.py",
    "tests/unit/test_unjudged.py",
    "tests/unit/testing/test_environment_returns.py",
    "tests/unit/testing/test_task_likeness.py",
    "tests/unit/timing/test_loop_watch.py",
    "tests/unit/timing/test_workers.py",
)
"""How the tests begin that start programs by the dozen or compute for seconds; `make unit` skips them."""
WORLDS = ("alfworld", "scienceworld")
"""Bundled environments with packages of their own, which `make worlds` installs: their tests are external."""
ON_TWO_HOSTS = (
    "tests/clients/test_mcp_clients.py::test_fastmcp",
    "tests/clients/test_ors_clients.py::test_plays",
    "tests/clients/test_ors_clients.py::test_resumes",
)
"""How the tests of clients begin that an ordinary run plays on two hosts too; `make stress` plays all."""
LEFT_TO_STRESS = (
    "tests/clients/test_mcp_stdio.py::test_a_client_over_stdio_that_does_not_ask_gets_no_number[auto]",
    "tests/clients/test_mcp_stdio.py::test_one_episode_is_played_over_stdio[legacy]",
    "tests/clients/test_mcp_stdio.py::test_the_environment_variable_chooses_the_episode[auto]",
    "tests/clients/test_mcp_stdio.py::test_without_a_choice_stdio_is_the_lobby[legacy]",
    "tests/conformance/test_record_survives.py::test_acknowledged_steps_survive_the_kill_of_the_server[sqlite]",
    "tests/conformance/test_recovery.py::test_a_restart_after_a_suspension_loses_no_session[postgresql]",
    "tests/conformance/test_recovery.py::test_an_mcp_client_plays_on_through_a_kill[postgresql-handshake]",
    "tests/conformance/test_recovery.py::test_an_mcp_client_plays_on_through_a_kill[sqlite-modern]",
    "tests/conformance/test_recovery.py::test_every_session_goes_on_through_three_kills_under_load[sqlite]",
    "tests/conformance/test_recovery.py::test_the_commands_that_read_a_record_show_what_happened[postgresql]",
)
"""Tests of products that fixtures make, which only `make stress` plays; others play each member."""


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Some runners ignore Ctrl-C, and what they start inherits that; the tests' programs are ended by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Knows the settings of a plugin that may be missing: without it no test is bounded in time."""
    if not pluginmanager.has_plugin("timeout"):
        parser.addini("timeout", "Seconds that a test may take; needs pytest-timeout.")
        parser.addini("timeout_method", "How a test is stopped; needs pytest-timeout.")


def pytest_configure(config: pytest.Config) -> None:
    """Knows the mark of a plugin that may be missing."""
    if not config.pluginmanager.has_plugin("timeout"):
        config.addinivalue_line("markers", "timeout(seconds): most that a test may take")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempts the collected tests from garbage collection: they live until the end, and are many objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before the tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the slow tests, and those that ask for PostgreSQL or a world by a fixture or parameter.

    Where several processes share the tests, what one of them plays alone begins first, so that the others do
    not wait for it in the end.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: not item.nodeid.startswith(TOGETHER + FORKING))
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if any(name in parameters for name in WORLDS):
            item.add_marker(pytest.mark.external)
        is_on_two_hosts = "two hosts" in parameters and not item.nodeid.startswith(ON_TWO_HOSTS)
        if is_on_two_hosts or item.nodeid.startswith(LEFT_TO_STRESS):
            item.add_marker(pytest.mark.stress)
        if "postgres" in [*getattr(item, "fixturenames", ()), *parameters]:
            item.add_marker(pytest.mark.external)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Shares the tests out between processes, where there are several."""
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415  (runs without it are none of its business)

    class ByFile(LoadScopeScheduling):
        """Keeps the tests of a file in one process, for the sake of what they share."""

        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if file in APART:
                return nodeid
            if file.startswith(FORKING):
                return FORKING[0]
            return next((folder for folder in TOGETHER if file.startswith(folder)), file)

    return ByFile(config, log)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The event loop of the async tests; the server itself runs on it too."""
    return "asyncio"


@pytest.fixture(scope="module", autouse=True)
def imported_folders() -> Iterator[None]:
    """Forgets, with each module, the folders of the environments that it imported."""
    path, folders = list(sys.path), list(importing._folders)
    yield
    sys.path[:], importing._folders[:] = path, folders


@pytest.fixture(scope="module")
def quick_collections() -> None:
    """Exempts all that exists from garbage collection, for modules whose tests collect.

    A whole collection in a process that has played thousands of tests takes seconds. Garbage of earlier tests
    stays.
    """
    gc.freeze()


@pytest.fixture(scope="session")
def refenv() -> str:
    """The reference to the acceptance environments, for `create_app` and the command line."""
    return REFENV


class LiveServer(BoundedServer):
    """The server of production on a free port of loopback, in a thread."""

    def __init__(self, app: App) -> None:
        super().__init__(app, ConnectionLimits.of(app.settings))
        self.app = app
        self._settled = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)

    @property
    def port(self) -> int:
        return int(self.servers[0].sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def serving(self) -> Iterator["LiveServer"]:
        """Serves for the length of a with statement."""
        self._thread.start()
        assert self._settled.wait(START_LIMIT), "the server did not start in time"
        assert self.started, "the server ended before it had started"
        try:
            yield self
        finally:
            self.should_exit = True
            self._thread.join(START_LIMIT)
            assert not self._thread.is_alive(), "the server did not stop in time"

    async def startup(self, sockets=None) -> None:
        await super().startup(sockets)
        self._settled.set()

    def _live(self) -> None:
        try:
            self.run()
        finally:
            self._settled.set()


@pytest.fixture(scope="module")
def serve_live() -> Iterator[Callable[..., LiveServer]]:
    """Starts servers in threads on demand, from environments and settings; they end with the module."""
    with contextlib.ExitStack() as servers:

        def start(*environments: str | type, **settings: object) -> LiveServer:
            app = create_app(environments, Settings(port=0, **settings))
            return servers.enter_context(LiveServer(app).serving())

        yield start
