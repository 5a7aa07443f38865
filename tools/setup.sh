#!/bin/sh
# SPDX-License-Identifier: MIT
#
# setup.sh DIR [pytest]: finds what the build needs, installs or fetches what is
# missing, and writes DIR/setup.mk for the Makefile.
#
# Debian packages are installed when this runs as root; otherwise one line to
# paste is printed.  Without a CUDA toolkit that has CUPTI, the headers come
# from NVIDIA's wheels on PyPI, pinned to CUDA 13.0, into DIR/cuda.
set -eu

dir=$1
arch=${ARCH:-}
mkdir -p "$dir"

say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 1; }

# need_pip: pip, for wheels.
need_pip() {
	python3 -m pip --version >/dev/null 2>&1 && return
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
		die "pip is missing; paste: sudo apt-get install -y python3-pip"
	apt-get update -qq >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
		--no-install-recommends python3-pip >&2
}
pip() { python3 -m pip --disable-pip-version-check -q "$@" >&2; }

# setup.sh DIR pytest: only the test runner, into DIR/py.
if [ "${2:-}" = pytest ]; then
	need_pip
	say "fetching pytest from PyPI into $dir/py"
	pip install --target "$dir/py" pytest==8.4.2
	exit 0
fi

# ---- Debian packages ----

case $arch in
'')	triplet=$(${CC:-gcc} -dumpmachine 2>/dev/null || echo none)
	packages="gcc:gcc g++:g++ make:make python3:python3"
	deb_arch= ;;
aarch64)
	triplet=aarch64-linux-gnu
	packages="aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu
		aarch64-linux-gnu-g++:g++-aarch64-linux-gnu"
	deb_arch=arm64 ;;
*)	die "ARCH=$arch: only aarch64 can be cross-built" ;;
esac

missing=
for pair in $packages; do
	command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
done

# have_static NAME HEADER: can a program be linked to NAME.a?
cc=${triplet:+}${CC:-gcc}
[ -z "$arch" ] || cc=$triplet-gcc
have_static() {
	printf '#include <%s>\nint main(void) { return 0; }\n' "$2" |
		$cc $3 -x c - -o /dev/null -l:"$1.a" 2>/dev/null
}

if [ -z "$arch" ]; then
	have_static libdeflate libdeflate.h "" ||
		missing="$missing libdeflate-dev"
	have_static libz zlib.h "" || missing="$missing zlib1g-dev"
fi

if [ -n "$missing" ]; then
	command -v apt-get >/dev/null ||
		die "please install the equivalents of:$missing"
	[ "$(id -u)" = 0 ] ||
		die "packages are missing; paste: sudo apt-get install -y$missing"
	say "installing$missing"
	apt-get update -qq >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
		--no-install-recommends $missing >&2
fi

# Static libraries for the other architecture: unpacked, not installed, so
# that the machine's own packages stay as they are.
dep_cflags=
deflate=-l:libdeflate.a
zlib=-l:libz.a
if [ -n "$deb_arch" ]; then
	dep=$dir/dep
	if [ ! -f "$dep/usr/lib/$triplet/libdeflate.a" ]; then
		mkdir -p "$dep/lists/partial" "$dep/debs/partial"
		options="-o APT::Architecture=$deb_arch
			-o APT::Architectures=$deb_arch
			-o Dir::State::Lists=$PWD/$dep/lists"
		apt-get $options update -qq >&2
		(cd "$dep/debs" && apt-get $options download \
			libdeflate-dev zlib1g-dev >&2)
		for deb in "$dep"/debs/*.deb; do
			dpkg-deb -x "$deb" "$dep"
		done
	fi
	dep_cflags="-isystem $dep/usr/include"
	deflate=$dep/usr/lib/$triplet/libdeflate.a
	zlib=$dep/usr/lib/$triplet/libz.a
fi

# ---- CUDA headers ----

# Wheels of CUDA 13.0; versions as published for that release.
wheels="nvidia-cuda-cupti==13.0.85 nvidia-cuda-runtime==13.0.96
	nvidia-nvtx==13.0.85 nvidia-cuda-crt==13.0.88"

has_headers() {
	[ -f "$1/cuda.h" ] && [ -f "$1/cupti.h" ] &&
		[ -f "$1/nvtx3/nvToolsExt.h" ] &&
		[ -f "$1/generated_cuda_runtime_api_meta.h" ]
}

fetch_headers() {
	need_pip
	say "fetching the CUDA 13.0 headers from PyPI into $dir/cuda"
	pip download --no-deps --only-binary=:all: -d "$dir/wheels" $wheels
	python3 - "$dir" <<'EOF'
import glob, os, sys, zipfile
top = sys.argv[1]
for wheel in glob.glob(top + "/wheels/*.whl"):
    with zipfile.ZipFile(wheel) as z:
        for name in z.namelist():
            if "/include/" in name and not name.endswith("/"):
                out = os.path.join(top, "cuda", name.split("/include/")[1])
                os.makedirs(os.path.dirname(out), exist_ok=True)
                with open(out, "wb") as f:
                    f.write(z.read(name))
EOF
}

cuda=
for place in ${CUDA_HOME:+"$CUDA_HOME/include"} \
		/usr/local/cuda/include "$dir/cuda"; do
	# The toolkit may keep CUPTI in a folder of its own.
	extra=$(dirname "$place")/extras/CUPTI/include
	if has_headers "$place"; then cuda=$place; break; fi
	if [ -f "$place/cuda.h" ] && [ -f "$extra/cupti.h" ] &&
	    [ -f "$place/nvtx3/nvToolsExt.h" ]; then
		cuda="$place $extra"; break
	fi
done
if [ -z "$cuda" ]; then
	fetch_headers
	has_headers "$dir/cuda" || die "the wheels lack a header that we need"
	cuda=$dir/cuda
fi

# The headers must be those of CUDA 12.5 or later: older ones lack callback
# ids that the deny-list names.
cat > "$dir/setup.mk.new" <<EOF
CUDA_INC := $cuda
DEP_CFLAGS := $dep_cflags
DEFLATE_LIB := $deflate
DEMANGLE_LIB := -l:libsupc++.a
ZLIB_LIB := $zlib
EOF
mv "$dir/setup.mk.new" "$dir/setup.mk"
