#!/usr/bin/env bash
# Every test but the stress ones under coverage, servers in processes of their own included.
# With --lint the static checks come first; they never keep the tests from running.
# The coverage report stands before pytest's closing line; the status is 0 only if everything held.
# Three processes share the tests out, file by file: many of them wait for something. TEST_PROCESSES says otherwise.
# Usage: test.sh [--lint] [PYTEST ARGUMENT...]
set -uo pipefail
cd "$(dirname "$0")/.."

lint_status=0
if [ "${1:-}" = --lint ]; then
  shift
  scripts/lint.sh || lint_status=$?
fi

rm -f .coverage .coverage.*
test_status=0
.venv/bin/pytest --cov --cov-report=term --numprocesses "${TEST_PROCESSES:-3}" --dist loadscope --no-loadscope-reorder "$@" </dev/null || test_status=$?

if [ "$lint_status" -ne 0 ]; then echo "The static checks failed; see above, or run: make lint" >&2; fi
exit $((test_status != 0 ? test_status : lint_status))
