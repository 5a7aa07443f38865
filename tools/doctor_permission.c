/* SPDX-License-Identifier: MIT */
/* What this user may: open the GPU, write the file, read counters. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tools/doctor.h"
#include "tools/proc_status.h"

/* linux/capability.h */
enum { CAP_PTRACE = 19, CAP_ADMIN = 21 };

enum { DEVICES_MAX = 64 };

static uint64_t capabilities(const struct doctor *d)
{
	char status[PROC_STATUS_SIZE];

	if (d->process)
		return d->process->capabilities;
	(void)proc_status_read(&d->machine, 0, status);
	return proc_status_mask(status, "CapEff");
}

static bool has_capability(const struct doctor *d, int n)
{
	return capabilities(d) >> n & 1;
}

/* ---- The GPU ---- */

static int count_gpus(const struct doctor *d, char *denied, size_t size)
{
	char path[32];
	int nr = 0, err;

	for (int i = 0; i < DEVICES_MAX; i++) {
		snprintf(path, sizeof(path), "/dev/nvidia%d", i);
		err = look_access(&d->seen, path, R_OK | W_OK);
		nr += !err;
		if (err == -EACCES && !denied[0])
			snprintf(denied, size, "%s", path);
	}
	return nr;
}

static void say_devices(struct doctor *d, struct finding *f)
{
	static const char *const nodes[] = { "/dev/nvidiactl",
		"/dev/nvidia-uvm" };
	char denied[32] = "";
	int nr = count_gpus(d, denied, sizeof(denied)), err;

	for (int i = 0; i < 2; i++) {
		err = look_access(&d->seen, nodes[i], R_OK | W_OK);
		if (err == -EACCES && !denied[0])
			snprintf(denied, sizeof(denied), "%s", nodes[i]);
		if (!err || err == -EACCES)
			continue;
		finding_say(f, VERDICT_BAD, "no %s", nodes[i]);
		finding_advise(f, i ? "sudo nvidia-modprobe -u -c 0" :
			       "sudo nvidia-modprobe -c 0; in a container: "
			       "docker run --gpus all");
		return;
	}
	if (denied[0]) {
		finding_say(f, VERDICT_BAD, "%s may not be read and written by "
			    "this user", denied);
		finding_advise(f, "ls -l %s tells the group to join (often "
			       "video): sudo usermod -aG video $USER", denied);
	} else if (!nr) {
		finding_say(f, VERDICT_BAD, "no /dev/nvidia0 ...");
		finding_advise(f, "sudo nvidia-modprobe -c 0; in a container: "
			       "docker run --gpus all");
	} else {
		finding_say(f, VERDICT_OK, "%d, may be used by this user; "
			    "tracing needs no more", nr);
	}
}

void check_devices(struct doctor *d, struct finding *f)
{
	if (d->simulated)
		finding_say(f, VERDICT_OK, "the GPU is simulated");
	else if (d->process && d->process->has_gpu)
		finding_say(f, VERDICT_OK, "open in the process");
	else if (look_has(&d->seen, "/dev/dxg"))
		finding_say(f, VERDICT_OK, "/dev/dxg (WSL)");
	else if (look_has(&d->seen, "/dev/nvhost-ctrl") ||
		 look_has(&d->seen, "/dev/nvgpu"))
		finding_say(f, VERDICT_NONE, "not checked: Tegra's are others");
	else
		say_devices(d, f);
}

void check_counters(struct doctor *d, struct finding *f)
{
	static const char key[] = "RmProfilingAdminOnly:";
	char params[16384];
	const char *line;

	if (look_read(&d->machine, "/proc/driver/nvidia/params", params,
		      sizeof(params)) < 0 || !(line = strstr(params, key))) {
		finding_say(f, VERDICT_NONE, "not known: no "
			    "/proc/driver/nvidia/params (tracing needs no "
			    "permission)");
		return;
	}
	if (atoi(line + strlen(key)) == 0) {
		finding_say(f, VERDICT_OK, "free for all users "
			    "(RmProfilingAdminOnly: 0)");
	} else if (has_capability(d, CAP_ADMIN)) {
		finding_say(f, VERDICT_OK, "for administrators "
			    "(RmProfilingAdminOnly: 1), and CAP_SYS_ADMIN is "
			    "there");
	} else {
		finding_say(f, VERDICT_WARN, "only for administrators "
			    "(RmProfilingAdminOnly: 1); tracing works without");
		finding_advise(f, "echo options nvidia NVreg_RestrictProfiling"
			       "ToAdminUsers=0 | sudo tee /etc/modprobe.d/"
			       "nvidia-profiling.conf, then restart; in a "
			       "container: docker run --cap-add=SYS_ADMIN");
	}
}

