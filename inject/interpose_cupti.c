/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cupti.h>

#include "collector/cancel.h"
#include "collector/client.h"
#include "collector/client_clock.h"
#include "collector/cupti.h"
#include "collector/cupti_api.h"
#include "collector/cupti_buffers.h"
#include "collector/cupti_places.h"
#include "collector/log.h"
#include "inject/attach.h"

/*
 * CUPTI's functions as another client in the process finds them: here first,
 * where the library is preloaded.  Each does what the client asks for, and
 * sees to it that the two do not take from each other (collector/client.h):
 *
 *   cuptiActivityRegisterCallbacks           kept; CUPTI knows ours
 *   cuptiActivityEnable*, ...TimestampCallback    we stand aside first
 *   cuptiActivityDisable*, ...FlushAll       we take up again at its end
 *   cuptiActivitySetAttribute                kept for its turn
 *   cuptiFinalize, cuptiSubscribe(_v2)       there is one subscriber: ours
 *                                            gives way
 *
 * A client that finds CUPTI by dlsym, or has it linked in, is not seen.
 */
#define EXPORT __attribute__((visibility("default")))

#define X(major, soname) soname,
static const char *const libraries[] = { CUPTI_SONAMES(X) };
#undef X

/* The caller's own: the loader would have found it in what the caller's library
 * needs, were we not here.  One in that library itself is a wrapper like ours,
 * of another preload: it would come back to us. */
static void *find_beside(const void *caller, const char *name)
{
	void *library, *function = NULL;
	Dl_info where, found;

	if (!dladdr(caller, &where) || !where.dli_fname)
		return NULL;
	library = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (library) {
		function = dlsym(library, name);
		dlclose(library);
	}
	return function && dladdr(function, &found) &&
		found.dli_fbase != where.dli_fbase ? function : NULL;
}

static void *search(const void *caller, const char *name, const void *ours)
{
	void *function = find_beside(caller, name), *library;

	/* The program itself searches the global scope, where we are first. */
	if (!function || function == ours)
		function = dlsym(RTLD_NEXT, name);
	for (size_t i = 0; !function && i < sizeof libraries /
			sizeof *libraries; i++) {
		library = dlopen(libraries[i], RTLD_NOW | RTLD_NOLOAD);
		if (library)
			function = dlsym(library, name);
	}
	return function;
}

/* Each caller once: the loader's lock may be held by one who waits for it. */
static void *find(const void *caller, const char *name, const void *ours)
{
	static struct {
		const void *_Atomic caller;
		void *_Atomic function;
	} known[128];
	static _Atomic uint32_t nr;
	uint32_t i, at = atomic_load(&nr);
	void *function;

	for (i = 0; i < at && i < 128; i++)
		if (atomic_load(&known[i].caller) == caller)
			return atomic_load(&known[i].function);
	function = search(caller, name, ours);
	at = function ? atomic_fetch_add(&nr, 1) : 128;
	if (at >= 128)
		return function;
	atomic_store(&known[at].function, function);
	atomic_store(&known[at].caller, caller);
	return function;
}

/* The real function, for the caller of the one that this is used in. */
#define REAL(name) ((__typeof__(&name))find(__builtin_return_address(0), \
		#name, (const void *)name))

/* By its file's name; anything else wraps CUPTI as we do, and passes on. */
static bool is_cupti(const Dl_info *where)
{
	const char *path = where->dli_fname ? where->dli_fname : "";
	const char *slash = strrchr(path, '/');

	return !strncmp(slash ? slash + 1 : path, "libcupti", 8);
}

/* Two copies of CUPTI in one process exclude each other: the second gets 39
 * from every call (cupti_result.h), and nothing that we do would help it. */
static bool is_other_copy(const void *call)
{
	static atomic_flag is_said = ATOMIC_FLAG_INIT;
	static const void *_Atomic same;        /* the last that was not */
	Dl_info theirs, ours;

	if (!call || !cupti_api()->GetVersion || call == atomic_load(&same))
		return false;
	if (!dladdr(call, &theirs) || !is_cupti(&theirs) ||
	    !dladdr((const void *)cupti_api()->GetVersion, &ours) ||
	    theirs.dli_fbase == ours.dli_fbase) {
		atomic_store(&same, call);
		return false;
	}
	if (!atomic_flag_test_and_set(&is_said))
		log_line(LOG_WARN, "another profiler uses a second CUPTI, %s, "
			 "and only one can record: set GPUTRACE_CUPTI to that "
			 "path, or GPUTRACE_START=off", theirs.dli_fname);
	return true;
}

/* Before a call that wants CUPTI for the client. */
static void make_room(const void *call)
{
	int saved = errno, cancel = cancel_hold();

	client_begins();
	if (!is_other_copy(call))
		cupti_stand_aside();
	cancel_release(cancel);
	errno = saved;
}

/* Where there is no CUPTI to ask. */
#define NO_CUPTI CUPTI_ERROR_UNKNOWN

EXPORT CUptiResult CUPTIAPI
cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
			       CUpti_BuffersCallbackCompleteFunc complete)
{
	__typeof__(&cuptiActivityRegisterCallbacks) call =
		REAL(cuptiActivityRegisterCallbacks);
	struct client_callbacks callbacks = { request, complete };
	CUptiResult result = CUPTI_SUCCESS;

	if (is_other_copy((const void *)call))
		return call(request, complete);
	if (!request || !complete || !cupti_buffers_are_routed())
		result = call ? call(request, complete) : NO_CUPTI;
	if (result == CUPTI_SUCCESS)
		client_registers(&callbacks);
	return result;
}

