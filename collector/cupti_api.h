/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_CUPTI_API_H
#define GPUTRACE_COLLECTOR_CUPTI_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cupti.h>

/*
 * Every function of CUPTI that we call, bound at run time: one table for
 * CUPTI 11.8 to 13.x.  REQUIRED: without it there is no tracing.  OPTIONAL:
 * NULL where the version lacks it (the comment says since when it is there).
 */
#define CUPTI_CALLS(REQUIRED, OPTIONAL) \
	REQUIRED(GetVersion, (uint32_t *version)) \
	REQUIRED(GetResultString, (CUptiResult result, const char **text)) \
	REQUIRED(ActivityRegisterCallbacks, \
		 (CUpti_BuffersCallbackRequestFunc request, \
		  CUpti_BuffersCallbackCompleteFunc complete)) \
	REQUIRED(ActivityEnable, (CUpti_ActivityKind kind)) \
	REQUIRED(ActivityDisable, (CUpti_ActivityKind kind)) \
	REQUIRED(ActivityFlushAll, (uint32_t flag)) \
	REQUIRED(ActivityGetNextRecord, (uint8_t *buffer, size_t valid, \
		 CUpti_Activity **record)) \
	REQUIRED(ActivityGetNumDroppedRecords, (CUcontext context, \
		 uint32_t stream, size_t *dropped)) \
	REQUIRED(ActivitySetAttribute, (CUpti_ActivityAttribute attribute, \
		 size_t *size, void *value)) \
	REQUIRED(GetCallbackName, (CUpti_CallbackDomain domain, \
		 uint32_t id, const char **name)) \
	REQUIRED(Subscribe, (CUpti_SubscriberHandle *subscriber, \
		 CUpti_CallbackFunc callback, void *argument)) \
	REQUIRED(Unsubscribe, (CUpti_SubscriberHandle subscriber)) \
	REQUIRED(EnableCallback, (uint32_t enable, \
		 CUpti_SubscriberHandle subscriber, \
		 CUpti_CallbackDomain domain, CUpti_CallbackId id)) \
	OPTIONAL(ActivityEnableAndDump, (CUpti_ActivityKind kind)) \
		/* 11.7 */ \
	OPTIONAL(ActivityRegisterTimestampCallback, \
		 (CUpti_TimestampCallbackFunc callback)) /* 11.6 */ \
	OPTIONAL(ComputeCapabilitySupported, (int major, int minor, \
		 int *supported)) \
	OPTIONAL(Subscribe_v2, (CUpti_SubscriberHandle *subscriber, \
		 CUpti_CallbackFunc callback, void *argument, \
		 void *parameters)) /* 13.0 */ \
	OPTIONAL(SetThreadIdType, (CUpti_ActivityThreadIdType type)) \
	OPTIONAL(GetStreamIdEx, (CUcontext context, CUstream stream, \
		 uint8_t per_thread, uint32_t *id)) \
	OPTIONAL(GetContextId, (CUcontext context, uint32_t *id)) \
	OPTIONAL(ActivityEnableRuntimeApi, (CUpti_CallbackId id, \
		 uint8_t enable)) /* 12.5 */ \
	OPTIONAL(ActivityEnableDriverApi, (CUpti_CallbackId id, \
		 uint8_t enable)) /* 12.5 */ \
	OPTIONAL(ActivityEnableAllSyncRecords, (uint8_t enable)) \
		/* 12.8 */ \
	OPTIONAL(ActivityConfigureUnifiedMemoryCounter, \
		 (CUpti_ActivityUnifiedMemoryCounterConfig *config, \
		  uint32_t count))

struct cupti_api {
#define X(name, arguments) CUptiResult (*name) arguments;
	CUPTI_CALLS(X, X)
#undef X
};

/*
 * Finds libcupti and binds the table.  The copy that the process has already
 * comes first, since two copies exclude each other; then `path`
 * (GPUTRACE_CUPTI) if it is set; then the known places, the driver's major
 * version (13000: CUDA 13.0) first.  Says in one line what is missing.
 * Returns 0 or -errno (-ENOENT: no libcupti).
 * Context: attach, once.
 */
int cupti_api_load(const char *path, uint32_t driver_version);

/* The bound table; all NULL before cupti_api_load().  Context: any. */
const struct cupti_api *cupti_api(void);

/* cuptiGetVersion(), the driver's version, where the library was found.  0
 * and "" before. */
uint32_t cupti_api_version(void);
uint32_t cupti_api_driver(void);
const char *cupti_api_path(void);

/* CUPTI's number of a stream or context of the calling thread's program;
 * false before CUPTI is bound.  Context: application thread. */
bool cupti_stream_id(void *stream, uint32_t *id);
bool cupti_context_id(void *context, uint32_t *id);

/* The first library that the process has mapped whose path holds `part`: false
 * if there is none.  Reads /proc/self/maps.  Context: attach. */
bool cupti_api_find_mapped(const char *part, char *path, size_t size);

/* CUPTI's words for a result.  Context: any. */
const char *cupti_text(CUptiResult result);

#endif
