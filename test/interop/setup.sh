#!/usr/bin/env bash
# Copyright The phasecol Authors
# SPDX-License-Identifier: Apache-2.0

# Makes the Python environment of the interoperability test, once.
# Prints the path of its interpreter.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=${XDG_CACHE_HOME:-$HOME/.cache}/phasecol/interop-$(sha256sum "$here/requirements.txt" | cut -c1-12)
if [[ ! -x $venv/bin/python || ! -f $venv/ready ]]; then
  if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    sudo=()
    ((EUID == 0)) || sudo=(sudo)
    "${sudo[@]}" apt-get update -qq >&2
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3 python3-venv >&2
  fi
  rm -rf "$venv"
  python3 -m venv "$venv" >&2
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" >&2
  touch "$venv/ready"
fi
echo "$venv/bin/python"
