#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Runs all tests on the build in $O (make check) and ends with the line
# "N passed, N failed".  A unit test's exit status 77 means: skipped.
set -u
O=${O:-build}
passed=0 failed=0 skipped=0

result() { # NAME STATUS LOG
	case $2 in
	0)	passed=$((passed + 1)) ;;
	77)	skipped=$((skipped + 1)); echo "SKIP $1" ;;
	*)	failed=$((failed + 1)); echo "FAIL $1 (status $2)"
		[ -z "${3:-}" ] || tail -n 30 "$3" ;;
	esac
}

# pytest first: nothing is run where it cannot be had.
python=${PYTHON:-python3}
if ! $python -c 'import pytest' 2>/dev/null; then
	[ -d "$O/py/pytest" ] || sh tools/setup.sh "$O" pytest || exit 1
	py=$(cd "$O/py" && pwd)
	export PYTHONPATH="$py${PYTHONPATH:+:$PYTHONPATH}"
fi

mkdir -p "$O/log"
run() { # NAME COMMAND...
	name=$1; shift
	log=$O/log/$(echo "$name" | tr / _).log
	timeout 300 "$@" > "$log" 2>&1
	result "$name" $? "$log"
}

# What a sanitizer finds goes to files, whoever reads the program's stderr and
# whatever its status: each one is a failure.  The sanitizer comes with the
# preloaded library, later than it likes.
if [ -n "${SAN:-}" ]; then
	found=$(cd "$O/log" && pwd)/found
	rm -f "$found".*
	export ASAN_OPTIONS="log_path=$found:verify_asan_link_order=0:detect_leaks=0"
	# gcc's knows no log_path: a signal, which no test takes for an answer.
	export UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1:print_stacktrace=1
	export TSAN_OPTIONS="log_path=$found:suppressions=$PWD/test/tsan.supp"
fi

# Two at a time: some wait for the judge.
export O
rm -f "$O"/log/unit_*
printf '%s\n' "$O"/unit/*_test | LD_LIBRARY_PATH=$O/sim xargs -n 1 -P 2 sh -c '
	[ -x "$1" ] || exit 0
	log=$O/log/unit_${1##*/}
	timeout 300 "$1" > "$log.log" 2>&1
	echo $? > "$log.status"' sh
for test in "$O"/unit/*_test; do
	[ -x "$test" ] || continue
	log=$O/log/unit_${test##*/}
	result "unit/${test##*/}" "$(cat "$log.status")" "$log.log"
done
for test in "$O"/fuzz/*; do
	[ -x "$test" ] || continue
	run "fuzz/${test##*/}" "$test" test/fuzz/corpus/"${test##*/}"
done
run layers sh test/layers.sh
run style sh test/style.sh
[ -n "${SAN:-}" ] || run symbols sh test/symbols.sh "$O"

# Two at a time: much of it is waiting.
two=
$python -c 'import xdist' 2>/dev/null && two="-n 2 --dist worksteal"
O=$O $python -m pytest -q -p no:cacheprovider --junitxml="$O/log/pytest.xml" \
	$two --ignore=test/extra test ${PYTEST_ARGS:-}
status=$?
counts=$($python test/counts.py "$O/log/pytest.xml") || counts="0 1 0"
set -- $counts
passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
# pytest failed without a failing test: it could not even collect them.
[ "$status" -le 1 ] || [ "$2" -gt 0 ] || failed=$((failed + 1))

for file in ${SAN:+"$found".*}; do
	[ -s "$file" ] || continue
	result "sanitizer (${file##*/})" 1
	head -n 40 "$file"
done

[ "$skipped" = 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
