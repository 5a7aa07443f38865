# SPDX-License-Identifier: MIT
"""Walks 2,000 times a second in a signal handler while frames are made and
thrown away in all ways: each text must consist of lines that exist, from the
innermost frame to the thread's first.  Prints what it saw."""
import ctypes
import dis
import gc
import json
import re
import sys
import threading
import time
import types

from shim import TEXT_MAX, base_name, free, name_of, stack

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 3
LINE = re.compile(r"(.+):(\d+) (.+)")
CHURNED = "def churned_%d(n):\n  return n and churned_%d(n - 1)\nchurned_%d(9)\n"
end = False


class Node:
    def __init__(self, up):
        self.up, self.self = up, self

    def __del__(self):
        len(str(self.up))

    def __eq__(self, other):
        return self.up is other

    __hash__ = object.__hash__


def numbers(n):
    if n:
        yield from numbers(n - 1)
    yield n


def fails(n):
    if not n:
        raise KeyError("planted")
    try:
        fails(n - 1)
    finally:
        n += 1


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


async def waits(n):
    if n:
        return await waits(n - 1)


def round_of_all(nr):
    fibonacci(12)
    sum(numbers(20))
    sorted(range(50), key=lambda x: -x)
    [Node(i) for i in range(50)]
    gc.collect(0)
    try:
        fails(30)
    except KeyError:
        pass
    gen = numbers(5)
    next(gen)
    del gen
    try:
        waits(10).send(None)
    except StopIteration:
        pass
    exec(CHURNED % (nr, nr, nr), {})
    json.loads(json.dumps({"a": [1, {"b": 2}] * 5}))
    re.sub("a+", lambda match: match.group()[::-1], "baaab" * 5)
    time.sleep(0)


def work():
    timer = free.sample_thread(2000)
    nr = 0
    while not end:
        nr += 1
        round_of_all(nr)
    free.sample_end(timer)


def lines_of(code):
    if hasattr(code, "co_lines"):
        return {line or 0 for _, _, line in code.co_lines()}
    return {line for _, line in dis.findlinestarts(code)}


def known_lines():
    known, left = {}, [frame.f_code for frame, _ in stack()]
    left += [one.__code__ for one in gc.get_objects()
             if isinstance(one, types.FunctionType)]
    seen = set()
    while left:
        code = left.pop()
        if id(code) not in seen:
            seen.add(id(code))
            place = base_name(code.co_filename), name_of(code)
            known.setdefault(place, set()).update(
                lines_of(code), [code.co_firstlineno])
            left += [one for one in code.co_consts
                     if isinstance(one, types.CodeType)]
    return known


def exists(known, line):
    match = LINE.fullmatch(line)
    if not match:
        return False
    file, at, name = match.groups()
    if file == "<string>":
        return name == "<module>" or name.startswith("churned_")
    return int(at) in known.get((file, name), ())


def main():
    global end
    if free.prepare(0):
        return 1
    threads = [threading.Thread(target=work) for _ in range(3)]
    for one in threads:
        one.start()
    timer = free.sample_thread(2000)
    until, nr = time.monotonic() + SECONDS, 10 ** 6
    while time.monotonic() < until:
        nr += 1
        round_of_all(nr)
    end = True
    for one in threads:
        one.join()
    free.sample_end(timer)
    text, known = ctypes.create_string_buffer(TEXT_MAX), known_lines()
    nr, first, faults = {"walks": 0, "empty": 0, "deep": 0, "cut": 0}, {}, []
    for i in range(min(free.count_samples(), 4096)):
        frames = free.get_sample(i, text)
        lines = text.value.decode().splitlines()
        faults += [line for line in lines if not exists(known, line)]
        if len(lines) != frames:
            faults.append("%d frames: %r" % (frames, text.value))
        nr["walks"] += 1
        if not lines:
            nr["empty"] += 1
        elif frames == 64:
            nr["deep"] += 1
        elif not lines[-1].endswith((" <module>", "_bootstrap")):
            nr["cut"] += 1
            first[lines[-1]] = first.get(lines[-1], 0) + 1
    print("%d signals" % free.count_samples(), nr, first)
    print("\n".join(faults[:20]), end="")
    return 1 if faults or nr["walks"] < 300 * SECONDS or \
        nr["cut"] + nr["empty"] > nr["walks"] / 100 else 0


sys.exit(main())
