#!/usr/bin/env bash
# Copyright The phasecol Authors
# SPDX-License-Identifier: Apache-2.0

# Reads what `go build -v` prints and shows a count instead of two thousand
# package paths, so that a first build of some minutes is seen to move.
# Everything that is not a package path (errors, above all) is passed on.
set -euo pipefail

path='^[A-Za-z0-9._~/-]+$'
n=0
while IFS= read -r line; do
  if [[ ! $line =~ $path ]]; then
    printf '%s\n' "$line"
    continue
  fi
  n=$((n + 1))
  if [[ -t 2 ]]; then
    printf '\r  compiled %d packages' "$n"
  elif ((n % 250 == 0)); then
    printf '  compiled %d packages\n' "$n"
  fi
done >&2
if [[ -t 2 ]] && ((n > 0)); then
  printf '\n' >&2
fi
