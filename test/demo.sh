#!/bin/sh
# SPDX-License-Identifier: MIT
#
# demo.sh BUILD (make demo): traces a program that behaves like an LLM server,
# on the real GPU where there is one, else on the simulated one; checks the
# trace, shows where it is, how to open it, and what its kernels cost.
set -eu
build=$1
trace=$build/demo.json

if nvidia-smi -L >/dev/null 2>&1; then
	echo "Tracing host/decode on $(nvidia-smi -L | sed -n '1s/ (UUID.*//p')"
else
	echo "No GPU here: tracing host/decode on the simulated GPU"
	sim=$(cd "$build/sim" && pwd)
	export LD_LIBRARY_PATH="$sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
rm -f "$trace"
"$build/gputrace" record --out "$trace" -- \
	"$build/host/decode" --steps 40 --kernels 60 --kernel-us 20 \
	--launch-us 15 --sync-ms 1
"$build/gputrace" check "$trace"
echo
"$build/gputrace" report --table summary,kernels --top 8 "$trace"
cat <<EOF

The trace: $trace
To look at it: $build/gputrace open $trace
EOF
[ -z "${sim:-}" ] ||
	echo "More on the simulated GPU: export LD_LIBRARY_PATH=$sim"
