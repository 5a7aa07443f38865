#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Includes go one way (README, "The source"): each folder may include from
# the folders that its line names, and nothing else of ours.
set -u
status=0

# FOLDER ALLOWED(egrep)
while read -r folder allowed; do
	bad=$(grep -nE '^#include "' "$folder"/*.c "$folder"/*.h |
		grep -vE "#include \"($allowed)\"")
	[ -z "$bad" ] || { echo "$folder may not include:"; echo "$bad"
		status=1; }
done <<'EOF'
collector collector/[a-z0-9_]+\.h
writer writer/[a-z0-9_]+\.h|collector/(record|ring|thread|clock|log|loss|activity|activity_buffer|window|nvtx|nvtx_schema|nvtx_text|own_thread|pause|wait|watch|modules|stack_sampler)\.h
inject (inject|collector|writer)/[a-z0-9_]+\.h
tools tools/[a-z0-9_]+\.h|inject/(settings|protocol)\.h|collector/cupti_places\.h|writer/(at|kept_tail)\.h
EOF

build=${O:-build}
top=$(ls -A | grep -vxE 'inject|collector|writer|tools|test|Makefile|README\.md|COPYING|build.*|\..*' |
	grep -vxF "${build%%/*}")
[ -z "$top" ] || { echo "not in the layout: $top"; status=1; }
exit $status
