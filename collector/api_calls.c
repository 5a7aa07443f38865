/* SPDX-License-Identifier: MIT */
#include "collector/api_calls.h"

#include <stdio.h>
#include <string.h>

#include "collector/activity.h"
#include "collector/cupti_api.h"

/*
 * Denied by GPUTRACE_API=essential.  A name stands for all its versions
 * (_v2, _v3020) and per-thread forms (_ptsz, _ptds); one that ends in '*' for
 * every name that begins so.
 */
static const char *const runtime_denied[] = {
	"cudaGetDevice", "cudaSetDevice", "cudaGetDeviceCount",
	"cudaGetDeviceFlags", "cudaGetDeviceProperties",
	"cudaDeviceGet*", "cudaDeviceCanAccessPeer",
	"cudaGetLastError", "cudaPeekAtLastError", "cudaGetErrorString",
	"cudaGetErrorName", "cudaDriverGetVersion", "cudaRuntimeGetVersion",
	"cudaGetDriverEntryPoint*", "cudaGetExportTable",
	"cudaStreamIsCapturing", "cudaStreamGetCaptureInfo*",
	"cudaStreamGetPriority", "cudaStreamGetFlags", "cudaStreamGetId",
	"cudaStreamGetDevice", "cudaStreamQuery",
	"cudaThreadExchangeStreamCaptureMode",
	"cudaEventCreate", "cudaEventCreateWithFlags", "cudaEventDestroy",
	"cudaEventQuery", "cudaEventElapsedTime",
	"cudaFuncGetAttributes", "cudaFuncGetName", "cudaFuncSetAttribute",
	"cudaPointerGetAttributes", "cudaOccupancy*",
	"cudaGetFuncBySymbol", "cudaGetKernel", "cudaGetSymbolAddress",
	"cudaGetSymbolSize", "cudaKernelSetAttributeForDevice",
};

static const char *const driver_denied[] = {
	"cuCtxGetCurrent", "cuCtxSetCurrent", "cuCtxPushCurrent",
	"cuCtxPopCurrent", "cuCtxGet*", "cuDeviceGet*", "cuDeviceCanAccessPeer",
	"cuDevicePrimaryCtxGetState", "cuDeviceComputeCapability",
	"cuDeviceTotalMem", "cuDriverGetVersion", "cuGetProcAddress",
	"cuGetExportTable", "cuGetErrorString", "cuGetErrorName",
	"cuKernelGet*", "cuKernelSetAttribute", "cuFuncGet*",
	"cuFuncSetAttribute", "cuFuncIsLoaded", "cuFuncSetCacheConfig",
	"cuLibraryGet*", "cuModuleGet*", "cuModuleEnumerateFunctions",
	"cuPointerGetAttribute", "cuPointerGetAttributes", "cuOccupancy*",
	"cuStreamIsCapturing", "cuStreamGet*", "cuStreamQuery",
	"cuThreadExchangeStreamCaptureMode",
	"cuEventCreate", "cuEventDestroy", "cuEventQuery",
	"cuEventElapsedTime", "cuMemGetAddressRange", "cuTensorMapEncode*",
};

static uint8_t denied[2][API_CBID_MAX / 8];
static const char *names[2][API_CBID_MAX];

static CUpti_CallbackDomain domain_of(bool is_runtime)
{
	return is_runtime ? CUPTI_CB_DOMAIN_RUNTIME_API :
		CUPTI_CB_DOMAIN_DRIVER_API;
}

static const char *cupti_name(bool is_runtime, uint32_t cbid)
{
	const char *name = NULL;

	if (!cupti_api()->GetCallbackName ||
	    cupti_api()->GetCallbackName(domain_of(is_runtime), cbid, &name) !=
	    CUPTI_SUCCESS)
		return NULL;
	return name && *name ? name : NULL;
}

/* What may follow the name of a call: nothing, _v3020, _v2_ptsz, ... */
static bool is_suffix(const char *rest)
{
	while (*rest == '_') {
		size_t n = strcspn(rest + 1, "_") + 1;

		if (strncmp(rest, "_ptsz", n) && strncmp(rest, "_ptds", n) &&
		    !(rest[1] == 'v' && strspn(rest + 2, "0123456789") ==
		      n - 2))
			return false;
		rest += n;
	}
	return !*rest;
}

static bool is_listed(const char *name, const char *const *list, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		size_t len = strlen(list[i]);
		bool prefix = list[i][len - 1] == '*';

		len -= prefix;
		if (!strncmp(name, list[i], len) &&
		    (prefix || is_suffix(name + len)))
			return true;
	}
	return false;
}

void api_each_named(bool is_runtime, const char *const *list, size_t nr,
		    void (*visit)(bool is_runtime, uint32_t cbid))
{
	const char *name;

	/* Id 0 is "INVALID"; the first id without a name ends the list. */
	for (uint32_t id = 1; id < API_CBID_MAX &&
	     (name = cupti_name(is_runtime, id)); id++)
		if (is_listed(name, list, nr))
			visit(is_runtime, id);
}

static void deny(bool is_runtime, uint32_t id)
{
	denied[is_runtime][id / 8] |= (uint8_t)(1 << id % 8);
}

void api_calls_init(bool all)
{
	memset(denied, 0, sizeof denied);
	if (all)
		return;
	api_each_named(true, runtime_denied,
		       sizeof runtime_denied / sizeof *runtime_denied, deny);
	api_each_named(false, driver_denied,
		       sizeof driver_denied / sizeof *driver_denied, deny);
}

bool api_is_denied(bool is_runtime, uint32_t cbid)
{
	return cbid < API_CBID_MAX &&
		denied[is_runtime][cbid / 8] >> cbid % 8 & 1;
}

void api_each_denied(bool is_runtime, void (*visit)(uint32_t cbid))
{
	for (uint32_t id = 1; id < API_CBID_MAX; id++)
		if (api_is_denied(is_runtime, id))
			visit(id);
}

/* cudaLaunchKernel_v7000 -> cudaLaunchKernel; cuMemcpyHtoD_v2 stays: its
 * number tells two functions apart. */
static size_t stripped_len(const char *name)
{
	const char *version = strrchr(name, '_');

	if (version > name && version[1] == 'v' && strlen(version) >= 6 &&
	    strspn(version + 2, "0123456789") == strlen(version + 2))
		return (size_t)(version - name);
	return strlen(name);
}

static const char *make_name(bool is_runtime, uint32_t cbid)
{
	const char *full = cupti_name(is_runtime, cbid);
	char unknown[32];

	if (!full) {
		snprintf(unknown, sizeof unknown, "%sUnknown_%u",
			 is_runtime ? "cuda" : "cu", cbid);
		return strdup(unknown);
	}
	return strndup(full, stripped_len(full));
}

const char *activity_api_name(bool is_runtime, uint32_t cbid)
{
	const char *fallback = is_runtime ? "cudaUnknown" : "cuUnknown";
	const char *full;

	if (cbid >= API_CBID_MAX)
		return fallback;
	if (!names[is_runtime][cbid])
		names[is_runtime][cbid] = make_name(is_runtime, cbid);
	if (names[is_runtime][cbid])
		return names[is_runtime][cbid];
	full = cupti_name(is_runtime, cbid);    /* without memory */
	return full ? full : fallback;
}
