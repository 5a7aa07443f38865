/* SPDX-License-Identifier: MIT */
/* Versions: of the driver, of CUPTI, of the library, of the C library. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/doctor.h"
#include "tools/library.h"

/* Branches of the driver and the CUDA that each brings; NVIDIA's release notes
 * of the toolkits, "CUDA Toolkit and corresponding driver versions". */
static const struct {
	int branch, major, minor;
} branches[] = {
	{ 450, 11, 0 }, { 455, 11, 1 }, { 460, 11, 2 }, { 465, 11, 3 },
	{ 470, 11, 4 }, { 495, 11, 5 }, { 510, 11, 6 }, { 515, 11, 7 },
	{ 520, 11, 8 }, { 525, 12, 0 }, { 530, 12, 1 }, { 535, 12, 2 },
	{ 545, 12, 3 }, { 550, 12, 4 }, { 555, 12, 5 }, { 560, 12, 6 },
	{ 565, 12, 7 }, { 570, 12, 8 }, { 575, 12, 9 }, { 580, 13, 0 },
	{ 590, 13, 1 }, { 610, 13, 3 },
};

/* libcupti.so.YEAR.RELEASE.x and the CUDA that it comes with. */
static const struct {
	int year, release, major, minor;
} releases[] = {
	{ 2022, 3, 11, 8 }, { 2022, 4, 12, 0 }, { 2023, 1, 12, 1 },
	{ 2023, 2, 12, 2 }, { 2023, 3, 12, 3 }, { 2024, 1, 12, 4 },
	{ 2024, 2, 12, 5 }, { 2024, 3, 12, 6 }, { 2025, 1, 12, 8 },
	{ 2025, 2, 12, 9 }, { 2025, 3, 13, 0 }, { 2025, 4, 13, 1 },
};

/* Pip's wheels have no such name: a function that each version brought (CUPTI's
 * headers; collector/cupti_api.h names those that we call), newest first. */
static const struct {
	const char *name;
	int major, minor;
} since[] = {
	{ "cuptiActivityEnable_v2", 13, 2 },
	{ "cuptiSubscribe_v2", 13, 0 },
	{ "cuptiActivityEnableHWTrace", 12, 8 },
	{ "cuptiPmSamplingEnable", 12, 6 },
	{ "cuptiActivityEnableDriverApi", 12, 5 },
	{ "cuptiActivityEnableDeviceGraph", 12, 4 },
	{ "cuptiGetErrorMessage", 12, 2 },
};

struct version_text version_text(struct cuda_version v)
{
	struct version_text t;

	snprintf(t.text, sizeof(t.text), "CUDA %d.%d%s", v.major, v.minor,
		 v.is_least ? " or later" : "");
	return t;
}

static struct cuda_version version_of_branch(const char *version)
{
	int branch = atoi(version);
	struct cuda_version v = { 0, 0, false };

	for (size_t i = 0; i < sizeof(branches) / sizeof(*branches); i++)
		if (branches[i].branch <= branch)
			v = (struct cuda_version){ branches[i].major,
				branches[i].minor, false };
	return v;
}

static int soname_major(const char *real)
{
	const char *end = strstr(real, "libcupti.so.");

	return end ? atoi(end + strlen("libcupti.so.")) : 0;
}

struct cuda_version cupti_version_of(const char *real, const struct elf *e)
{
	const char *name = strrchr(real, '/');
	struct cuda_version v = { soname_major(name ? name : real), 0, true };
	int year = 0, release = 0;

	if (name && sscanf(name, "/libcupti.so.%d.%d", &year, &release) == 2)
		for (size_t i = 0; i < sizeof(releases) / sizeof(*releases);
		     i++)
			if (releases[i].year == year &&
			    releases[i].release == release)
				return (struct cuda_version){
					releases[i].major, releases[i].minor,
					false };
	if (year == 11 && release == 8)
		return (struct cuda_version){ 11, 8, false };
	for (size_t i = 0; i < sizeof(since) / sizeof(*since); i++)
		if (elf_has_name(e, since[i].name))
			return (struct cuda_version){ since[i].major,
				since[i].minor, true };
	return v;
}

/* The first word of the text that is digits and dots: "580.159.04". */
static bool find_version(const char *text, char *version, size_t size)
{
	while (*text) {
		size_t len = strspn(text, "0123456789."), word;

		word = strcspn(text, " \t\n");
		if (len == word && len > 2 && isdigit(*text) &&
		    memchr(text, '.', len)) {
			snprintf(version, size, "%.*s", (int)len, text);
			return true;
		}
		text += word;
		text += strspn(text, " \t\n");
	}
	return false;
}

