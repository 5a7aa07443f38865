/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_PROC_STATUS_H
#define GPUTRACE_TOOLS_PROC_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/doctor_look.h"

/*
 * The status of a process or thread in /proc: a line for each key,
 * "Uid:\t0\t0\t0\t0".  Words are counted from 0.
 */
enum { PROC_STATUS_SIZE = 16 << 10 };   /* some 1,500 bytes, and groups */

/* pid 0: our own.  0, or -errno and an empty text. */
int proc_status_read(const struct look *machine, long pid,
		     char status[PROC_STATUS_SIZE]);
int proc_status_read_thread(const struct look *machine, long pid, long tid,
			    char status[PROC_STATUS_SIZE]);

/* The n-th word behind the key, with all that follows it; or NULL. */
const char *proc_status_word(const char *status, const char *key, int n);
bool proc_status_has_word(const char *status, const char *key,
			  const char *word);

/* The same as a number, 0 if there is none; the last of its line; and a mask
 * in hexadecimal digits. */
long proc_status_number(const char *status, const char *key, int n);
long proc_status_last(const char *status, const char *key);
uint64_t proc_status_mask(const char *status, const char *key);

#endif