EXPORT CUptiResult CUPTIAPI
cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc now)
{
	__typeof__(&cuptiActivityRegisterTimestampCallback) call =
		REAL(cuptiActivityRegisterTimestampCallback);
	CUptiResult result;

	/* Again: it would damage the first times of this session. */
	if (now && client_clock_is(now))
		return CUPTI_SUCCESS;
	make_room((const void *)call);
	result = call ? call(now) : NO_CUPTI;
	if (result == CUPTI_SUCCESS && !is_other_copy((const void *)call))
		client_clock_set(now);
	client_has_called();
	return result;
}

/* ---- Kinds ---- */

static CUptiResult note_enabled(CUptiResult result, CUpti_ActivityKind kind)
{
	if (result == CUPTI_SUCCESS)
		client_enables(kind);
	if (result == CUPTI_SUCCESS && !cupti_buffers_are_routed())
		client_is_past_us();
	client_has_called();
	return result;
}

/* Its last kind is off: our turn, if it need not ask for buffers any more. */
static CUptiResult note_disabled(CUptiResult result, CUpti_ActivityKind kind)
{
	int saved = errno, cancel = cancel_hold();

	if (result == CUPTI_SUCCESS)
		client_disables(kind);
	if (client_is_done())
		cupti_take_up();
	cancel_release(cancel);
	errno = saved;
	return result;
}

EXPORT CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind)
{
	__typeof__(&cuptiActivityEnable) call = REAL(cuptiActivityEnable);

	make_room((const void *)call);
	return note_enabled(call ? call(kind) : NO_CUPTI, kind);
}

EXPORT CUptiResult CUPTIAPI cuptiActivityEnableAndDump(CUpti_ActivityKind kind)
{
	__typeof__(&cuptiActivityEnableAndDump) call =
		REAL(cuptiActivityEnableAndDump);

	make_room((const void *)call);
	return note_enabled(call ? call(kind) : NO_CUPTI, kind);
}

EXPORT CUptiResult CUPTIAPI
cuptiActivityEnableContext(CUcontext context, CUpti_ActivityKind kind)
{
	__typeof__(&cuptiActivityEnableContext) call =
		REAL(cuptiActivityEnableContext);

	make_room((const void *)call);
	return note_enabled(call ? call(context, kind) : NO_CUPTI, kind);
}

/* What is on for us alone is not its to turn off. */
static bool is_only_ours(CUpti_ActivityKind kind)
{
	return cupti_is_ours() && !client_has_enabled(kind);
}

EXPORT CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind)
{
	__typeof__(&cuptiActivityDisable) call = REAL(cuptiActivityDisable);

	if (is_only_ours(kind))
		return CUPTI_SUCCESS;
	return note_disabled(call ? call(kind) : NO_CUPTI, kind);
}

EXPORT CUptiResult CUPTIAPI
cuptiActivityDisableContext(CUcontext context, CUpti_ActivityKind kind)
{
	__typeof__(&cuptiActivityDisableContext) call =
		REAL(cuptiActivityDisableContext);

	if (is_only_ours(kind))
		return CUPTI_SUCCESS;
	return note_disabled(call ? call(context, kind) : NO_CUPTI, kind);
}

/* ---- Buffers and attributes ---- */

EXPORT CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t flag)
{
	__typeof__(&cuptiActivityFlushAll) call = REAL(cuptiActivityFlushAll);
	int saved, cancel = cancel_hold();
	CUptiResult result;

	cupti_buffers_lock_flush();
	result = call ? call(flag) : NO_CUPTI;
	cupti_buffers_unlock_flush();
	saved = errno;
	if (flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED && !client_is_busy())
		client_was_flushed();
	/* A forced flush is its last one, and a thread that was late has the
	 * rest; after another it may still wait for work in flight. */
	if (client_is_done() || (client_may_be_left() &&
	    flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED))
		cupti_take_up();
	cancel_release(cancel);
	/* A call that waits is one in which a thread can be cancelled. */
	pthread_testcancel();
	errno = saved;
	return result;
}

EXPORT CUptiResult CUPTIAPI
cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *size,
			  void *value)
{
	__typeof__(&cuptiActivitySetAttribute) call =
		REAL(cuptiActivitySetAttribute);
	bool is_kept = size && value &&
		client_keeps_attribute(attribute, *size, value);

	/* Buffers of threads, once on, stay on: turned off and on beside
	 * threads that launch, they gave calls twice, and a flush that came
	 * between did not return them (13.0.1). */
	if (is_kept && (cupti_is_ours() || cupti_buffers_stay(attribute)))
		return CUPTI_SUCCESS;
	return call ? call(attribute, size, value) : NO_CUPTI;
}

/* ---- The subscriber, and the end ---- */

EXPORT CUptiResult CUPTIAPI
cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback,
	       void *argument)
{
	__typeof__(&cuptiSubscribe) call = REAL(cuptiSubscribe);

	attach_explain_absence();
	cupti_give_way();
	return call ? call(subscriber, callback, argument) : NO_CUPTI;
}

EXPORT CUptiResult CUPTIAPI
cuptiSubscribe_v2(CUpti_SubscriberHandle *subscriber,
		  CUpti_CallbackFunc callback, void *argument,
		  CUpti_SubscriberParams *parameters)
{
	__typeof__(&cuptiSubscribe_v2) call = REAL(cuptiSubscribe_v2);

	attach_explain_absence();
	cupti_give_way();
	return call ? call(subscriber, callback, argument, parameters) :
		NO_CUPTI;
}

EXPORT CUptiResult CUPTIAPI cuptiFinalize(void)
{
	__typeof__(&cuptiFinalize) call = REAL(cuptiFinalize);
	CUptiResult result;

	if (is_other_copy((const void *)call))
		return call();
	make_room((const void *)call);
	cupti_give_way();
	result = call ? call() : NO_CUPTI;
	cupti_buffers_forget();
	client_ends();
	client_has_called();
	return result;
}
