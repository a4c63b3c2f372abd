"""What a shell that takes the place of another one has kept, and what the agent reads of it."""

import pytest

from ors_server.testing import play
from tests.fixtures.single_task import SingleTask

SETUP = "x=1; f() { echo f; }; umask 077; mkdir -p d; cd d"
LOOK = 'echo "${x-none} $(f 2>/dev/null || echo none) $(umask) ${PWD##*/}"'


class Shell(SingleTask):
    toolsets = ("bash",)


@pytest.mark.parametrize(
    ("command", "lost", "words", "found"),
    [
        ("exit 3", False, "variables and functions are kept", "1 f 0077 d\n"),
        ("kill -9 $$", True, "functions, aliases, options and the umask are gone", "none none 0022 d\n"),
        ("exec sleep 0", True, "functions, aliases, options and the umask are gone", "none none 0022 d\n"),
        ("true", False, None, "1 f 0077 d\n"),
    ],
)
def test_a_replaced_shell_says_what_is_gone(command, lost, words, found):
    with play(Shell) as episode:
        episode.call("bash", command=SETUP)
        output = episode.call("bash", command=command)
        notes = " ".join(block.text for block in output.blocks)
        assert (output.metadata["bash"]["state_lost"], output.metadata["bash"]["shell_restarted"]) == (
            lost,
            words is not None,
        )
        assert words is None or words in notes
        after = episode.call("bash", command=f"echo $?; {LOOK}")
    assert after.blocks[0].text.partition("\n")[2] == found
    assert after.metadata["bash"]["state_lost"] is False
