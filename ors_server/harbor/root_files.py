"""Changes files of a session's root by programs that run in a separate isolation inside the sandbox."""

from collections.abc import Sequence

from ors_server.harbor.file_sets import RootFile, pack
from ors_server.harbor.task_config import TaskFolderError
from ors_server.sandboxes.base import Sandbox

COPY_SECONDS = 120.0
# The short options of GNU tar and of busybox's: no owners, all modes.
_EXTRACT = 'tar -xopf "$0"/files.tar -C / || exit 1\n'
# The agent may have replaced these folders by links, or removed its own rights on them. `rm` and `chmod`
# follow no link below their arguments, and `remove` checks that its argument is not a link itself.
_REMOVE = """\
remove() {
  if [ -d "$1" ] && [ ! -L "$1" ]; then chmod -R u+rwX -- "$1" 2>/dev/null; fi
  rm -rf -- "$1"
}
"""
_RESULT_FOLDERS = """\
if [ -L /logs ] || [ ! -d /logs ]; then remove /logs; fi
chmod u+rwx /logs 2>/dev/null
remove /logs/verifier
"""
# pytest reads its configuration from the folders above its tests, and so from `/`.
_TESTS_FOLDER = """\
remove /tests
for name in conftest.py pytest.ini .pytest.ini pyproject.toml tox.ini setup.cfg setup.py; do
  if [ -e "/$name" ] || [ -L "/$name" ]; then remove "/$name"; fi
done
"""
_MAKE_FOLDERS = """\
mkdir -p /tests /logs/verifier || exit 1
for name in agent artifacts; do [ -d "/logs/$name" ] || mkdir -p "/logs/$name"; done
"""


class RootFilesError(Exception):
    """The root's files could not be read or changed."""


async def copy_files(sandbox: Sandbox, files: Sequence[RootFile]) -> None:
    """Copy files into the root; a later file replaces an earlier one of the same path."""
    await _run_script(sandbox, "", files)


async def copy_for_grading(sandbox: Sandbox, files: Sequence[RootFile], *, keeps_tests: bool = False) -> None:
    """Recreate the grader's folders, without anything that the agent left in them, and copy files.

    Args:
        keeps_tests: Whether `/tests` is the verifier's own already, and `/` too.
    """
    tests = "" if keeps_tests else _TESTS_FOLDER
    await _run_script(sandbox, _REMOVE + _RESULT_FOLDERS + tests + _MAKE_FOLDERS, files)


async def remove_grading(sandbox: Sandbox) -> None:
    """Remove the tests and the verifier's files before the agent continues with the next step."""
    await _run_script(
        sandbox, f"{_REMOVE}remove /tests\nremove /logs/verifier\nmkdir -p /logs/verifier\n", ()
    )


async def _run_script(sandbox: Sandbox, script: str, files: Sequence[RootFile]) -> None:
    packed: dict[str, bytes] = {}
    if files:
        script += _EXTRACT
        try:
            packed["files.tar"] = pack(list(files))
        except TaskFolderError as error:
            raise RootFilesError(str(error)) from error
    argv = ["/bin/sh", "-c", script, sandbox.fresh_dir]
    run = await sandbox.run_fresh(argv, files=packed, time_limit=COPY_SECONDS, writable=True)
    if run.exit_code != 0:
        raise RootFilesError(run.stderr.text.strip()[-500:] or f"status {run.exit_code}")
