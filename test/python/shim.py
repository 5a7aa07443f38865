# SPDX-License-Identifier: MIT
"""test/shim/python.c for the interpreter that runs this: what it sees of us."""
import ctypes
import os
import sys
import traceback

FRAMES_MAX, TEXT_MAX = 64, 4096
free = ctypes.CDLL(os.environ["SHIM"])          # gives the GIL up for a call
held = ctypes.PyDLL(os.environ["SHIM"])         # keeps it
for lib in free, held:
    lib.walk.argtypes = ctypes.c_char_p, ctypes.c_size_t
    lib.walk_calls.argtypes = (ctypes.c_char_p, ctypes.c_size_t,
                               ctypes.POINTER(ctypes.c_uint64))
    lib.measure.restype = ctypes.c_double
    lib.sample_thread.restype = ctypes.c_long
    lib.sample_end.argtypes = ctypes.c_long,
    lib.peek_at.argtypes = ctypes.c_size_t, ctypes.c_size_t, ctypes.c_char_p
    lib.is_eval_frame.argtypes = ctypes.c_size_t,


def name_of(code):
    return code.co_qualname if sys.version_info >= (3, 11) else code.co_name


def printable(text):
    """As python_text_string() writes characters that are none."""
    return "".join("?" if ord(c) < 32 or 0x7f <= ord(c) < 0xa0 or
                   c in "\u2028\u2029" or "\ud800" <= c <= "\udfff" else c
                   for c in text)


def base_name(path):
    """Of what is installed, the path below the folder of packages."""
    parts = path.split("/")
    for i in range(len(parts) - 2, -1, -1):
        if parts[i] in ("site-packages", "dist-packages"):
            whole = i == len(parts) - 2     # a module that is one file
            return "/".join(parts[i + (not whole):])
        if parts[i].startswith("python3.") and i > 1 and \
                parts[i - 1] in ("lib", "lib64"):
            return "/".join(parts[i:])
    return parts[-1] or path or "?"


def told(pairs):
    """The lines for (frame, line number) pairs, as Python itself sees them."""
    return ["%s:%d %s" % (printable(base_name(frame.f_code.co_filename)),
                          line or 0, printable(name_of(frame.f_code)))
            for frame, line in pairs]


def fitting(lines, size=TEXT_MAX):
    """Those that fit, whole."""
    fit = []
    for line in lines[:FRAMES_MAX]:
        size -= len(line.encode()) + 1
        if size < 1:
            break
        fit.append(line)
    return fit


def stack():
    """Python's own word on its stack, innermost first, without this call."""
    return traceback.walk_stack(sys._getframe(1))
