/* SPDX-License-Identifier: MIT */
/*
 * What collector/python.c looks for in an interpreter and nothing behind it:
 * the test that loads this (test/unit/python_test.c) says what lies there.
 */
#include <stdint.h>

#define SHOWN __attribute__((visibility("default")))

SHOWN uint64_t _PyRuntime[128], PyCode_Type[64], PyUnicode_Type[64],
	PyBytes_Type[64], PyCell_Type[64];
SHOWN const char *fake_version = "";
SHOWN void *fake_state;

SHOWN const char *Py_GetVersion(void)
{
	return fake_version;
}

SHOWN void *PyGILState_GetThisThreadState(void)
{
	return fake_state;
}

SHOWN int Py_IsInitialized(void)
{
	return 1;
}

SHOWN void _PyEval_EvalFrameDefault(void)
{
}
