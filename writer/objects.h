/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_WRITER_OBJECTS_H
#define GPUTRACE_WRITER_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/activity.h"

/*
 * Devices, contexts, streams and CUDA events as CUPTI and NVTX told of them.
 * Context: writer thread.
 */
struct object_name {
	char *text;
	uint32_t len;
};

struct known_device {
	struct device device;           /* name: our copy */
	struct object_name name;        /* by NVTX */
};

/* A name that came before its device: CUPTI tells devices once tracing is
 * on, programs name them when they like. */
struct early_name {
	uint32_t id;
	struct object_name name;
};

#define EARLY_NAMES_MAX 16

struct known_context {
	uint32_t id, device, null_stream;
	bool has_null_stream;
	struct object_name name;
};

struct known_stream {
	uint32_t next;                  /* of the same bucket: index + 1 */
	uint32_t context, id, priority, flag;
	bool has_priority;
	struct object_name name;
};

/* A cudaEventRecord; before: the one before it of the same event, by its
 * correlation. */
struct recorded_event {
	uint32_t context, event_id, stream, correlation, before;
	uint64_t sync_id;
};

enum { STREAM_BUCKETS = 4096 };

struct objects {
	struct known_device *devices;
	struct known_context *contexts;
	struct known_stream *streams;
	/* By id: index + 1 of the newest. */
	uint32_t stream_buckets[STREAM_BUCKETS];
	uint32_t nr_devices, nr_contexts, nr_streams;
	uint32_t devices_size, contexts_size, streams_size;
	struct early_name early[EARLY_NAMES_MAX];
	uint32_t nr_early;
	struct recorded_event *events;  /* direct-mapped by sync id, or, before
					 * CUDA 12.8, by event id */
	struct recorded_event *by_call; /* direct-mapped by correlation */
};

int objects_init(struct objects *objects);
void objects_fini(struct objects *objects);

void objects_add_device(struct objects *objects, const struct device *device);
void objects_add_context(struct objects *objects,
			 const struct context *context);
void objects_add_stream(struct objects *objects, const struct stream *stream);
void objects_add_event(struct objects *objects,
		       const struct cuda_event *event);

/* Also when no CONTEXT activity came: GPU work tells its device. */
void objects_learn_context(struct objects *objects, uint32_t context,
			   uint32_t device);

/* what: enum named_kind of record.h. */
void objects_name(struct objects *objects, uint32_t what, uint64_t handle,
		  const char *text, uint32_t len);

const struct device *objects_device(const struct objects *objects,
				    uint32_t id);
const struct known_context *objects_context(const struct objects *objects,
					    uint32_t id);
const struct known_stream *objects_stream(const struct objects *objects,
					  uint32_t context, uint32_t id);
/* The record that a wait (of call `correlation`) waits for, and that a call
 * made; or NULL. */
const struct recorded_event *objects_event(const struct objects *objects,
					   uint32_t event_id,
					   uint64_t sync_id,
					   uint32_t correlation);
const struct recorded_event *objects_event_of_call(
	const struct objects *objects, uint32_t correlation);

#endif
