/* SPDX-License-Identifier: MIT */
#include "collector/cupti_advice.h"

#include <stdatomic.h>
#include <stdio.h>

#include "collector/cupti_api.h"
#include "collector/log.h"

/* Codes: cupti_result.h; by number, since old headers lack some. */
enum {
	NOT_COMPATIBLE = 14, NOT_INITIALIZED = 15, NO_PRIVILEGE = 35,
	HELD = 39, UNKNOWN = 999,
};

static const struct {
	int result;
	const char *advice;
} table[] = {
	{ NOT_COMPATIBLE, "another tool in this process uses a newer "
	  "interface of CUPTI: run without it" },
	{ NOT_INITIALIZED, "CUPTI could not reach the driver: gputrace doctor "
	  "says what is missing" },
	{ NO_PRIVILEGE, "run with CAP_SYS_ADMIN (docker run --cap-add="
	  "SYS_ADMIN), or let all users profile: options nvidia "
	  "NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d" },
	{ HELD, "another tool (nsys, ncu, cuda-gdb, compute-sanitizer, a "
	  "profiler) uses CUPTI in this process: run without it" },
	{ 40, "a virtual GPU needs enable_profiling=1 from its host" },
	{ 41, "confidential computing allows it in devtools mode only" },
	{ 42, "not supported on a mining GPU" },
	{ 43, "not supported on this MIG instance" },
	{ 44, "not supported with SLI: turn SLI off" },
	{ 45, "not supported under this WSL: update Windows and its driver" },
};

/* CUDA's version times 100 of cuptiGetVersion()'s number, 1208 for 12.8: a
 * counter until 12.9, CUDA's own from 13.0 on (130001: 13.0 update 1). */
static uint32_t cuda_of(uint32_t cupti_version)
{
	static const uint16_t counted[] = {
		[18] = 1108, [19] = 1200, [20] = 1202, [21] = 1203,
		[22] = 1204, [23] = 1205, [24] = 1206, [25] = 1206,
		[26] = 1208, [27] = 1209, [28] = 1209,
	};

	if (cupti_version >= 130000)
		return cupti_version / 100;
	if (cupti_version < sizeof counted / sizeof *counted)
		return counted[cupti_version];
	return 0;
}

/* pip's package of CUPTI for a CUDA version. */
static void put_package(char *text, size_t size, uint32_t cuda)
{
	char suffix[16] = "";

	if (cuda < 1300)
		snprintf(suffix, sizeof suffix, "-cu%u", cuda / 100);
	snprintf(text, size, "pip install nvidia-cuda-cupti%s==%u.%u.*",
		 suffix, cuda / 100, cuda % 100);
}

/* The same of the driver: its 12040 is 1204 here. */
static uint32_t driver_cuda(void)
{
	return cupti_api_driver() / 1000 * 100 + cupti_api_driver() % 1000 / 10;
}

static bool is_newer_than_driver(char *text, size_t size)
{
	uint32_t ours = cuda_of(cupti_api_version());
	uint32_t driver = driver_cuda();
	char package[64];

	if (!driver || ours <= driver)
		return false;
	put_package(package, sizeof package, driver);
	snprintf(text, size, "CUPTI of CUDA %u.%u (%s) is newer than the "
		 "driver, which is of CUDA %u.%u: %s, and set GPUTRACE_CUPTI "
		 "to its libcupti.so; or update the driver", ours / 100,
		 ours % 100, cupti_api_path(), driver / 100, driver % 100,
		 package);
	return true;
}

static bool is_stub(char *text, size_t size)
{
	char path[512];

	if (!cupti_api_find_mapped("/stubs/libcuda.so", path, sizeof path))
		return false;
	snprintf(text, size, "%s is the toolkit's stub for linking, not the "
		 "driver: take the folder stubs out of LD_LIBRARY_PATH", path);
	return true;
}

static void CUPTIAPI no_callback(void *argument, CUpti_CallbackDomain domain,
				 CUpti_CallbackId id, const void *data)
{
	(void)argument;
	(void)domain;
	(void)id;
	(void)data;
}

/* CUpti_SubscriberParams, which headers before 13.0 lack. */
struct subscriber_parameters {
	size_t size;
	const char *name;
	char *holder;
	size_t holder_size;
};

/* CUPTI names whoever has subscribed only to one who tries to: "Nsight
 * Compute", or "<not provided>" for compute-sanitizer. */
static bool is_held_by(char *text, size_t size)
{
	char holder[128] = "";
	struct subscriber_parameters parameters = {
		sizeof parameters, "gputrace", holder, sizeof holder,
	};
	CUpti_SubscriberHandle ours;

	if (!cupti_api()->Subscribe_v2)
		return false;
	if (cupti_api()->Subscribe_v2(&ours, no_callback, NULL, &parameters) ==
	    CUPTI_SUCCESS)
		cupti_api()->Unsubscribe(ours);
	holder[sizeof holder - 1] = 0;
	for (char *at = holder; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	snprintf(text, size, "%s uses CUPTI in this process, which has room "
		 "for one: run without it", holder);
	return holder[0] && holder[0] != '<';
}

void cupti_advice(CUptiResult reason, char *text, size_t size)
{
	int result = (int)reason;

	if (is_stub(text, size))
		return;
	if ((result == NOT_INITIALIZED || result == NOT_COMPATIBLE ||
	     result == UNKNOWN) && is_newer_than_driver(text, size))
		return;
	if (result == HELD && is_held_by(text, size))
		return;
	snprintf(text, size, "gputrace doctor, or GPUTRACE_LOG=debug, may "
		 "tell more");
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (table[i].result == result)
			snprintf(text, size, "%s", table[i].advice);
}

void cupti_advice_device(uint32_t major, uint32_t minor)
{
	static atomic_bool said;
	uint32_t cuda = cuda_of(cupti_api_version());
	uint32_t driver = driver_cuda();
	int known = 1;
	char package[64];

	if (!cupti_api()->ComputeCapabilitySupported ||
	    cupti_api()->ComputeCapabilitySupported((int)major, (int)minor,
						    &known) !=
	    CUPTI_SUCCESS || known || atomic_exchange(&said, true))
		return;
	/* No older than the driver, so it is the GPU that is too old for it:
	 * 13.0 dropped all before 7.5. */
	put_package(package, sizeof package, cuda < driver ? driver : 1209);
	log_line(LOG_WARN, "CUPTI of CUDA %u.%u (%s) does not know this GPU "
		 "(compute capability %u.%u) and may record nothing: %s, and "
		 "set GPUTRACE_CUPTI to its libcupti.so", cuda / 100,
		 cuda % 100, cupti_api_path(), major, minor, package);
}
