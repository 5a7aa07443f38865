/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TEST_SIM_TORCH_SIM_H
#define GPUTRACE_TEST_SIM_TORCH_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The simulated PyTorch: a libtorch_cpu.so that exports what observers of the
 * real one use, under the same names, and calls them by the same convention
 * with objects of the same layout (of the version in SIM_TORCH_VERSION; build
 * with -DSIM_OLD_STRING for the older std::string).  What an observer must not
 * look at is filled with 0xa5.
 *
 * Callbacks are a list under a lock; each thread copies it when its number has
 * changed, and a function calls at its end whom it called at its start.
 */
enum sim_scope { SIM_FUNCTION, SIM_BACKWARD, SIM_DTYPE = 3, SIM_USER = 7,
		 SIM_STATIC_OP };

enum { SIM_UNDEFINED = 100, SIM_DIMS = 8, SIM_CALLBACKS = 4 };

struct sim_tensor {
	_Alignas(16) unsigned char bytes[192];
	int64_t outside[2 * SIM_DIMS];
};

struct sim_value {                      /* c10::IValue */
	union {
		const void *tensor;
		int64_t number;
		double real;
	};
	uint32_t tag;
	uint32_t reserved;
};

struct sim_function {
	/* at::RecordFunction; then what the real one keeps elsewhere. */
	_Alignas(16) unsigned char bytes[344];
	const char *name;
	bool is_async;
	int nr;
	struct {
		void (*end)(const void *function, void *context);
		void **context;
	} called[SIM_CALLBACKS];
};

void simTorchTensor(struct sim_tensor *tensor, int type, int nr,
		    const int64_t *sizes);
void simTorchStart(struct sim_function *function, enum sim_scope scope,
		   const char *name, int64_t sequence, uint64_t forward,
		   const struct sim_value *inputs, size_t nr_inputs);
void simTorchSetAsync(struct sim_function *function);
void simTorchEnd(struct sim_function *function);

/* What observers did: callbacks in the list, starts and ends called, contexts
 * deleted. */
struct sim_counts {
	uint64_t listed, added, removed, starts, ends, deleted;
};
void simTorchCounts(struct sim_counts *counts);

#endif
