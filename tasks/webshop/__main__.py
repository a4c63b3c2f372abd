"""Builds the index of a catalogue before a server needs it.

The command: python -m ors_server_tasks.webshop build FOLDER
"""

import sys
from pathlib import Path

from ors_server_tasks.webshop.catalogue import cache_folder, name_catalogue
from ors_server_tasks.webshop.catalogue_build import build_catalogue
from ors_server_tasks.webshop.data_folder import find_files
from ors_server_tasks.webshop.json_reading import CatalogueError

_USAGE = "expected: python -m ors_server_tasks.webshop build FOLDER"


def main(arguments: list[str]) -> str | None:
    """Run the command; return what to print if it fails."""
    if len(arguments) != 2 or arguments[0] != "build":  # noqa: PLR2004  (command and folder)
        return _USAGE
    folder = arguments[1]
    try:
        target = cache_folder() / name_catalogue(folder)
        if not target.is_dir():
            build_catalogue(find_files(Path(folder)), target)
    except CatalogueError as error:
        return str(error)
    print(target)  # noqa: T201  (the command's output)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
