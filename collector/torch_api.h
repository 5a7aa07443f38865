/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_TORCH_API_H
#define GPUTRACE_COLLECTOR_TORCH_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * PyTorch from outside: the functions of libtorch_cpu.so that say what the
 * program's operators are, and where things lie in its objects.  There is no C
 * interface for it, so C++ is spoken by hand, with the layouts of the versions
 * that were looked at and with no other.
 *
 * at::RecordFunctionCallback, which is passed by value.  It has no constructor
 * that matters to the caller, so the same bytes in C go the same way.
 */
enum { TORCH_NR_SCOPES = 10 };

enum torch_scope {              /* at::RecordScope */
	TORCH_FUNCTION, TORCH_BACKWARD, TORCH_SCRIPT, TORCH_DTYPE,
	TORCH_CUSTOM_CLASS, TORCH_BUILD_FEATURE, TORCH_LITE, TORCH_USER,
	TORCH_STATIC_OP, TORCH_STATIC_MODEL,
};

struct torch_callback {
	void (*start)(void);            /* see torch.c */
	void (*end)(const void *function, void *context);
	double probability;
	bool scopes[TORCH_NR_SCOPES];
	bool needs_inputs, needs_outputs, needs_ids;
};

/* Where things lie (0: not known): in at::RecordFunction, with the std::string
 * of C++11; the older one is shorter by `shift`.  Then in c10::TensorImpl. */
struct torch_layout {
	uint32_t first, last;           /* TORCH_VERSION() */
	uint16_t forward;               /* thread of the forward function */
	uint16_t sizes;                 /* TensorImpl */
	uint16_t type;
};

#define TORCH_VERSION(major, minor) ((uint32_t)(major) << 16 | (minor))

enum {
	TORCH_SEQUENCE = 200, TORCH_INPUTS = 208,
	TORCH_STRING_SHIFT = 24,
};

struct torch_api {
	uint64_t (*add)(struct torch_callback callback);
	void (*remove)(uint64_t callback);
	const char *(*name)(const void *function);
	bool (*is_async)(const void *function);
	const struct torch_layout *layout;
	uint32_t shift;
};

/* Fills *api from the process's libtorch_cpu.so, which then stays.  0;
 * -EAGAIN: there is none yet; -ENOTSUP: one that is not known, after one line.
 * Context: our own thread: it waits for the loader and reads a file. */
int torch_api_find(struct torch_api *api);

/* Of a version as "2.11.0+cu130"; NULL: not known.  Context: any. */
const struct torch_layout *torch_api_layout(const char *version);

/* Members of a JSON object for one operator: sequence number, and its inputs
 * where torch was asked for them.  Returns their length, at most `size`.
 * Context: inside the start of an operator; allocates nothing. */
size_t torch_args(const struct torch_api *api, const void *function,
		  char *out, size_t size);

static inline const void *torch_at(const void *object, size_t offset)
{
	return (const char *)object + offset;
}

#endif
