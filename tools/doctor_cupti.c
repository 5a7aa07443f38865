/* SPDX-License-Identifier: MIT */
/* Which libcupti the library would choose: the order is cupti_api.c's. */
#include <stdio.h>
#include <string.h>

#include "collector/cupti_places.h"
#include "tools/doctor.h"

static const struct {
	int major;
	const char *soname;
} sonames[] = {
#define X(major, soname) { major, soname },
	CUPTI_SONAMES(X)
#undef X
};

#define X(folder) folder,
static const char *const places[] = { CUPTI_PLACES(X) };
static const char *const wheel_places[] = { CUPTI_WHEEL_PLACES(X) };
#undef X

/* Folders in which pip puts nvidia/, where they can be guessed: %s is
 * VIRTUAL_ENV or CONDA_PREFIX. */
static const char *const site_packages[] = {
	"%s/lib/python3*/site-packages/nvidia/",
	"/usr/local/lib/python3*/dist-packages/nvidia/",
	"/usr/local/lib/python3*/site-packages/nvidia/",
	"/opt/conda/lib/python3*/site-packages/nvidia/",
};

enum { NR_SONAMES = sizeof(sonames) / sizeof(*sonames) };

struct choice {
	struct elf e;
	char path[PATH_MAX], real[PATH_MAX];
	char why[PATH_MAX + 32];
};

static bool try_path(const struct doctor *d, struct choice *c,
		     const char *path, const char *why)
{
	if (!doctor_open_elf(d, path, c->real, &c->e))
		return false;
	snprintf(c->path, sizeof(c->path), "%s", path);
	snprintf(c->why, sizeof(c->why), "%s", why);
	return true;
}

static bool try_pattern(const struct doctor *d, struct choice *c,
			const char *folder, const char *name, const char *why)
{
	char pattern[PATH_MAX], path[PATH_MAX];

	return (size_t)snprintf(pattern, sizeof(pattern), "%s%s", folder,
				name) < sizeof(pattern) &&
		look_last(&d->seen, pattern, path, sizeof(path)) &&
		try_path(d, c, path, why);
}

static bool try_loaded(const struct doctor *d, struct choice *c)
{
	static const char why[] = "in the process already";
	const struct mapped *m;

	for (int i = 0; d->process && i < NR_SONAMES; i++) {
		m = process_find(d->process, sonames[i].soname, NULL);
		if (m && try_path(d, c, m->path, why))
			return true;
	}
	m = d->process ? process_find(d->process, "/libcupti.so", NULL) : NULL;
	return m && try_path(d, c, m->path, why);
}

static bool try_beside(const struct doctor *d, struct choice *c,
		       const char *mapped, const char *soname)
{
	const char *wheels = strstr(mapped, "/nvidia/");
	const char *slash = strrchr(mapped, '/');
	char folder[PATH_MAX], why[PATH_MAX + 16];

	snprintf(why, sizeof(why), "beside %s", mapped);
	for (size_t i = 0; wheels && i < sizeof(wheel_places) /
			sizeof(*wheel_places); i++) {
		if ((size_t)snprintf(folder, sizeof(folder), "%.*s%s",
				     (int)(wheels - mapped) + 8, mapped,
				     wheel_places[i]) < sizeof(folder) &&
		    try_pattern(d, c, folder, soname, why))
			return true;
	}
	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - mapped) + 1,
		 mapped);
	return try_pattern(d, c, folder, soname, why);
}

static bool try_all_beside(const struct doctor *d, struct choice *c,
			   const char *part, const char *soname)
{
	const struct mapped *m = d->process ?
		process_find(d->process, part, NULL) : NULL;

	for (; m; m = process_find(d->process, part, m + 1))
		if (try_beside(d, c, m->path, soname))
			return true;
	return false;
}

static bool try_soname(const struct doctor *d, struct choice *c,
		       const char *soname)
{
	char path[PATH_MAX];
	const char *how;

	if (loader_find(d, soname, path, sizeof(path), &how, &c->e)) {
		elf_close(&c->e);
		return try_path(d, c, path, how);
	}
	if (try_all_beside(d, c, "/libcudart.so", soname) ||
	    try_all_beside(d, c, "/nvidia/", soname))
		return true;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (try_pattern(d, c, places[i], soname, "a known place"))
			return true;
	return false;
}

