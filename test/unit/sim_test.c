// SPDX-License-Identifier: MIT
/*
 * The simulated GPU by itself: its timeline, and each fault of
 * test/sim/sim_env.h. Every case runs in a forked child with its environment.
 */
#include "test/check.h"

#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS(F)                                                               \
	F(ActivityEnable) F(ActivityDisable) F(ActivityRegisterCallbacks)      \
	F(ActivityFlushAll) F(ActivityGetNextRecord)                           \
	F(ActivityGetNumDroppedRecords) F(GetVersion) F(Subscribe)             \
	F(Subscribe_v2)

#define F(n) static __typeof__(&cupti##n) n;
CALLS(F)
#undef F

#define KERNELS 512
#define KERNEL CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
#define OK(call) CHECK_EQ(call, 0)

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry timed(.param .u64 length_ns, .param .u32 other)\n"
	"{\n\t.shared .align 4 .b8 tile[96];\n\tret;\n}\n"
	".visible .entry plain() { ret; }\n";

static CUpti_ActivityKernel10 kernels[KERNELS];
static unsigned int kernel_count;
static ptrdiff_t stride;	/* from a kernel's record to the next one */
static void *library;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int refuse;
static CUfunction timed, plain;
static CUcontext context;

static void load_cupti(void)
{
	library = dlopen("libcupti.so.13", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(EXIT_FAILURE);
	}
#define F(n) n = (__typeof__(n))dlsym(library, "cupti" #n);
	CALLS(F)
#undef F
}

static void CUPTIAPI requested(uint8_t **buffer, size_t *size, size_t *limit)
{
	*limit = 0;
	*size = 64 << 10;
	*buffer = refuse ? NULL : aligned_alloc(8, *size);
}

static void CUPTIAPI completed(CUcontext c, uint32_t stream, uint8_t *buffer,
			       size_t size, size_t valid)
{
	CUpti_Activity *a = NULL, *last;

	(void)c;
	(void)stream;
	(void)size;
	pthread_mutex_lock(&lock);
	for (last = NULL; valid && !ActivityGetNextRecord(buffer, valid, &a);
	     last = a) {
		if (a->kind == KERNEL && kernel_count < KERNELS)
			memcpy(&kernels[kernel_count++], a, sizeof(*kernels));
		if (last)
			stride = (char *)a - (char *)last;
	}
	pthread_mutex_unlock(&lock);
	free(buffer);
}

static unsigned int count(void)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = kernel_count;
	pthread_mutex_unlock(&lock);
	return n;
}

static void launch(CUfunction f, CUstream s, uint64_t ns)
{
	uint32_t other = 0;
	void *args[] = { &ns, &other };

	OK(cuLaunchKernel(f, 3, 1, 1, 32, 2, 1, 0, s,
			  f == timed ? args : NULL, NULL));
}

static void open_gpu(void)
{
	CUmodule module;
	CUdevice device;

	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&timed, module, "timed"));
	OK(cuModuleGetFunction(&plain, module, "plain"));
	launch(timed, NULL, 1000);
	launch(plain, NULL, 0);
	OK(cuCtxSynchronize());
}

static void trace(void)
{
	OK(ActivityRegisterCallbacks(requested, completed));
	OK(ActivityEnable(KERNEL));
}

static void begin(void)
{
	open_gpu();
	trace();
}

static void finish(void)
{
	OK(cuCtxSynchronize());
	OK(ActivityFlushAll(0));
}

/* 350 kernels of 8.6 us, as a decode step has them, to the nanosecond. */
static void exact_times(void)
{
	CUstream s;

	begin();
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 350; i++)
		launch(timed, s, 8600);
	finish();
	CHECK_EQ(count(), 350);
	for (unsigned int i = 0; i < kernel_count; i++) {
		const CUpti_ActivityKernel10 *k = &kernels[i];

		CHECK_EQ(k->end - k->start, 8600);
		CHECK(!i || k->start > kernels[i - 1].end);
		CHECK(!i || k->correlationId > kernels[i - 1].correlationId);
	}
	CHECK_EQ(kernels[0].gridX, 3);
	CHECK_EQ(kernels[0].blockY, 2);
	CHECK_EQ(kernels[0].staticSharedMemory, 96);
	CHECK(!strcmp(kernels[0].name, "timed"));
}

static bool overlap(const CUpti_ActivityKernel10 *a,
		    const CUpti_ActivityKernel10 *b)
{
	return a->start < b->end && b->start < a->end;
}

