/* SPDX-License-Identifier: MIT */
#include "writer/track.h"

#include <stdlib.h>

#include "collector/loss.h"
#include "writer/json.h"

enum { NR_BUCKETS = 1024 };

#define FIRST_CALL_NS UINT64_C(100000000)

static uint32_t between(uint64_t value, uint32_t least, uint32_t most)
{
	return value < least ? least : value > most ? most : (uint32_t)value;
}

int tracks_init(struct tracks *tracks, uint32_t pid, uint64_t memory)
{
	memset(tracks, 0, sizeof(*tracks));
	tracks->pid = pid;
	/* A thread's lane takes 1.6 KB with the thread, a busy one 8; and 1,000
	 * streams, with their ranges and waits, shall have their own. */
	tracks->max_lanes = between(memory / 2048, 4096, TRACK_MAX_LANES);
	tracks->max_threads = between(memory / 8192, 256, TRACK_MAX_THREADS);
	tracks->ended_last = &tracks->ended;
	tracks->buckets = calloc(NR_BUCKETS, sizeof(*tracks->buckets));
	return tracks->buckets ? 0 : -1;
}

void tracks_fini(struct tracks *tracks)
{
	struct lane *lane;

	while ((lane = tracks->lanes)) {
		tracks->lanes = lane->next;
		gaps_fini(&lane->gaps);
		nest_fini(&lane->nest);
		free(lane);
	}
	free(tracks->buckets);
	memset(tracks, 0, sizeof(*tracks));
}

/* Renders what every event on the lane says about its place. */
static void render(struct lane *lane)
{
	struct bytes out = { lane->where, 0, sizeof(lane->where), false };

	json_member_u64(&out, "pid", lane->pid);
	json_member_u64(&out, "tid", lane->tid);
	lane->where_len = (uint32_t)out.len;
}

static struct lane *create(struct tracks *tracks, uint32_t pid, uint32_t tid,
			   enum role role)
{
	struct lane *lane;

	if (tracks->nr_lanes == tracks->max_lanes)
		return NULL;
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return NULL;
	lane->pid = pid;
	lane->tid = tid;
	lane->role = role;
	lane->number = 1;
	lane->stream = LANE_NO_STREAM;
	render(lane);
	lane->next = tracks->lanes;
	tracks->lanes = lane;
	tracks->nr_lanes++;
	return lane;
}

/* Threads and streams leave some for what is always needed. */
static bool is_crowded(const struct tracks *tracks)
{
	return tracks->nr_lanes >= tracks->max_lanes / 16 * 15;
}

static uint32_t gpu_tid(struct tracks *tracks, uint32_t device)
{
	return ++tracks->next_tid[device < 63 ? device : 63];
}

static uint32_t own_tid(struct tracks *tracks)
{
	return TRACK_OWN_TID + tracks->nr_own++;
}

static bool is_lane(const struct lane *lane, uint32_t device, uint32_t context,
		    uint32_t stream, enum role role)
{
	return lane->stream == stream && lane->role == role &&
	       lane->context == context && lane->device == device;
}

struct lane *track_gpu(struct tracks *tracks, uint32_t device, uint32_t context,
		       uint32_t stream, enum role role)
{
	uint32_t hash = (stream * 31 + context) * 31 + device * 8 + role;
	struct lane **bucket = &tracks->buckets[hash % NR_BUCKETS];
	struct lane *lane = tracks->last;

	if (lane && is_lane(lane, device, context, stream, role))
		return lane;
	for (lane = *bucket; lane; lane = lane->next_in_bucket)
		if (is_lane(lane, device, context, stream, role))
			break;
	if (!lane && is_crowded(tracks) && stream != LANE_OTHER_STREAMS)
		return track_gpu(tracks, device, context, LANE_OTHER_STREAMS,
				 role);
	if (!lane) {
		lane = create(tracks, TRACK_GPU_PID + device,
			      gpu_tid(tracks, device), role);
		if (!lane)
			return NULL;
		lane->device = device;
		lane->context = context;
		lane->stream = stream;
		lane->next_in_bucket = *bucket;
		*bucket = lane;
	}
	tracks->last = lane;
	return lane;
}

struct lane *track_own(struct tracks *tracks, enum role role)
{
	struct lane **lane = &tracks->own[role];

	if (!*lane)
		*lane = create(tracks, tracks->pid, own_tid(tracks), role);
	return *lane;
}