static bool try_installed(const struct doctor *d, struct choice *c)
{
	int driver = d->driver.major, i;

	for (i = 0; i < NR_SONAMES; i++)
		if ((!driver || sonames[i].major <= driver) &&
		    try_soname(d, c, sonames[i].soname))
			return true;
	for (i = NR_SONAMES; i-- > 0; )
		if (driver && sonames[i].major > driver &&
		    try_soname(d, c, sonames[i].soname))
			return true;
	return false;
}

/* Not found by the library unless the program loads CUDA from there. */
static bool try_wheels(const struct doctor *d, struct choice *c)
{
	const char *env = doctor_env(d, "VIRTUAL_ENV");
	char folder[PATH_MAX], place[PATH_MAX];

	if (!env)
		env = doctor_env(d, "CONDA_PREFIX");
	for (size_t i = env && *env == '/' ? 0 : 1; i < sizeof(site_packages) /
			sizeof(*site_packages); i++) {
		snprintf(folder, sizeof(folder), "%s%s", i ? "" : env,
			 site_packages[i] + (i ? 0 : 2));
		for (int k = 0; k < NR_SONAMES * 3; k++) {
			if ((size_t)snprintf(place, sizeof(place), "%s%s",
					     folder, wheel_places[k % 3]) <
			    sizeof(place) &&
			    try_pattern(d, c, place, sonames[k / 3].soname,
					""))
				return true;
		}
	}
	return false;
}

static void say_none(const struct doctor *d, struct finding *f)
{
	struct choice c;

	if (!d->process && try_wheels(d, &c)) {
		finding_say(f, VERDICT_OK, "%s, of pip's wheels: found by "
			    "programs that load CUDA from there, as PyTorch "
			    "does", c.path);
		finding_advise(f, "for other programs: GPUTRACE_CUPTI=%s",
			       c.path);
		elf_close(&c.e);
		return;
	}
	finding_say(f, VERDICT_BAD, "none: not in LD_LIBRARY_PATH, the "
		    "loader's cache or folders, nor in %s ...", places[0]);
	finding_advise(f, "pip install nvidia-cuda-cupti%s, and "
		       "GPUTRACE_CUPTI=its libcupti.so",
		       d->driver.major == 12 ? "-cu12" :
		       d->driver.major == 11 ? "-cu11" : "");
}

void check_cupti(struct doctor *d, struct finding *f)
{
	const char *given = doctor_env(d, "GPUTRACE_CUPTI");
	bool found;
	struct choice c;

	found = try_loaded(d, &c);
	if (!found && given && *given) {
		found = try_path(d, &c, given, "GPUTRACE_CUPTI");
		if (!found) {
			finding_say(f, VERDICT_BAD, "GPUTRACE_CUPTI=%s is no "
				    "library that can be loaded", given);
			finding_advise(f, "unset GPUTRACE_CUPTI");
			return;
		}
	}
	if (!found && !try_installed(d, &c)) {
		say_none(d, f);
		return;
	}
	d->cupti = cupti_version_of(c.real, &c.e);
	snprintf(d->cupti_path, sizeof(d->cupti_path), "%s", c.path);
	finding_say(f, VERDICT_OK, "%s (%s), %s", c.path, c.why,
		    version_text(d->cupti).text);
	if (!elf_has_name(&c.e, "cuptiActivityFlushAll")) {
		finding_say(f, VERDICT_BAD, "%s (%s) is no CUPTI of CUDA 11.8 "
			    "or later", c.path, c.why);
		finding_advise(f, "set GPUTRACE_CUPTI to another libcupti.so");
	}
	elf_close(&c.e);
}

void check_copies(struct doctor *d, struct finding *f)
{
	const struct mapped *first, *other;

	first = process_find(d->process, "/libcupti.so", NULL);
	if (!first) {
		finding_say(f, VERDICT_NONE, "none is loaded");
		return;
	}
	other = first;
	do
		other = process_find(d->process, "/libcupti.so", other + 1);
	while (other && other->inode == first->inode);
	if (other) {
		finding_say(f, VERDICT_WARN, "two copies, which exclude each "
			    "other: %s and %s", first->path, other->path);
		finding_advise(f, "start it with GPUTRACE_CUPTI=%s, or with "
			       "the other one, whichever the program itself "
			       "uses", first->path);
	} else {
		finding_say(f, VERDICT_OK, "one: %s", first->path);
	}
}
