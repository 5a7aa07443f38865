#!/bin/sh
# SPDX-License-Identifier: MIT
#
# symbols.sh BUILD: what loads into the host needs only the C library's parts,
# only symbol versions that glibc 2.28 has, exports only inject/exports.map,
# cannot end or talk over the program, and keeps its thread-local storage to a
# pointer.  The command is static.
set -u
build=$1
library=$build/libgputrace.so
readelf=${READELF:-readelf}
nm=${NM:-nm}
status=0
fail() { echo "$*"; status=1; }

needed=$($readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
	grep -vxE 'libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|librt\.so\.1|ld-linux-aarch64\.so\.1')
[ -z "$needed" ] || fail "needs: $needed"

# Before glibc 2.34 threads and dlopen() are not in libc.so, and a program that
# is not linked to them would not even start.
for name in libpthread.so.0 libdl.so.2; do
	$readelf -d "$library" | grep -qF "[$name]" || fail "needs no $name"
done

# 2.28: Debian 10, RHEL 8.
versions=$($nm -D --undefined-only "$library" | grep -o 'GLIBC_2\.[0-9.]*' |
	sort -u | awk -F'[_.]' '$3 > 28')
[ -z "$versions" ] || fail "needs newer symbols: $versions
$($nm -D --undefined-only "$library" | grep -F "$(echo "$versions" | head -1)")"

exported=$($nm -D --defined-only "$library" | awk '$2 != "A" {print $3}')
wanted=$(sed -n 's/^\t\t\([A-Za-z0-9_]*\);/\1/p' inject/exports.map | sort)
[ "$(echo "$exported" | grep -v @ | sort)" = "$wanted" ] ||
	fail "exports differ from inject/exports.map: $exported"

# The C library's calls (collector/osrt_calls.h): each under the versions that
# the C library here has, none as the default of its name, and no call of our
# own comes back to them.
calls=$(sed -n 's/^\tX(\([a-z0-9_]*\), [0-9],.*/\1/p' collector/osrt_calls.h |
	sort)
[ "$(echo "$exported" | grep @ | sed 's/@.*//' | sort -u)" = "$calls" ] ||
	fail "versioned exports differ from collector/osrt_calls.h: $exported"
[ -z "$(echo "$exported" | grep @@)" ] ||
	fail "default versions: $(echo "$exported" | grep @@)"
imported=$($nm -D --undefined-only "$library" | awk '{print $2}' |
	sed 's/@.*//' | sort -u)
own=$(echo "$imported" | grep -xF "$calls")
[ -z "$own" ] || fail "calls itself for: $own"
libc=$(${CC:-cc} -print-file-name=libc.so.6)
machine() { $readelf -h "$1" 2> /dev/null | grep Machine; }
if [ "$(machine "$libc")" = "$(machine "$library")" ]; then
	theirs=$($nm -D --defined-only "$libc" | awk '{print $3}' |
		sed 's/@@/@/' | sort -u)
	strange=$(echo "$exported" | grep @ | grep -vxF "$theirs")
	[ -z "$strange" ] || fail "versions that $libc has not: $strange"
	left=$(echo "$theirs" | grep -E "^($(echo $calls | tr ' ' '|'))@" |
		grep -vxF "$exported" |
		grep -vxE 'pthread_cond_(timed)?wait@GLIBC_2\.2\.5')
	[ -z "$left" ] ||
		fail "versions of the C library that go past us: $left"
fi

# musl takes LD_PRELOAD too, and ends a program for a symbol that it misses.
glibcs=$($nm -D --undefined-only "$library" | grep ' U ' | grep -oE \
	'(__cxa_at_quick_exit|__register_atfork|dlvsym|gnu_get_libc_version|__libc_[a-z_]*|__isoc[a-z0-9_]*|[a-z_]*_chk|[a-z]*64)@' |
	grep -vE '^__libc_current_sigrtm(in|ax)@')   # it has these
[ -z "$glibcs" ] || fail "musl has no: $glibcs"

# A guest does not end its host, nor speak on its stdout.
banned=$($nm -D --undefined-only "$library" | awk '{print $2}' |
	sed 's/@.*//' | grep -xE \
	'abort|exit|_exit|_Exit|quick_exit|__assert_fail|system|popen|signal|stdout|printf|puts|putchar|vprintf|perror|__printf_chk|fork|vfork')
[ -z "$banned" ] || fail "uses: $banned"

# The environment is changed by arm() alone, without setenv (inject/arm.h).
where=$(grep -nE '(setenv|putenv|clearenv)\(' inject/*.c collector/*.c writer/*.c)
[ -z "$where" ] || fail "the environment is changed in: $where"

tls=$($readelf -lW "$library" | awk '$1 == "TLS" {print $6}')
[ -z "$tls" ] || [ $((tls)) -le 8 ] || fail "thread-local storage: $tls bytes"

! $readelf -d "$library" | grep -q TEXTREL || fail "has text relocations"
! $readelf -d "$build/gputrace" | grep -q NEEDED || fail "gputrace is not static"
exit $status
