/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_NVTX_RECORD_H
#define GPUTRACE_COLLECTOR_NVTX_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCuda.h>
#include <nvtx3/nvToolsExtCudaRt.h>
#include <nvtx3/nvToolsExtPayload.h>

#include "collector/record.h"

/*
 * From what the program says in an NVTX call to a record in its ring.
 *
 *   nvtxRangePushA(...)     -> a message -> nvtx_push() -> ring, open ranges
 *   nvtxDomainRangePushEx() -> a message -> nvtx_push()
 *
 * A message points at what the program said; nothing is copied yet.
 * Context of all: any thread of the program; no lock, allocation or system
 * call but at a thread's first record.
 */
struct nvtx_message {
	const struct nvtx_domain *domain;       /* NULL: default */
	const struct nvtx_text *string;         /* registered, or NULL */
	const char *text;
	const wchar_t *wide;                    /* if not NULL, is the text */
	uint32_t len;                           /* in UTF-8 */
	/* Of a source (source.h); with RECORD_PAYLOAD an array of as many
	 * nvtxPayloadData_t as `payload` says, of which args_len are copied. */
	const char *args;
	uint32_t args_len;
	uint32_t category, color;
	uint64_t payload;
	uint8_t payload_type, flags;
};

/* Wide characters are converted where they go: no place for them is needed on
 * the stack, which is small in a signal handler. */
void nvtx_set_text(struct nvtx_message *message, const char *text);
void nvtx_set_wide(struct nvtx_message *message, const wchar_t *text);
void nvtx_set_attributes(struct nvtx_message *message,
			 const nvtxEventAttributes_t *attributes);

/* Whether the default domain (NULL) is recorded.  Context: attach. */
void nvtx_record_default(bool recorded);

/* nvtx_mute() (nvtx.h).  Context: any. */
bool nvtx_is_muted(void);

/* The nesting level from 0, or -1: not recorded, as NVTX documents. */
int nvtx_push(const struct nvtx_message *message);
int nvtx_pop(const struct nvtx_domain *domain);

/* The same of a source: no mark that starts or stops anything. */
int nvtx_push_quietly(const struct nvtx_message *message);
int nvtx_pop_quietly(const struct nvtx_domain *domain);

/* Start returns an id of the process, never 0. */
uint64_t nvtx_start(const struct nvtx_message *message);
void nvtx_end(uint64_t id);

/* The same with a payload, which comes with the end. */
int nvtx_pop_with(const struct nvtx_message *last);
void nvtx_end_with(uint64_t id, const struct nvtx_message *last);

void nvtx_mark(const struct nvtx_message *message);

/* Names are seldom given and kept also outside windows. */
void nvtx_name(enum named_kind what, uint64_t handle, const char *text,
	       size_t len);

#endif
