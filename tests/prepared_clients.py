"""The environments of clients whose programs are forked, and what the process imports that forks them.

It is what the scripts of `tests/clients` and the workers of the adapters import there, without the modules of
this package: a script finds those in the checkout or in the installed client.
"""

import os
from pathlib import Path

VENVS = Path(os.environ.get("ORS_TEST_VENVS", Path(__file__).parents[1] / ".venvs"))
BFCL_SERVICES = (
    *("gorilla_file_system", "math_api", "message_api", "posting_api", "ticket_api", "trading_bot"),
    *("travel_booking", "vehicle_control"),
)
MODULES_OF_CLIENTS = {
    "bfcl": (
        *("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker", "mpmath", "asyncio", "_strptime"),
        *(f"bfcl_eval.eval_checker.multi_turn_eval.func_source_code.{name}" for name in BFCL_SERVICES),
    ),
    "fastmcp": ("fastmcp.client.client", "fastmcp.client.transports"),
    "inspect": (
        "inspect_openreward",
        "inspect_ai.model._openai",
        "inspect_ai.model._providers.mockllm",
        "inspect_ai.hooks._startup",
        "inspect_ai._control.current_server",
        "inspect_ai.agent._acp.server",
    ),
    "langchain": ("langchain_mcp_adapters.client", "agents", "agents.mcp", "openai.types.responses"),
    "openenv": ("openenv.core.harness", "openenv.core.llm_client", "openenv.core.mcp_client", "openenv.cli"),
    "openreward": ("openreward", "openreward.environments"),
    "ors_sdk": ("ors", "ors.client"),
    "skyrl_gym": ("skyrl_gym", "anyio._backends._asyncio", "httpx2", "pydantic"),
    "textarena": ("nltk", "textarena", "numpy.random"),
    "trl": (
        *("transformers.tokenization_utils_tokenizers", "transformers.utils.chat_parsing", "datasets"),
        *("trl.data_utils", "trl.rewards", "trl.experimental.openreward", "openreward"),
    ),
    "verifiers": ("verifiers.v1", "verifiers.v1.utils.loaders", "mcp", "openai.types.chat", "uvicorn"),
    "verifiers_openenv": ("verifiers.v1", "verifiers.v1.utils.loaders", "openenv.core", "uvicorn"),
    "verifiers_0_3": ("verifiers.clients", "verifiers.legacy.envs.singleturn_env"),
}
"""Environment of a client -> the modules."""
CLIENTS = {str(VENVS / client / "bin" / "python"): client for client in MODULES_OF_CLIENTS}
"""Interpreter -> the client whose environment it is of."""
READ_BY_CLIENTS = ("HF_", "HOME", "NLTK_", "OPENREWARD_LOG_LEVEL", "XDG_")
"""How the variables begin that one of the modules reads when it is imported."""
WITHOUT_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Variables with which numpy and pyarrow start no thread when they are imported; a fork would lose it."""
UNSAID = {"PYTHONHASHSEED": "0", "OPENREWARD_LOG_LEVEL": "ERROR"}
"""Variables that need not be the same for each command without them: one process forks all of these."""
