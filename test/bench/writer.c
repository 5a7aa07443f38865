/* SPDX-License-Identifier: MIT */
/*
 * The writer's speed on one core: buffers as CUPTI fills them (13.0 layout),
 * through the writer's own path into a sink that drops the bytes.  The time
 * of the writer thread's work alone is counted, not that of making the scene.
 */
#include <libdeflate.h>
#include <stdio.h>
#include <time.h>

#include "collector/loss.h"
#include "test/unit/scene.h"
#include "writer/output.h"
#include "writer/recorder.h"
#include "writer/trace.h"

enum { KERNELS = 100000, ROUNDS = 12 };

static const char *const kernels[] = {
	("_ZN2at6native29vectorized_elementwise_kernelILi8E"
	 "NS0_15CUDAFunctor_addIfEEEEvT0_"),
	"nvjet_sm90_tst_64x8_64x16_4x1_v_bz_bias_TNT",
	"_ZN8cublasLt19splitKreduce_kernelILi32ELi16EifffEEvv",
	"_ZN5flash22flash_fwd_splitkv_kernelILi128ELi64EEEvv",
};

static struct bytes kept;       /* JSON for the compression baseline */

static uint64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static int keep_append(struct sink *sink, const void *bytes, size_t len)
{
	(void)sink;
	if (kept.len < 128 << 20)
		bytes_add(&kept, bytes, len);
	return 0;
}

static int keep_commit(struct sink *sink, const void *tail, size_t len)
{
	(void)sink;
	(void)tail;
	(void)len;
	return 0;
}

static uint64_t keep_size(const struct sink *sink, size_t tail_len)
{
	(void)sink;
	return kept.len + tail_len;
}

static void keep_close(struct sink *sink)
{
	(void)sink;
}

static struct sink *open_kept(struct trace *trace)
{
	static const struct sink_ops ops = {
		.append = keep_append, .commit = keep_commit,
		.size = keep_size, .close = keep_close,
	};
	static struct sink sink = { &ops };

	(void)trace;
	return &sink;
}

static struct sink *open_null(struct trace *trace)
{
	(void)trace;
	return sink_null_create();
}

static struct sink *open_recorder(struct trace *trace)
{
	trace->file->is_recorder = true;
	return sink_recorder_create(UINT64_C(30000000000), 64 << 20);
}

static struct sink *open_gz(struct trace *trace)
{
	(void)trace;
	return sink_gz_create(sink_null_create());
}

static void print(const char *name, double value, const char *unit,
		  double baseline, const char *of)
{
	printf("{\"name\":\"%s\",\"value\":%.2f,\"unit\":\"%s\","
	       "\"baseline\":%.2f,\"baseline_of\":\"%s\"}\n", name, value,
	       unit, baseline, of);
	fflush(stdout);
}

/* Launches and kernels of four streams, as a decode loop makes them.  Returns
 * what reading the rings took meanwhile: they hold some hundred ranges. */
static uint64_t fill(struct trace *trace, uint32_t round, bool has_ranges)
{
	uint32_t i, c = round * KERNELS + 1;
	uint64_t start_ns, spent_ns = 0;

	for (i = 0; i < KERNELS; i++, c++) {
		uint64_t t = ((uint64_t)round * KERNELS + i) * 4000;
		CUpti_ActivityKernel10 *kernel;

		if (has_ranges && i % 8 == 0) {
			scene_push(t, 0, "forward");
			scene_pop(t + 30000, 0);
		}
		if (has_ranges && i % 1024 == 0) {
			start_ns = cpu_ns();
			drain_rings(trace);
			spent_ns += cpu_ns() - start_ns;
		}
		scene_launch(1234, c, t, t + 3000);
		kernel = scene_kernel(kernels[i % 4], 7 + i % 4, c, t + 9000,
				      t + 9000 + 3500);
		kernel->gridX = 64 + (int)(i % 32);
	}
	scene_flush();
	return spent_ns;
}

/* A figure for less than the whole scene would be no figure. */
static void complain(uint64_t nr_kernels)
{
	enum loss cause;

	fprintf(stderr, "only %llu kernels\n", (unsigned long long)nr_kernels);
	for (cause = 0; cause < LOSS_NR; cause++)
		if (loss_get(cause))
			fprintf(stderr, "%s: %llu\n", loss_key(cause),
				(unsigned long long)loss_get(cause));
}

