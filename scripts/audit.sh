#!/usr/bin/env bash
# Looks up what each lock file pins in the public list of vulnerabilities; the status is 1 where one is known,
# or where a package cannot be looked up.
# Usage: audit.sh PIP_AUDIT [LOCK...]
set -uo pipefail
cd "$(dirname "$0")/.."
tool=$1
shift
[ $# -gt 0 ] || set -- requirements/*.lock requirements/clients/*.lock requirements/worlds/*.lock

status=0
for lock in "$@"; do
  echo "audit: $lock"
  "$tool" --strict --require-hashes --disable-pip --progress-spinner off -r "$lock" || status=1
done
exit $status
