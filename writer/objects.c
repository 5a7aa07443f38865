/* SPDX-License-Identifier: MIT */
#include "writer/objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collector/record.h"
#include "writer/bytes.h"

enum {
	/* A process sees at most 64 GPUs or MIG slices; contexts and streams
	 * come and go: past these bounds new ones have no name or priority. */
	DEVICES_MAX = 256,
	CONTEXTS_MAX = 4096,
	STREAMS_MAX = 65536,
	/* CUDA events whose last record is known: 64 Ki x 32 bytes. */
	NR_EVENTS = 1 << 16,
	/* So many records of an event are looked back through for the one that
	 * a wait means; a program that records one more often in a batch (1 s)
	 * and waits each time would hold up the writer. */
	LOOK_BACK = 1024,
};

int objects_init(struct objects *objects)
{
	memset(objects, 0, sizeof(*objects));
	objects->events = calloc(NR_EVENTS, sizeof(*objects->events));
	objects->by_call = calloc(NR_EVENTS, sizeof(*objects->by_call));
	return objects->events && objects->by_call ? 0 : -ENOMEM;
}

void objects_fini(struct objects *objects)
{
	uint32_t i;

	for (i = 0; i < objects->nr_devices; i++) {
		free((char *)objects->devices[i].device.name);
		free(objects->devices[i].name.text);
	}
	for (i = 0; i < objects->nr_contexts; i++)
		free(objects->contexts[i].name.text);
	for (i = 0; i < objects->nr_streams; i++)
		free(objects->streams[i].name.text);
	for (i = 0; i < objects->nr_early; i++)
		free(objects->early[i].name.text);
	free(objects->devices);
	free(objects->contexts);
	free(objects->streams);
	free(objects->events);
	free(objects->by_call);
	memset(objects, 0, sizeof(*objects));
}

/* A new zeroed item at the end, or NULL. */
static void *append(void *list, uint32_t *nr, uint32_t *size, uint32_t max,
		    size_t item_size)
{
	void **items = list;
	uint32_t more = *size ? *size * 2 : 8;
	char *grown;

	if (*nr == max)
		return NULL;
	if (*nr == *size) {
		grown = realloc(*items, more * item_size);
		if (!grown)
			return NULL;
		*items = grown;
		*size = more;
	}
	grown = (char *)*items + *nr * item_size;
	memset(grown, 0, item_size);
	(*nr)++;
	return grown;
}

static struct known_device *find_device(const struct objects *objects,
					uint32_t id)
{
	uint32_t i;

	for (i = 0; i < objects->nr_devices; i++)
		if (objects->devices[i].device.id == id)
			return &objects->devices[i];
	return NULL;
}

static struct known_context *find_context(const struct objects *objects,
					  uint32_t id)
{
	uint32_t i;

	for (i = objects->nr_contexts; i-- > 0;)
		if (objects->contexts[i].id == id)
			return &objects->contexts[i];
	return NULL;
}

static struct known_context *get_context(struct objects *objects, uint32_t id)
{
	struct known_context *context = find_context(objects, id);

	if (!context)
		context = append(&objects->contexts, &objects->nr_contexts,
				 &objects->contexts_size, CONTEXTS_MAX,
				 sizeof(*context));
	if (context)
		context->id = id;
	return context;
}

static struct known_stream *get_stream(struct objects *objects,
				       uint32_t context, uint32_t id)
{
	uint32_t *bucket = &objects->stream_buckets[id % STREAM_BUCKETS];
	struct known_stream *stream;

	stream = (struct known_stream *)objects_stream(objects, context, id);
	if (!stream) {
		stream = append(&objects->streams, &objects->nr_streams,
				&objects->streams_size, STREAMS_MAX,
				sizeof(*stream));
		if (!stream)
			return NULL;
		stream->next = *bucket;
		*bucket = objects->nr_streams;
	}
	stream->context = context;
	stream->id = id;
	return stream;
}

static void set_name(struct object_name *name, const char *text, uint32_t len)
{
	char *copy = bytes_copy(text, len);

	if (!copy)
		return;
	free(name->text);
	name->text = copy;
	name->len = len;
}

static void keep_early_name(struct objects *objects, uint32_t id,
			    const char *text, uint32_t len)
{
	if (objects->nr_early == EARLY_NAMES_MAX)
		return;
	objects->early[objects->nr_early].id = id;
	set_name(&objects->early[objects->nr_early++].name, text, len);
}

/* The name goes to the device; the last one given wins. */
static void take_early_name(struct objects *objects,
			    struct known_device *device)
{
	uint32_t i;

	for (i = 0; i < objects->nr_early; i++) {
		const struct early_name *early = &objects->early[i];

		if (early->id == device->device.id && early->name.text)
			set_name(&device->name, early->name.text,
				 early->name.len);
	}
}

void objects_add_device(struct objects *objects, const struct device *device)
{
	struct known_device *known = find_device(objects, device->id);
	const char *name = device->name ? device->name : "GPU";

	if (!known)
		known = append(&objects->devices, &objects->nr_devices,
			       &objects->devices_size, DEVICES_MAX,
			       sizeof(*known));
	if (!known)
		return;
	free((char *)known->device.name);
	known->device = *device;
	known->device.name = bytes_copy(name, strlen(name));
	if (!known->name.text)
		take_early_name(objects, known);
}

