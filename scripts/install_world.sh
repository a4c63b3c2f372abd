#!/usr/bin/env bash
# Installs what a bundled environment needs that plays another program: packages of the system, and those that its
# lock file pins, into an environment.
# Usage: install_world.sh FOLDER NAME
set -euo pipefail
folder=$1 name=$2
here=$(dirname "$0")

case $name in
  scienceworld) packages=(openjdk-17-jre-headless) ;;
  webshop) packages=() ;;
  *) packages=() ;;
esac

"$here/system_packages.sh" "${packages[@]}"
"$here/install_locked.sh" "$folder" "$here/../requirements/worlds/$name.lock"
