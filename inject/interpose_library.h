/* SPDX-License-Identifier: MIT */
#ifndef GPUTRACE_INJECT_INTERPOSE_LIBRARY_H
#define GPUTRACE_INJECT_INTERPOSE_LIBRARY_H

#include "collector/library_call.h"
#include "collector/real_symbol.h"

/*
 * A wrapper of one function: the program finds it here first where the library
 * is preloaded.  It returns what the real one returns, and `absent`, the
 * library's own word for "not supported", where no loaded library has the
 * function: it is ours alone then, and only dlsym() can have led to it.
 *
 * Prototypes are the toolkit's (13.0: cuBLAS 13.1, cuDNN 9.19, NCCL 2.28) as
 * the processor passes them: pointers, int for enumerations, and numbers.
 *
 * `begin` opens the slice, from the parameters, `symbol` and `caller`, and is a
 * level.  Nothing in the wrapper has an address, so that the call past it is a
 * jump.
 */
#define LIBRARY_EXPORT __attribute__((visibility("default")))

#define LIBRARY_CALL(library, where, absent, function, parameters, \
		     arguments, begin)					\
	LIBRARY_WRAPPER(where, absent, function, parameters,		\
		int level, result;					\
									\
		if (!library_is_recorded(library))			\
			return call arguments;				\
		level = begin;						\
		result = call arguments;				\
		library_call_end(library, level);			\
		return result;						\
	)

/* What is to be done where there is a real function, `call`. */
#define LIBRARY_WRAPPER(where, absent, function, parameters, ...)	\
	LIBRARY_EXPORT int function parameters;				\
	static const struct real_symbol function##_symbol = {		\
		#function, sizeof #function - 1,			\
		(const void *)function, where				\
	};								\
	int function parameters						\
	{								\
		const struct real_symbol *symbol = &function##_symbol;	\
		const void *caller = __builtin_return_address(0);	\
		int (*call) parameters = (int (*) parameters)		\
			real_symbol_find(symbol, caller);		\
									\
		if (!call)						\
			return absent;					\
		{							\
			__VA_ARGS__					\
		}							\
	}

#endif
