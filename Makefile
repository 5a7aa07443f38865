# SPDX-License-Identifier: MIT
#
# make            everything, in $(O); sets up what is missing first
# make demo       trace a program, check the trace, show it
# make check      all tests (no GPU needed)      make bench    benchmarks
# make check-extra   against HTA and a browser, which it fetches
# make soak       MINUTES=30: memory and losses in a long run
# make fuzz       SECONDS=60 each fuzzer      make faults   every call fails
# make install    PREFIX=/usr/local DESTDIR=     make clean
#
# V=1 shows commands; O=DIR builds elsewhere; ARCH=aarch64 cross-builds;
# SAN=address,undefined or SAN=thread instruments; WERROR=1 is for CI.

O       ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
VERSION := 0.1.0
Q       := $(if $(V),,@)
say      = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2))

ifeq ($(origin CC),default)
CC      := gcc
endif
ifeq ($(ARCH),aarch64)
CC      := aarch64-linux-gnu-gcc
AR      := aarch64-linux-gnu-ar
endif

# Written by the set-up: where the CUDA headers and static libraries are.
SETUP   := $(O)/setup.mk
ifeq ($(filter clean help,$(MAKECMDGOALS)),)
ifneq ($(words $(CURDIR) $(O)),2)
$(error "$(CURDIR)", O="$(O)": neither make nor LD_PRELOAD can name a path \
	with a space)
endif
include $(SETUP)
endif

CFLAGS  ?= -O2 -g
# gcc's sanitizer does not know fences and says so; what they guard is read
# without instrumentation (collector/open_ranges.c).
TSAN_CFLAGS := $(if $(findstring clang,$(CC)),,-Wno-tsan)
BASE    := -std=gnu11 -D_GNU_SOURCE -I. $(CUDA_INC:%=-isystem %) $(DEP_CFLAGS) \
           -DGPUTRACE_VERSION='"$(VERSION)"' \
           -Wall -Wextra $(if $(WERROR),-Werror) $(CFLAGS) -pthread \
           $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer) \
           $(if $(findstring thread,$(SAN)),$(TSAN_CFLAGS)) \
           $(if $(findstring fuzzer,$(SAN)),-DLIBFUZZER)
# What loads into the host: hidden symbols, thread-local storage of a pointer,
# and glibc symbols that old containers have (inject/glibc.h).
GUEST   := $(BASE) -fPIC -fvisibility=hidden -fno-semantic-interposition \
           $(if $(SAN),,-include inject/glibc.h)
# The calls that the library stands before: its own go past it.
OSRT    := $(shell sed -n 's/^.X.\([a-z0-9_]*\), [0-9],.*/\1/p' \
           collector/osrt_calls.h)
GUEST_LD := -shared -Wl,-soname,libgputrace.so -Wl,-Bsymbolic \
           -Wl,--version-script=inject/versions.map -Wl,--exclude-libs,ALL \
           $(OSRT:%=-Wl,--wrap=%) -Wl,-z,nodelete \
           -Wl,-z,relro -Wl,-z,now $(if $(SAN),,-Wl,-z,defs)
# By name, needed or not: before glibc 2.34 they hold what is in libc.so now.
GUEST_LIBS := $(DEFLATE_LIB) $(DEMANGLE_LIB) \
           -Wl,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2

