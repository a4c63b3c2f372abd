from types import MappingProxyType

import anyio
import pytest

from ors_server.sandboxes import choose as choose_module
from ors_server.sandboxes.cells.server_state import ServerState
from ors_server.sandboxes.choose import BackendChoice, BackendRequest, choose
from ors_server.sandboxes.isolation_report import IsolatedResource, IsolationReport, Strength
from ors_server.sandboxes.sandbox_errors import SandboxUnavailableError, UnsandboxedRefusedError
from ors_server.sandboxes.scripted import ScriptedBackend


class Tier(ScriptedBackend):
    def __init__(self, name, strength, works):
        super().__init__()
        self.name, self.strength, self.works = name, strength, works

    async def probe(self):
        if not self.works:
            raise SandboxUnavailableError(f"{self.name} says no")
        return IsolationReport(self.name, self.strength, MappingProxyType({}))


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine on which some tiers work."""

    def with_tiers(**works):
        (tmp_path / "base").mkdir(exist_ok=True)
        monkeypatch.setattr(choose_module, "clean_up", lambda: None)
        monkeypatch.setattr(choose_module, "ServerState", lambda: ServerState(tmp_path / "base"))
        strengths = {"BubblewrapBackend": Strength.NAMESPACES, "LandlockBackend": Strength.OWN_UID}
        for name, strength in strengths.items():
            tier = Tier(name, strength, works.get(name.removesuffix("Backend").lower(), False))
            monkeypatch.setattr(choose_module, name, lambda _state, _clock, tier=tier: tier)
        return tmp_path / "base"

    return with_tiers


def chosen(wanted=None):
    async def run():
        got = await choose(wanted)
        await got.aclose()
        return got

    return anyio.run(run)


def test_the_strongest_that_works_is_chosen(machine):
    machine(bubblewrap=True, landlock=True)
    got = chosen()
    assert got.report.backend == "BubblewrapBackend"
    assert got.refused == {}


def test_the_next_tier_is_chosen_and_the_reason_kept(machine):
    machine(landlock=True)
    got = chosen()
    assert got.report.backend == "LandlockBackend"
    assert got.refused == {"bubblewrap": "BubblewrapBackend says no"}


def test_nothing_is_chosen_when_nothing_works_and_nothing_is_left_on_disk(machine):
    base = machine()
    with pytest.raises(SandboxUnavailableError, match=r"BubblewrapBackend says no.*--allow-unsandboxed"):
        chosen()
    assert list(base.glob("ors-*")) == []


def test_less_than_was_asked_for_is_refused(machine):
    machine(landlock=True)
    with pytest.raises(SandboxUnavailableError, match="level 2"):
        chosen(BackendRequest(at_least=Strength.NAMESPACES))


def test_none_has_to_be_allowed(machine):
    machine()
    with pytest.raises(UnsandboxedRefusedError, match="--allow-unsandboxed"):
        chosen(BackendRequest(choice=BackendChoice.NONE))


def test_one_that_was_named_is_the_only_one_tried(machine):
    machine(bubblewrap=True)
    with pytest.raises(SandboxUnavailableError, match="landlock"):
        chosen(BackendRequest(choice=BackendChoice.LANDLOCK))


def test_none_is_the_last_resort_where_it_is_allowed(machine, monkeypatch):
    machine()
    last = Tier("none", Strength.NONE, works=True)
    monkeypatch.setattr(choose_module, "NoneBackend", lambda _state, _clock, *, allowed: last)
    got = chosen(BackendRequest(allow_unsandboxed=True))
    assert got.report.strength is Strength.NONE
    assert set(got.refused) == {"bubblewrap", "landlock"}


def test_a_report_names_every_resource():
    report = IsolationReport(
        "x", Strength.PARTIAL, MappingProxyType({IsolatedResource.DISK: "quota"}), ("a gap",)
    )
    said = report.as_dict()
    assert set(said["isolates"]) == {resource.value for resource in IsolatedResource}
    assert said["isolates"]["disk"] == "quota"
    assert said["isolates"]["cpu"] is None
    assert (said["level"], said["gaps"]) == (1, ["a gap"])
