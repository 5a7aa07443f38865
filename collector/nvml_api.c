/* SPDX-License-Identifier: MIT */
#include "collector/nvml_api.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* nvml.h's, which is not in every toolkit. */
enum { TEMPERATURE_GPU = 0, CLOCK_SM = 1, CLOCK_MEMORY = 2 };

struct utilization {
	unsigned int gpu, memory;
};

struct memory {
	unsigned long long total, free, used;
};

static struct {
	int (*init)(void);
	int (*shutdown)(void);
	const char *(*error)(int result);
	int (*by_bus_id)(const char *bus_id, nvml_device_t *device);
	int (*utilization)(nvml_device_t device, struct utilization *out);
	int (*power)(nvml_device_t device, unsigned int *mw);
	int (*limit)(nvml_device_t device, unsigned int *mw);
	int (*clock)(nvml_device_t device, int clock, unsigned int *mhz);
	int (*temperature)(nvml_device_t device, int sensor,
			   unsigned int *celsius);
	int (*memory)(nvml_device_t device, struct memory *out);
	int (*reasons)(nvml_device_t device, unsigned long long *bits);
} nvml;

/* Later names come first: of two the one that is there. */
static const struct {
	void *function;
	const char *name;
} functions[] = {
	{ &nvml.init, "nvmlInit_v2" },
	{ &nvml.shutdown, "nvmlShutdown" },
	{ &nvml.error, "nvmlErrorString" },
	{ &nvml.by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2" },
	{ &nvml.utilization, "nvmlDeviceGetUtilizationRates" },
	{ &nvml.power, "nvmlDeviceGetPowerUsage" },
	{ &nvml.limit, "nvmlDeviceGetEnforcedPowerLimit" },
	{ &nvml.clock, "nvmlDeviceGetClockInfo" },
	{ &nvml.temperature, "nvmlDeviceGetTemperature" },
	{ &nvml.memory, "nvmlDeviceGetMemoryInfo" },
	{ &nvml.reasons, "nvmlDeviceGetCurrentClocksEventReasons" },
	{ &nvml.reasons, "nvmlDeviceGetCurrentClocksThrottleReasons" },
};

enum { NOT_LOADED = -1, NOT_ONE = -2, REFUSES = -1000 };

static int bind_all(void *library)
{
	void *found, *bound;

	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		memcpy(&bound, functions[i].function, sizeof bound);
		found = dlsym(library, functions[i].name);
		if (!bound && found)
			memcpy(functions[i].function, &found, sizeof found);
	}
	return nvml.init && nvml.shutdown && nvml.by_bus_id ? 0 : NOT_ONE;
}

/* It stays: others may have its functions, and hold threads in it. */
static int load(void)
{
	static void *library;
	int error;

	if (library)
		return 0;
	library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
	if (!library)
		return NOT_LOADED;
	error = bind_all(library);
	if (error) {
		memset(&nvml, 0, sizeof nvml);
		dlclose(library);
		library = NULL;
	}
	return error;
}

int nvml_api_start(void)
{
	int error = load();

	if (!error)
		error = nvml.init();
	return error > 0 ? REFUSES - error : error;
}

void nvml_api_stop(void)
{
	(void)nvml.shutdown();
}

const char *nvml_api_error(int error)
{
	const char *text = NULL;

	if (error == NOT_LOADED)
		return "libnvidia-ml.so.1 cannot be loaded; in a container it "
			"comes with NVIDIA_DRIVER_CAPABILITIES=utility";
	if (error == NOT_ONE)
		return "libnvidia-ml.so.1 has not the functions of NVML";
	if (nvml.error)
		text = nvml.error(REFUSES - error);
	return text ? text : "NVML refuses";
}

bool nvml_api_find(const char *bus_id, nvml_device_t *device)
{
	return !nvml.by_bus_id(bus_id, device);
}

static void add(struct nvml_readings *readings, enum nvml_reading which,
		bool is_there, uint64_t value)
{
	readings->values[which] = is_there ? value : 0;
	readings->have |= (uint32_t)is_there << which;
}

static void read_clocks(nvml_device_t device, struct nvml_readings *readings)
{
	unsigned long long bits = 0;
	unsigned int mhz = 0;
	bool is_there;

	is_there = nvml.clock && !nvml.clock(device, CLOCK_SM, &mhz);
	add(readings, NVML_SM_MHZ, is_there, mhz);
	is_there = nvml.clock && !nvml.clock(device, CLOCK_MEMORY, &mhz);
	add(readings, NVML_MEMORY_MHZ, is_there, mhz);
	is_there = nvml.reasons && !nvml.reasons(device, &bits);
	add(readings, NVML_REASONS, is_there, bits);
}

static void read_power(nvml_device_t device, struct nvml_readings *readings)
{
	unsigned int mw = 0, celsius = 0;
	bool is_there;

	is_there = nvml.power && !nvml.power(device, &mw);
	add(readings, NVML_POWER_MW, is_there, mw);
	is_there = nvml.limit && !nvml.limit(device, &mw);
	add(readings, NVML_LIMIT_MW, is_there, mw);
	is_there = nvml.temperature &&
		!nvml.temperature(device, TEMPERATURE_GPU, &celsius);
	add(readings, NVML_CELSIUS, is_there, celsius);
}

void nvml_api_read(nvml_device_t device, struct nvml_readings *readings)
{
	struct utilization use = { 0, 0 };
	struct memory memory = { 0, 0, 0 };
	bool is_there;

	memset(readings, 0, sizeof *readings);
	is_there = nvml.utilization && !nvml.utilization(device, &use);
	add(readings, NVML_GPU_PERCENT, is_there, use.gpu);
	add(readings, NVML_MEMORY_PERCENT, is_there, use.memory);
	is_there = nvml.memory && !nvml.memory(device, &memory);
	add(readings, NVML_USED_BYTES, is_there, memory.used);
	read_power(device, readings);
	read_clocks(device, readings);
}

const char *nvml_api_reason(uint64_t bit)
{
	/* Bit 0 says that it is idle, bit 1 that somebody has set clocks. */
	static const char *const words[] = {
		NULL, "clocks set by the user", "software power cap",
		"hardware slowdown", "sync boost", "software thermal slowdown",
		"hardware thermal slowdown", "hardware power brake",
		"display clocks", "board limit", "reliability",
	};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (bit == UINT64_C(1) << i)
			return words[i];
	return NULL;
}
