/* SPDX-License-Identifier: MIT */
#include "inject/ending.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collector/clock.h"
#include "collector/cupti.h"
#include "collector/debugger.h"
#include "collector/log.h"
#include "collector/loss.h"
#include "collector/text_file.h"
#include "collector/wait.h"
#include "inject/capture.h"
#include "inject/control.h"
#include "inject/sources.h"
#include "writer/writer.h"

/* The end of the process may take so long in the worst case. */
#define FLUSH_NS UINT64_C(1000000000)
#define WRITE_NS UINT64_C(800000000)

/* NOTHING --ending_arm()--> ARMED --first ending_run()--> ENDING + its tid;
 * the child of a fork goes back to NOTHING. */
enum { NOTHING, ARMED, ENDING };

static _Atomic uint32_t stage, has_ended;
static pid_t armed_pid;
static _Atomic uint64_t started_ns;
static atomic_flag is_said = ATOMIC_FLAG_INIT;

/* Asked of the kernel: in the child of a vfork or a bare clone an old C library
 * would answer for the parent. */
static pid_t own_pid(void)
{
	return (pid_t)syscall(SYS_getpid);
}

/* " (ring full 3, table full 1)", or nothing. */
static uint64_t add_up(char *causes, size_t size)
{
	uint64_t all = 0, n;
	size_t len = 0;

	causes[0] = 0;
	for (int i = 0; i < LOSS_NR; i++) {
		n = loss_get(i);
		if (n && len < size)
			len += (size_t)snprintf(causes + len, size - len,
				"%s%s %llu", all ? ", " : " (", loss_key(i),
				(unsigned long long)n);
		all += n;
	}
	if (all && len + 1 < size)
		strcpy(causes + len, ")");
	return all;
}

/* A range of another name, a profiler that was never started: the user would
 * look for the file. */
static void say_no_window(void)
{
	static struct capture_status status;

	capture_status(&status);
	if (!status.windows && strcmp(status.start, "") &&
	    strcmp(status.start, "now") && strcmp(status.start, "off"))
		log_queue(LOG_WARN, "nothing was recorded: no window opened "
			  "(GPUTRACE_START=%s)", status.start);
}

static void name_of(uint32_t pid, char name[32])
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%u/comm", pid);
	text_file_read(path, name, 32);
	name[strcspn(name, "\n")] = 0;
}

/* Nothing else tells of it: CUPTI takes all calls and gives no records.  Not
 * each kernel says who traces (gVisor does not); a debugger is the parent of
 * what it has started. */
static void say_debugger(void)
{
	uint32_t tracer = debugger_of("/proc/self/status");
	uint32_t pid = tracer ? tracer : (uint32_t)getppid();
	char name[32];

	name_of(pid, name);
	if (!tracer && !strstr(name, "cuda-gdb"))
		return;
	log_queue(LOG_WARN, "no kernels: pid %u (%s) debugs this process, and "
		  "beside cuda-gdb CUPTI records nothing", pid, name);
}

/* By the writer's thread when the file is complete, which has the room on its
 * stack that the exiting one may not have. */
static void say_summary(void)
{
	static struct writer_summary summary;
	static char causes[512];        /* all of them are 300 bytes */
	unsigned long long lost;

	if (atomic_flag_test_and_set(&is_said))
		return;
	writer_summary(&summary);
	lost = add_up(causes, sizeof causes);
	if (summary.is_recorder)
		log_queue(LOG_WARN, "flight recorder: %llu kernels, %llu "
			  "lost%s; %s%s", (unsigned long long)summary.kernels,
			  lost, causes, summary.path[0] ?
			  "the last dump is " : summary.dumps ?
			  "its dumps are with who asked for them" :
			  "no dump was asked for, nothing is on disk",
			  summary.path);
	else if (summary.path[0] && summary.kernels_gone)
		log_queue(LOG_WARN, "%s: %llu kernels, %llu in no file, %llu "
			  "lost in all%s", summary.path,
			  (unsigned long long)summary.kernels,
			  (unsigned long long)summary.kernels_gone, lost,
			  causes);
	else if (summary.path[0])
		log_queue(LOG_WARN, "%s: %llu kernels, %llu lost%s",
			  summary.path, (unsigned long long)summary.kernels,
			  lost, causes);
	else if (lost && !loss_get(LOSS_WRITE)) /* that is said already */
		log_queue(LOG_WARN, "nothing was written: %llu lost%s", lost,
			  causes);
	else if (!lost)
		say_no_window();
	if (summary.path[0] && !summary.kernels)
		say_debugger();
	log_queue(LOG_INFO, "the end took %llu ms", (unsigned long long)
		  ((clock_now_ns() - atomic_load(&started_ns)) / 1000000));
}

static void complete(void)
{
	uint64_t until_ns = atomic_load(&started_ns) + FLUSH_NS;

	control_finish();
	sources_close();
	if (cupti_finish(until_ns))
		log_queue(LOG_WARN, "CUPTI did not answer in time; what it "
			  "still held is lost");
	if (writer_finish(until_ns + WRITE_NS)) {
		log_queue(LOG_WARN, "the end of the trace was not written in "
			  "time; the file is complete up to the last flush");
		say_summary();
	}
	log_finish();
}

static void wait_for_other(void)
{
	uint64_t until_ns = clock_now_ns() + FLUSH_NS + WRITE_NS, now_ns;

	while (!atomic_load(&has_ended)) {
		now_ns = clock_now_ns();
		if (now_ns >= until_ns)
			return;
		wait_change(&has_ended, 0, until_ns - now_ns);
	}
}

void ending_run(void)
{
	uint32_t ours, seen = atomic_load(&stage);

	if (seen == NOTHING || atomic_load(&has_ended) ||
	    own_pid() != armed_pid)
		return;
	ours = ENDING + (uint32_t)syscall(SYS_gettid);
	if (seen == ARMED &&
	    atomic_compare_exchange_strong(&stage, &seen, ours)) {
		atomic_store(&started_ns, clock_now_ns());
	} else if (seen != ours) {
		wait_for_other();
		return;
	}
	/* Also a handler that interrupted this thread in here: once more. */
	complete();
	wait_wake(&has_ended);
}

void ending_arm(void)
{
	armed_pid = own_pid();
	writer_on_finished(say_summary);
	atomic_store(&stage, ARMED);
	if (atexit(ending_run) || at_quick_exit(ending_run))
		log_line(LOG_WARN, "no memory to see the program's end: the "
			 "file will end with the last flush before it");
}

void ending_forget(void)
{
	atomic_store(&stage, NOTHING);
}
