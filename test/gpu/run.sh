#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Runs gputrace on a machine with a GPU and prints a short table.
#
#   test/gpu/run.sh [GROUP...]     groups: machine conformance host bench
#                                  torch profiler overhead hta (these by
#                                  default), guest server asleep item
#                                  sources parts libraries memory soak
#
# O=DIR      build folder (build); used as it is where it holds the library,
#            else `make` fills it
# OUT=DIR    where the table, logs and two small traces go (a temporary folder)
# KEEP=1     all traces come along, as traces.tgz (for HTA on another machine)
# PYTHON     python with PyTorch (python3)
# GPUTRACE_JUDGE   folder of check_trace.py (../shared/tools); absent: no check
# LAST_START       seconds after which no piece begins (500)
#
# Every piece has a time limit; one that fails does not stop the others, and
# none begins late.
set -u
cd "$(dirname "$0")/../.." || exit 1
O=${O:-build}
OUT=${OUT:-$(mktemp -d)}
PYTHON=${PYTHON:-python3}
JUDGE=${GPUTRACE_JUDGE:-../shared/tools}/check_trace.py
unset GPUTRACE_JUDGE    # no setting of the library's
LAST_START=${LAST_START:-500}
GROUPS_ASKED=${*:-machine conformance host bench torch profiler overhead hta}
HERE=test/gpu
mkdir -p "$OUT" && OUT=$(cd "$OUT" && pwd) || exit 1
WORK=$(mktemp -d)
BEGIN=$(date +%s)
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

say()
{
	printf '%s\n' "$*" | tee -a "$OUT/table.txt"
}

# piece NAME SECONDS COMMAND...: one line with the last line of its output.
piece()
{
	what=$1 limit=$2
	shift 2
	start=$(date +%s)
	if [ $((start - BEGIN)) -gt "$LAST_START" ]; then
		say "$(printf '%-28s skipped: no time left' "$what")"
		return 1
	fi
	timeout -k 5 "$limit" "$@" >"$WORK/$what.log" 2>&1 </dev/null
	status=$?
	case $status in
	0) word=ok ;;
	77) word=absent ;;
	124 | 137) word=TIMEOUT ;;
	*) word="FAIL($status)" ;;
	esac
	say "$(printf '%-28s %-9s %3ds  %s' "$what" "$word" \
		$(($(date +%s) - start)) \
		"$(grep -v '^gputrace: ' "$WORK/$what.log" | tail -n 1 |
		cut -c1-150)")"
	return $status
}

# judge NAME: the independent checker on all traces of a piece.
judge()
{
	[ -f "$JUDGE" ] || return 0
	piece "judge_$1" 100 sh -c '
		judge=$1; shift
		python=$1; shift
		"$python" "$judge" --profile all --max-errors 3 "$@" &&
		echo "clean: $# file(s)"' sh "$JUDGE" "$PYTHON" \
		"$WORK/$1"/*.json*
}

# host NAME SETTINGS PROGRAM ARGUMENTS...: a host program, its own word, the
# checker.
host()
{
	name=$1 settings=$2 program=$3
	shift 3
	mkdir -p "$WORK/$name"
	piece "$name" 40 sh -c '
		out=$1 python=$2 check=$3 trace=$4
		shift 4
		"$@" >"$out" && exec "$python" "$check" "$out" \
			"${trace%.json}"*.json' \
		sh "$WORK/$name.out" "$PYTHON" $HERE/host_check.py \
		"$WORK/$name/$name.json" env LD_PRELOAD="$LIBRARY" \
		GPUTRACE_OUT="$WORK/$name/$name.json" $settings \
		"$O/host/$program" "$@" &&
	judge "$name"
}

group_machine()
{
	piece machine 60 sh -c '
		uname -a; nvidia-smi
		cat /proc/driver/nvidia/version
		nvcc --version | tail -n 2
		"$1" -c "import torch; print(torch.__version__,
			torch.version.cuda, torch.cuda.get_device_name())"
		nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
	' sh "$PYTHON"
}

group_conformance()
{
	[ -x "$O/sim/conformance" ] || return 0
	piece conformance 160 "$O/sim/conformance" &&
	cp "$WORK/conformance.log" "$OUT/conformance.txt"
}

group_host()
{
	host textbook '' decode --verbose --steps 50 --kernels 350 \
		--kernel-us 8.6 --launch-us 40 --sync-ms 4
	host decode_eager '' decode --verbose --steps 50 --launch-us 0
	host decode_graph '' decode --verbose --steps 200 --graph --sync-ms 0.1
	host decode_streams '' decode --verbose --steps 50 --streams 4
	host decode_threads '' decode --verbose --steps 30 --threads 4
	host graph '' graph
	host copies '' copies
	host arrays '' arrays
	host events '' events
	host memory '' memory
	host overlap '' overlap
	host nvtx_all '' nvtx_all
	host threads '' threads --threads 16 --kernels 100
	host windows GPUTRACE_START=profiler-api windows
	host longkernel '' longkernel --seconds 3
	host lazy '' longkernel --seconds 3 --lazy
	host memory_counters GPUTRACE_TRACE=cuda,nvtx,memory,uvm memory
	host api_all GPUTRACE_API=all events
	graph_level
	late
}

