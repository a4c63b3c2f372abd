#!/usr/bin/env bash
# Every test but the stress ones under coverage, servers in processes of their own included.
# The coverage report comes first and pytest's closing line last; the status is the worse of the two.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin

rm -f .coverage .coverage.*
"$bin/pytest" --cov --cov-report=term "$@"
