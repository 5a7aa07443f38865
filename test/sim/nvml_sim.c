// SPDX-License-Identifier: MIT
/*
 * libnvidia-ml.so.1 of the simulated GPUs: those of libcuda.so.1, by their
 * places on the bus.  What it says of one follows from its place, so that a
 * mix-up is seen.
 *
 *	SIM_NVML_REASONS=A,B,...  why clocks are low: each for 5 readings
 *	SIM_NVML_LACKS=1          no power, no utilisation (as MIG)
 *	SIM_ERROR=nvmlInit_v2=9   and others, as libcuda's
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/sim_env.h"

#define API __attribute__((visibility("default")))

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3,
       NOT_FOUND = 6, BUSES = 80 };

typedef struct { char bus; } *device_t;

static char buses[BUSES];
static atomic_int nr_users;
static atomic_uint nr_reasons[BUSES];

static unsigned int bus_of(device_t device)
{
	return (unsigned int)((char *)device - buses);
}

static int result_of(const char *name, device_t device)
{
	int error = sim_env_error(name);

	if (error)
		return error;
	if (atomic_load(&nr_users) <= 0)
		return UNINITIALIZED;
	return (char *)device >= buses && (char *)device < buses + BUSES ?
		SUCCESS : INVALID;
}

API int nvmlInit_v2(void)
{
	int error = sim_env_error("nvmlInit_v2");

	if (!error)
		atomic_fetch_add(&nr_users, 1);
	return error;
}

API int nvmlShutdown(void)
{
	return atomic_fetch_sub(&nr_users, 1) > 0 ? SUCCESS : UNINITIALIZED;
}

API const char *nvmlErrorString(int result)
{
	return result == 9 ? "Driver Not Loaded" : "Simulated Error";
}

/* The real one takes both lengths of the domain. */
API int nvmlDeviceGetHandleByPciBusId_v2(const char *id, device_t *device)
{
	const char *at = id ? strchr(id, ':') : NULL;
	unsigned long bus = at ? strtoul(at + 1, NULL, 16) : 0;
	int result = result_of("nvmlDeviceGetHandleByPciBusId_v2",
			       (device_t)buses);

	if (result)
		return result;
	if (bus < 1 || bus > sim_env_number("SIM_DEVICES", 1))
		return NOT_FOUND;
	*device = (device_t)(buses + bus);
	return SUCCESS;
}

static bool lacks(void)
{
	return sim_env_number("SIM_NVML_LACKS", 0);
}

API int nvmlDeviceGetUtilizationRates(device_t device, unsigned int out[2])
{
	if (lacks())
		return NOT_SUPPORTED;
	out[0] = 10 * bus_of(device);
	out[1] = 5 * bus_of(device);
	return result_of("nvmlDeviceGetUtilizationRates", device);
}

API int nvmlDeviceGetPowerUsage(device_t device, unsigned int *mw)
{
	if (lacks())
		return NOT_SUPPORTED;
	*mw = 100250 + 1000 * bus_of(device);
	return result_of("nvmlDeviceGetPowerUsage", device);
}

API int nvmlDeviceGetEnforcedPowerLimit(device_t device, unsigned int *mw)
{
	*mw = 700000;
	return result_of("nvmlDeviceGetEnforcedPowerLimit", device);
}

API int nvmlDeviceGetClockInfo(device_t device, int clock, unsigned int *mhz)
{
	*mhz = (clock == 1 ? 1900 : clock == 2 ? 3200 : 0) + bus_of(device);
	return result_of("nvmlDeviceGetClockInfo", device);
}

API int nvmlDeviceGetTemperature(device_t device, int sensor,
				 unsigned int *celsius)
{
	*celsius = 40 + bus_of(device);
	return sensor ? INVALID :
		result_of("nvmlDeviceGetTemperature", device);
}

API int nvmlDeviceGetMemoryInfo(device_t device, unsigned long long out[3])
{
	out[0] = 80ull << 30;
	out[2] = bus_of(device) * 1000ull;
	out[1] = out[0] - out[2];
	return result_of("nvmlDeviceGetMemoryInfo", device);
}

static unsigned long long reasons_now(device_t device)
{
	unsigned int turn = atomic_fetch_add(&nr_reasons[bus_of(device)], 1) /
		5;
	const char *text = getenv("SIM_NVML_REASONS");

	for (; text && *text && turn; turn--) {
		text = strchr(text, ',');
		text = text ? text + 1 : NULL;
	}
	/* Idle, beyond the list */
	return text && *text ? strtoull(text, NULL, 0) : 1;
}

API int nvmlDeviceGetCurrentClocksEventReasons(device_t device,
					       unsigned long long *bits)
{
	*bits = reasons_now(device);
	return result_of("nvmlDeviceGetCurrentClocksEventReasons", device);
}