void check_driver(struct doctor *d, struct finding *f)
{
	static const char *const files[] = {
		"/proc/driver/nvidia/version", "/sys/module/nvidia/version",
	};
	char text[1024], path[PATH_MAX];
	const char *how;
	struct elf e;

	for (size_t i = 0; i < 2; i++) {
		if (look_read(&d->machine, files[i], text, sizeof(text)) < 0 ||
		    !find_version(text, d->kernel_version,
				  sizeof(d->kernel_version)))
			continue;
		finding_say(f, VERDICT_OK, "%s (%s)", d->kernel_version,
			    files[i]);
		return;
	}
	if (!d->simulated && loader_find(d, "libcuda.so.1", path, sizeof(path),
					 &how, &e)) {
		d->simulated = elf_has_name(&e, "sim_env_number");
		elf_close(&e);
	}
	if (d->simulated) {
		finding_say(f, VERDICT_OK, "none, and none is needed: the GPU "
			    "is simulated");
	} else if (look_has(&d->seen, "/dev/dxg")) {
		finding_say(f, VERDICT_OK, "that of Windows (WSL)");
	} else if (look_has(&d->seen, "/dev/nvidiactl")) {
		finding_say(f, VERDICT_NONE, "its version cannot be read (no "
			    "%s)", files[0]);
	} else {
		finding_say(f, VERDICT_BAD, "the kernel has none (no %s)",
			    files[0]);
		finding_advise(f, "install NVIDIA's driver, or load it: sudo "
			       "modprobe nvidia; in a container: docker run "
			       "--gpus all");
	}
}

/* The copy that the process has, or that the loader would find. */
static bool find_libcuda(const struct doctor *d, char *path, const char **how,
			 struct elf *e)
{
	const struct mapped *m = d->process ?
		process_find(d->process, "/libcuda.so", NULL) : NULL;
	char real[PATH_MAX];

	if (!m)
		return loader_find(d, "libcuda.so.1", path, PATH_MAX, how, e);
	*how = "mapped";
	snprintf(path, PATH_MAX, "%s", m->path);
	return doctor_open_elf(d, m->path, real, e);
}

static void say_libcuda(struct doctor *d, struct finding *f, const char *path,
			const char *real, const char *how)
{
	const char *name = strstr(real, "/libcuda.so.");
	char version[32] = "";

	if (name)
		find_version(name + strlen("/libcuda.so."), version,
			     sizeof(version));
	if (version[0] || d->kernel_version[0])
		d->driver = version_of_branch(version[0] ? version :
					      d->kernel_version);
	if (!d->kernel_version[0] || !version[0] ||
	    !strcmp(version, d->kernel_version)) {
		finding_say(f, VERDICT_OK, "%s (%s)%s%s%s%s", path, how,
			    version[0] ? ", " : "", version,
			    d->driver.major ? ", " : "", d->driver.major ?
			    version_text(d->driver).text : "");
	} else if (strstr(real, "/compat/")) {
		finding_say(f, VERDICT_OK, "%s (%s), %s, %s: forward "
			    "compatibility, above the kernel's %s", path, how,
			    version, version_text(d->driver).text,
			    d->kernel_version);
	} else {
		finding_say(f, VERDICT_BAD, "%s is %s, the kernel's driver %s: "
			    "CUDA refuses the pair (error 803)", path, version,
			    d->kernel_version);
		finding_advise(f, "restart the machine (or the container) "
			       "after the driver's update");
	}
}

void check_libcuda(struct doctor *d, struct finding *f)
{
	char path[PATH_MAX], real[PATH_MAX] = "";
	const char *how = "";
	struct elf e;

	if (!find_libcuda(d, path, &how, &e)) {
		finding_say(f, VERDICT_BAD, "no libcuda.so.1: neither in "
			    "LD_LIBRARY_PATH nor where the loader looks");
		finding_advise(f, "install the driver's libraries; in a "
			       "container: docker run --gpus all");
		return;
	}
	d->simulated |= elf_has_name(&e, "sim_env_number");
	if (look_real(&d->seen, e.fd, real, sizeof(real)))
		snprintf(real, sizeof(real), "%s", path);
	elf_close(&e);
	if (strstr(path, "/stubs/") || strstr(real, "/stubs/")) {
		finding_say(f, VERDICT_BAD, "%s (%s) is the toolkit's stub for "
			    "linking, not the driver: cuInit fails with 34",
			    path, how);
		finding_advise(f, "take the folder stubs out of "
			       "LD_LIBRARY_PATH and the loader's cache");
	} else if (d->simulated) {
		finding_say(f, VERDICT_OK, "%s (%s), the simulated GPU", path,
			    how);
	} else {
		say_libcuda(d, f, path, real, how);
	}
}

