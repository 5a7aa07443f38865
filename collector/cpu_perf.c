/* SPDX-License-Identifier: MIT */
#include "collector/cpu_perf.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "collector/cpu_proc.h"
#include "collector/filter.h"

/* Newer than some headers (Linux 4.17). */
#define SWITCH_OUT_PREEMPT (1 << 14)

/* The records that we ask for, as the kernel lays them out; each ends with
 * what sample_type names: its time.
 *
 *	SWITCH      | head 8 | time 8 |
 *	LOST        | head 8 | id 8 | lost 8 | time 8 |
 *	FORK, EXIT  | head 8 | pid, ppid 8 | tid, ptid 8 | time 8 | time 8 |
 */
union kernel_record {
	struct perf_event_header head;
	struct {
		struct perf_event_header head;
		uint64_t time;
	} change;
	struct {
		struct perf_event_header head;
		uint64_t id, lost, time;
	} lost;
	struct {
		struct perf_event_header head;
		uint32_t pid, ppid, tid, ptid;
		uint64_t time, sample_time;
	} task;
};

int cpu_ring_open(struct cpu_ring *ring, uint32_t tid, uint32_t nr_pages)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = PERF_ATTR_SIZE_VER5,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TIME, .sample_id_all = 1,
		.context_switch = 1, .task = 1,
		/* What an ordinary user may see. */
		.exclude_kernel = 1, .exclude_hv = 1,
		.use_clockid = 1, .clockid = CLOCK_BOOTTIME,
	};
	size_t page = proc_page_size();
	int fd, err;

	memset(ring, 0, sizeof *ring);
	/* It may have come since the window opened. */
	if (filter_is_there())
		return -EPERM;
	fd = (int)syscall(SYS_perf_event_open, &attr, (pid_t)tid, -1, -1,
			  PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -errno;
	ring->page = mmap(NULL, (nr_pages + CPU_RING_EXTRA) * page,
			  PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	err = errno;
	close(fd);
	if (ring->page == MAP_FAILED) {
		ring->page = NULL;
		return -err;
	}
	ring->size = (uint32_t)(nr_pages * page);
	return 0;
}

void cpu_ring_close(struct cpu_ring *ring)
{
	if (ring->page)
		munmap(ring->page, ring->size + CPU_RING_EXTRA *
		       proc_page_size());
	ring->page = NULL;
}

uint32_t cpu_ring_look(struct cpu_ring *ring)
{
	struct perf_event_mmap_page *page = ring->page;

	/* Pairs with the kernel's store behind its records. */
	ring->head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	if (ring->head - ring->tail > ring->size)
		ring->tail = ring->head;        /* never, by its rules */
	return (uint32_t)(ring->head - ring->tail);
}

/* The first bytes of the record at the tail, which may wrap. */
static void copy_out(const struct cpu_ring *ring, void *to, uint32_t len)
{
	const char *records = (const char *)ring->page + proc_page_size();
	uint32_t at = (uint32_t)(ring->tail & (ring->size - 1));
	uint32_t first = ring->size - at < len ? ring->size - at : len;

	memcpy(to, records + at, first);
	memcpy((char *)to + first, records, len - first);
}

static bool set(struct cpu_change *change, enum cpu_change_kind kind,
		uint64_t boottime_ns, uint64_t number)
{
	change->kind = kind;
	change->boottime_ns = boottime_ns;
	change->number = number;
	return true;
}

static enum cpu_change_kind switch_kind(uint16_t misc)
{
	if (!(misc & PERF_RECORD_MISC_SWITCH_OUT))
		return CHANGE_IN;
	return misc & SWITCH_OUT_PREEMPT ? CHANGE_PREEMPTED : CHANGE_OUT;
}

bool cpu_change_parse(const void *bytes, uint32_t size,
		      struct cpu_change *change)
{
	const union kernel_record *record = bytes;

	if (size < sizeof record->head)
		return false;
	switch (record->head.type) {
	case PERF_RECORD_SWITCH:
		return size >= sizeof record->change &&
			set(change, switch_kind(record->head.misc),
			    record->change.time, 0);
	case PERF_RECORD_LOST:
		return size >= sizeof record->lost &&
			set(change, CHANGE_LOST, record->lost.time,
			    record->lost.lost);
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		/* FORK is a child process, too: then pid is another's. */
		return size >= sizeof record->task &&
			(record->head.type == PERF_RECORD_EXIT ||
			 record->task.pid == record->task.ppid) &&
			set(change, record->head.type == PERF_RECORD_EXIT ?
			    CHANGE_ENDED : CHANGE_STARTED, record->task.time,
			    record->task.tid);
	default:
		return false;
	}
}

bool cpu_ring_next(struct cpu_ring *ring, struct cpu_change *change)
{
	union kernel_record record;
	uint32_t size;
	bool is_known;

	do {
		if (ring->head - ring->tail < sizeof record.head)
			return false;
		copy_out(ring, &record, sizeof record.head);
		size = record.head.size;
		if (size < sizeof record.head ||
		    size > ring->head - ring->tail) {
			ring->tail = ring->head;
			return false;
		}
		copy_out(ring, &record, size < sizeof record ? size :
			 sizeof record);
		is_known = cpu_change_parse(&record, size, change);
		ring->tail += size;
	} while (!is_known);
	return true;
}

void cpu_ring_give_back(struct cpu_ring *ring)
{
	struct perf_event_mmap_page *page = ring->page;

	/* Pairs with the kernel's look at it before it writes. */
	__atomic_store_n(&page->data_tail, ring->tail, __ATOMIC_RELEASE);
}
