#!/usr/bin/env bash
# Every test but the stress ones.
# With --lint the static checks run beside the tests, in what time these leave; what they found is printed last.
# With --coverage the lines that ran are counted too, in servers in processes of their own as well, and the floor
# on coverage holds; that takes twice as long. The status is 0 only if everything held.
# Three processes share the tests out, file by file: many of them wait for something, and each has to collect all.
# TEST_PROCESSES says otherwise.
# Usage: test.sh [--lint] [--coverage] [PYTEST ARGUMENT...]
set -uo pipefail
cd "$(dirname "$0")/.."
# Many images set it; then every process of the tests, and every server that these start, compiles the package anew.
unset PYTHONDONTWRITEBYTECODE

lint=
lint_status=0
if [ "${1:-}" = --lint ]; then
  shift
  lint_output=$(mktemp)
  trap 'rm -f "$lint_output"' EXIT
  nice scripts/lint.sh >"$lint_output" 2>&1 &
  lint=$!
fi

counting=()
if [ "${1:-}" = --coverage ]; then
  shift
  counting=(--cov --cov-report=term)
  rm -f .coverage .coverage.*
fi
test_status=0
.venv/bin/pytest "${counting[@]}" --numprocesses "${TEST_PROCESSES:-3}" --dist loadscope --no-loadscope-reorder "$@" </dev/null || test_status=$?

if [ -n "$lint" ]; then
  wait "$lint" || lint_status=$?
  cat "$lint_output"
fi
if [ "$lint_status" -ne 0 ]; then echo "The static checks failed; see above, or run: make lint" >&2; fi
exit $((test_status != 0 ? test_status : lint_status))
