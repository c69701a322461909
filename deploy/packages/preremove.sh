#!/bin/sh
# Copyright The phasecol Authors
# SPDX-License-Identifier: Apache-2.0

# An upgrade (deb: "upgrade", rpm: 1) leaves it running.
set -e
case "$1" in
  upgrade | 1) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
  systemctl disable --now phasecol.service
fi
