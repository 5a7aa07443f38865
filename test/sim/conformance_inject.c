// SPDX-License-Identifier: MIT
/*
 * Loaded by the driver through CUDA_INJECTION64_PATH in the experiments of
 * conf_exits.c: what works inside InitializeInjection, and whether an exit
 * handler registered there still finds CUPTI alive.
 */
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static __typeof__(&cuptiActivityEnable) enable;
static __typeof__(&cuptiActivityRegisterCallbacks) register_callbacks;
static __typeof__(&cuptiActivityGetNextRecord) next_record;
static __typeof__(&cuptiActivityFlushAll) flush_all;
static __typeof__(&cuptiActivityEnableAndDump) enable_and_dump;
static __typeof__(&cuptiActivityDisable) disable;
static int main_thread, kernels, devices, calls;

static void say(const char *key, int value)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "exit.inject.%s: %d\n", key,
			 value);

	if (write(STDOUT_FILENO, line, (size_t)n) != n)
		_exit(3);
}

static void CUPTIAPI requested(uint8_t **buffer, size_t *size, size_t *limit)
{
	*limit = 0;
	*size = 256 << 10;
	*buffer = aligned_alloc(8, *size);
}

static void CUPTIAPI completed(CUcontext context, uint32_t stream,
			       uint8_t *buffer, size_t size, size_t valid)
{
	CUpti_Activity *a = NULL;

	(void)context;
	(void)stream;
	(void)size;
	while (valid && !next_record(buffer, valid, &a)) {
		kernels += a->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
		devices += a->kind == CUPTI_ACTIVITY_KIND_DEVICE;
	}
}

static void at_exit(void)
{
	say("exit-flush", flush_all(1));
	usleep(50000);
	say("exit-kernels", kernels);
	say("exit-devices", devices);
	say("exit-disable", disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
}

static int load(void)
{
	void *h = dlopen(getenv("CONFORMANCE_LIBRARY"), RTLD_NOW);

	if (!h)
		return -1;
	enable = (__typeof__(enable))dlsym(h, "cuptiActivityEnable");
	register_callbacks = (__typeof__(register_callbacks))
		dlsym(h, "cuptiActivityRegisterCallbacks");
	next_record = (__typeof__(next_record))
		dlsym(h, "cuptiActivityGetNextRecord");
	flush_all = (__typeof__(flush_all))dlsym(h, "cuptiActivityFlushAll");
	disable = (__typeof__(disable))dlsym(h, "cuptiActivityDisable");
	enable_and_dump = (__typeof__(enable_and_dump))
		dlsym(h, "cuptiActivityEnableAndDump");
	return 0;
}

int InitializeInjection(void);
int InitializeInjection(void)
{
	say("calls", ++calls);
	main_thread = gettid();
	say("on-main-thread", gettid() == getpid());
	if (load())
		return 0;
	say("register", register_callbacks(requested, completed));
	say("enable", enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	say("dump", enable_and_dump(CUPTI_ACTIVITY_KIND_DEVICE));
	say("atexit", atexit(at_exit));
	return 1;
}
