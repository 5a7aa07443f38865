/* SPDX-License-Identifier: MIT */
#include "collector/nvml.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collector/clock.h"
#include "collector/log.h"
#include "collector/nvml_api.h"
#include "collector/own_thread.h"
#include "collector/sampler.h"

#define MS UINT64_C(1000000)

enum {
	INTERVAL_MS = 100,
	INTERVAL_MAX_MS = 1000,
	/* A look takes no more than a twentieth of the time. */
	LOOK_COST = 20,
	CUT_MS = 1000,
	DEVICES_MAX = 64,
	BUS_ID_SIZE = 32,
};

struct gpu {
	nvml_device_t device;
	uint32_t number;                /* CUDA's */
	uint64_t reasons, since_ns;     /* why clocks are low, since when */
};

/* Each a counter of the GPU. */
static const struct counter {
	struct slice_kind kind;
	enum nvml_reading readings[2];
	uint32_t nr, divisor;           /* 1: as it is */
} counters[] = {
	{ { .name = "utilization", .is_of_device = true,
	    .fields = { { "GPU %", VALUE_U64, NULL },
			{ "memory %", VALUE_U64, NULL } } },
	  { NVML_GPU_PERCENT, NVML_MEMORY_PERCENT }, 2, 1 },
	{ { .name = "power", .is_of_device = true,
	    .fields = { { "W", VALUE_DOUBLE, NULL } } },
	  { NVML_POWER_MW }, 1, 1000 },
	{ { .name = "power limit", .is_of_device = true,
	    .fields = { { "W", VALUE_DOUBLE, NULL } } },
	  { NVML_LIMIT_MW }, 1, 1000 },
	{ { .name = "SM clock", .is_of_device = true,
	    .fields = { { "MHz", VALUE_U64, NULL } } },
	  { NVML_SM_MHZ }, 1, 1 },
	{ { .name = "memory clock", .is_of_device = true,
	    .fields = { { "MHz", VALUE_U64, NULL } } },
	  { NVML_MEMORY_MHZ }, 1, 1 },
	{ { .name = "temperature", .is_of_device = true,
	    .fields = { { "C", VALUE_U64, NULL } } },
	  { NVML_CELSIUS }, 1, 1 },
	{ { .name = "memory used by all", .is_of_device = true,
	    .fields = { { "bytes", VALUE_U64, NULL } } },
	  { NVML_USED_BYTES }, 1, 1 },
};

/* "GPU 0 clocks: software power cap, sync boost" */
static const struct slice_kind reasons_kind = {
	.cat = "gpu_clocks", .row = ROW_PROCESS,
	.fields = { { "device", VALUE_U64, NULL },
		    { "sampled", VALUE_TRUE, NULL } },
};

/* ---- Which GPUs ---- */

/* NVML counts GPUs in its own order, and all of them: CUDA's numbers are
 * matched by what both call a place on the bus. */
static char bus_ids[DEVICES_MAX][BUS_ID_SIZE];
static int nr_bus_ids;

/* False while CUDA is not ready to say. */
static bool learn_bus_ids(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int (*count)(int *nr) = NULL, (*get)(int *device, int ordinal) = NULL;
	int (*name)(char *id, int size, int device) = NULL, nr = 0, device;

	if (driver) {
		count = (int (*)(int *))dlsym(driver, "cuDeviceGetCount");
		get = (int (*)(int *, int))dlsym(driver, "cuDeviceGet");
		name = (int (*)(char *, int, int))
			dlsym(driver, "cuDeviceGetPCIBusId");
	}
	/* These calls are none of the program's. */
	own_thread_calls_driver((uint32_t)syscall(SYS_gettid));
	if (!count || !get || !name || count(&nr))
		return false;
	for (int i = 0; i < nr && i < DEVICES_MAX; i++)
		if (get(&device, i) ||
		    name(bus_ids[i], BUS_ID_SIZE, device))
			bus_ids[i][0] = 0;
	nr_bus_ids = nr < DEVICES_MAX ? nr : DEVICES_MAX;
	if (nr > DEVICES_MAX)
		log_queue(LOG_WARN, "nothing from NVML of %d of %d GPUs",
			  nr - DEVICES_MAX, nr);
	return nr > 0;
}

static int find_gpus(struct gpu *gpus)
{
	int nr = 0;

	for (int i = 0; i < nr_bus_ids; i++) {
		if (!bus_ids[i][0] ||
		    !nvml_api_find(bus_ids[i], &gpus[nr].device)) {
			log_queue(LOG_INFO, "nothing of GPU %d from NVML: it "
				  "does not know %s", i, bus_ids[i]);
			continue;
		}
		gpus[nr].number = (uint32_t)i;
		gpus[nr].reasons = gpus[nr].since_ns = 0;
		nr++;
	}
	return nr;
}

