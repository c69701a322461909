#!/bin/bash
# Copyright The phasecol Authors
# SPDX-License-Identifier: Apache-2.0
#
# Compares stracetiming with reader.py on a log of RECORDS (1,000,000) records: time and peak memory of the best of RUNS (3)
# runs each, for the table and both timelines. Needs python3 and GNU time at /usr/bin/time. Run it on an idle machine.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
records=${RECORDS:-1000000}
runs=${RUNS:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$here/.."
go build -o "$work/stracetiming" .
go build -o "$work/genlog" ./bench/genlog
"$work/genlog" -records "$records" >"$work/bench.log"
printf '%d records, %d MB\n\n' "$records" $(($(stat -c %s "$work/bench.log") / 1000000))

# best COMMAND...: seconds, CPU seconds and KiB of the fastest run.
best() {
  for ((i = 0; i < runs; i++)); do
    rm -f "$work/out.json" # giving back an old file's blocks is no part of either
    /usr/bin/time -v "$@" "$work/bench.log" 2>"$work/time" >/dev/null || { cat "$work/time" >&2; exit 1; }
    awk -F': ' '
      /Elapsed/ { n = split($NF, t, ":"); s = 0; for (i = 1; i <= n; i++) s = s * 60 + t[i] }
      /User time|System time/ { cpu += $NF }
      /Maximum resident/ { kb = $NF }
      END { print s, cpu, kb }' "$work/time"
  done | sort -n | head -1
}

printf '%-10s %12s %12s %12s %9s %12s %12s %9s\n' mode 'python s' 'Go s' 'Go spans/s' faster 'python KiB' 'Go KiB' smaller
for mode in table trace-out swimlane; do
  flags=()
  [[ $mode == table ]] || flags=("--$mode" "$work/out.json")
  py=$(best python3 "$here/reader.py" "${flags[@]}")
  go=$(best "$work/stracetiming" "${flags[@]}")
  awk -v m="$mode" -v n="$records" -v p="$py" -v g="$go" 'BEGIN {
    split(p, a, " "); split(g, b, " ")
    printf "%-10s %12.2f %12.2f %12d %8.1fx %12d %12d %8.1fx\n", m, a[1], b[1], n / b[1], a[1] / b[1], a[3], b[3], a[3] / b[3] }'
  awk -v p="$py" -v g="$go" 'BEGIN { split(p, a, " "); split(g, b, " "); printf "           CPU time: %.2f s, %.2f s: %.1fx\n", a[2], b[2], a[2] / b[2] }'
done
