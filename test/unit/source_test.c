/* SPDX-License-Identifier: MIT */
/*
 * What a source tells, from its record to the events: slices on their rows,
 * cut by the window; counters; operators around launches.  The trace is
 * written into memory; the answers were worked out on paper.
 */
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collector/loss.h"
#include "collector/nvtx.h"
#include "collector/nvtx_record.h"
#include "collector/source.h"
#include "collector/thread.h"
#include "test/check.h"
#include "test/unit/scene.h"
#include "test/unit/scene_trace.h"

static uint32_t self;

static const char *const kinds[] = { "pipe", "socket" };

static const struct slice_kind call = {
	.cat = "osrt", .name = "read", .row = ROW_OSRT,
	.fields = { { "bytes", VALUE_U64, NULL },
		    { "of", VALUE_WORD, kinds },
		    { "result", VALUE_I64, NULL },
		    { "absent", VALUE_ABSENT_0, NULL },
		    { "share", VALUE_DOUBLE, NULL },
		    { "state", VALUE_STRING, NULL } },
};
static const struct slice_kind state = {
	.cat = "thread_state", .row = ROW_STATE,
};
static const struct slice_kind load = {
	.name = "load", .fields = { { "user", VALUE_U64, NULL },
				    { "system", VALUE_U64, NULL } },
};
static const struct slice_kind power = {
	.name = "power", .is_of_device = true,
	.fields = { { "W", VALUE_U64, NULL } },
};

static const struct slice_kind held = {
	.name = "held", .is_of_device = true,
	.fields = { { "bytes", VALUE_U64, NULL } },
};
static const struct slice_kind taken = {
	.name = "taken", .counter = &held,
	.fields = { { "in all", VALUE_U64, NULL },
		    { "bytes", VALUE_I64, NULL } },
};

static struct nvtx_domain operators = {
	.recorded = 1, .cat = "cpu_op", .is_operator = 1,
};

