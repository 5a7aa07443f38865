/* SPDX-License-Identifier: MIT */
#include "inject/control_reply.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collector/window.h"
#include "inject/capture.h"
#include "inject/protocol.h"
#include "writer/json.h"

static void begin(struct bytes *out, bool is_ok)
{
	bytes_clear(out);
	json_open(out, '{');
	json_key(out, "ok");
	json_bool(out, is_ok);
}

void reply_error(struct bytes *out, const char *code, const char *why)
{
	begin(out, false);
	json_member_text(out, "code", code);
	json_member_text(out, "error", why);
	json_close(out, '}');
}

void reply_started(struct bytes *out, const struct work *work)
{
	begin(out, true);
	json_member_u64(out, "window", work->window);
	json_member_u64(out, "started_ns", work->opened_ns);
	json_close(out, '}');
}

static void reply_failure(struct bytes *out, int error)
{
	char why[96];

	snprintf(why, sizeof why, "the file could not be written (error %d); "
		 "the process's own lines say more", -error);
	reply_error(out, PROTOCOL_FAILED, why);
}

void reply_dumped(struct bytes *out, const struct work *work)
{
	const struct writer_result *result = &work->result;

	if (result->error) {
		reply_failure(out, result->error);
		return;
	}
	begin(out, true);
	json_member_text(out, "path", result->path);
	json_member_u64(out, "span_ns", result->span_ns);
	json_member_u64(out, "events", result->events);
	json_member_u64(out, "kernels", result->kernels);
	json_member_u64(out, "lost", result->lost);
	json_member_u64(out, "unfinished", result->unfinished);
	json_close(out, '}');
}

void reply_window(struct bytes *out, uint32_t window,
		  const struct writer_result *result)
{
	if (result->error) {
		reply_failure(out, result->error);
		return;
	}
	begin(out, true);
	json_member_u64(out, "window", window);
	json_member_text(out, "path", result->path);
	json_member_u64(out, "kernels", result->kernels);
	json_member_u64(out, "events", result->events);
	json_member_u64(out, "bytes", result->bytes);
	json_member_u64(out, "lost", result->lost);
	json_close(out, '}');
}

/* What is closed and still fetched is STOPPING. */
static const char *state_of(const struct capture_status *status)
{
	if (status->is_recorder)
		return "recorder";
	if (status->is_open)
		return "recording";
	return window_settled() < window_epoch() / 2 ? "stopping" :
		"sleeping";
}

void reply_status(struct bytes *out)
{
	struct capture_status status;

	capture_status(&status);
	begin(out, true);
	json_member_u64(out, "pid", (uint64_t)getpid());
	json_member_text(out, "state", state_of(&status));
	json_member_text(out, "version", GPUTRACE_VERSION);
	json_member_text(out, "start", status.start);
	json_member_u64(out, "windows", status.windows);
	json_member_u64(out, "opened_ns", status.opened_ns);
	json_member_text(out, "path", status.path);
	json_member_u64(out, "kernels", status.kernels);
	json_member_u64(out, "lost", status.lost);
	json_close(out, '}');
}
