/* SPDX-License-Identifier: MIT */
#include "inject/sources.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "collector/cpu.h"
#include "collector/library_call.h"
#include "collector/nvml.h"
#include "collector/osrt.h"
#include "collector/stacks.h"
#include "collector/torch.h"
#include "inject/settings.h"

static struct source_options options;

static struct {
	uint64_t bit;
	const struct source *source;
	bool is_armed, has_failed;
	/* The end of the process closes without the lock. */
	_Atomic bool is_open;
} table[] = {
	{ .bit = SOURCE_CPU, .source = &cpu_source },
	{ .bit = SOURCE_NVML, .source = &nvml_source },
	{ .bit = SOURCE_CUBLAS, .source = &library_call_cublas },
	{ .bit = SOURCE_CUDNN, .source = &library_call_cudnn },
	{ .bit = SOURCE_NCCL, .source = &library_call_nccl },
	{ .bit = SOURCE_TORCH, .source = &torch_source },
	{ .bit = SOURCE_OSRT, .source = &osrt_source },
	{ .bit = SOURCE_STACKS, .source = &stacks_source },
};

enum { NR_SOURCES = sizeof table / sizeof *table };

void sources_prepare(const struct source_options *given)
{
	options = *given;
}

static bool arm(int i)
{
	const struct source *source = table[i].source;

	if (!table[i].is_armed && !table[i].has_failed) {
		table[i].has_failed = source->arm && source->arm(&options);
		table[i].is_armed = !table[i].has_failed;
		/* What it did not find is no error of the program's. */
		(void)dlerror();
	}
	return table[i].is_armed;
}

void sources_open(uint64_t wanted)
{
	for (int i = 0; i < NR_SOURCES; i++) {
		if (!(wanted & table[i].bit) || !arm(i) ||
		    atomic_exchange(&table[i].is_open, true))
			continue;
		if (table[i].source->open)
			table[i].source->open();
	}
}

void sources_close(void)
{
	for (int i = NR_SOURCES; i-- > 0;) {
		if (!atomic_exchange(&table[i].is_open, false))
			continue;
		if (table[i].source->close)
			table[i].source->close();
	}
}

void sources_forget(void)
{
	for (int i = 0; i < NR_SOURCES; i++) {
		atomic_store(&table[i].is_open, false);
		if (table[i].is_armed && table[i].source->forget)
			table[i].source->forget();
	}
}
