/* SPDX-License-Identifier: MIT */
#include "tools/control_choose.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "inject/settings.h"
#include "tools/control_file.h"
#include "tools/gputrace.h"

#define NS_PER_S UINT64_C(1000000000)

/* 3 s: as long as a start takes, also on a busy machine. */
enum { LOOKS = 150, LOOK_US = 20000 };

/* ---- Which ---- */

static int find(const struct options *o, const char *match,
		struct chosen *chosen)
{
	struct target_choice choice = {
		.nr_pids = (size_t)o->nr_operands, .match = match,
		.reachable = true,
	};
	int status, error;
	long *pids = options_pids(o, &status);

	if (!pids)
		return status;
	choice.pids = pids;
	error = targets_find(&chosen->machine, &choice, NULL, &chosen->found);
	if (error)
		status = complain("%s: %s", o->command, strerror(-error));
	free(pids);
	return status;
}

/* One that has just begun, or was just attached to, opens its socket some ms
 * later, where CUPTI's start takes a second, that much later; and it has its
 * name before it listens.  `looks`: that remain, for all of them. */
static int open_patiently(struct chosen *chosen, struct control *control,
			  struct target *t, int *looks, char *why, size_t size)
{
	int error;

	while ((error = control_open(control, &chosen->machine, t, why, size))
	       && (t->may_come || error == -ECONNREFUSED) && (*looks)-- > 0) {
		usleep(LOOK_US);
		target_read(&chosen->machine, t->pid, NULL, t);
	}
	return error;
}

/* Only those stay whose sockets are open. */
static int open_all(const struct options *o, bool all_or_none,
		    struct chosen *chosen)
{
	struct targets *found = &chosen->found;
	int status = STATUS_DONE, looks = o->nr_operands ? LOOKS : 0;
	char why[PATH_MAX + 256];
	size_t nr = 0;

	chosen->control = calloc(found->nr + 1, sizeof(*chosen->control));
	if (!chosen->control)
		return complain("out of memory");
	for (size_t i = 0; i < found->nr; i++) {
		if (open_patiently(chosen, &chosen->control[nr],
				   &found->target[i], &looks, why,
				   sizeof(why)))
			status = complain("%s: %s", o->command, why);
		else
			found->target[nr++] = found->target[i];
	}
	found->nr = nr;
	if (!nr && !status)
		status = complain("%s: no such process ('gputrace ps' lists "
				  "them)", o->command);
	if (o->nr_operands)
		chosen->status = status;
	return nr && !(o->nr_operands && all_or_none) ? STATUS_DONE : status;
}

int control_choose(const struct options *o, const struct choice *choice,
		   struct chosen *chosen)
{
	int error, status;

	memset(chosen, 0, sizeof(*chosen));
	chosen->machine.fd = -1;
	if (!!o->nr_operands + choice->all + !!choice->match > 1)
		return options_usage(o, "only one of PIDs, --all and --match");
	if (!o->nr_operands && !choice->all && !choice->match)
		return options_usage(o, "which PIDs? (or --all, or --match)");
	error = look_init(&chosen->machine, "/");
	if (error)
		return complain("%s: %s", o->command, strerror(-error));
	status = find(o, choice->match, chosen);
	if (!status)
		status = open_all(o, choice->all_or_none, chosen);
	if (!status && choice->out && chosen->found.nr > 1 &&
	    control_name_is_shared(choice->out))
		return options_usage(o, "--out: several processes need a %%p "
				     "in the name");
	return status;
}

void chosen_fini(struct chosen *chosen)
{
	for (size_t i = 0; chosen->control && i < chosen->found.nr; i++)
		control_close(&chosen->control[i]);
	free(chosen->control);
	targets_fini(&chosen->found);
	look_fini(&chosen->machine);
}

int control_verb(struct options *o,
		 int (*run)(struct chosen *chosen, const char *out))
{
	enum { OPT_OUT, OPT_ALL };
	struct choice choice = { 0 };
	struct chosen chosen;
	int option, status;

	while ((option = options_next(o)) >= 0) {
		if (option == OPT_OUT)
			choice.out = o->value;
		else if (option == OPT_ALL)
			choice.all = true;
		else
			choice.match = o->value;
	}
	status = options_status(o, option, NULL);
	if (status >= 0)
		return status;
	status = control_choose(o, &choice, &chosen);
	if (!status)
		status = run(&chosen, choice.out);
	chosen_fini(&chosen);
	return status;
}

/* ---- When ---- */

uint64_t control_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static bool read_duration(const char *text, uint64_t *ns)
{
	const struct setting *duration = &settings_table[SETTING_FLUSH];
	char why[96];

	if (setting_check(duration, text, why, sizeof(why)))
		return false;
	*ns = setting_number(duration, text);
	return true;
}

bool control_duration(const struct options *o, const char *text, uint64_t *ns)
{
	if (read_duration(text, ns))
		return true;
	options_usage(o, "not a duration such as 5s or 500ms: %s", text);
	return false;
}

bool control_trace(const struct options *o, const char *list)
{
	char why[160];

	if (!setting_check(&settings_table[SETTING_TRACE], list, why,
			   sizeof(why)))
		return true;
	options_usage(o, "--trace: %s", why);
	return false;
}

static bool read_clock(const char *text, const char *format, struct tm *tm)
{
	const char *end = strptime(text, format, tm);

	return end && !*end;
}

/* The next one from now on. */
static bool read_local(const char *text, time_t *at)
{
	time_t now = time(NULL);
	struct tm tm = *localtime(&now);

	tm.tm_sec = 0;
	if (!read_clock(text, "%H:%M:%S", &tm) &&
	    !read_clock(text, "%H:%M", &tm))
		return false;
	*at = mktime(&tm);
	if (*at < now) {
		tm.tm_mday++;
		*at = mktime(&tm);
	}
	return true;
}

static bool read_utc(const char *text, time_t *at)
{
	struct tm tm = { 0 };

	if (!read_clock(text, "%Y-%m-%dT%H:%M:%SZ", &tm) &&
	    !read_clock(text, "%Y-%m-%dT%H:%M:%S", &tm))
		return false;
	*at = timegm(&tm);
	return true;
}

bool control_at(const struct options *o, const char *text, uint64_t *at_ns)
{
	uint64_t ns;
	time_t at;

	if (*text == '+' && read_duration(text + 1, &ns))
		*at_ns = control_now_ns() + ns;
	else if (read_local(text, &at) || read_utc(text, &at))
		*at_ns = (uint64_t)at * NS_PER_S;
	else if (*text >= '0' && *text <= '9' && read_duration(text, &ns) &&
		 !text[strspn(text, "0123456789.")])
		*at_ns = ns;
	else
		return options_usage(o, "not a time such as +2s, 12:30:05 or "
				     "1796000000.5: %s", text) < 0;
	if (*at_ns < control_now_ns())
		complain("%s: --at %s has passed: it begins at once",
			 o->command, text);
	return true;
}
