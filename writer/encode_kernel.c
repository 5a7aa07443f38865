/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "collector/loss.h"
#include "writer/occupancy.h"
#include "writer/trace.h"

/*
 * Kernels.  A program launches few different ones, again and again: what does
 * not change between launches of one shape (kernel, grid, block, ... on one
 * lane) is rendered once and copied.
 */
struct shape {
	const struct name *name;
	const struct lane *lane;
	int32_t grid[3], block[3];
	uint32_t static_smem, dynamic_smem, smem_executed, local_per_thread;
	uint32_t cluster[3], cluster_scheduling, max_cluster;
	uint32_t graph_id, channel;
	int32_t priority;
	uint16_t registers;
	uint8_t launch_type, is_device_launched;
	uint8_t channel_type, cache_executed, reserved[2];
};

_Static_assert(sizeof(struct shape) % 8 == 0, "hashed by words, no holes");

struct rendered {
	struct shape shape;
	uint32_t nr_devices;            /* known when it was rendered */
	struct bytes text;
	uint32_t head_len, args_len;    /* then the tail */
};

/* 8192 shapes: PyTorch models show some hundreds. */
enum { NR_SHAPES = 8192 };

struct kernel_shapes {
	struct rendered slots[NR_SHAPES];
};

struct kernel_shapes *kernel_shapes_create(void)
{
	return calloc(1, sizeof(struct kernel_shapes));
}

void kernel_shapes_destroy(struct kernel_shapes *shapes)
{
	int i;

	for (i = 0; shapes && i < NR_SHAPES; i++)
		bytes_fini(&shapes->slots[i].text);
	free(shapes);
}

static void shape_of(struct shape *shape, const struct kernel *kernel,
		     const struct name *name, const struct lane *lane)
{
	memset(shape, 0, sizeof(*shape));
	shape->name = name;
	shape->lane = lane;
	memcpy(shape->grid, kernel->grid, sizeof(shape->grid));
	memcpy(shape->block, kernel->block, sizeof(shape->block));
	memcpy(shape->cluster, kernel->cluster, sizeof(shape->cluster));
	shape->static_smem = kernel->static_smem;
	shape->dynamic_smem = kernel->dynamic_smem;
	shape->smem_executed = kernel->smem_executed;
	shape->local_per_thread = kernel->local_per_thread;
	shape->cluster_scheduling = kernel->cluster_scheduling;
	shape->max_cluster = kernel->max_cluster;
	shape->graph_id = kernel->op.graph_id;
	shape->channel = kernel->op.channel;
	shape->channel_type = kernel->op.channel_type;
	shape->priority = kernel->priority;
	shape->registers = kernel->registers;
	shape->launch_type = kernel->launch_type;
	shape->is_device_launched = kernel->is_device_launched;
	shape->cache_executed = kernel->cache_executed;
}

/* Four independent sums, so that the multiplications overlap. */
static uint32_t hash_shape(const struct shape *shape)
{
	const uint64_t *word = (const uint64_t *)(const void *)shape;
	uint64_t sum[4] = { 1, 2, 3, 4 };
	size_t i, nr = sizeof(*shape) / 8;

	for (i = 0; i < nr; i++)
		sum[i % 4] = (sum[i % 4] ^ word[i]) *
			UINT64_C(0x9E3779B97F4A7C15);
	sum[0] ^= sum[1] >> 29 ^ sum[2] >> 17 ^ sum[3] >> 7;
	sum[0] *= UINT64_C(0x9E3779B97F4A7C15);
	return (uint32_t)(sum[0] >> 40) % NR_SHAPES;
}

static void add_dims(struct bytes *out, const char *key, const int32_t *dims)
{
	int i;

	json_key(out, key);
	json_open(out, '[');
	for (i = 0; i < 3; i++)
		json_i64(out, dims[i]);
	json_close(out, ']');
}

/* As Kineto tells it: blocks and warps are the grid's share of one
 * multiprocessor, the occupancy counts no more of them than fit at once. */
static void add_occupancy(struct bytes *out, const struct device *device,
			  const struct kernel *kernel)
{
	uint64_t blocks = (uint64_t)kernel->grid[0] *
		(uint64_t)kernel->grid[1] * (uint64_t)kernel->grid[2];
	struct occupancy occupancy;
	uint64_t warps;

	if (!device || !device->nr_sm)
		return;
	occupancy_of(device, kernel, &occupancy);
	if (!occupancy.max_warps)
		return;
	json_key(out, "blocks per SM");
	json_ratio(out, blocks, device->nr_sm);
	json_key(out, "warps per SM");
	json_ratio(out, blocks * occupancy.warps_per_block, device->nr_sm);
	if (blocks > (uint64_t)occupancy.blocks * device->nr_sm)
		blocks = (uint64_t)occupancy.blocks * device->nr_sm;
	warps = blocks * occupancy.warps_per_block;
	json_member_u64(out, "est. achieved occupancy %", warps * 100 /
			((uint64_t)occupancy.max_warps * device->nr_sm));
	json_member_u64(out, "max blocks per SM", occupancy.blocks);
	json_member_text(out, "occupancy limit", occupancy.limit);
}

static void add_if(struct bytes *out, const char *key, uint64_t value)
{
	if (value)
		json_member_u64(out, key, value);
}

