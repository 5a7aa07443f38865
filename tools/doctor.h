/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_DOCTOR_H
#define GPUTRACE_TOOLS_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "inject/settings.h"
#include "tools/doctor_elf.h"
#include "tools/doctor_look.h"
#include "tools/doctor_process.h"

/*
 * `gputrace doctor`: would tracing work here, or in a process, and if not,
 * why?  It only reads files; it loads no library of NVIDIA's and asks nothing
 * of the GPU.  Each check is one row of DOCTOR_CHECKS and one function, in the
 * file of its room: what cannot be told is VERDICT_NONE, with the reason.
 *
 *   X(id, when, what)       void check_ID(struct doctor *, struct finding *)
 */
#define DOCTOR_CHECKS(X) \
	X(process, OF_PROCESS, "process")               /* doctor_inside.c */ \
	X(preload, OF_PROCESS, "library in the process") \
	X(cuda, OF_PROCESS, "CUDA in the process") \
	X(attached, OF_PROCESS, "tracer in the process") \
	X(socket, OF_PROCESS, "control socket") \
	X(copies, OF_PROCESS, "libcupti in the process") /* doctor_cupti.c */ \
	X(holder, OF_PROCESS, "other users of CUPTI")   /* doctor_others.c */ \
	X(trace, OF_PROCESS, "trace file")              /* doctor_trace.c */ \
	X(losses, OF_PROCESS, "losses") \
	X(driver, ALWAYS, "NVIDIA driver")              /* doctor_version.c */ \
	X(libcuda, ALWAYS, "libcuda") \
	X(devices, ALWAYS, "devices")                /* doctor_permission.c */ \
	X(cupti, ALWAYS, "libcupti")                    /* doctor_cupti.c */ \
	X(versions, ALWAYS, "CUPTI and driver")         /* doctor_version.c */ \
	X(library, OF_MACHINE, "libgputrace.so") \
	X(glibc, ALWAYS, "C library") \
	X(settings, ALWAYS, "settings")                 /* doctor_others.c */ \
	X(window, ALWAYS, "what is recorded") \
	X(injection, ALWAYS, "injection") \
	X(tools, ALWAYS, "other tools") \
	X(output, ALWAYS, "output folder")           /* doctor_permission.c */ \
	X(space, ALWAYS, "free space") \
	X(counters, ALWAYS, "GPU counters") \
	X(perf, ALWAYS, "CPU sampling") \
	X(ptrace, ALWAYS, "attaching")

enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_BAD, VERDICT_NONE };

struct finding {
	enum verdict verdict;
	char detail[1024];
	char advice[512];       /* what to type; "" if nothing is to be done */
};

/* A version of CUDA: 12.8; 0.0 where it is not known. */
struct cuda_version {
	int major, minor;
	bool is_least;          /* "or later" */
};

struct doctor {
	struct look machine;    /* /proc, /sys: as we see them */
	struct look seen;       /* what the process sees; else the same */
	struct process *process;                /* NULL without PID */
	const char *const *environment;         /* the process's, or ours */

	/* What a check found out for those behind it. */
	bool simulated;                         /* a libcuda of test/sim */
	char kernel_version[32];                /* "580.159.04" or "" */
	struct cuda_version driver;             /* CUDA of libcuda */
	char cupti_path[PATH_MAX];
	struct cuda_version cupti;
	char trace_path[PATH_MAX];
};

#define X(id, when, what) \
	void check_##id(struct doctor *d, struct finding *f);
DOCTOR_CHECKS(X)
#undef X

/* Sets the verdict and the detail; what to do about it. */
void finding_say(struct finding *f, enum verdict verdict, const char *format,
		 ...) __attribute__((format(printf, 3, 4)));
void finding_advise(struct finding *f, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A variable of the environment that counts, or NULL. */
const char *doctor_env(const struct doctor *d, const char *name);

/* The value in force, as the library reads it (doctor_others.c). */
const char *doctor_setting(const struct doctor *d, enum setting_id id);

/* Where the process works, without a '/' at the end, or where we do. */
bool doctor_cwd(const struct doctor *d, char *folder, size_t size);

/* Finds a library as the dynamic loader would: LD_LIBRARY_PATH, the cache,
 * the usual folders.  `how` says which.  Opened in `e` if found.
 * (doctor_loader.c) */
bool loader_find(const struct doctor *d, const char *soname, char *path,
		 size_t size, const char **how, struct elf *e);

/* Opens path below d->seen as an ELF file; false if it is none.  `real`, of
 * PATH_MAX, becomes its name with all links followed. */
bool doctor_open_elf(const struct doctor *d, const char *path, char *real,
		     struct elf *e);

/* CUPTI's version, by its file's name and by what it has (doctor_version.c). */
struct cuda_version cupti_version_of(const char *real, const struct elf *e);

/* "CUDA 12.8", "CUDA 12.5 or later" */
struct version_text { char text[40]; };
struct version_text version_text(struct cuda_version v);

#endif