/* ---- The kernel ---- */

static bool read_number(const struct doctor *d, const char *path, long *n)
{
	char text[32], *end;

	if (look_read(&d->machine, path, text, sizeof(text)) <= 0)
		return false;
	*n = strtol(text, &end, 10);
	return end != text;
}

void check_perf(struct doctor *d, struct finding *f)
{
	long n;

	if (!read_number(d, "/proc/sys/kernel/perf_event_paranoid", &n)) {
		finding_say(f, VERDICT_NONE, "not known: no "
			    "perf_event_paranoid");
	} else if (n <= 2 || has_capability(d, CAP_ADMIN)) {
		finding_say(f, VERDICT_OK, "possible (perf_event_paranoid: "
			    "%ld)", n);
	} else {
		finding_say(f, VERDICT_WARN, "forbidden (perf_event_paranoid: "
			    "%ld); tracing works without", n);
		finding_advise(f, "sudo sysctl kernel.perf_event_paranoid=2");
	}
}

void check_ptrace(struct doctor *d, struct finding *f)
{
	long n = 0;

	/* Without Yama there is no such file: as with 0. */
	(void)read_number(d, "/proc/sys/kernel/yama/ptrace_scope", &n);
	if (n <= 0 || (n < 3 && has_capability(d, CAP_PTRACE))) {
		finding_say(f, VERDICT_OK, "to a running process is possible "
			    "(ptrace_scope: %ld)", n);
	} else {
		finding_say(f, VERDICT_WARN, "to a running process is not "
			    "possible for this user (ptrace_scope: %ld); "
			    "gputrace record works without", n);
		finding_advise(f, n < 3 ? "sudo sysctl kernel.yama."
			       "ptrace_scope=0, or as root" :
			       "restart with kernel.yama.ptrace_scope=1 in "
			       "/etc/sysctl.d (3 stays until then)");
	}
}

/* ---- The file ---- */

/* The folder of GPUTRACE_OUT: where the process works, unless it says more.
 * False if it is made of a pattern. */
static bool output_folder(const struct doctor *d, char *folder, size_t size)
{
	const char *out = doctor_setting(d, SETTING_OUT);
	const char *slash = strrchr(out, '/');
	int len = slash ? (int)(slash - out) + 1 : 0;
	char at[PATH_MAX] = "";

	if (memchr(out, '%', (size_t)len) ||
	    (*out != '/' && !doctor_cwd(d, at, sizeof(at))))
		return false;
	snprintf(folder, size, "%s%s%.*s", at, at[0] ? "/" : "", len, out);
	return true;
}

void check_output(struct doctor *d, struct finding *f)
{
	char folder[2 * PATH_MAX];
	int err;

	if (!output_folder(d, folder, sizeof(folder))) {
		finding_say(f, VERDICT_NONE, "not checked: it is known only "
			    "when tracing starts (GPUTRACE_OUT=%s)",
			    doctor_setting(d, SETTING_OUT));
		return;
	}
	err = look_access(&d->seen, folder, W_OK | X_OK);
	if (!err) {
		finding_say(f, VERDICT_OK, "%s", folder);
		return;
	}
	finding_say(f, VERDICT_BAD, "%s: %s", folder, strerror(-err));
	finding_advise(f, "%s%s%s", err == -ENOENT ? "mkdir -p " :
		       "gputrace record --out FILE, in a folder that can be "
		       "written", err == -ENOENT ? folder : "", "");
}

/* Twice a file's bound: it and the one that takes its place at the next
 * flush (writer/sink_file.c). */
void check_space(struct doctor *d, struct finding *f)
{
	uint64_t need = 2 * setting_number(&settings_table[SETTING_MAX_SIZE],
		doctor_setting(d, SETTING_MAX_SIZE));
	uint64_t mb = 1 << 20, is_free;
	char folder[2 * PATH_MAX];
	struct statvfs st;
	int fd = -1, err;

	if (output_folder(d, folder, sizeof(folder)))
		fd = look_open(&d->seen, folder, O_RDONLY | O_DIRECTORY);
	err = fd >= 0 ? fstatvfs(fd, &st) : -1;
	if (fd >= 0)
		close(fd);
	if (err) {
		finding_say(f, VERDICT_NONE, "not known: no such folder");
		return;
	}
	is_free = st.f_bavail * (uint64_t)st.f_frsize;
	finding_say(f, is_free < need ? VERDICT_WARN : VERDICT_OK,
		    "%" PRIu64 " MB; up to %" PRIu64 " MB are needed at once",
		    is_free / mb, need / mb);
	if (is_free < need)
		finding_advise(f, "gputrace record --max-size %" PRIu64 "M",
			       is_free / 4 / mb + 1);
}
