#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What can be measured of the style: licence lines, file and function sizes,
# line lengths, include guards, words that say nothing.
set -u
status=0
fail() { echo "$*"; status=1; }
files=$(ls inject/*.[ch] collector/*.[ch] writer/*.[ch] tools/*.[ch] \
	test/*.h test/*/*.[ch] test/*/*/*.[ch] 2>/dev/null)

for file in $files; do
	head -n 1 "$file" | grep -q 'SPDX-License-Identifier: MIT' ||
		fail "$file: no licence line"
	lines=$(wc -l < "$file")
	case $file in
	test/*)	;;
	*.h)	[ "$lines" -le 260 ] || fail "$file: $lines lines" ;;
	*)	[ "$lines" -le 500 ] || fail "$file: $lines lines" ;;
	esac
	case $file in
	test/*)	;;
	*.h)	guard=GPUTRACE_$(echo "$file" | tr 'a-z/.' 'A-Z__')
		grep -q "^#ifndef $guard\$" "$file" ||
			fail "$file: the guard is not $guard" ;;
	esac
done

# 80 columns, tabs of 8; long names of CUPTI and texts may stand out.
for file in $(echo "$files" | grep -v '^test/'); do
	expand "$file" | awk -v file="$file" '
		length > 80 && !/CUPTI_|"/ { print file ":" NR ": " length " columns"; bad = 1 }
		END { exit bad }' || status=1
done

# Functions of at most 60 lines (the product's own code).
awk '
	FNR == 1 { start = 0 }
	/^[a-zA-Z_].*\)$/ || /^[a-zA-Z_].*,$/ { name = $0 }
	/^{/ { start = FNR }
	/^}/ { if (start && FNR - start > 61) {
		print FILENAME ":" start ": " FNR - start - 1 " lines: " name
		bad = 1 } start = 0 }
	END { exit bad }' $(echo "$files" | grep -E '\.c$' |
		grep -v '^test/') || status=1

words=$(grep -nwE '(TODO|FIXME|XXX|HACK)' $files | head)
[ -z "$words" ] || fail "unfinished: $words"
exit $status
