// SPDX-License-Identifier: MIT
/* The environment variables of sim_env.h; libcupti.so.13 uses these too. */
#include "test/sim/sim_env.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

uint64_t sim_env_number(const char *name, uint64_t fallback)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 10) : fallback;
}

static int error_code(const char *text, unsigned int nth)
{
	char *end;
	long code = strtol(text, &end, 10);
	unsigned long from = *end == '@' ? strtoul(end + 1, NULL, 10) : 1;

	return nth >= from ? (int)code : 0;
}

int sim_env_error(const char *name)
{
	static atomic_uint seen[64];
	const char *text = getenv("SIM_ERROR");
	size_t n = strlen(name);

	for (int i = 0; text && *text && i < 64; i++) {
		if (!strncmp(text, name, n) && text[n] == '=')
			return error_code(text + n + 1,
					  atomic_fetch_add(&seen[i], 1) + 1);
		text = strchr(text, ',');
		text = text ? text + 1 : NULL;
	}
	return 0;
}