/* Events a second and, in *rate, MB/s. */
static double measure(struct sink *(*open_sink)(struct trace *),
		      bool has_ranges, double *rate)
{
	static const struct writer_options options = {
		.out = "none", .memory = 64 << 20, .world_size = 1,
	};
	struct trace *trace = calloc(1, sizeof(*trace));
	uint64_t start_ns, spent_ns = 0, bytes;
	double kernels_s;
	uint32_t i;

	trace_init(trace, &options);
	trace->open_sink = open_sink;
	scene.t_ns = clock_now_ns();
	windows_refresh(trace);
	scene_device();
	for (i = 0; i < ROUNDS; i++) {
		spent_ns += fill(trace, i, has_ranges);
		start_ns = cpu_ns();
		batch_take(trace);
		drain_rings(trace);
		batch_write(trace, false);
		output_commit(trace, false);
		spent_ns += cpu_ns() - start_ns;
	}
	bytes = trace->file->sink ?
		sink_size(trace->file->sink, 0) : 0;
	kernels_s = (double)trace->nr_kernels * 1e9 / (double)spent_ns;
	*rate = (double)bytes * 1e3 / (double)spent_ns;
	if (trace->nr_kernels != (uint64_t)KERNELS * ROUNDS)
		complain(trace->nr_kernels);
	trace_fini(trace);
	free(trace);
	return kernels_s;
}

/* libdeflate alone, on the same bytes in the same pieces. */
static double deflate_rate(void)
{
	struct libdeflate_compressor *compressor;
	size_t at, n, bound, packed = 0;
	uint64_t start_ns, spent_ns;
	char *to;

	compressor = libdeflate_alloc_compressor(1);
	bound = libdeflate_gzip_compress_bound(compressor, 1 << 20);
	to = malloc(bound);
	start_ns = cpu_ns();
	for (at = 0; at < kept.len; at += n) {
		n = kept.len - at < 1 << 20 ? kept.len - at : 1 << 20;
		packed += libdeflate_gzip_compress(compressor, kept.data + at,
						   n, to, bound);
	}
	spent_ns = cpu_ns() - start_ns;
	free(to);
	libdeflate_free_compressor(compressor);
	return packed ? (double)kept.len * 1e3 / (double)spent_ns : 0;
}

/* The bound of any encoder: copying as many bytes. */
static double copy_rate(void)
{
	size_t at, n, size = 1 << 20;
	char *to = malloc(size);
	uint64_t start_ns = cpu_ns(), spent_ns;

	for (at = 0; at < kept.len; at += n) {
		n = kept.len - at < size ? kept.len - at : size;
		memcpy(to, kept.data + at, n);
		__asm__ volatile("" : : "r"(to) : "memory");
	}
	spent_ns = cpu_ns() - start_ns;
	free(to);
	return (double)kept.len * 1e3 / (double)spent_ns;
}

int main(void)
{
	double rate, kernels_s, ranges_s, gz_s, recorder_s, kept_rate, raw;
	double per_kernel;

	scene_begin();
	window_close();
	window_open();
	measure(open_kept, false, &kept_rate);
	kernels_s = measure(open_null, false, &rate);
	per_kernel = rate * 1e6 / kernels_s;
	print("writer_json", rate, "MB/s", copy_rate(),
	      "copying the same bytes");
	print("writer_events", kernels_s / 1e6 * 2, "million slices/s",
	      copy_rate() / per_kernel * 2, "copying the same bytes");
	print("writer_kernels_with_calls_and_arrows", kernels_s / 1e6,
	      "million kernels/s", copy_rate() / per_kernel,
	      "copying the same bytes");
	ranges_s = measure(open_null, true, &rate);
	print("writer_kernels_with_ranges", ranges_s / 1e6,
	      "million kernels/s", kernels_s / 1e6, "without ranges");
	raw = deflate_rate();
	gz_s = measure(open_gz, false, &kept_rate);
	print("writer_gz", gz_s * per_kernel / 1e6, "MB/s of JSON", raw,
	      "libdeflate level 1 alone on the same bytes");
	recorder_s = measure(open_recorder, false, &kept_rate);
	print("writer_recorder", recorder_s / 1e6 * 2, "million slices/s",
	      kernels_s / 1e6 * 2, "dropping the bytes");
	return 0;
}
