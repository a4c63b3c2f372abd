"""A disk without room: calls fail as machinery, nothing acknowledged is lost, and with room all goes on."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.record_load import Load
from tests.fixtures.record_outages import SESSIONS, Outages
from tests.fixtures.recording_server import RecordingServer
from tests.fixtures.small_disk import SmallDisk

pytestmark = [pytest.mark.stress, pytest.mark.timeout(1200)]
SEED = 9
DISK = 96
"""MiB of the disk."""
BLOBS = "episodes.db.blobs"
"""The folder of long blocks, beside the file."""
ROUNDS = 3


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "record"


@pytest.fixture(params=["all of the record", "the blobs"])
def disk(request, folder) -> Iterator[SmallDisk]:
    """A small disk that holds the record, or only its blobs."""
    mounted = SmallDisk(folder if request.param == "all of the record" else folder / BLOBS, DISK)
    yield mounted
    mounted.unmount()


@pytest.fixture
def outages(folder) -> Iterator[Outages]:
    """A server whose record is in the folder."""
    server = RecordingServer(str(folder / "episodes.db"), "--store-write-seconds", "1")
    yield Outages(server, Load(SEED, SESSIONS))
    server.close()


async def test_a_disk_that_fills_up_loses_nothing_and_the_same_sessions_go_on_when_there_is_room(
    outages, disk, request
):
    async def scene(stage: Outages) -> None:
        for _ in range(ROUNDS):
            disk.fill()
            waiting = await stage.until_failing()
            disk.empty()
            await stage.until_recovered(waiting)

    found = await outages.play(scene)
    sys.stdout.write(f"{request.node.name}: {found}; {outages}\n")
