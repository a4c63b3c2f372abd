"""Shells that the agent keeps from starting: its failure, within the time of a command."""

import anyio
import pytest

from ors_server.sandboxes.base import Killed, Limits, SandboxRoot
from ors_server.sandboxes.choose import BackendChoice, BackendRequest, choose
from ors_server.sandboxes.sandbox_errors import SandboxShellError
from tests.fixtures.host_images import make_tree, tree_image

SPOILS = {
    "rc-sleeps": "echo 'sleep 100000' > /etc/bash.bashrc",
    "rc-exits": "echo exit > /etc/bash.bashrc",
    "bash-sleeps": "mv /usr/bin/bash /real; printf '#!/bin/sh\\nsleep 100000\\n' > /usr/bin/bash\n"
    "chmod +x /usr/bin/bash",
    "bash-is-empty": ": > /empty; chmod +x /empty; mv /empty /usr/bin/bash",
    "first-program-sleeps": "mv /usr/bin/sh /real-sh; printf '#!/real\\nsleep 100000\\n' > /usr/bin/sh\n"
    "chmod +x /usr/bin/sh; cp /usr/bin/bash /real",
}


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    tree = make_tree(tmp_path_factory.mktemp("image") / "root")
    return tree_image(tree, variables={"PATH": "/usr/bin:/bin"}, work_dir="/opt/data")


@pytest.fixture
async def sandbox(image):
    chosen = await choose(BackendRequest(choice=BackendChoice.BUBBLEWRAP))
    yield await chosen.backend.start("a", Limits(time_limit=1), SandboxRoot.of_image(image))
    await chosen.aclose()


@pytest.mark.parametrize("spoil", SPOILS)
async def test_a_shell_that_the_agent_broke_is_a_result_within_the_time_of_a_command(sandbox, spoil):
    files = {name: await sandbox.read_file(name) for name in ("/usr/bin/bash", "/usr/bin/sh")}
    with anyio.fail_after(60):
        await sandbox.exec(f"{SPOILS[spoil]}; exit 3")
        await sandbox.end_processes()
        refused = await sandbox.exec("echo never")
        assert (refused.exit_code, refused.killed, refused.stdout.total) == (None, Killed.SHELL_DIED, 0)
        assert "The command did not run. No shell starts over the files" in refused.notes[0]
        with pytest.raises(SandboxShellError, match=r"/etc/bash\.bashrc"):
            await sandbox.restart()
    # Whoever changes the files again has a shell again; the modes are the agent's.
    await sandbox.write_file("/etc/bash.bashrc", b"")
    for name, content in files.items():
        await sandbox.write_file(name, content)
    await sandbox.restart()
    assert (await sandbox.exec("echo back")).stdout.text == "back\n"


async def test_a_shell_that_starts_slowly_is_waited_for(sandbox):
    await sandbox.exec("echo 'sleep 1' > /etc/bash.bashrc; exit")
    assert (await sandbox.exec("echo slow; rm /etc/bash.bashrc")).stdout.text == "slow\n"