# One slice for each launch of a graph; the nodes cannot be counted.
graph_level()
{
	mkdir -p "$WORK/graph_level"
	piece graph_level 40 sh -c '
		trace=$1; shift
		"$@" && echo "$(grep -c cuda_graph "$trace") launches"' \
		sh "$WORK/graph_level/graph_level.json" \
		env LD_PRELOAD="$LIBRARY" \
		GPUTRACE_GRAPH=graph \
		GPUTRACE_OUT="$WORK/graph_level/graph_level.json" \
		"$O/host/decode" --steps 50 --graph --sync-ms 0.1 &&
	judge graph_level
}

# The library comes when CUDA is in use already.
late()
{
	mkdir -p "$WORK/late"
	piece late 40 sh -c '
		out=$1 python=$2 check=$3 trace=$4
		shift 4
		"$@" >"$out" && exec "$python" "$check" "$out" "$trace"' \
		sh "$WORK/late.out" "$PYTHON" $HERE/host_check.py \
		"$WORK/late/late.json" \
		env GPUTRACE_OUT="$WORK/late/late.json" \
		"$O/host/late" "$LIBRARY" && judge late
}

group_bench()
{
	piece bench_nvtx 60 "$O/bench/nvtx"
	piece bench_preload 30 "$O/bench/preload"
	cat "$WORK"/bench_*.log >>"$OUT/table.txt"
	cat "$WORK"/bench_*.log
}

