"""Every class of error looks like something on every wire, by a row of its own.

The errors of the command line, of what it alone runs (such as the audit), of the client and of the shipped
tests never reach a wire; they are left out. The steps of a migration have none, and only run inside one.
"""

import importlib
import pkgutil
from http import HTTPStatus

import pytest

import ors_server
from ors_server.doors.http.faults import FAULTS, extra_headers, look_up
from ors_server.model.errors import Blame, CapacityError, OrsServerError, ShuttingDownError, StartingError

ANSWERS_OF_OTHERS = "ors_server.client.bounded_http"
"""Its error reaches the wire: judges and simulated users of a server read answers of endpoints, too."""
OFF_THE_WIRE = (
    "ors_server.audit",
    "ors_server.cli",
    "ors_server.client",
    "ors_server.evaluation",
    "ors_server.supervisor",
    "ors_server.export",
    "ors_server.harbor",
    "ors_server.images",
    "ors_server.packaging",
    "ors_server.replaying",
    "ors_server.store.sql.migrations",
    "ors_server.testing",
    "ors_server.adapters.bridges.",
    "ors_server.adapters.programs.",
    "ors_server.adapters.reasoning_gym_worker",
)
"""Packages whose errors are printed, or raised in whoever uses them; migrations raise none of their own.

Modules of bridges, programs and workers run where the packages of others are."""


def import_everything():
    for module in pkgutil.walk_packages(ors_server.__path__, "ors_server."):
        if not module.name.startswith(OFF_THE_WIRE):
            importlib.import_module(module.name)


def error_classes():
    import_everything()
    found, rest = [], [OrsServerError]
    while rest:
        cls = rest.pop()
        is_off = cls.__module__.startswith(OFF_THE_WIRE) and cls.__module__ != ANSWERS_OF_OTHERS
        is_ours = cls.__module__.startswith("ors_server.") and not is_off
        if is_ours and cls not in found:
            found.append(cls)
            rest += cls.__subclasses__()
    return found


CLASSES = error_classes()


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_class_has_a_row_of_its_own(cls):
    assert cls in FAULTS


def test_every_row_is_for_an_error_class_of_ours():
    assert set(FAULTS) == set(CLASSES)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_what_is_blamed_agrees_with_the_status(cls):
    fault = FAULTS[cls]
    client_statuses = range(400, 500)
    for status in (fault.status, fault.control_status):
        assert HTTPStatus(status)
        if cls.blame in {Blame.AUTHOR, Blame.US}:
            assert status == 500
        elif cls.blame is Blame.MACHINERY:
            assert status in {429, 503}
        else:
            assert status in client_statuses or cls.code == "settings"


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_class_has_a_code_of_its_own(cls):
    sharing = {other for other in CLASSES if other.code == cls.code}
    assert sharing == {cls} or all(issubclass(a, b) or issubclass(b, a) for a in sharing for b in sharing)


def test_an_unknown_error_class_looks_like_its_ancestor_and_whoever_may_come_back_is_told_when():
    class OwnCapacityError(CapacityError):
        pass

    assert look_up(OwnCapacityError("full")) is FAULTS[CapacityError]
    assert extra_headers(CapacityError("full", retry_after=7)) == {"retry-after": "7"}
    assert extra_headers(StartingError("soon", retry_after=3))["retry-after"] == "3"
    assert extra_headers(ShuttingDownError("bye")) == {"retry-after": "1"}
