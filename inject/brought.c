/* SPDX-License-Identifier: MIT */
#include "inject/brought.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The same in tools/attach_stub.h. */
static const char thread_name[] = "gputrace-load";

bool brought_by_command(void)
{
	char name[16] = "";

	return !syscall(SYS_prctl, PR_GET_NAME, name) &&
		!strcmp(name, thread_name);
}
