#!/usr/bin/env bash
# Makes a virtual environment from a lock file: a real client's, the site's, the audit's.
# Usage: [PYTHON=python3] make_locked.sh LOCK FOLDER
set -euo pipefail
lock=$1 folder=$2
here=$(dirname "$0")

if [ ! -x "$folder/bin/python" ]; then "$here/make_venv.sh" "$folder" --without-pip; fi
"$here/install_locked.sh" "$folder" "$lock"
