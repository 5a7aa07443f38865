/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_TOOLS_CHECK_RULES_H
#define GPUTRACE_TOOLS_CHECK_RULES_H

/*
 * The rules of `gputrace check`, one a line: id, severity, profiles, text.
 * The text is what a person reads beside the place in the file.  Profiles:
 * P: Perfetto's importer breaks or drops something, H: HTA does, K: the file
 * is not in Kineto's dialect.
 */
#define CHECK_RULES(X) \
	X(P001, ERROR, P|H|K, "a comma with nothing behind it is no JSON") \
	X(P002, ERROR, P|H|K, "NaN and Infinity are no JSON") \
	X(P003, ERROR, P|H|K, "raw control character in a string") \
	X(P004, ERROR, P|H|K, "not plain UTF-8") \
	X(P005, ERROR, P, "escaped surrogate: Perfetto refuses the file") \
	X(P006, ERROR, P|H|K, "the same key twice in one object") \
	X(P007, ERROR, P|H|K, "traceEvents must be an array of objects") \
	X(P008, ERROR, P|K, "displayTimeUnit must be \"ms\" or \"ns\"") \
	X(P009, WARNING, P, "more than one white space after the document") \
	X(P010, ERROR, P|H|K, "a slice needs a name and a cat, as strings") \
	X(P011, ERROR, P|K, "pid and tid must be integers in 32 bits") \
	X(P012, WARNING, P, "pid or tid is a string") \
	X(P013, ERROR, P, "tid 0 merges with the lane tid = pid") \
	X(P014, ERROR, P|H|K, "ts and dur must be finite numbers >= 0") \
	X(P015, ERROR, P|H|K, "time too large for its nanoseconds to survive") \
	X(P016, ERROR, P|H|K, "times are absolute although there is a base") \
	X(P017, ERROR, P|H|K, "ph is none of X M s t f i C") \
	X(P018, ERROR, P|K, "an instant needs s = g, p or t") \
	X(P019, ERROR, P|K, "a counter needs a name and finite numbers") \
	X(P020, ERROR, P, "slice crosses the end of the one it began in") \
	X(P030, ERROR, P, "a flow needs cat, name and an exact integer id") \
	X(P031, ERROR, P, "second start of one flow") \
	X(P032, ERROR, P, "flow end outside of the slice it binds to") \
	X(P033, ERROR, P, "flow end without bp = e") \
	X(P034, ERROR, P, "flow ends before it starts") \
	X(P035, WARNING, P, "arrow with one end only") \
	X(P036, WARNING, P, "several ends of one flow outside of a graph") \
	X(P040, ERROR, P|K, "process or thread without a name") \
	X(P041, ERROR, P, "metadata without its name or sort index") \
	X(P042, ERROR, P|K, "second name for one process or thread") \
	X(P043, WARNING, P|K, "process or thread without a sort index") \
	X(P044, ERROR, P|K, "pid of a GPU is also that of a process") \
	X(H001, ERROR, H, "the rank that HTA finds is not that of " \
		"distributedInfo") \
	X(H002, WARNING, H, "no rank before traceEvents") \
	X(H003, ERROR, H, "the first event is a launch or GPU work") \
	X(H004, ERROR, H, "an API call has args.stream: HTA takes it for " \
		"GPU work") \
	X(H005, ERROR, H, "second launch call of one correlation") \
	X(H006, WARNING, H, "kernel whose launch call HTA does not know") \
	X(H007, ERROR, H, "argument of a type that HTA refuses") \
	X(H008, ERROR, H, "GPU work needs a stream above 0") \
	X(H009, ERROR, H, "the file's name must end in .json, or .gz if " \
		"it is gzip") \
	X(H010, ERROR, H|K, "longer than 7 days: an end time is missing") \
	X(K001, ERROR, K, "incomplete header: schemaVersion 1, " \
		"displayTimeUnit, baseTimeNanoseconds, deviceProperties") \
	X(K002, WARNING, K, "cat that Kineto does not have") \
	X(K003, ERROR, K, "the same API call twice") \
	X(K004, ERROR, H|K, "integer argument of this cat is missing") \
	X(K005, ERROR, K, "graph id and graph node id do not go together") \
	X(K006, ERROR, K, "grid or block that CUDA does not allow") \
	X(K007, ERROR, H|K, "GPU work without the call that launched it") \
	X(K008, ERROR, H|K, "GPU work before its launch call") \
	X(K009, ERROR, K, "time 0 means that there is none") \
	X(K010, ERROR, K, "GPU work of one lane overlaps") \
	X(K011, ERROR, H|K, "not the way Kineto writes this name") \
	X(K012, ERROR, K, "memory bandwidth is not bytes per ns") \
	X(K013, ERROR, K, "synchronisation without its kind or what it " \
		"waits for") \
	X(K014, ERROR, K, "lane of two streams, or pid of two GPUs") \
	X(K015, ERROR, P|K, "arrow between two correlations") \
	X(K016, WARNING, K, "GPU work before its launch call, by clock skew")

#endif