LIB_C   := $(wildcard inject/*.c collector/*.c writer/*.c)
CORE_C  := $(filter-out inject/preload.c inject/exits.c \
           inject/interpose_osrt.c,$(LIB_C))
TOOL_C  := $(wildcard tools/*.c) inject/settings.c
HOST_C  := $(wildcard test/host/*.c)
HOSTLIB_C := $(wildcard test/host/lib/*.c)
UNIT_C  := $(wildcard test/unit/*_test.c)
BENCH_C := $(wildcard test/bench/*.c)
FUZZ_C  := $(wildcard test/fuzz/*.c)
CONF_C  := test/sim/conformance.c $(wildcard test/sim/conf_*.c)
CUDA_SIM_C  := $(wildcard test/sim/cuda_*.c)
CUPTI_SIM_C := $(wildcard test/sim/cupti_*.c)
CUDART_SIM_C := $(wildcard test/sim/cudart_*.c)
NVML_SIM_C  := $(wildcard test/sim/nvml_*.c) test/sim/cuda_env.c

obj      = $(patsubst %.c,$(O)/obj/$(1)/%.o,$(2))
LIB_O   := $(call obj,guest,$(LIB_C))
CORE_O  := $(call obj,guest,$(CORE_C))
TOOL_O  := $(call obj,tool,$(TOOL_C))
TOOLS_O := $(filter-out %/inject/settings.o %/gputrace.o,$(TOOL_O))
TORCH_SIM := $(O)/sim/torch/lib/libtorch_cpu.so \
           $(O)/sim/torch_old/lib/libtorch_cpu.so
C10_SIM := $(foreach name,c10 c10_old c10_none,\
           $(O)/sim/$(name)/libc10.so $(O)/sim/$(name)/libc10_cuda.so)
# cuBLAS, cuDNN and NCCL, cuBLAS in two versions: apart, so that they are found
# by who means them alone.
LIBSIM  := $(O)/sim/libraries
LIBRARIES := $(addprefix $(LIBSIM)/,libcublas.so.13 libcublasLt.so.13 \
           libcudnn.so.9 libnccl.so.2)
OLD_LIBRARIES := $(LIBSIM)/libcublas.so.11 $(LIBSIM)/libcublasLt.so.11 \
           $(filter-out %.so.13,$(LIBRARIES))
SIM     := $(O)/sim/libcuda.so.1 $(O)/sim/libcupti.so.13 \
           $(O)/sim/12/libcupti.so.12 $(O)/sim/11/libcupti.so.11.8 \
           $(O)/sim/libcudart.so.13 $(O)/sim/libnvidia-ml.so.1 \
           $(LIBRARIES) $(OLD_LIBRARIES) $(TORCH_SIM) $(C10_SIM) \
           $(O)/sim/conformance $(O)/sim/conformance_inject.so
HOST    := $(HOST_C:test/host/%.c=$(O)/host/%)
UNIT    := $(UNIT_C:test/unit/%.c=$(O)/unit/%)
SHIM    := $(patsubst test/shim/%.c,$(O)/shim/%.so,$(wildcard test/shim/*.c))
BENCH   := $(BENCH_C:test/bench/%.c=$(O)/bench/%)
FUZZ    := $(FUZZ_C:test/fuzz/%.c=$(O)/fuzz/%)
PRODUCT := $(O)/libgputrace.so $(O)/gputrace

all: $(PRODUCT) $(if $(ARCH),,$(SIM) $(HOST) $(BENCH))
FAULTS  := $(if $(ARCH),,$(O)/faults/libfaults.so)
tests: all $(UNIT) $(FUZZ) $(SHIM) $(FAULTS)

$(SETUP): tools/setup.sh
	$(Q)ARCH=$(ARCH) sh tools/setup.sh $(O)

$(O)/libgputrace.so: $(LIB_O) inject/versions.map
	$(call say,LINK,$@)
	$(Q)$(CC) $(BASE) $(GUEST_LD) -o $@ $(LIB_O) $(GUEST_LIBS)

$(O)/libgputrace.a: $(CORE_O)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# The command is static: it runs in any container, whatever its C library.
$(O)/gputrace: $(TOOL_O)
	$(call say,LINK,$@)
	$(Q)$(CC) $(BASE) $(if $(SAN),,-static-pie) -o $@ $^ $(ZLIB_LIB) -lm

$(O)/obj/guest/%.o: %.c | $(SETUP)
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(GUEST) -MMD -MP -c -o $@ $<

$(O)/obj/tool/%.o: %.c | $(SETUP)
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(BASE) -fPIE -MMD -MP -c -o $@ $<

# Reads the page of --html (.incbin).
$(O)/obj/tool/tools/html_assets.o: $(wildcard tools/html/*)

# ---- The simulated GPU and what runs on it ----

$(O)/sim/libcuda.so.1: $(call obj,sim,$(CUDA_SIM_C))
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(BASE) -shared -Wl,-soname,libcuda.so.1 \
		-o $@ $^ -ldl

# The same one by the names of CUDA 13, 12 and 11; which version it is, the
# environment says (test/sim/sim_env.h).
CUPTIS  := $(O)/sim/libcupti.so.13 $(O)/sim/12/libcupti.so.12 \
           $(O)/sim/11/libcupti.so.11.8
$(CUPTIS): $(call obj,sim,$(CUPTI_SIM_C)) $(O)/sim/libcuda.so.1
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(BASE) -shared -Wl,-Bsymbolic \
		-Wl,-soname,$(@F) -o $@ $^ -ldl

$(O)/sim/libcudart.so.13: $(call obj,sim,$(CUDART_SIM_C)) $(O)/sim/libcuda.so.1
	$(call say,LINK,$@)
	$(Q)$(CC) $(BASE) -shared -Wl,-soname,libcudart.so.13 -o $@ $^ -ldl

$(O)/sim/libnvidia-ml.so.1: $(call obj,sim,$(NVML_SIM_C))
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(BASE) -shared -Wl,-Bsymbolic \
		-Wl,-soname,$(@F) -o $@ $^

# Their symbols have versions by the library's name, as NVIDIA's.
LIBRARY_SIM = $(Q)mkdir -p $(@D) && $(CC) $(BASE) -fPIC -fvisibility=hidden \
           -shared -Wl,-soname,$(@F) -Wl,--default-symver -DMAJOR=$* \
           -Wno-unused-parameter -o $@ $(filter-out %.h,$^) -ldl
LIBRARY_C := $(HOSTLIB_C) test/sim/library_gpu.h $(O)/sim/libcuda.so.1
$(LIBSIM)/libcublasLt.so.%: test/sim/library_cublaslt.c $(LIBRARY_C)
	$(call say,LINK,$@)
	$(LIBRARY_SIM)
$(LIBSIM)/libcublas.so.%: test/sim/library_cublas.c $(LIBSIM)/libcublasLt.so.% \
		$(LIBRARY_C)
	$(call say,LINK,$@)
	$(LIBRARY_SIM)
$(LIBSIM)/libcudnn.so.% $(LIBSIM)/libnccl.so.%: $(LIBRARY_C)
	$(call say,LINK,$@)
	$(LIBRARY_SIM)
$(LIBSIM)/libcudnn.so.9: test/sim/library_cudnn.c
$(LIBSIM)/libnccl.so.2: test/sim/library_nccl.c test/sim/library_nccl_tell.c \
		test/sim/library_nccl.h

# Two std::strings; the version stands beside the folder, as in the real one.
$(TORCH_SIM): test/sim/torch_sim.c test/sim/torch_sim.h
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(BASE) -fPIC -shared \
		$(if $(findstring old,$@),-DSIM_OLD_STRING) \
		-Wl,-soname,$(@F) -o $@ $<
	$(Q)echo "__version__ = '2.11.0+sim'" > $(@D)/../version.py

# Its caching allocator, by the names of two versions; c10_none: libc10.so
# lacks them.
$(C10_SIM): test/sim/c10_sim.h
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(BASE) -fPIC -shared \
		-Wl,-z,lazy -Wl,--no-as-needed \
		$(if $(findstring old,$@),-DSIM_OLD) \
		$(if $(findstring none,$@),-DSIM_NONE) \
		-Wl,-soname,$(@F) -o $@ $(filter-out %.h,$^) \
		-Wl,-rpath,'$$ORIGIN'
$(filter %/libc10.so,$(C10_SIM)): test/sim/c10_sim.c
$(filter %/libc10_cuda.so,$(C10_SIM)): test/sim/c10_cuda_sim.c
$(filter %/libc10_cuda.so,$(C10_SIM)): %/libc10_cuda.so: %/libc10.so

$(O)/obj/sim/%.o: %.c | $(SETUP)
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(BASE) -fPIC $(CUDA_INC:%=-Wa,-I%) -MMD -MP -c -o $@ $<

$(O)/sim/conformance: $(call obj,sim,$(CONF_C)) $(O)/sim/libcuda.so.1
	$(call say,LINK,$@)
	$(Q)$(CC) $(BASE) -rdynamic -o $@ $^ -ldl

# Observes CUPTI, on the simulated GPU and on a real one (test/sim).
$(O)/sim/conformance_inject.so: $(O)/obj/sim/test/sim/conformance_inject.o
	$(Q)$(CC) $(BASE) -shared -o $@ $^ -ldl

$(O)/host/%: $(O)/obj/tool/test/host/%.o $(call obj,tool,$(HOSTLIB_C)) \
		$(O)/sim/libcuda.so.1
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(BASE) -o $@ $^ -ldl -lm

# A program with a profiler of its own is linked to CUPTI, as PyTorch is.
$(O)/host/profiler: $(O)/sim/libcupti.so.13

$(O)/host/libraries: $(LIBRARIES)
$(O)/shim/libraries.so: $(LIBRARIES)
$(O)/shim/libraries_old.so: $(OLD_LIBRARIES)

# What stands between the library and the system in tests.
$(O)/shim/%.so: $(O)/obj/sim/test/shim/%.o
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(BASE) -shared -o $@ $^
$(O)/shim/python.so: $(O)/libgputrace.a

CORE_LIBS := $(DEFLATE_LIB) $(DEMANGLE_LIB) $(ZLIB_LIB) -ldl -lm
$(O)/unit/% $(O)/bench/% $(O)/fuzz/%: CORE_LIBS := $(CORE_LIBS)

$(O)/unit/%: $(O)/obj/tool/test/unit/%.o $(O)/libgputrace.a \
		$(O)/sim/libcupti.so.13 $(TOOLS_O)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(BASE) -o $@ $< \
		$(if $(findstring steps,$*)$(findstring fd_,$*),$(TOOLS_O)) \
		$(O)/libgputrace.a \
		$(if $(findstring sim_,$*),$(O)/sim/libcuda.so.1) $(CORE_LIBS)

$(O)/bench/%: $(O)/obj/tool/test/bench/%.o $(O)/libgputrace.a \
		$(filter-out %/gputrace.o,$(TOOL_O)) $(O)/sim/libcuda.so.1
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(BASE) -o $@ $< \
		$(TOOLS_O) $(O)/libgputrace.a $(CORE_LIBS)

$(O)/fuzz/%: $(O)/obj/tool/test/fuzz/%.o $(O)/libgputrace.a \
		$(filter-out %/gputrace.o,$(TOOL_O))
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(BASE) \
		$(if $(findstring fuzzer,$(SAN)),-fsanitize=fuzzer) -o $@ $< \
		$(TOOLS_O) $(O)/libgputrace.a $(CORE_LIBS)

# Makes calls of libgputrace.so fail (test/faults/faults.c).
$(O)/faults/libfaults.so: test/faults/faults.c
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D) && $(CC) -std=gnu11 -D_GNU_SOURCE -Wall -Wextra \
		$(if $(WERROR),-Werror) -O2 -g -fPIC -shared -pthread -I. \
		-Wl,-z,initfirst -o $@ $< -ldl

# ---- What people type ----

demo: all
	$(Q)sh test/demo.sh $(O)

check: tests
	$(Q)O=$(O) SAN=$(SAN) sh test/run.sh

# Not part of check: it fetches HTA, its pandas and a browser.
check-extra: all
	$(Q)O=$(O) sh test/extra/run.sh

bench: all $(O)/shim/python.so
	$(Q)O=$(O) sh test/bench/run.sh

# Not part of check: MINUTES=30 and a sixth of that, on an idle machine.
soak: all
	$(Q)O=$(O) MINUTES=$(or $(MINUTES),30) python3 test/soak/soak.py

# libFuzzer's programs have a build of their own.
SECONDS ?= 60
fuzz:
	$(Q)$(MAKE) --no-print-directory O=$(O)/fuzzing CC=clang fuzzers \
		SAN=fuzzer-no-link,address,undefined
	$(Q)O=$(O)/fuzzing sh test/fuzz/run.sh $(SECONDS)
fuzzers: $(FUZZ)

faults: tests
	$(Q)O=$(O) PYTHONPATH=test python3 -m faults.sweep

install: $(PRODUCT)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib \
		$(DESTDIR)$(PREFIX)/share/man/man1 \
		$(DESTDIR)$(PREFIX)/share/doc/gputrace/examples
	install -m 755 $(O)/gputrace $(DESTDIR)$(PREFIX)/bin/
	install -m 755 $(O)/libgputrace.so $(DESTDIR)$(PREFIX)/lib/
	install -m 644 tools/gputrace.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	install -m 644 tools/examples/* \
		$(DESTDIR)$(PREFIX)/share/doc/gputrace/examples/

clean:
	rm -rf $(O)

help:
	@sed -n '3,12s/^# //p' Makefile

.PHONY: all tests demo check check-extra bench soak fuzz fuzzers faults install \
	clean help
.SECONDARY:
-include $(shell find $(O)/obj -name '*.d' 2>/dev/null)