static uint64_t bits_of(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static void begin(void)
{
	static const struct writer_options options = {
		.out = "/dev/null", .memory = 16 << 20, .world_size = 1,
	};

	scene_open_trace(&options);
	self = (uint32_t)syscall(SYS_gettid);
}

static void test_slices(void)
{
	uint64_t t = scene.t_ns;
	const uint64_t values[] = { 4096, 1, (uint64_t)-5, 0, bits_of(0.25),
				    (uintptr_t)"Running" };
	char text[32];

	source_slice(&call, 0, t + 1000, t + 3000, values, 6, NULL, 0);
	source_slice(&state, 77, t + 500, t + 2500, NULL, 0, "Sleeping", 8);
	/* Began before the window. */
	source_slice(&state, 78, t - 100000000, t + 250, NULL, 0,
		     "Early \"x\"", 9);
	/* Over before it. */
	source_slice(&state, 78, t - 100000000, t - 90000000, NULL, 0, "Gone",
		     4);
	step(true);
	CHECK(has("\"read\"", "\"cat\":\"osrt\""));
	CHECK(has("\"read\"", "\"dur\":2.000"));
	CHECK(has("\"read\"", "\"bytes\":4096,\"of\":\"socket\",\"result\":-5,"
		  "\"share\":0.25,\"state\":\"Running\"}"));
	snprintf(text, sizeof text, "\"thread\":%u", self);
	CHECK(has("\"read\"", text));
	CHECK(has("Sleeping", "\"thread\":77"));
	CHECK(has("Early", "\"name\":\"Early \\\"x\\\"\""));
	CHECK(has("Early", "\"open\":true"));
	CHECK(!*event("Gone", 0));
	/* Rows of their own, not the threads'. */
	CHECK(!strstr(event("Sleeping", 0), "\"tid\":77"));
	CHECK(has("Sleeping", "\"tid\":50000"));
}

static void test_counters(void)
{
	const uint64_t both[] = { 30, 12 }, watt = 350;

	source_count(&load, 0, scene.t_ns + 5000, both, 2);
	source_count(&power, 3, scene.t_ns + 5000, &watt, 1);
	step(true);
	CHECK(has("\"load\"", "\"ph\":\"C\""));
	CHECK(has("\"load\"", "\"pid\":5200000"));
	CHECK(has("\"load\"", "\"args\":{\"user\":30,\"system\":12}}"));
	CHECK(has("\"power\"", "\"pid\":5100003"));
}

/* On its thread with all values, and the counter with as many as it has. */
static void test_instants(void)
{
	const uint64_t values[] = { 700, (uint64_t)-50 };
	char text[64];

	source_instant(&taken, 2, scene.t_ns + 6000, values, 2);
	source_instant(&taken, 2, scene.t_ns - 100000000, values, 2);
	step(true);
	CHECK(has("\"taken\"", "\"ph\":\"i\",\"s\":\"t\""));
	CHECK(has("\"taken\"", "\"args\":{\"in all\":700,\"bytes\":-50}}"));
	snprintf(text, sizeof text, "\"tid\":%u", self);
	CHECK(has("\"taken\"", text));
	CHECK(has("\"held\"", "\"ph\":\"C\""));
	CHECK(has("\"held\"", "\"pid\":5100002"));
	CHECK(has("\"held\"", "\"args\":{\"bytes\":700}}"));
	/* The one before the window is in neither. */
	CHECK(!*event("\"taken\"", 1));
	CHECK(!*event("\"held\"", 1));
}

/* Kernels launched inside carry the innermost operator's id; a row on the GPU
 * is for the program's ranges alone. */
static void test_operators(void)
{
	uint64_t now = 0;

	CHECK_EQ(source_range_push(&operators, "aten::linear", 12, NULL, 0), 0);
	CHECK_EQ(source_range_push(&operators, "aten::addmm", 11,
				   "\"Sequence number\":7", 19), 1);
	now = clock_now_ns() - scene.t_ns;
	scene_launch(self, 41, now, now + 10);
	source_range_pop(&operators);
	now = clock_now_ns() - scene.t_ns;
	scene_launch(self, 42, now, now + 10);
	source_range_pop(&operators);
	scene_kernel("inner", 7, 41, now + 100, now + 200);
	scene_kernel("outer", 7, 42, now + 300, now + 400);
	step(false);
	step(true);
	CHECK(has("aten::addmm", "\"cat\":\"cpu_op\""));
	CHECK(has("aten::addmm", "\"External id\":2"));
	CHECK(has("aten::addmm", "\"Sequence number\":7}"));
	CHECK(has("aten::linear", "\"External id\":1}"));
	CHECK(has("\"inner\"", "\"External id\":2}"));
	CHECK(has("\"outer\"", "\"External id\":1}"));
	CHECK(!*event("gpu_user_annotation", 0));
}

/* A window without NVTX's ranges has those of sources. */
static void test_muted(void)
{
	nvtx_mute(true);
	source_range_push(&operators, "aten::muted", 11, NULL, 0);
	source_range_pop(&operators);
	nvtx_mute(false);
	step(true);
	CHECK(*event("aten::muted", 0));
}

static uint64_t lost(enum loss cause)
{
	uint64_t before = loss_get(cause);
	const uint64_t values[] = { 1, 2 };

	source_slice(&state, 0, scene.t_ns, scene.t_ns + 1, NULL, 0, "x", 1);
	source_count(&load, 0, scene.t_ns, values, 2);
	source_instant(&taken, 0, scene.t_ns, values, 2);
	(void)source_range_push(&operators, "aten::lost", 10, NULL, 0);
	nvtx_name(NAMED_THREAD, self, "lost", 4);
	return loss_get(cause) - before;
}

static void *begin_and_end(void *key)
{
	pthread_setspecific(*(pthread_key_t *)key, key);
	(void)thread_self();
	return NULL;
}

static pthread_key_t key;
static atomic_int nr_rounds;

/* In the last of the system's rounds there is no state any more. */
static void in_destructor(void *value)
{
	if (++nr_rounds < PTHREAD_DESTRUCTOR_ITERATIONS)
		pthread_setspecific(key, value);
	else
		CHECK_EQ(lost(LOSS_NO_THREAD_STATE), 5);
}

/* What is dropped is counted, and by its cause. */
static void test_no_room(void)
{
	struct thread *thread = thread_enter();
	uint64_t full = loss_get(LOSS_RING_FULL);
	pthread_t other;

	CHECK(thread != NULL);
	CHECK_EQ(lost(LOSS_RING_FULL), 5);      /* as a signal handler there */
	thread_leave(thread);
	pthread_key_create(&key, in_destructor);
	pthread_create(&other, NULL, begin_and_end, &key);
	pthread_join(other, NULL);
	CHECK_EQ(nr_rounds, PTHREAD_DESTRUCTOR_ITERATIONS);
	CHECK_EQ(loss_get(LOSS_RING_FULL), full + 5);
}

int main(void)
{
	scene_begin();
	begin();
	test_slices();
	test_counters();
	test_instants();
	test_operators();
	test_muted();
	test_no_room();
	CHECK_EQ(loss_get(LOSS_TABLE_FULL), 0);
	scene_close_trace();
	return check_result();
}
