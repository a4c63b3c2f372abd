#!/usr/bin/env bash
# Installs what a bundled environment or an engine needs that plays another program: packages of the system, and those that its
# lock file pins, into an environment.
# Usage: install_world.sh FOLDER NAME
set -euo pipefail
folder=$1 name=$2
here=$(dirname "$0")

case $name in
  # Parts of it are under the GPL, so it has an environment of its own, whose Python ORS_ALFWORLD_PYTHON names.
  alfworld) packages=(build-essential) folder=${ORS_TEST_VENVS:-.venvs}/alfworld ;;
  scienceworld) packages=(openjdk-17-jre-headless) ;;
  gymnasium) packages=() ;;
  ray) packages=() ;;
  reasoning-gym) packages=() ;;
  tasks) packages=() ;;
  webshop) packages=() ;;
  *) packages=() ;;
esac

"$here/system_packages.sh" "${packages[@]}"
if [ ! -x "$folder/bin/python" ]; then "$here/make_venv.sh" "$folder" --without-pip; fi
"$here/install_locked.sh" "$folder" "$here/../requirements/worlds/$name.lock"
