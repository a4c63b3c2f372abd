#!/usr/bin/env bash
# Runs a command beside a Docker engine of its own, and leaves nothing of the engine behind.
#
# The engine has its own socket, folders and pid file, no bridge and no registry; its only image is made from
# Debian packages (debootstrap) and kept as an archive in CACHE, which the next run imports again. The command
# finds the engine in DOCKER_HOST and the image's name in ORS_TEST_DOCKER_IMAGE. Where the latter is set already,
# the command gets the engine that goes with it; without root, which an engine needs, it gets none.
# Usage: docker_engine.sh CACHE COMMAND [ARGUMENT...]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

suite=bookworm
packages=bubblewrap,git,procps,python3
tag=ors-test:$suite
start_limit=60 # seconds until the engine answers
stop_limit=30  # seconds until it is gone

if [ $# -lt 2 ]; then
  echo "usage: $0 CACHE COMMAND [ARGUMENT...]" >&2
  exit 2
fi
if [ -n "${ORS_TEST_DOCKER_IMAGE:-}" ]; then
  shift
  exec "$@"
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "Only root can start a Docker engine; what needs one will fail." >&2
  shift
  exec "$@"
fi
mkdir -p "$1"
cache=$(cd "$1" && pwd)
shift
archive=$cache/$suite-${packages//,/-}.tar
"$here/system_packages.sh" docker.io debootstrap curl

work=$(mktemp -d /var/tmp/ors-docker.XXXXXX)
socket=$work/docker.sock
engine=

engine_pids() { # Everything that names this engine's folder on its command line: containerd and its shims.
  local file
  for file in /proc/[0-9]*/cmdline; do
    if { tr '\0' ' ' <"$file" | grep -q "containerd.*$work/"; } 2>/dev/null; then
      file=${file#/proc/}
      echo "${file%/cmdline}"
    fi
  done
}

is_gone() { # A dead child stays a zombie until it is waited for.
  [ ! -e "/proc/$1" ] || grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null
}

stop() {
  local status=$? pid mount
  set +e
  trap '' INT TERM
  if [ -n "$engine" ]; then
    kill "$engine" 2>/dev/null
    for ((tick = 0; tick < stop_limit * 10; tick++)); do
      if is_gone "$engine"; then break; fi
      sleep 0.1
    done
    kill -9 "$engine" 2>/dev/null
    wait "$engine" 2>/dev/null
  fi
  for pid in $(engine_pids); do kill -9 "$pid" 2>/dev/null; done
  # The deepest first.
  cut -d ' ' -f 5 /proc/self/mountinfo | grep "^$work/" | sort -r | while read -r mount; do
    umount -l "$mount"
  done
  if [ "$status" -ne 0 ] && [ -s "$work/log" ]; then
    cp "$work/log" "$cache/engine.log"
    echo "The engine's log: $cache/engine.log" >&2
  fi
  rm -rf --one-file-system "$work"
  exit "$status"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ ! -s "$archive" ]; then
  rm -f "$cache"/*.tar
  debootstrap --variant=minbase --include="$packages" "$suite" "$work/system" http://deb.debian.org/debian \
    >"$cache/debootstrap.log" 2>&1 || { tail -n 5 "$cache/debootstrap.log" >&2; exit 1; }
  tar --create --file="$archive.part" --directory="$work/system" --one-file-system \
    --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' --exclude='./usr/share/doc/*' \
    --exclude='./usr/share/locale/*' --exclude='./usr/share/man/*' .
  mv "$archive.part" "$archive"
  rm -rf --one-file-system "$work/system"
fi

echo '{}' >"$work/daemon.json" # and not the host's
dockerd --data-root "$work/data" --exec-root "$work/run" --pidfile "$work/pid" --host "unix://$socket" \
  --config-file "$work/daemon.json" --bridge none --iptables=false --ip6tables=false --ip-masq=false \
  >"$work/log" 2>&1 &
engine=$!

ask() { curl --silent --show-error --fail --max-time 120 --unix-socket "$socket" "$@"; }

for ((tick = 0; tick < start_limit * 10; tick++)); do
  if ask http://engine/_ping >/dev/null 2>&1; then break; fi
  if is_gone "$engine"; then
    tail -n 5 "$work/log" >&2
    echo "The Docker engine did not start." >&2
    exit 1
  fi
  sleep 0.1
done
ask -X POST -H 'Content-Type: application/x-tar' -T "$archive" \
  "http://engine/images/create?fromSrc=-&repo=${tag%:*}&tag=${tag#*:}" >/dev/null

export DOCKER_HOST=unix://$socket ORS_TEST_DOCKER_IMAGE=$tag
"$@"
