/* SPDX-License-Identifier: MIT */
/* libc10_cuda.so: the caching allocator (c10_sim.h). */
#include <pthread.h>
#include <stdlib.h>

#include "test/sim/c10_sim.h"

enum { CPU, CUDA };             /* c10::DeviceType */

#define BLOCK UINT64_C(512)
#define SEGMENT (UINT64_C(2) << 20)

static struct device {
	pthread_mutex_t lock;
	struct sim_c10_stats stats;
} devices[SIM_C10_DEVICES] = {
	{ .lock = PTHREAD_MUTEX_INITIALIZER },
	{ .lock = PTHREAD_MUTEX_INITIALIZER },
	{ .lock = PTHREAD_MUTEX_INITIALIZER },
	{ .lock = PTHREAD_MUTEX_INITIALIZER },
};

struct block {
	int device;
	uint64_t bytes;
};

static uint64_t round_up(uint64_t bytes, uint64_t to)
{
	return (bytes + to - 1) / to * to;
}

static void tell(void *address, int64_t bytes, int device)
{
	const struct sim_c10_stats *stats = &devices[device].stats;

	sim_usage(address, bytes, stats->allocated, stats->reserved,
		  (struct sim_device){ CUDA, (int8_t)device });
}

static struct block *refuse(int device, uint64_t bytes)
{
	struct sim_c10_stats *stats = &devices[device].stats;

	stats->nr_failed++;
	sim_out_of_memory((int64_t)bytes, stats->allocated, stats->reserved,
			  (struct sim_device){ CUDA, (int8_t)device });
	return NULL;
}

static struct block *allocate(int device, uint64_t bytes)
{
	struct sim_c10_stats *stats = &devices[device].stats;
	struct block *block;

	if (stats->allocated + bytes > SIM_C10_CAPACITY)
		return refuse(device, bytes);
	block = malloc(sizeof *block);
	if (!block)
		abort();
	*block = (struct block){ device, bytes };
	stats->allocated += bytes;
	stats->allocated_in_all += bytes;
	stats->nr_allocations++;
	if (stats->allocated > stats->reserved)
		stats->reserved = round_up(stats->allocated, SEGMENT);
	if (stats->allocated > stats->peak)
		stats->peak = stats->allocated;
	stats->reserved_peak = stats->reserved;
	tell(block, (int64_t)bytes, device);
	return block;
}

void *simC10Malloc(int device, uint64_t bytes)
{
	struct block *block;

	pthread_mutex_lock(&devices[device].lock);
	block = allocate(device, round_up(bytes ? bytes : 1, BLOCK));
	pthread_mutex_unlock(&devices[device].lock);
	return block;
}

void simC10Free(void *address)
{
	struct block *block = address;
	struct device *device = &devices[block->device];

	pthread_mutex_lock(&device->lock);
	device->stats.allocated -= block->bytes;
	device->stats.freed_in_all += block->bytes;
	device->stats.nr_frees++;
	tell(block, -(int64_t)block->bytes, block->device);
	pthread_mutex_unlock(&device->lock);
	free(block);
}

void simC10Stats(int device, struct sim_c10_stats *stats)
{
	pthread_mutex_lock(&devices[device].lock);
	*stats = devices[device].stats;
	pthread_mutex_unlock(&devices[device].lock);
}

void simC10File(uint64_t bytes)
{
	sim_usage(devices, (int64_t)bytes, 0, bytes,
		  (struct sim_device){ CPU, -1 });
}
