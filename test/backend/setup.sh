#!/usr/bin/env bash
# Copyright The phasecol Authors
# SPDX-License-Identifier: Apache-2.0

# Puts the real peers of the interoperability tests into the cache: Jaeger,
# built from its module (minutes the first time), and Apache Kafka's jars. Needs
# Go, a JDK and Maven; installs the latter two with apt-get where they are absent.
# Prints nothing when all is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

cache=${PHASECOL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/phasecol}
mkdir -p "$cache"

version=$(sed -nE 's/.*github\.com\/jaegertracing\/jaeger (v[0-9.]+).*/\1/p' jaeger/go.mod)
jaeger=$cache/jaeger-$version
if [[ ! -x $jaeger ]]; then
  echo "setup: building Jaeger $version" >&2
  (cd jaeger && GOWORK=off CGO_ENABLED=0 nice -n 15 go build -buildvcs=false -ldflags '-s -w' -o "$jaeger.tmp$$" github.com/jaegertracing/jaeger/cmd/jaeger)
  mv "$jaeger.tmp$$" "$jaeger"
fi

version=$(sed -nE '/<artifactId>kafka_/{n;s/.*<version>(.*)<\/version>.*/\1/p}' kafka/pom.xml)
kafka=$cache/kafka-$version
if [[ ! -d $kafka ]]; then
  missing=()
  command -v java >/dev/null || missing+=(default-jre-headless)
  command -v mvn >/dev/null || missing+=(maven)
  if ((${#missing[@]} > 0)); then
    sudo=()
    ((EUID == 0)) || sudo=(sudo)
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  fi
  echo "setup: fetching Kafka $version" >&2
  mvn -q -B -f kafka/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$kafka.tmp$$" >&2
  mv "$kafka.tmp$$" "$kafka"
fi
