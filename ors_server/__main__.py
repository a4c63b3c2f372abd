"""`python -m ors_server` is the command `ors-server`."""

import sys

from ors_server.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