/* ---- What they say ---- */

static uint64_t value_of(const struct counter *counter, uint64_t reading)
{
	return counter->divisor == 1 ? reading :
		source_double((double)reading / counter->divisor);
}

static void tell(const struct gpu *gpu, const struct nvml_readings *readings,
		 uint64_t now_ns)
{
	const struct counter *counter = counters;
	uint64_t values[2];

	for (; counter < counters + sizeof counters / sizeof *counters;
	     counter++) {
		if (!(readings->have >> counter->readings[0] & 1))
			continue;
		for (uint32_t i = 0; i < counter->nr; i++)
			values[i] = value_of(counter, readings->values[
					     counter->readings[i]]);
		source_count(&counter->kind, gpu->number, now_ns, values,
			     counter->nr);
	}
}

/* Bits without a word are dropped: an idle GPU is not slow. */
static uint64_t known_reasons(uint64_t bits)
{
	uint64_t known = 0;

	for (int i = 0; i < 64; i++)
		if (nvml_api_reason(bits & UINT64_C(1) << i))
			known |= UINT64_C(1) << i;
	return known;
}

static void write_reasons(const struct gpu *gpu, uint64_t end_ns)
{
	uint64_t values[] = { gpu->number, true };
	char text[512];
	int len = snprintf(text, sizeof text, "GPU %u clocks:", gpu->number);
	const char *word, *between = " ";

	for (int i = 0; i < 64; i++) {
		word = nvml_api_reason(gpu->reasons & UINT64_C(1) << i);
		if (!word || len >= (int)sizeof text)
			continue;
		len += snprintf(text + len, sizeof text - (size_t)len, "%s%s",
				between, word);
		between = ", ";
	}
	if (len >= (int)sizeof text)
		len = sizeof text - 1;
	source_slice(&reasons_kind, 0, gpu->since_ns, end_ns, values, 2, text,
		     (uint32_t)len);
}

static void end_reasons(struct gpu *gpu, uint64_t reasons, uint64_t now_ns)
{
	if (gpu->reasons && now_ns > gpu->since_ns)
		write_reasons(gpu, now_ns);
	gpu->reasons = reasons;
	gpu->since_ns = now_ns;
}

static void look(struct gpu *gpu)
{
	uint64_t now_ns = clock_now_ns(), reasons;
	struct nvml_readings readings;

	nvml_api_read(gpu->device, &readings);
	tell(gpu, &readings, now_ns);
	reasons = known_reasons(readings.values[NVML_REASONS]);
	/* A long one is written in parts: it is in the file of a program that
	 * is killed. */
	if (reasons != gpu->reasons || now_ns >= gpu->since_ns + CUT_MS * MS)
		end_reasons(gpu, reasons, now_ns);
}

/* Returns how long to wait for the next one. */
static uint64_t look_at_all(struct gpu *gpus, int nr)
{
	uint64_t start_ns = clock_now_ns(), wait_ns;

	for (int i = 0; i < nr; i++)
		look(&gpus[i]);
	wait_ns = (clock_now_ns() - start_ns) * LOOK_COST;
	if (wait_ns < INTERVAL_MS * MS)
		return INTERVAL_MS * MS;
	return wait_ns < INTERVAL_MAX_MS * MS ? wait_ns : INTERVAL_MAX_MS * MS;
}

/* ---- The thread ---- */

static void say_absent(int error)
{
	static atomic_flag is_said = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&is_said))
		log_queue(LOG_WARN, "no counters of nvml: %s",
			  nvml_api_error(error));
}

static void record(struct sampler *sampler)
{
	struct gpu gpus[DEVICES_MAX];
	int error, nr;
	bool is_open = true;

	/* The window may have opened inside cuInit. */
	while (!nr_bus_ids && is_open && !learn_bus_ids())
		is_open = sampler_wait(sampler, 10 * MS);
	if (!is_open)
		return;
	error = nvml_api_start();
	if (error) {
		say_absent(error);
		return;
	}
	nr = find_gpus(gpus);
	while (sampler_wait(sampler, look_at_all(gpus, nr)))
		;
	for (int i = 0; i < nr; i++)
		end_reasons(&gpus[i], 0, sampler_end_ns(sampler));
	sampler_done(sampler);
	nvml_api_stop();
}

/* NVML's descriptors are the process's: the program may use it, too. */
static struct sampler sampler = {
	.name = "gputrace-nvml", .record = record, .shares_files = true,
};

static void open_window(void)
{
	sampler_open(&sampler);
}

static void close_window(void)
{
	sampler_close(&sampler);
}

static void forget(void)
{
	sampler_forget(&sampler);
}

const struct source nvml_source = {
	.name = "nvml", .open = open_window, .close = close_window,
	.forget = forget,
};