void objects_add_context(struct objects *objects, const struct context *context)
{
	struct known_context *known = get_context(objects, context->id);

	if (!known)
		return;
	known->device = context->device;
	known->null_stream = context->null_stream;
	known->has_null_stream = true;
}

void objects_learn_context(struct objects *objects, uint32_t context,
			   uint32_t device)
{
	struct known_context *known;

	if (find_context(objects, context))
		return;
	known = get_context(objects, context);
	if (known)
		known->device = device;
}

void objects_add_stream(struct objects *objects, const struct stream *stream)
{
	struct known_stream *known;

	known = get_stream(objects, stream->context, stream->id);
	if (!known)
		return;
	known->priority = stream->priority;
	known->flag = stream->flag;
	known->has_priority = true;
}

static uint32_t event_slot(uint32_t event_id, uint64_t sync_id)
{
	return (uint32_t)((sync_id ? sync_id : event_id) % NR_EVENTS);
}

void objects_add_event(struct objects *objects, const struct cuda_event *event)
{
	struct recorded_event *last = &objects->events[
		event_slot(event->event_id, event->event_sync_id)];
	struct recorded_event known = {
		.context = event->context,
		.event_id = event->event_id,
		.stream = event->stream,
		.correlation = event->correlation,
		.before = last->event_id == event->event_id ?
			last->correlation : 0,
		.sync_id = event->event_sync_id,
	};

	*last = known;
	objects->by_call[event->correlation % NR_EVENTS] = known;
}

/* A stream's id is unique in the process, its context is not told. */
static void name_stream(struct objects *objects, uint32_t id,
			const char *text, uint32_t len)
{
	struct known_stream *stream = NULL;
	uint32_t at = objects->stream_buckets[id % STREAM_BUCKETS];

	for (; at; at = objects->streams[at - 1].next) {
		if (objects->streams[at - 1].id != id)
			continue;
		stream = &objects->streams[at - 1];
		set_name(&stream->name, text, len);
	}
	if (!stream)
		stream = get_stream(objects, UINT32_MAX, id);
	if (stream)
		set_name(&stream->name, text, len);
}

void objects_name(struct objects *objects, uint32_t what, uint64_t handle,
		  const char *text, uint32_t len)
{
	struct known_device *device;
	struct known_context *context;

	if (!len)
		return;
	if (what == NAMED_DEVICE) {
		device = find_device(objects, (uint32_t)handle);
		if (device)
			set_name(&device->name, text, len);
		else
			keep_early_name(objects, (uint32_t)handle, text, len);
	} else if (what == NAMED_CONTEXT) {
		context = get_context(objects, (uint32_t)handle);
		if (context)
			set_name(&context->name, text, len);
	} else if (what == NAMED_STREAM) {
		name_stream(objects, (uint32_t)handle, text, len);
	}
}

const struct device *objects_device(const struct objects *objects, uint32_t id)
{
	const struct known_device *known = find_device(objects, id);

	return known ? &known->device : NULL;
}

const struct known_context *objects_context(const struct objects *objects,
					    uint32_t id)
{
	return find_context(objects, id);
}

const struct known_stream *objects_stream(const struct objects *objects,
					  uint32_t context, uint32_t id)
{
	const struct known_stream *stream;
	uint32_t at = objects->stream_buckets[id % STREAM_BUCKETS];

	for (; at; at = stream->next) {
		stream = &objects->streams[at - 1];
		if (stream->id == id && (stream->context == context ||
					 stream->context == UINT32_MAX))
			return stream;
	}
	return NULL;
}

/* A batch's records are all read before its waits: without a sync id (before
 * CUDA 12.8) the last record that a wait can mean is the last before it. */
static const struct recorded_event *before_wait(const struct objects *objects,
	const struct recorded_event *known, uint32_t correlation)
{
	uint32_t event_id = known->event_id;

	for (uint32_t i = 0; i < LOOK_BACK; i++) {
		if (!known || known->event_id != event_id)
			return NULL;
		if ((int32_t)(known->correlation - correlation) <= 0)
			return known;
		known = objects_event_of_call(objects, known->before);
	}
	return NULL;
}

const struct recorded_event *objects_event(const struct objects *objects,
					   uint32_t event_id, uint64_t sync_id,
					   uint32_t correlation)
{
	const struct recorded_event *known;

	known = &objects->events[event_slot(event_id, sync_id)];
	if (!known->correlation || known->event_id != event_id ||
	    known->sync_id != sync_id)
		return NULL;
	return sync_id || !correlation ? known :
		before_wait(objects, known, correlation);
}

const struct recorded_event *objects_event_of_call(
	const struct objects *objects, uint32_t correlation)
{
	const struct recorded_event *known;

	known = &objects->by_call[correlation % NR_EVENTS];
	return known->correlation && known->correlation == correlation ?
		known : NULL;
}
