/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_INTERN_H
#define GPUTRACE_TOOLS_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "tools/json.h"

/*
 * Strings stored once and numbered from 0 in the order of their arrival.
 * Zeroed memory is an empty table.
 */
#define INTERN_NONE UINT32_MAX

struct intern_string {
	const char *text;       /* NUL-terminated, valid UTF-8 */
	uint32_t len;
	uint32_t hash;
};

struct intern {
	struct intern_string *string;
	size_t nr, cap;
	uint32_t *slot;         /* hash -> number + 1 */
	size_t nr_slots;
	struct intern_block *blocks;
};

/* The number of a scanned string, escapes resolved, bytes that are no UTF-8
 * replaced by U+FFFD.  INTERN_NONE when memory ends. */
uint32_t intern_value(struct intern *in, const struct json_value *v);
uint32_t intern_text(struct intern *in, const char *text, size_t len);

static inline const char *intern_get(const struct intern *in, uint32_t id)
{
	return in->string[id].text;
}

void intern_fini(struct intern *in);

#endif
