/* SPDX-License-Identifier: MIT */
#include "collector/stack_of_call.h"

_Atomic(stack_of_call_fn) stack_of_call_taker;
