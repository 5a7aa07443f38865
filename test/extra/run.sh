#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Compares the build in $O with other tools (make check-extra) and ends with the
# line "N passed, N failed".  What is absent fails: these tools were fetched.
set -u
O=${O:-build}

[ -x "$O/extra/bin/python" ] && command -v chromium >/dev/null ||
	sh tools/setup.sh "$O" extra || exit 1
mkdir -p "$O/log"
python=$O/extra/bin/python

# The packages of the environment alone; what pandas says of HTA is not ours.
env -u PYTHONPATH O="$O" GPUTRACE_EXTRA=1 "$python" -m pytest -q \
	--disable-warnings -p no:cacheprovider \
	--junitxml="$O/log/extra.xml" test/extra
status=$?
counts=$("$python" test/counts.py "$O/log/extra.xml") || counts="0 1 0"
set -- $counts
failed=$2
[ "$status" -le 1 ] || [ "$failed" -gt 0 ] || failed=1
[ "$3" = 0 ] || echo "$3 skipped"
echo "$1 passed, $failed failed"
[ "$failed" = 0 ]