static void streams(void)
{
	CUstream a, b, blocking;
	CUevent e;

	begin();
	OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	OK(cuEventCreate(&e, 0));
	/* Long: the next launch may come late on a busy machine. */
	launch(timed, a, 300000000);
	launch(timed, b, 300000000);
	OK(cuEventRecord(e, a));
	OK(cuStreamWaitEvent(b, e, 0));
	launch(timed, b, 1000);
	launch(timed, blocking, 5000000);
	launch(timed, NULL, 1000);		/* waits for blocking streams */
	OK(cuStreamSynchronize(NULL));
	finish();
	CHECK_EQ(count(), 5);
	CHECK(overlap(&kernels[0], &kernels[1]));
	CHECK(kernels[2].start >= kernels[0].end);
	CHECK(overlap(&kernels[3], &kernels[0]));
	CHECK(kernels[4].start >= kernels[3].end);
	CHECK(kernels[4].start < kernels[0].end);
}

static void synchronises_in_real_time(void)
{
	struct timespec a, b;
	double s;

	open_gpu();
	clock_gettime(CLOCK_MONOTONIC, &a);
	launch(timed, NULL, 50000000);
	CHECK_EQ(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	OK(cuCtxSynchronize());
	clock_gettime(CLOCK_MONOTONIC, &b);
	s = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
	CHECK(s >= 0.05);
	OK(cuStreamQuery(NULL));
}

static void memory_is_kept(void)
{
	unsigned char host[256], back[256] = { 0 };
	CUdeviceptr d, e;

	open_gpu();
	memset(host, 7, sizeof(host));
	OK(cuMemAlloc(&d, sizeof(host)));
	OK(cuMemAlloc(&e, sizeof(host)));
	OK(cuMemcpyHtoD(d, host, sizeof(host)));
	OK(cuMemcpyDtoD(e, d, sizeof(host)));
	OK(cuMemsetD8(d, 1, 16));
	OK(cuMemcpyDtoH(back, e, sizeof(back)));
	CHECK(!memcmp(host, back, sizeof(host)));
	OK(cuMemcpyDtoH(back, d, sizeof(back)));
	CHECK(back[15] == 1 && back[16] == 7);
	OK(cuMemFree(d));
	CHECK_EQ(cuMemFree(d), CUDA_ERROR_INVALID_VALUE);
}

static void host_call(void *data)
{
	__atomic_store_n((int *)data, 1, __ATOMIC_RELEASE);
}

static void host_functions(void)
{
	int done = 0;

	open_gpu();
	launch(timed, NULL, 300000000);
	OK(cuLaunchHostFunc(NULL, host_call, &done));
	CHECK_EQ(__atomic_load_n(&done, __ATOMIC_ACQUIRE), 0);
	OK(cuStreamSynchronize(NULL));
	CHECK_EQ(__atomic_load_n(&done, __ATOMIC_ACQUIRE), 1);
}

static void devices(void)
{
	char name[64];
	int n = 0;
	CUdevice d;

	OK(cuInit(0));
	OK(cuDeviceGetCount(&n));
	CHECK_EQ(n, 3);
	OK(cuDeviceGet(&d, 2));
	CHECK_EQ(cuDeviceGet(&d, 3), CUDA_ERROR_INVALID_DEVICE);
	OK(cuDeviceGetName(name, sizeof(name), 2));
	CHECK(!strcmp(name, "Simulated GPU"));
}

static void held(void)
{
	CUpti_SubscriberHandle s;
	char holder[64] = "";
	CUpti_SubscriberParams p = {
		.structSize = sizeof(p), .oldSubscriberName = holder,
		.oldSubscriberSize = sizeof(holder),
	};

	open_gpu();
	CHECK_EQ(ActivityEnable(KERNEL), 39);
	CHECK_EQ(ActivityFlushAll(0), 39);
	CHECK_EQ(Subscribe_v2(&s, (CUpti_CallbackFunc)held, NULL, &p), 39);
	CHECK(strstr(holder, "nsys"));
}

static void errors(void)
{
	CUdeviceptr d;

	OK(cuInit(0));
	open_gpu();
	CHECK_EQ(ActivityEnable(KERNEL), 35);
	OK(cuMemAlloc(&d, 16));
	CHECK_EQ(cuMemAlloc(&d, 16), CUDA_ERROR_OUT_OF_MEMORY);
}

static void kept_open(void)
{
	begin();
	for (int i = 0; i < 4; i++)
		launch(plain, NULL, 0);
	finish();
	CHECK_EQ(count(), 0);
	OK(ActivityFlushAll(1));
	CHECK_EQ(count(), 4);
	CHECK(kernels[0].end && !kernels[1].start && !kernels[1].end);
	CHECK(kernels[1].correlationId && !strcmp(kernels[1].name, "plain"));
	CHECK(kernels[2].end && kernels[3].end);
}

static void four(void)
{
	begin();
	for (int i = 0; i < 4; i++)
		launch(timed, NULL, 1000);
	finish();
}

static void zero_times(void)
{
	four();
	CHECK_EQ(count(), 4);
	CHECK(kernels[0].end && kernels[2].end);
	CHECK(!kernels[1].start && !kernels[1].end && !kernels[3].end);
}

static void reversed_times(void)
{
	four();
	CHECK_EQ(kernels[0].end - kernels[0].start, 1000);
	CHECK_EQ(kernels[1].start - kernels[1].end, 1000);
}

static void late(void)
{
	four();
	CHECK_EQ(count(), 0);
	usleep(400000);
	CHECK_EQ(count(), 4);
}

static void long_names(void)
{
	four();
	CHECK_EQ(strlen(kernels[0].name), 5000);
}

static void raw_names(void)
{
	bool seen[256] = { false };

	four();
	for (const char *c = kernels[0].name; *c; c++)
		seen[(unsigned char)*c] = true;
	for (int i = 1; i < 256; i++)
		CHECK(seen[i]);
}

static void dropped(void)
{
	size_t n = 0;

	four();
	CHECK_EQ(count(), 2);
	OK(ActivityGetNumDroppedRecords(NULL, 0, &n));
	CHECK_EQ(n, 2);
	OK(ActivityGetNumDroppedRecords(NULL, 0, &n));
	CHECK_EQ(n, 0);
}

static void silent(void)
{
	four();
	CHECK_EQ(count(), 4);
	OK(ActivityDisable(KERNEL));
	OK(ActivityEnable(KERNEL));
	launch(plain, NULL, 0);
	finish();
	CHECK_EQ(count(), 4);
}

static void refused_26(void)
{
	uint32_t version = 0;

	OK(GetVersion(&version));
	CHECK_EQ(version, 26);
	open_gpu();
	refuse = 1;
	trace();
	launch(plain, NULL, 0);
	_exit(9);		/* not reached */
}

/*
 * What NVIDIA's libraries of 11.8.87, 12.4.127, 12.8.90 and 13.0.85 export,
 * and the sizes that their headers give the newest kernel record.
 */
static void generations(void)
{
	static const struct {
		const char *name;
		uint32_t since;
	} functions[] = {
		{ "cuptiActivityEnableAndDump", 18 },
		{ "cuptiActivityEnableLatencyTimestamps", 18 },
		{ "cuptiActivityEnableDeviceGraph", 22 },
		{ "cuptiGetGraphExecId", 22 },
		{ "cuptiActivityEnableDriverApi", 26 },
		{ "cuptiActivityEnableRuntimeApi", 26 },
		{ "cuptiActivityEnableAllSyncRecords", 26 },
		{ "cuptiActivityEnableHWTrace", 26 },
		{ "cuptiActivityEnableCudaEventDeviceTimestamps", 130001 },
		{ "cuptiSubscribe_v2", 130001 },
	};
	uint32_t version = 0;

	OK(GetVersion(&version));
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
		CHECK_EQ(dlsym(library, functions[i].name) != NULL,
			 version >= functions[i].since);
	four();
	CHECK_EQ(count(), 4);
	CHECK_EQ(stride, version == 18 ? 200 : version < 130000 ? 208 : 216);
}

static const struct test {
	void (*run)(void);
	const char *variable, *value;
	int signal;
} tests[] = {
	{ exact_times, NULL, NULL, 0 }, { streams, NULL, NULL, 0 },
	{ synchronises_in_real_time, NULL, NULL, 0 },
	{ memory_is_kept, NULL, NULL, 0 }, { host_functions, NULL, NULL, 0 },
	{ devices, "SIM_DEVICES", "3", 0 }, { held, "SIM_SUBSCRIBER", "nsys", 0 },
	{ errors, "SIM_ERROR", "cuptiActivityEnable=35,cuMemAlloc_v2=2@2", 0 },
	{ kept_open, "SIM_KEEP_OPEN", "2", 0 },
	{ zero_times, "SIM_TIMES", "zero@2", 0 },
	{ reversed_times, "SIM_TIMES", "reversed@2", 0 },
	{ late, "SIM_LATE_MS", "200", 0 },
	{ long_names, "SIM_NAME_BYTES", "5000", 0 },
	{ raw_names, "SIM_NAME_RAW", "1", 0 }, { dropped, "SIM_DROP", "2", 0 },
	{ silent, "SIM_SILENT_AFTER", "1", 0 },
	{ refused_26, "SIM_CUPTI_VERSION", "26", SIGSEGV },
	{ generations, "SIM_CUPTI_VERSION", "18", 0 },
	{ generations, "SIM_CUPTI_VERSION", "22", 0 },
	{ generations, "SIM_CUPTI_VERSION", "26", 0 },
	{ generations, "SIM_CUPTI_VERSION", "130001", 0 },
};

static void run(const struct test *t)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		alarm(60);
		check_failures = 0;
		if (t->signal)
			signal(t->signal, SIG_DFL);
		if (t->variable)
			setenv(t->variable, t->value, 1);
		load_cupti();
		t->run();
		_exit(check_result());
	}
	waitpid(pid, &status, 0);
	if (t->signal)
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == t->signal);
	else
		CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	if (check_failures)
		fprintf(stderr, "in the test of %s\n",
			t->variable ? t->variable : "the timeline");
}

int main(void)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		run(&tests[i]);
	return check_result();
}
