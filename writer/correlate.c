/* SPDX-License-Identifier: MIT */
#include "writer/correlate.h"

#include <errno.h>
#include <sys/mman.h>

int calls_init(struct calls *calls, uint64_t bytes)
{
	uint32_t nr = 1 << 20;

	while (nr > 1024 && nr * sizeof(struct call) > bytes)
		nr /= 2;
	calls->size = nr * sizeof(struct call);
	calls->mask = nr - 1;
	/* Zero pages appear when they are touched. */
	calls->entries = mmap(NULL, calls->size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			      -1, 0);
	if (calls->entries != MAP_FAILED)
		return 0;
	calls->entries = NULL;
	return -ENOMEM;
}

void calls_fini(struct calls *calls)
{
	if (calls->entries)
		munmap(calls->entries, calls->size);
	calls->entries = NULL;
}
