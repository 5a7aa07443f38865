/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_NVTX_H
#define GPUTRACE_COLLECTOR_NVTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/record.h"
#include "collector/thread.h"

/*
 * NVTX 2 and 3, through an own injection handler.
 *
 * Names are kept also outside windows: a range that is already open when a
 * window opens is "carried" into it.  A thread carries its own ranges at its
 * first NVTX call inside the window (RANGE_PUSH records with RECORD_CARRIED
 * and the time at which the window opened, outermost first); for a thread that
 * is silent the writer asks with nvtx_carry().
 */

/* Copies the open ranges of a thread that has made no NVTX call since `epoch`
 * began, as RANGE_PUSH records with RECORD_CARRIED.  Returns the bytes
 * written; 0 if there are none, or the thread has carried them itself (they
 * are in its ring, or will be).  Context: writer thread. */
size_t nvtx_carry(struct thread *thread, uint32_t epoch, void *buffer,
		  size_t size);

/* Start/end ranges (any thread) that were open when `epoch` began come the
 * same way, as RANGE_START records: at most 2.1 MiB.  One that ends before the
 * writer asks is carried by the thread that ends it, and may come twice. */
size_t nvtx_carry_started(uint32_t epoch, void *buffer, size_t size);

/* The default domain, NULL in records: its categories hang here.
 * Context: any. */
struct nvtx_domain *nvtx_default_domain(void);

/* What NVTX hands to an injection (nvtx3/nvtxDetail/nvtxTypes.h): its tables
 * by number, 1 the functions, 3 the version (from NVTX 3 on). */
typedef const void *(*nvtx_export_table_fn)(uint32_t id);
struct nvtx_callbacks_table {
	size_t size;
	int (*module_functions)(uint32_t module, void ****table,
				uint32_t *size);
};
struct nvtx_version_table {
	size_t size;
	uint32_t version, reserved;
	void (*set_injection_version)(uint32_t version);
};

/* Fills the table that one NVTX user hands us; returns 1 (handled) or 0.
 * get_export_table: NVTX's NvtxGetExportTableFunc_t.
 * Context: any application thread, perhaps several at once. */
int nvtx_attach(void *get_export_table);

/* True if an NVTX user has handed us its table.  Context: any thread. */
bool nvtx_is_attached(void);

/* Windows that open from now on have ranges and marks, or not; names are kept
 * in any case.  Context: between two windows. */
void nvtx_mute(bool is_muted);

/* As nvtx_attach(), from the two tables themselves; the version's may be NULL.
 * The program's threads may be calling meanwhile.  Context: any thread. */
void nvtx_fill(const struct nvtx_callbacks_table *callbacks,
	       const struct nvtx_version_table *version);

/* Only these domains are recorded (comma-separated globs; NULL: all).
 * Context: attach, once, before the first nvtx_attach(). */
void nvtx_select_domains(const char *globs);

#endif
