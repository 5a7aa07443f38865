/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_BIG_H
#define GPUTRACE_TOOLS_BIG_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Arrays with an element for each event of a trace.  Together they take 512 MiB
 * of memory at most (GPUREPORT_MEMORY); what is beyond lies in files
 * without a name in TMPDIR (/tmp), mapped, so that the system can take their
 * memory back.  Where no file can be had, memory goes on, after one line.
 *
 * Freed by big_free() alone; NULL where memory ends.  One thread.
 */
void *big_alloc(size_t bytes);
void big_free(void *array);

/* Makes room for element `nr` of an array that grows by half.  False when
 * memory ends; the array is then as it was. */
bool big_room(void **array, size_t *cap, size_t nr, size_t element_size);

#define BIG_ROOM(v, nr, cap) \
	big_room((void **)&(v), &(cap), (nr), sizeof(*(v)))

#endif
