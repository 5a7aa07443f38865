# SPDX-License-Identifier: MIT
"""The line of each instruction of the functions that the interpreter has
loaded, 100,000 instructions of them, beside what Python says of it."""
import asyncio  # noqa: for its many functions
import dis
import gc
import sys
import types
import unittest  # noqa: likewise

from shim import held

held.line_at.argtypes = (held.is_eval_frame.argtypes[0],) * 3
SOURCES = """
def far(a=0):
    a = (1 + len(
%s        str(a)))
    return a
""" % ("\n" * 700), """
def back(a):
    for i in a:
        with a as b:
            try:
                yield b
            finally:
                del b
    return [x for x in a
            if x]
""", "x = [" + "len('a'),\n" * 2000 + "]\n"


def of_python(code):
    """at -> line, of each instruction; None: it has none."""
    size = len(code.co_code)
    if hasattr(code, "co_lines"):
        return {at: line for start, end, line in code.co_lines()
                for at in range(start, min(end, size), 2)}
    lines, line, starts = {}, None, dict(dis.findlinestarts(code))
    for at in range(0, size, 2):
        line = starts.get(at, line)
        lines[at] = line
    return lines


def nested(code, seen):
    if code not in seen:
        seen[code] = 1
        for one in code.co_consts:
            if isinstance(one, types.CodeType):
                nested(one, seen)


def main():
    seen, nr, without, faults = {}, 0, 0, []
    for source in SOURCES:
        nested(compile(source, "planted.py", "exec"), seen)
    for thing in gc.get_objects():
        if isinstance(thing, types.FunctionType):
            nested(thing.__code__, seen)
    for code in seen:
        if nr > 100000:
            break
        for at, line in of_python(code).items():
            got = held.line_at(sys.version_info[1], id(code), at)
            nr += 1
            without += line is None
            if got != (line or 0):
                faults.append("%s + %d: %d, not %s" % (code, at, got, line))
    print("%d instructions, %d without a line, %d functions" %
          (nr, without, len(seen)))
    print("\n".join(faults[:10]), end="")
    return 1 if faults or nr < 10000 else 0


sys.exit(main())
