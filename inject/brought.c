/* SPDX-License-Identifier: MIT */
#include "inject/brought.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inject/protocol.h"

bool brought_by_command(void)
{
	char name[16] = "";

	return !syscall(SYS_prctl, PR_GET_NAME, name) &&
		!strcmp(name, PROTOCOL_LOADER);
}