/* What only some launches have. */
static void add_extras(struct bytes *out, const struct kernel *kernel)
{
	static const char *const types[] = {
		"", "cooperative", "cooperative multi-device", "command list",
	};
	int32_t cluster[3] = { (int32_t)kernel->cluster[0],
		(int32_t)kernel->cluster[1], (int32_t)kernel->cluster[2] };

	add_if(out, "static shared memory", kernel->static_smem);
	add_if(out, "dynamic shared memory", kernel->dynamic_smem);
	add_if(out, "local memory per thread", kernel->local_per_thread);
	if (cluster[0] > 0) {
		add_dims(out, "cluster", cluster);
		add_if(out, "cluster scheduling", kernel->cluster_scheduling);
		add_if(out, "max potential cluster", kernel->max_cluster);
	}
	if (kernel->launch_type && kernel->launch_type < 4)
		json_member_text(out, "launch", types[kernel->launch_type]);
	if (kernel->is_device_launched)
		json_member_u64(out, "device launched", 1);
	if (kernel->priority != INT32_MIN)
		json_member_i64(out, "priority", kernel->priority);
	if (kernel->op.channel_type) {
		json_member_u64(out, "channel", kernel->op.channel);
		json_member_u64(out, "channel_type", kernel->op.channel_type);
	}
}

static void render(struct trace *trace, struct rendered *to,
		   const struct kernel *kernel, const struct lane *lane)
{
	const struct name *name = to->shape.name;
	struct bytes *out = &to->text;

	bytes_clear(out);
	json_next_event(out);
	json_open(out, '{');
	json_member_text(out, "ph", "X");
	json_member_text(out, "cat", "kernel");
	json_member_text(out, "name", name->text);
	json_comma(out);
	bytes_add(out, lane->where, lane->where_len);
	json_key(out, "ts");
	to->head_len = (uint32_t)out->len;
	json_hole(out);
	json_key(out, "args");
	json_open(out, '{');
	json_member_u64(out, "queued", 0);
	json_member_u64(out, "device", kernel->op.device);
	json_member_u64(out, "context", kernel->op.context);
	json_member_u64(out, "stream", kernel->op.stream);
	json_key(out, "correlation");
	to->args_len = (uint32_t)out->len - to->head_len;
	json_hole(out);
	json_member_u64(out, "registers per thread", kernel->registers);
	json_member_u64(out, "shared memory",
			kernel->static_smem + kernel->dynamic_smem);
	add_occupancy(out, objects_device(&trace->objects, kernel->op.device),
		      kernel);
	add_dims(out, "grid", kernel->grid);
	add_dims(out, "block", kernel->block);
	add_extras(out, kernel);
	if (kernel->op.graph_id)
		json_member_u64(out, "graph id", kernel->op.graph_id);
	to->nr_devices = trace->objects.nr_devices;
}

static const struct rendered *rendered_of(struct trace *trace,
					  const struct kernel *kernel,
					  const struct name *name,
					  const struct lane *lane)
{
	struct rendered *slot;
	struct shape shape;

	shape_of(&shape, kernel, name, lane);
	slot = &trace->kernels->slots[hash_shape(&shape)];
	if (memcmp(&slot->shape, &shape, sizeof(shape)) ||
	    slot->nr_devices != trace->objects.nr_devices) {
		slot->shape = shape;
		render(trace, slot, kernel, lane);
		if (slot->text.is_cut)
			slot->shape.name = NULL;
	}
	return slot->text.is_cut ? NULL : slot;
}

/* `"args"` begins in what follows the duration: see render(). */
void encode_kernel(struct trace *trace, const struct kernel *kernel,
		   const struct launch *launch)
{
	const struct gpu_op *op = &kernel->op;
	const struct name *name = names_get(&trace->names, kernel->name);
	const struct rendered *slot;
	struct lane *lane;
	const char *tail;
	size_t tail_len;
	char *to;

	lane = track_gpu(&trace->tracks, op->device, op->context, op->stream,
			 ROLE_WORK);
	lane = track_place(&trace->tracks, lane, 0, op->start_ns, op->end_ns);
	slot = lane ? rendered_of(trace, kernel, name, lane) : NULL;
	to = slot ? bytes_room(&trace->out, slot->text.len + 256) : NULL;
	if (!to) {
		loss_add(LOSS_TABLE_FULL, lane ? 1 : 0);
		return;
	}
	memcpy(to, slot->text.data, slot->head_len);
	to = json_put_us(to + slot->head_len, op->start_ns - trace->base_ns);
	to = json_put(to, JSON_DUR);
	to = json_put_us(to, op->end_ns - op->start_ns);
	memcpy(to, slot->text.data + slot->head_len, slot->args_len);
	to = json_put_u64(to + slot->args_len, op->correlation);
	tail = slot->text.data + slot->head_len + slot->args_len;
	tail_len = slot->text.len - slot->head_len - slot->args_len;
	memcpy(to, tail, tail_len);
	to += tail_len;
	if (op->graph_id) {
		to = json_put(to, JSON_NODE);
		to = json_put_u64(to, op->graph_node_id);
	}
	if (!launch->call) {
		to = json_put(to, JSON_NOT_TRACED);
	} else if (launch->before_launch_ns) {
		to = json_put(to, JSON_BEFORE_LAUNCH);
		to = json_put_u64(to, launch->before_launch_ns);
	}
	if (launch->external_id) {
		to = json_put(to, JSON_EXTERNAL_ID);
		to = json_put_u64(to, launch->external_id);
	}
	bytes_end(&trace->out, json_put(to, JSON_END_ARGS));
	lane->nr_events++;
	trace->nr_events++;
	trace->nr_kernels++;
	event_ends(trace, op->end_ns);
	encode_arrow(trace, launch, lane, op->start_ns);
}
