#!/usr/bin/env bash
# Makes a virtual environment with the first Python from 3.11 on that stands here.
# Usage: [PYTHON=python3] make_venv.sh FOLDER [VENV ARGUMENT...]
set -euo pipefail
folder=$1
shift

fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2])' >/dev/null 2>&1; }

for python in "${PYTHON:-python3}" python3.13 python3.12 python3.11 python3.14 python3 none; do
  if fits "$python"; then break; fi
done
if [ "$python" = none ]; then
  echo "Python 3.11 or newer is needed; set PYTHON to one (make PYTHON=/path/to/python ...)." >&2
  exit 1
fi

# Debian keeps ensurepip in a package of its own.
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
  "$(dirname "$0")/system_packages.sh" python3-venv
fi
"$python" -m venv "$@" "$folder"