struct lane *track_row(struct tracks *tracks, struct lane *lane,
		       enum role role)
{
	struct lane **row = &lane->rows[role - ROLE_OSRT];

	if (*row || is_crowded(tracks))
		return *row;
	*row = create(tracks, tracks->pid, own_tid(tracks), role);
	if (*row)
		(*row)->thread = lane->thread;
	return *row;
}

void track_end_thread(struct tracks *tracks, struct lane *lane, uint64_t t_ns)
{
	lane->is_ended = true;
	lane->ended_ns = t_ns;
	if (lane->is_queued)
		return;
	lane->is_queued = true;
	lane->next_ended = NULL;
	*tracks->ended_last = lane;
	tracks->ended_last = &lane->next_ended;
}

/*
 * What stands on it is older than all that will: a thread says that it begins
 * in the middle of its first call, which may have taken a while.
 */
static struct lane *take_ended(struct tracks *tracks, uint64_t begin_ns)
{
	struct lane *lane;

	while ((lane = tracks->ended)) {
		if (lane->is_ended && lane->ended_ns + FIRST_CALL_NS > begin_ns)
			return NULL;
		tracks->ended = lane->next_ended;
		if (!tracks->ended)
			tracks->ended_last = &tracks->ended;
		lane->is_queued = false;
		if (lane->is_ended)
			return lane;
	}
	return NULL;
}

static struct lane *create_for_thread(struct tracks *tracks,
				      const struct cpu_thread *thread,
				      uint32_t tid)
{
	struct lane *lane = is_crowded(tracks) ? NULL :
		create(tracks, tracks->pid, tid, ROLE_THREAD);

	if (!lane)
		return NULL;
	tracks->nr_threads++;
	lane->thread = thread;
	/* 512 calls, 8 KiB: there may be thousands of threads. */
	lane->nest.outer.limit = 512;
	return lane;
}

struct lane *track_thread(struct tracks *tracks,
			  const struct cpu_thread *thread,
			  uint32_t tid, uint64_t begin_ns)
{
	struct lane *lane = track_is_shared(tracks) ?
		take_ended(tracks, begin_ns) : NULL;

	if (lane)
		lane->is_shared = true;
	else
		lane = create_for_thread(tracks, thread, tid);
	if (lane) {
		lane->user = thread;
		lane->is_ended = false;
	}
	return lane;
}

void track_begin_file(struct tracks *tracks)
{
	struct lane *lane;

	for (lane = tracks->lanes; lane; lane = lane->next) {
		lane->nr_elsewhere_before = lane->nr_elsewhere;
		lane->nr_elsewhere = lane->nr_events;
	}
}

void track_end_file(struct tracks *tracks)
{
	struct lane *lane;

	for (lane = tracks->lanes; lane; lane = lane->next)
		lane->nr_elsewhere = lane->nr_elsewhere_before +
			lane->nr_events - lane->nr_elsewhere;
}

struct lane *track_more(struct tracks *tracks, struct lane *lane)
{
	struct lane *more = lane->more;
	bool is_gpu = lane->pid != tracks->pid;

	if (more)
		return more;
	more = create(tracks, lane->pid, is_gpu ?
		      gpu_tid(tracks, lane->device) : own_tid(tracks),
		      lane->role);
	if (!more)
		return NULL;
	more->device = lane->device;
	more->context = lane->context;
	more->stream = lane->stream;
	more->thread = lane->thread;
	more->number = lane->number + 1;
	lane->more = more;
	return more;
}

static bool place(struct lane *lane, uint32_t batch, uint64_t start_ns,
		  uint64_t end_ns)
{
	return lane->role == ROLE_WORK ?
		gaps_place(&lane->gaps, start_ns, end_ns) :
		nest_place(&lane->nest, batch, start_ns, end_ns);
}

/* An empty lane refuses only for want of memory: so would one more. */
static bool has_memory(const struct lane *lane)
{
	return lane->role == ROLE_WORK ? lane->gaps.slots != NULL :
		lane->nest.stack != NULL;
}

struct lane *track_place(struct tracks *tracks, struct lane *lane,
			 uint32_t batch, uint64_t start_ns, uint64_t end_ns)
{
	while (lane && !place(lane, batch, start_ns, end_ns))
		lane = has_memory(lane) ? track_more(tracks, lane) : NULL;
	if (!lane)
		loss_add(LOSS_TABLE_FULL, 1);
	return lane;
}