# torch MODE STEPS LIMIT LAYERS: the same steps under our library and, in
# another run, under torch.profiler; then the kernels of both.
torch()
{
	mode=$1
	mkdir -p "$WORK/torch_$mode"
	piece "torch_$mode" "$3" env LD_PRELOAD="$LIBRARY" \
		GPUTRACE_OUT="$WORK/torch_$mode/trace.json" \
		GPUTRACE_NAMES=full GPUTRACE_START=profiler-api \
		"$PYTHON" $HERE/torch_decode.py --window --mode "$mode" \
		--steps "$2" --layers "$4" || return
	judge "torch_$mode"
	piece "profiler_$mode" "$3" "$PYTHON" $HERE/torch_decode.py \
		--mode "$mode" --steps "$2" --layers "$4" \
		--profiler "$WORK/$mode.json" &&
	piece "compare_$mode" 60 "$PYTHON" $HERE/compare.py \
		"$WORK/$mode.json" "$WORK/torch_$mode"/*.json
}

# Small traces with the default settings, to keep.
small()
{
	piece "small_$1" 60 env LD_PRELOAD="$LIBRARY" \
		GPUTRACE_OUT="$OUT/torch_$1.json.gz" \
		GPUTRACE_START=profiler-api "$PYTHON" $HERE/torch_decode.py \
		--window --mode "$1" --layers 12 --steps 3
}

group_torch()
{
	torch eager 20 60 24
	torch graph 40 60 24
	torch streams 10 60 24
	torch threads 10 60 24
	torch workers 10 60 24
	small eager
	small graph
	torch compile 20 100 6
}

# torch.profiler in a traced program, against the same without us.
group_profiler()
{
	for busy in '' --busy; do
		name=profiler_in$busy
		mkdir -p "$WORK/$name"
		piece "plain_$name" 60 "$PYTHON" $HERE/torch_profiler.py \
			$busy --json "$WORK/plain$busy.json" &&
		piece "traced_$name" 60 env LD_PRELOAD="$LIBRARY" \
			GPUTRACE_OUT="$WORK/$name/trace.json" \
			"$PYTHON" $HERE/torch_profiler.py $busy \
			--json "$WORK/traced$busy.json" &&
		piece "$name" 60 "$PYTHON" $HERE/profiler_check.py \
			"$WORK/plain$busy.json" "$WORK/traced$busy.json" \
			"$WORK/$name/trace.json"
		judge "$name"
	done
}

group_overhead()
{
	for mode in eager graph; do
		steps=10
		[ $mode = graph ] && steps=60
		mkdir -p "$WORK/overhead_$mode"
		piece "overhead_$mode" 100 env LD_PRELOAD="$LIBRARY" \
			GPUTRACE_OUT="$WORK/overhead_$mode/t.json" \
			GPUTRACE_START=profiler-api GPUTRACE_FLOOR=alternate \
			"$PYTHON" $HERE/torch_overhead.py --mode $mode \
			--steps $steps --json "$OUT/overhead_$mode.json"
		grep -v '^gputrace: ' "$WORK/overhead_$mode.log" | tail -n 12 |
			tee -a "$OUT/table.txt"
	done
}

# host/decode under a tool that holds CUPTI or the process, and under us: its
# word must be the same.
beside()
{
	name=$1
	shift
	command -v "$1" >/dev/null || return 0
	piece "beside_$name" 90 sh -c '
		"$@" >"$0" 2>&1
		grep -h "gputrace: " "$0" | tail -n 1
		grep -q "^steps 20$" "$0" && echo "its word is there"' \
		"$WORK/beside_$name.out" "$@"
}

# Other users of CUPTI, other versions of it, a watchdog that keeps still.
group_guest()
{
	decode="$O/host/decode --steps 20"
	with="env LD_PRELOAD=$LIBRARY GPUTRACE_OUT=$WORK/beside.json"
	for cupti in $(find / -name 'libcupti.so.1[12]*' -type f \
		-not -path '/proc/*' 2>/dev/null | head -n 3); do
		host "cupti_$(basename "$(dirname "$cupti")")" \
			"GPUTRACE_CUPTI=$cupti" decode --verbose --steps 50
	done
	beside sanitizer compute-sanitizer --tool memcheck $with $decode
	beside ncu ncu --target-processes all -c 1 $with $decode
	beside gdb cuda-gdb -batch -ex "set env LD_PRELOAD $LIBRARY" \
		-ex run --args $decode
	piece again_idle 60 env LD_PRELOAD="$LIBRARY" \
		GPUTRACE_START=profiler-api GPUTRACE_OUT="$WORK/idle.json" \
		"$O/host/bounds" again-idle 9
	wheel=$("$PYTHON" -c 'import nvidia.cu13 as n
print(list(n.__path__)[0] + "/lib")' 2>/dev/null)
	for i in 1 2 3; do
		piece "client_$i" 60 env LD_PRELOAD="$LIBRARY" \
			LD_LIBRARY_PATH="$wheel" \
			GPUTRACE_OUT="$WORK/client_$i.json" \
			"$O/host/profiler" --threads 3 --sessions 4 --own-clock
	done
}

# capture SERVER's OPTIONS: captures of a PyTorch server under load.
capture()
{
	name=$1
	shift
	mkdir -p "$WORK/$name"
	piece "$name" 200 "$PYTHON" $HERE/capture_check.py \
		--out "$WORK/$name/capture.json" "$@" "$O/gputrace" \
		"$PYTHON" $HERE/torch_server.py --seconds 200 &&
	judge "$name"
}

group_server()
{
	capture capture_preloaded
	capture capture_attached --attach --rounds 4
}

group_asleep()
{
	piece asleep 300 "$PYTHON" $HERE/asleep_pairs.py "$LIBRARY" \
		"$O/host/decode" --launch-us 5 --sync-ms 1
}

# What each source of the CPU side costs.
group_sources()
{
	for mode in eager graph; do
		steps=10
		[ $mode = graph ] && steps=60
		mkdir -p "$WORK/sources_$mode"
		piece "sources_$mode" 250 env LD_PRELOAD="$LIBRARY" \
			GPUTRACE_OUT="$WORK/sources_$mode/t.%w.json" \
			GPUTRACE_START=off \
			"$PYTHON" $HERE/torch_sources.py --mode $mode \
			--steps $steps --json "$OUT/sources_$mode.json" \
			"$O/gputrace"
		grep -v '^gputrace: ' "$WORK/sources_$mode.log" | tail -n 14 |
			tee -a "$OUT/table.txt"
		# What was lost in all its windows, the last line that we say.
		grep '^gputrace: .* lost' "$WORK/sources_$mode.log" |
			tail -n 1 | tee -a "$OUT/table.txt"
		judge "sources_$mode"
	done
}

# Which part of the source `torch` costs what: operators alone, and with each.
group_parts()
{
	mkdir -p "$WORK/parts"
	for part in none memory modules shapes default; do
		settings=
		for other in memory modules shapes; do
			state=off
			[ $part = $other ] && state=on
			settings="$settings GPUTRACE_TORCH_$(echo $other |
				tr a-z A-Z)=$state"
		done
		[ $part = default ] && settings=
		# shellcheck disable=SC2086  # a word each
		piece "parts_$part" 60 env LD_PRELOAD="$LIBRARY" $settings \
			GPUTRACE_OUT="$WORK/parts/$part.%w.json" \
			GPUTRACE_START=off "$PYTHON" $HERE/torch_sources.py \
			--only torch --rounds 8 --json "$OUT/parts_$part.json" \
			"$O/gputrace"
		grep -v '^gputrace: ' "$WORK/parts_$part.log" | tail -n 4 |
			tee -a "$OUT/table.txt"
		grep '^gputrace: .* lost' "$WORK/parts_$part.log" |
			tail -n 1 | tee -a "$OUT/table.txt"
	done
}

# Library calls with their shapes: TFLOP/s against CUDA events; what NCCL says
# to NVTX, and to a profiler plug-in.
group_libraries()
{
	mkdir -p "$WORK/libraries"
	piece libraries 100 env LD_PRELOAD="$LIBRARY" \
		GPUTRACE_OUT="$WORK/libraries/t.%w.json" \
		GPUTRACE_TRACE=cuda,cublas,cudnn,nccl \
		GPUTRACE_START=profiler-api "$PYTHON" \
		$HERE/torch_libraries.py --trace "$WORK/libraries/t.1.json" \
		"$O/gputrace"
	judge libraries
	mkdir -p "$WORK/nccl_payload"
	piece nccl_payload 60 "$PYTHON" $HERE/nccl_payload.py "$LIBRARY" \
		"$WORK/nccl_payload/t.json"
	judge nccl_payload
	mkdir -p "$WORK/nccl"
	piece nccl 250 "$PYTHON" $HERE/nccl_ctypes.py --out "$WORK/nccl" \
		--library "$LIBRARY" "$O/gputrace"
	judge nccl
}

# The caching allocator against its own statistics.
group_memory()
{
	for segments in False True; do
		mkdir -p "$WORK/memory_$segments"
		piece "memory_$segments" 100 env LD_PRELOAD="$LIBRARY" \
			GPUTRACE_OUT="$WORK/memory_$segments/t.%w.json" \
			GPUTRACE_TRACE=cuda,torch GPUTRACE_START=profiler-api \
			PYTORCH_CUDA_ALLOC_CONF=expandable_segments:$segments \
			"$PYTHON" $HERE/torch_memory.py \
			--trace "$WORK/memory_$segments/t.1.json" "$O/gputrace"
		judge "memory_$segments"
	done
}

# A planted .item(), found by diagnose, with the line and the operator.
group_item()
{
	for mode in graph eager; do
		mkdir -p "$WORK/item_$mode"
		piece "item_$mode" 100 env LD_PRELOAD="$LIBRARY" \
			GPUTRACE_OUT="$WORK/item_$mode/t.%w.json" \
			GPUTRACE_TRACE=cuda,nvtx,stacks,torch \
			GPUTRACE_START=profiler-api "$PYTHON" \
			$HERE/torch_item.py --mode $mode \
			--trace "$WORK/item_$mode/t.%w.json" "$O/gputrace"
		judge "item_$mode"
		cp "$WORK/item_$mode/t.1.json" "$OUT/item_$mode.json"
		gzip -9 "$OUT/item_$mode.json"
	done
}

# Alone in its call: it takes nine minutes.
group_soak()
{
	mkdir -p "$WORK/soak"
	piece torch_soak 590 env LD_PRELOAD="$LIBRARY" \
		GPUTRACE_OUT="$WORK/soak/t.json" GPUTRACE_MAX_SIZE=256M \
		GPUTRACE_KEEP=2 "$PYTHON" $HERE/torch_soak.py \
		--seconds "${SOAK_SECONDS:-540}"
	grep '^gputrace: ' "$WORK/torch_soak.log" | tee -a "$OUT/table.txt"
}

group_hta()
{
	for trace in "$WORK"/torch_*/*.json "$WORK"/decode_*/*.json; do
		[ -f "$trace" ] || continue
		name=$(basename "$(dirname "$trace")")
		piece "hta_$name" 60 "$PYTHON" $HERE/hta_check.py "$trace" ||
			[ $? -ne 77 ] || break
	done
}

if [ ! -f "$O/libgputrace.so" ] && ! make O="$O" >"$WORK/make.log" 2>&1; then
	tail -n 20 "$WORK/make.log"
	exit 1
fi
LIBRARY=$(cd "$O" && pwd)/libgputrace.so
: >"$OUT/table.txt"
for group in $GROUPS_ASKED; do
	"group_$group"
done
kept=$(cd "$WORK" && ls -d torch_*/ decode_*/ textbook/ 2>/dev/null)
if [ -n "${KEEP:-}" ] && [ -n "$kept" ]; then
	tar -czf "$OUT/traces.tgz" -C "$WORK" $kept
fi
cp "$WORK"/*.log "$OUT" 2>/dev/null
tar -czf "$OUT/logs.tgz" -C "$OUT" $(cd "$OUT" && ls ./*.log) &&
	rm -f "$OUT"/*.log
say "$(printf '%-28s %ds, files in %s' total $(($(date +%s) - BEGIN)) "$OUT")"
rm -rf "$WORK"
