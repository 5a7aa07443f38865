/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_COLLECTOR_NVML_API_H
#define GPUTRACE_COLLECTOR_NVML_API_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The driver's management library (libnvidia-ml.so.1), as far as we ask it.
 * Its layouts have not changed since they exist; a function that it lacks is
 * as one that does not support the GPU.
 * Context: the nvml thread.
 */
typedef struct nvml_device *nvml_device_t;      /* NVML's own handle */

/* Loads and starts it; returns 0, or a negative number that nvml_api_error()
 * tells in words.  Each success has its nvml_api_stop(). */
int nvml_api_start(void);
void nvml_api_stop(void);
const char *nvml_api_error(int error);

/* By a name as cuDeviceGetPCIBusId() gives it.  False: it does not know it. */
bool nvml_api_find(const char *bus_id, nvml_device_t *device);

/* What can be read of a GPU; each has its bit where it could be. */
enum nvml_reading {
	NVML_GPU_PERCENT, NVML_MEMORY_PERCENT, NVML_POWER_MW, NVML_LIMIT_MW,
	NVML_SM_MHZ, NVML_MEMORY_MHZ, NVML_CELSIUS, NVML_USED_BYTES,
	NVML_REASONS, NR_NVML_READINGS
};

struct nvml_readings {
	uint64_t values[NR_NVML_READINGS];
	uint32_t have;          /* bits */
};

void nvml_api_read(nvml_device_t device, struct nvml_readings *readings);

/* A reason of NVML_REASONS (one bit) for which clocks are lower than they
 * could be; NULL: none that we know, or that it is idle. */
const char *nvml_api_reason(uint64_t bit);

#endif