void check_versions(struct doctor *d, struct finding *f)
{
	struct cuda_version c = d->cupti, v = d->driver;

	if (!c.major || !v.major) {
		finding_say(f, VERDICT_NONE, "not compared: the version of %s "
			    "is not known", c.major ? "the driver" : "CUPTI");
	} else if (c.major > v.major) {
		finding_say(f, VERDICT_BAD, "CUPTI of %s, but the driver is of "
			    "%s: CUPTI gives NOT_INITIALIZED (15)",
			    version_text(c).text, version_text(v).text);
		finding_advise(f, "pip install nvidia-cuda-cupti%s, and set "
			       "GPUTRACE_CUPTI to its libcupti.so.%s; or "
			       "update the driver", v.major > 12 ? "" :
			       v.major > 11 ? "-cu12" : "-cu11",
			       v.major > 12 ? "13" : v.major > 11 ? "12" :
			       "11.8");
	} else if (c.major == v.major && c.minor > v.minor) {
		finding_say(f, VERDICT_WARN, "CUPTI of %s, the driver of %s: "
			    "a CUPTI newer than the driver can give "
			    "NOT_INITIALIZED (15)", version_text(c).text,
			    version_text(v).text);
		finding_advise(f, "should tracing not start: set "
			       "GPUTRACE_CUPTI to the CUPTI of %s, or update "
			       "the driver", version_text(v).text);
	} else if (c.major < v.major) {
		finding_say(f, VERDICT_OK, "CUPTI of %s, the driver of %s: an "
			    "older CUPTI works, but not on GPUs that are newer "
			    "than it", version_text(c).text,
			    version_text(v).text);
	} else {
		finding_say(f, VERDICT_OK, "CUPTI of %s, the driver of %s%s",
			    version_text(c).text, version_text(v).text,
			    c.major == 13 && c.minor < 4 ?
			    "; this CUPTI keeps 32 bytes of memory for each "
			    "kernel that is launched outside a graph once a "
			    "CUDA graph was made (12.9 and 13.4 do not)" : "");
	}
}

/* ---- libgputrace.so ---- */

/* Opens the library that counts: mapped in the process, else beside us. */
static bool open_library(const struct doctor *d, char *path, struct elf *e)
{
	const struct mapped *m = d->process ?
		process_find(d->process, "/libgputrace.so", NULL) : NULL;
	const struct look ours = { .fd = -1 };
	int fd;

	if (m)
		snprintf(path, PATH_MAX, "%s", m->path);
	else if (!library_beside(path, PATH_MAX))
		return false;
	fd = look_open(m ? &d->seen : &ours, path, 0);
	if (fd >= 0 && !elf_open(e, fd))
		return true;
	if (fd >= 0)
		elf_close(e);
	return false;
}

void check_library(struct doctor *d, struct finding *f)
{
	char path[PATH_MAX] = "";
	struct elf e;

	if (!open_library(d, path, &e)) {
		finding_say(f, VERDICT_BAD, "not found: neither beside this "
			    "command nor in ../lib%s%s", path[0] ? ": " : "",
			    path);
		finding_advise(f, "install it there, or: gputrace record "
			       "--library FILE -- PROGRAM");
		return;
	}
	if (strcmp(e.version, GPUTRACE_VERSION)) {
		finding_say(f, VERDICT_WARN, "%s, version %s; this command is "
			    "%s", path, e.version[0] ? e.version : "unknown",
			    GPUTRACE_VERSION);
		finding_advise(f, "install the command and the library of one "
			       "version");
	} else {
		finding_say(f, VERDICT_OK, "%s, version %s", path, e.version);
	}
	elf_close(&e);
}

void check_glibc(struct doctor *d, struct finding *f)
{
	char path[PATH_MAX];
	const char *how = "";
	int needs = -1, has;
	struct elf e;

	if (open_library(d, path, &e)) {
		needs = elf_newest_glibc(&e);
		elf_close(&e);
	}
	if (!loader_find(d, "libc.so.6", path, sizeof(path), &how, &e)) {
		finding_say(f, VERDICT_NONE, "no libc.so.6 found: "
			    "libgputrace.so needs glibc, not musl");
		return;
	}
	has = elf_newest_glibc(&e);
	elf_close(&e);
	if (has < 0 || needs < 0) {
		finding_say(f, VERDICT_NONE, "%s does not tell its version",
			    has < 0 ? path : "libgputrace.so");
	} else if (has < needs) {
		finding_say(f, VERDICT_BAD, "%s is glibc 2.%d, libgputrace.so "
			    "needs 2.%d", path, has, needs);
		finding_advise(f, "use a libgputrace.so that was built on a "
			       "machine with glibc 2.%d or older", has);
	} else {
		finding_say(f, VERDICT_OK, "glibc 2.%d; 2.%d is needed", has,
			    needs);
	}
}
