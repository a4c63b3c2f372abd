"""The taskset of ors-server, under the name by which verifiers 0.4 and later finds it: `ors-taskset`."""

from ors_server.adapters.bridges.verifiers_taskset_env import OrsHarness, OrsTaskset

__all__ = ["OrsHarness", "OrsTaskset"]
