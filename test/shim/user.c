/* SPDX-License-Identifier: MIT */
/*
 * A library with an NVTX of its own, hidden in it, as each has that includes
 * its headers.  C and C++, any optimisation.  Loaded by host/late.
 */
#include <nvtx3/nvToolsExt.h>
#include <string.h>

#ifdef __cplusplus
extern "C"
#endif
int user_call(const char *name);

/* A range of that name; its level, or NVTX's word for "nobody listens". */
int user_call(const char *name)
{
	nvtxEventAttributes_t a;
	int level;

	memset(&a, 0, sizeof(a));
	a.version = NVTX_VERSION;
	a.size = sizeof(a);
	a.messageType = NVTX_MESSAGE_TYPE_ASCII;
	a.message.ascii = name;
	level = nvtxRangePushEx(&a);
	nvtxRangePop();
	return level;
}
