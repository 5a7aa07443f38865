#!/bin/sh
# SPDX-License-Identifier: MIT
#
# All benchmarks (make bench): one JSON object a line on stdout.
set -u
O=${O:-build}
status=0
for bench in "$O"/bench/*; do
	[ -x "$bench" ] && [ -f "$bench" ] || continue
	timeout 600 env O="$O" "$bench" || { echo "$bench failed" >&2; status=1; }
done
SHIM=$O/shim/python.so ${PYTHON:-python3} test/python/cost.py || {
	echo "python/cost.py failed" >&2; status=1; }
exit $status
