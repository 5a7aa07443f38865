/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_NVTX_PAYLOAD_H
#define GPUTRACE_COLLECTOR_NVTX_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "collector/record.h"

/*
 * NVTX's payload extension: what a program hands over beside a range's name,
 * in a layout that it has registered (nvtx_schema.h).  Its bytes go into the
 * range's record; the writer reads them.
 *
 *   NVTX, at its first call of an extension
 *        -> InitializeInjectionNvtxExtension() -> nvtx_payload_attach()
 *   nvtxDomainRangePushEx(payloadType EXT)  -> nvtx_payload_set()
 *   nvtxRangePopPayload()                   -> the range's end, with bytes
 *
 * Nothing that a payload points at is read, and nothing is taken apart here.
 */
struct nvtx_message;

/* Fills the table of one user of an NVTX extension (nvtxExtModuleInfo_t);
 * returns 1, or 0: it is not the payload extension, and left alone.
 * Context: any thread of the program, perhaps several at once. */
int nvtx_payload_attach(void *module_info);

/* The message has these: `nr` nvtxPayloadData_t, which stay as long as the
 * call lasts.  Context: any, signal-safe; no lock or allocation. */
void nvtx_payload_set(struct nvtx_message *message, const void *payloads,
		      size_t nr);

/* Copies them behind the message's text: message->args_len bytes.
 * Context: as above. */
void nvtx_payload_copy(const struct nvtx_message *message, char *to);

#endif
