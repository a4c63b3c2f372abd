"""Runs a Python program of the agent's in a fresh sandbox; needs only the standard library.

Its file is executed as `__main__`. It may import the standard library, what is installed in the sandbox, and,
after these, the modules of the work dir.
"""

import os
import sys
from types import CodeType


def main() -> None:
    """Execute the file that the first argument names; the others are the program's."""
    del sys.argv[0]
    sys.pycache_prefix = "/tmp/ors-pycache"  # noqa: S108 # so that no compiled file of the agent's counts
    sys.path.append(os.getcwd())  # noqa: PTH109 # a start-up path without imports
    if not os.path.isfile(sys.argv[0]):  # noqa: PTH113 # opening a pipe would wait forever
        sys.exit(f"cannot open {sys.argv[0]}: not a file")
    try:
        with open(sys.argv[0], "rb") as file:  # noqa: PTH123 # a start-up path without imports
            code = compile(file.read(), sys.argv[0], "exec", dont_inherit=True)
    except OSError as error:
        sys.exit(f"cannot open {sys.argv[0]}: {error.strerror}")
    _execute(code)


def _execute(code: CodeType) -> None:
    namespace = vars(sys.modules["__main__"])
    namespace["__file__"] = sys.argv[0]
    for name in [name for name in namespace if not name.startswith("__")]:
        del namespace[name]
    exec(code, namespace)  # noqa: S102 # that is its purpose


if __name__ == "__main__":
    main()
