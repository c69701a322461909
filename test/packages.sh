#!/usr/bin/env bash
# Copyright The phasecol Authors
# SPDX-License-Identifier: Apache-2.0

# Installs what the end-to-end tests need of the system: name spaces, a container
# runtime, a browser, Python. Does nothing when all is there.
set -euo pipefail

missing=()
command -v python3 >/dev/null || missing+=(python3 python3-venv)
command -v ip >/dev/null || missing+=(iproute2)
command -v podman >/dev/null || missing+=(podman runc netavark)
command -v chromium >/dev/null || missing+=(chromium)
((${#missing[@]} > 0)) || exit 0

command -v apt-get >/dev/null || { echo "packages.sh: install these first: ${missing[*]}" >&2; exit 1; }
echo "installing ${missing[*]}" >&2
sudo=()
((EUID == 0)) || sudo=(sudo)
"${sudo[@]}" apt-get update -qq >&2
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
