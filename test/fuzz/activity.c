/* SPDX-License-Identifier: MIT */
/*
 * The record parser: the bytes of a completed buffer, of any version of CUPTI
 * and any valid length.  Each record stands in memory that ends with it, so
 * that a member that its version lacks is seen when it is read.
 */
#include "test/fuzz/cupti.h"

static void check(const struct activity *activity, uint32_t kind)
{
	MUST(activity->kind == kind);
	if (kind == ACTIVITY_RUNTIME || kind == ACTIVITY_DRIVER)
		MUST(*activity_api_name(activity->api.is_runtime,
					activity->api.cbid));
}

/* A copy of the record alone. */
static void decode(const void *raw)
{
	uint32_t kind = activity_kind(raw);
	size_t size = fuzz_record_size(kind);
	void *copy = malloc(size);
	struct activity activity;

	MUST(copy);
	memcpy(copy, raw, size);
	if (activity_decode(copy, &activity)) {
		check(&activity, kind);
		if (activity_is_gpu_work(activity.kind))
			MUST(activity.op.start_ns ==
			     activity_gpu_start_ns(copy));
	} else {
		MUST(!activity_is_gpu_work(kind));
	}
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input in = { bytes, bytes + size };
	struct activity_buffer buffer = { 0 };
	const void *raw = NULL;
	size_t valid;

	take_version(&in);
	valid = take(&in, 2);
	buffer.size = (size_t)(in.end - in.at);
	buffer.data = malloc(buffer.size + 1);
	MUST(buffer.data);
	memcpy(buffer.data, in.at, buffer.size);
	buffer.valid = valid < buffer.size ? valid : buffer.size;
	while ((raw = activity_next(&buffer, raw)))
		decode(raw);
	free(buffer.data);
	return 0;
}
