#!/bin/sh
# SPDX-License-Identifier: MIT
#
# setup.sh DIR [pytest | extra]: finds what the build needs, installs or fetches
# what is missing, and writes DIR/setup.mk for the Makefile.  With "pytest": the
# test runner and a reader of YAML, into DIR/py.  With "extra": what test/extra
# compares with, a virtual environment in DIR/extra and Chromium.
#
# Debian packages are installed when this runs as root; otherwise one line to
# paste is printed.  Without a CUDA toolkit that has CUPTI, the headers come
# from NVIDIA's wheels on PyPI, pinned to CUDA 13.0, into DIR/cuda.
set -eu

dir=$1
arch=${ARCH:-}
cc=${CC:-gcc}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 1; }

# quiet COMMAND...: its output only if it fails.
quiet() {
	"$@" > "$log" 2>&1 || { cat "$log" >&2; return 1; }
}

# install PACKAGES: Debian's, or what to paste.
install() {
	command -v apt-get >/dev/null ||
		die "please install the equivalents of: $*"
	[ "$(id -u)" = 0 ] || die "packages are missing; paste:" \
		"sudo apt-get update && sudo apt-get install -y $*"
	say "installing $*"
	quiet apt-get update -qq ||
		say "apt-get update failed; going on with the old lists"
	quiet env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
		--no-install-recommends "$@"
}

python=python3
has_pip() { $python -m pip --version >/dev/null 2>&1; }
pip() {
	quiet env PIP_ROOT_USER_ACTION=ignore "$python" -m pip \
		--disable-pip-version-check -q "$@" && return
	die "nothing from PyPI: see above (pip's own settings apply, PIP_INDEX_URL)"
}

if [ "${2:-}" = pytest ]; then
	has_pip || install python3-pip
	say "fetching pytest from PyPI into $dir/py"
	rm -rf "$dir/py"
	pip install --target "$dir/py" pytest==8.4.2 pytest-xdist==3.8.0 \
		PyYAML==6.0.3
	exit 0
fi

# HTA names a notebook server among its needs, which its analyses never load:
# the rest by name instead.
hta="HolisticTraceAnalysis==0.5.0"
hta_needs="pandas==3.1.1 numpy==2.4.6 networkx==3.6.1 plotly==7.1.0
	pydot==4.0.1 psutil==7.2.2 PyYAML==6.0.3 pytest==8.4.2"

if [ "${2:-}" = extra ]; then
	command -v chromium >/dev/null || install chromium
	python3 -c 'import ensurepip' 2>/dev/null || install python3-venv
	say "fetching HTA and what it needs from PyPI into $dir/extra"
	rm -rf "$dir/extra" "$dir/extra.new"
	python3 -m venv "$dir/extra.new"
	python=$dir/extra.new/bin/python
	pip install $hta_needs
	pip install --no-deps "$hta"
	mv "$dir/extra.new" "$dir/extra"
	exit 0
fi

# ---- CUDA headers: which are there ----

has_headers() {
	[ -f "$1/cuda.h" ] && [ -f "$1/cudaProfiler.h" ] &&
		[ -f "${2:-$1}/cupti.h" ] &&
		[ -f "$1/nvtx3/nvToolsExtPayload.h" ] &&
		[ -f "${2:-$1}/generated_cuda_runtime_api_meta.h" ]
}

cuda=
for place in ${CUDA_HOME:+"$CUDA_HOME/include"} \
		/usr/local/cuda/include "$dir/cuda"; do
	# The toolkit may keep CUPTI in a folder of its own.
	extra=$(dirname "$place")/extras/CUPTI/include
	if has_headers "$place"; then cuda=$place; break; fi
	if has_headers "$place" "$extra"; then cuda="$place $extra"; break; fi
done

# ---- Debian packages ----

# has_static NAME HEADER: can a program be linked to NAME.a?
has_static() {
	printf '#include <%s>\nint main(void) { return 0; }\n' "$2" |
		$cc -x c - -o /dev/null -l:"$1.a" 2>/dev/null
}

