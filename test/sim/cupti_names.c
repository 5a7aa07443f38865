// SPDX-License-Identifier: MIT
/*
 * Names of callback ids, read from the text of CUPTI's own headers, which the
 * assembler puts into this library: no list to keep in step by hand.
 */
#include "test/sim/cupti_sim.h"

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(symbol, file)                                                     \
	__asm__(".pushsection .rodata\n" #symbol ": .incbin \"" file "\"\n"    \
		".byte 0\n.popsection\n");                                     \
	extern const char symbol[] __attribute__((visibility("hidden")))

TEXT(sim_driver_text, "cupti_driver_cbid.h");
TEXT(sim_runtime_text, "cupti_runtime_cbid.h");

static struct table {
	const char *text, *prefix;
	unsigned int count;
	char *names[CUPTI_DRIVER_TRACE_CBID_SIZE + 1];
} tables[] = {
	{ sim_driver_text, "CUPTI_DRIVER_TRACE_CBID_",
	  CUPTI_DRIVER_TRACE_CBID_SIZE, { NULL } },
	{ sim_runtime_text, "CUPTI_RUNTIME_TRACE_CBID_",
	  CUPTI_RUNTIME_TRACE_CBID_SIZE, { NULL } },
};

_Static_assert((int)CUPTI_RUNTIME_TRACE_CBID_SIZE <=
	       (int)CUPTI_DRIVER_TRACE_CBID_SIZE,
	       "the tables have the driver's size");

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_table(struct table *t)
{
	const char *at = t->text;
	size_t n;

	while ((at = strstr(at, t->prefix))) {
		at += strlen(t->prefix);
		n = strspn(at, "abcdefghijklmnopqrstuvwxyz_0123456789"
			   "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
		const char *value = at + n + strspn(at + n, " \t");
		unsigned long id = *value == '=' ?
			strtoul(value + 1, NULL, 10) : t->count;

		if (id < t->count && !t->names[id])
			t->names[id] = strndup(at, n);
	}
}

static void read_tables(void)
{
	read_table(&tables[0]);
	read_table(&tables[1]);
}

unsigned int sim_callback_count(unsigned int domain)
{
	switch (domain) {
	case CUPTI_CB_DOMAIN_DRIVER_API:
		return CUPTI_DRIVER_TRACE_CBID_SIZE;
	case CUPTI_CB_DOMAIN_RUNTIME_API:
		return CUPTI_RUNTIME_TRACE_CBID_SIZE;
	case CUPTI_CB_DOMAIN_RESOURCE:
		return CUPTI_CBID_RESOURCE_SIZE;
	case CUPTI_CB_DOMAIN_SYNCHRONIZE:
		return CUPTI_CBID_SYNCHRONIZE_SIZE;
	case CUPTI_CB_DOMAIN_STATE:
		return CUPTI_CBID_STATE_SIZE;
	case CUPTI_CB_DOMAIN_NVTX:
		return 64;
	default:
		return 0;
	}
}

const char *sim_callback_name(unsigned int domain, unsigned int cbid)
{
	pthread_once(&once, read_tables);
	if (domain != CUPTI_CB_DOMAIN_DRIVER_API &&
	    domain != CUPTI_CB_DOMAIN_RUNTIME_API)
		return NULL;
	if (cbid >= tables[domain - 1].count)
		return NULL;
	return tables[domain - 1].names[cbid];
}
