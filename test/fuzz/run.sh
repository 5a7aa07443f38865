#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run.sh SECONDS: each fuzzer of the build in $O (make fuzz) for so long, from
# the kept corpus on.  One JSON line a fuzzer; what it learned and what it broke
# on stay in $O/corpus and $O/crash.  Status 1 after a crash.
set -u
seconds=$1
status=0
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

stat() { # NAME LOG: a number of libFuzzer's last lines
	sed -n "s/^stat::$1: *//p" "$2" | tail -n 1
}

for program in "$O"/fuzz/*; do
	name=${program##*/}
	log=$O/log/$name.log
	kept=test/fuzz/corpus/$name
	mkdir -p "$O/log" "$O/crash" "$O/corpus/$name"
	[ -d "$kept" ] || kept=
	# Beyond the time of each input (-timeout) it hangs.
	timeout $((seconds + 120)) "$program" -max_total_time="$seconds" \
		-print_final_stats=1 -timeout=30 -rss_limit_mb=3072 \
		-artifact_prefix="$O/crash/$name-" \
		"$O/corpus/$name" $kept > "$log" 2>&1
	result=$?
	crashes=0
	if [ $result != 0 ]; then
		crashes=1 status=1
		grep -vE '^(#|stat::)' "$log" | tail -n 40 >&2
	fi
	executions=$(stat number_of_executed_units "$log")
	printf '{"name": "%s", "executions": %s, "seconds": %s, "crashes": %s}\n' \
		"$name" "${executions:-0}" "$seconds" "$crashes"
done
exit $status
