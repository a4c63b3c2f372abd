"""Writes a folder of invented games that ALFWORLD_DATA can name, in the Python that has alfworld.

The command: python -m ors_server_tasks.alfworld FOLDER [--seed kitchens-1] [--games 24 12 12]
"""

import subprocess
import sys

from ors_server import child_variables
from ors_server_tasks.alfworld import kitchens
from ors_server_tasks.alfworld.catalogue import DATA_VARIABLE
from ors_server_tasks.alfworld.installation import NotInstalledError, find_interpreter


def main(arguments: list[str]) -> int | str:
    """Run the command; return its status, or what to print if it cannot run."""
    try:
        python = find_interpreter() or sys.executable
    except NotInstalledError as error:
        return str(error)
    variables = child_variables(
        [DATA_VARIABLE], {"PYTHONHASHSEED": "0"}
    )  # by which sets of facts are ordered
    return subprocess.run([python, kitchens.__file__, *arguments], env=variables, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
