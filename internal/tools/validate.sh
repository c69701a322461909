#!/usr/bin/env bash
# Copyright The phasecol Authors
# SPDX-License-Identifier: Apache-2.0

# Usage: validate.sh COLLECTOR CONFIG...
#
# Checks each configuration the way its own header says to start it: every
# comment line `[NAME=value ...] bin/phasecol --config ... [--config ...]`. It is
# checked alone as well, unless its first line calls it a fragment; a fragment
# must have the line.
set -euo pipefail

collector=$1
shift
failed=0

# check LABEL WORD...: WORDs are assignments, then the arguments.
check() {
  local label=$1 assignments=()
  shift
  while [[ ${1:-} == [A-Z]*=* ]]; do
    assignments+=("$1")
    shift
  done
  if env "${assignments[@]}" "$collector" validate "$@"; then
    echo "validate: $label: ok"
  else
    echo "validate: $label: refused" >&2
    failed=1
  fi
}

for config in "$@"; do
  mapfile -t commands < <(sed -nE 's|^#[[:space:]]+(([A-Z][A-Z0-9_]*=[^ ]* )*)bin/phasecol (--config.*)$|\1\3|p' "$config")
  for command in "${commands[@]}"; do
    read -ra words <<<"$command"
    check "$config ($command)" "${words[@]}"
  done
  if ! head -n 1 "$config" | grep -qi '^# *fragment'; then
    check "$config" --config "$config"
  elif ((${#commands[@]} == 0)); then
    echo "validate: $config: a fragment whose header has no line 'bin/phasecol --config ...'" >&2
    failed=1
  fi
done
exit "$failed"