# libFuzzer is a part of its own of Debian's clang.
has_fuzzer() {
	echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
		$cc -fsanitize=fuzzer -x c - -o /dev/null 2>/dev/null
}

missing=
need() { command -v "$1" >/dev/null || missing="$missing $2"; }

case $arch in
'')
	case $cc in
	clang*)	need "$cc" "$cc" ;;
	esac
	case ${SAN:-} in
	*fuzzer*) has_fuzzer || missing="$missing libclang-rt-dev" ;;
	esac
	need gcc gcc
	# Where the compiler itself is missing, these are, too.
	has_static libsupc++ stdlib.h || missing="$missing g++"
	has_static libdeflate libdeflate.h || missing="$missing libdeflate-dev"
	has_static libz zlib.h || missing="$missing zlib1g-dev" ;;
aarch64)
	need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
	need aarch64-linux-gnu-g++ g++-aarch64-linux-gnu ;;
*)	die "ARCH=$arch: only aarch64 can be cross-built" ;;
esac
need python3 python3
# Headers and pytest come with pip.
[ -n "$cuda" ] || has_pip || missing="$missing python3-pip"
[ -z "$missing" ] || install $missing

mkdir -p "$dir"
top=$(cd "$dir" && pwd)

# Static libraries for the other architecture: unpacked, not installed, so
# that the machine's own packages stay as they are.
dep_cflags=
deflate=-l:libdeflate.a
zlib=-l:libz.a

# apt's lists of the other architecture are kept apart, in DIR, as well.
fetch_arm64() { # PACKAGE...
	command -v apt-get >/dev/null ||
		die "the cross-build takes its static libraries from Debian"
	say "fetching $* of arm64 from Debian into $dir/dep"
	rm -rf "$top/dep"
	mkdir -p "$top/dep/lists/partial"
	for step in update "download $*"; do
		(cd "$top/dep" && quiet apt-get -qq $step \
			-o APT::Architecture=arm64 -o APT::Architectures=arm64 \
			-o Dir::State::Lists="$top/dep/lists" \
			-o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
			-o APT::Sandbox::User=root)
	done
	for deb in "$top"/dep/*.deb; do
		dpkg-deb -x "$deb" "$top/dep"
	done
}

if [ "$arch" = aarch64 ]; then
	lib=$dir/dep/usr/lib/aarch64-linux-gnu
	if [ ! -f "$lib/libdeflate.a" ] || [ ! -f "$lib/libz.a" ]; then
		fetch_arm64 libdeflate-dev zlib1g-dev
	fi
	dep_cflags="-isystem $dir/dep/usr/include"
	deflate=$lib/libdeflate.a
	zlib=$lib/libz.a
fi

# ---- CUDA headers: fetched where there are none ----

# Wheels of CUDA 13.0; versions as published for that release.
wheels="nvidia-cuda-cupti==13.0.85 nvidia-cuda-runtime==13.0.96
	nvidia-cuda-profiler-api==13.0.85 nvidia-nvtx==13.0.85
	nvidia-cuda-crt==13.0.88"

fetch_headers() {
	say "fetching the CUDA 13.0 headers from PyPI into $dir/cuda"
	rm -rf "$dir/wheels" "$dir/cuda" "$dir/cuda.new"
	pip download --no-deps --only-binary=:all: -d "$dir/wheels" $wheels
	python3 - "$dir" <<'EOF'
import glob, os, sys, zipfile
top = sys.argv[1]
for wheel in glob.glob(glob.escape(top) + "/wheels/*.whl"):
    with zipfile.ZipFile(wheel) as z:
        for name in z.namelist():
            if "/include/" in name and not name.endswith("/"):
                out = os.path.join(top, "cuda.new",
                                   name.split("/include/", 1)[1])
                os.makedirs(os.path.dirname(out), exist_ok=True)
                with open(out, "wb") as f:
                    f.write(z.read(name))
EOF
	mv "$dir/cuda.new" "$dir/cuda"
	rm -rf "$dir/wheels"
}

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
