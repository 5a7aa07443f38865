/* SPDX-License-Identifier: MIT */
#include "inject/capture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "collector/cupti.h"
#include "collector/loss.h"
#include "collector/window.h"

int capture_start(const struct capture_request *request, char *why,
		  size_t why_size)
{
	int error;

	if (request->has_target) {
		error = writer_set_target(&request->target);
		if (error) {
			snprintf(why, why_size, "no file of its own: %s",
				 strerror(-error));
			return error;
		}
	}
	error = cupti_start();
	if (error)
		snprintf(why, why_size, "CUPTI: %s", strerror(-error));
	return error;
}

int capture_stop(enum capture_by by)
{
	uint32_t epoch = window_epoch();

	(void)by;
	cupti_stop();
	return window_is_open(epoch) ? (int)(epoch / 2 + 1) : -ENOENT;
}

int capture_wait(uint32_t window, uint64_t deadline_ns,
		 struct writer_result *result)
{
	return writer_wait_window(window, deadline_ns, result);
}

int capture_dump(const struct writer_target *target, uint64_t deadline_ns,
		 struct writer_result *result, char *why, size_t why_size)
{
	int error = writer_dump(target, deadline_ns, result);

	if (error)
		snprintf(why, why_size, "no dump: %s", strerror(-error));
	return error;
}

void capture_status(struct capture_status *status)
{
	struct writer_summary summary;
	uint32_t epoch = window_epoch();

	memset(status, 0, sizeof *status);
	writer_summary(&summary);
	status->is_open = window_is_open(epoch);
	status->windows = (epoch + 1) / 2;
	status->opened_ns = window_opened_ns(epoch);
	memcpy(status->path, summary.path, sizeof status->path);
	status->kernels = summary.kernels;
	for (int i = 0; i < LOSS_NR; i++)
		status->lost += loss_get(i);
}
