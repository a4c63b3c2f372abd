#!/usr/bin/env bash
# Makes the environment of one real client from its lock file.
# Usage: [PYTHON=python3] make_client.sh NAME FOLDER
set -euo pipefail
name=$1 folder=$2
here=$(dirname "$0")
requirements=$here/../requirements/clients

if [ ! -x "$folder/bin/python" ]; then "$here/make_venv.sh" "$folder" --without-pip; fi
"$here/install_locked.sh" "$folder" "$requirements/$name.lock"
