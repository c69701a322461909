#!/usr/bin/env bash
# Copyright The phasecol Authors
# SPDX-License-Identifier: Apache-2.0

# Puts a Prometheus and its promtool where the tests of this folder find them,
# and prints that place. Nothing is started and nothing outside it is changed.
set -euo pipefail

dir=${PHASECOL_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/phasecol}/prometheus
if [[ -x $dir/prometheus && -x $dir/promtool ]]; then
  echo "$dir"
  exit
fi
mkdir -p "$dir"

if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
  ln -sf "$(command -v prometheus)" "$(command -v promtool)" "$dir/"
  echo "$dir"
  exit
fi

command -v apt-get >/dev/null || { echo 'setup.sh: install Prometheus and promtool (2.42 or newer), then run this again' >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# Unpacked, not installed: the package would start a server of its own.
if ! apt-get -qq download prometheus 2>/dev/null; then
  sudo=()
  ((EUID == 0)) || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq >&2
  apt-get -qq download prometheus 2>/dev/null
fi
dpkg-deb -x prometheus_*.deb root
mv root/usr/bin/prometheus root/usr/bin/promtool "$dir/"
echo "$dir"
