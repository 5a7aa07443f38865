# SPDX-License-Identifier: MIT
"""Walks from many places; each must see what traceback sees there.

Prints "N checks" and exits 0, or says what differs and exits 1."""
import asyncio
import ctypes
import functools
import sys
import threading

from shim import FRAMES_MAX, TEXT_MAX, fitting, free, held, stack, told

checks, faults = 0, []


def check(lib=free, size=TEXT_MAX):
    global checks
    text, ends = ctypes.create_string_buffer(size + 16), ctypes.c_uint64()
    text[size:] = b"#" * 16
    nr, want = lib.walk_calls(text, size, ends), told(stack())
    native = lib.nr_eval_frames()
    got = text.value.decode()
    fit = fitting(want, size)
    if got != "".join(line + "\n" for line in fit) or nr != len(fit):
        faults.append("%d frames:\n%sPython's:\n%s\n" %
                      (nr, got, "\n".join(want)))
    if text[size:] != b"#" * 16:
        faults.append("wrote beyond the end")
    if len(fit) == len(want) and bin(ends.value).count("1") != native:
        faults.append("%d native frames, calls %s:\n%s" %
                      (native, bin(ends.value), got))
    if len(fit) == len(want) and not ends.value >> (nr - 1) & 1:
        faults.append("the last frame ends no call:\n" + got)
    checks += 1


# ---- Ways to be called ----

class Model:
    def __init__(self):
        check()

    def __call__(self, x):
        return self.forward(x)

    def forward(self, x):
        check()
        return x

    @property
    def loss(self):
        check()
        return 1

    @staticmethod
    def still():
        check()

    @classmethod
    def made(cls):
        check()
        return cls()

    def __enter__(self):
        check()
        return self

    def __exit__(self, *what):
        check()

    def __del__(self):
        check()

    def __getattr__(self, name):
        check()
        return name

    def __lt__(self, other):
        check()
        return False

    def __iter__(self):
        check()
        return iter(())


class Meta(type):
    def __new__(mcs, *args):
        check()
        return super().__new__(mcs, *args)


def classes():
    model = Model()
    model(1)
    Model.made().still()
    with model as inner:
        inner.loss
        inner.nothing
        sorted([model, inner])
        list(model)
    del model, inner

    class Local(metaclass=Meta):
        check()
    Local()


def decorated():
    def wrap(f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            return f(*args, **kwargs)
        return inner

    @wrap
    @wrap
    @functools.lru_cache(None)
    def plain(a, *, b=2):
        check(held)
        return a + b
    plain(1, b=3)
    functools.partial(plain, 5)()


def from_c():
    sorted([3, 1, 2], key=lambda x: check() or x)
    list(map(lambda x: check(held), [1, 2]))
    max([1, 2], key=lambda x: [check() or x for _ in (1,)][0])
    functools.reduce(lambda a, b: check() or a, [1, 2, 3])
    back = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    numbers = (ctypes.c_int * 4)(4, 3, 2, 1)
    ctypes.CDLL(None).qsort(numbers, ctypes.c_size_t(4), ctypes.c_size_t(4),
                            back(lambda a, b: check() or 0))


def comprehensions():
    [check() for _ in range(2)]
    {check(): 1 for _ in range(1)}
    {check() for _ in range(1)}
    list(check() for _ in range(2))
    [[check() for _ in range(1)] for _ in range(1)]


# ---- Generators and coroutines ----

def numbers(depth):
    if depth:
        yield from numbers(depth - 1)
    check()
    got = yield depth
    try:
        check()
        yield got
    finally:
        check()


def generators():
    for _ in numbers(4):
        check()
    one = numbers(2)
    next(one)
    one.send(3)
    one.close()
    two = numbers(1)
    next(two)
    try:
        two.throw(KeyError("planted"))
    except KeyError:
        check()


async def inner(n):
    check()
    await asyncio.sleep(0)
    check()
    return n


async def ticks():
    for i in range(2):
        await asyncio.sleep(0)
        check()
        yield i


async def outer():
    async for _ in ticks():
        check()
    await asyncio.gather(inner(1), inner(2), inner(3))
    [await inner(i) for i in range(2)]


# ---- Names, lines, depth ----

def code_from_text():
    def run(source, file):
        exec(compile(source, file, "exec"), {"check": check})
    run("def größe():\n  check()\ngröße()\n", "/tmp/gewöhnlich.py")
    run("def 测试():\n  check()\n测试()\n", "/data/模型.py")
    run("def \U0001d4d0():\n check()\n\U0001d4d0()\n", "dir/\U0001f600.py")
    run("check()\n", "<string>")
    run("check()\n", "")
    run("check()\n", "/a/folder/")
    run("check()\n", "a\nb\x01\x7f\x85.py")
    run("check()\n", "/x/" + "é" * 60 + ".py")
    run("check()\n", "/x/y\udc80z.py")
    eval("check()")
    (lambda: check())()
    # Lines far apart, also backwards, and of many bytes of code.
    run("\n" * 3000 + "def f(a=0):\n" + " a = a + 1\n" * 700 + "\n" * 500 +
        " check()\n" + " a = a - 1\n" * 10 + " check()\nf()\n", "long.py")
    run("def f():\n x = [\n" + "  1 + len('a'),\n" * 300 +
        "  check(),\n" + "\n" * 300 + "  check()]\nf()\n", "wide.py")


def many_lines(
        first=None,
        second=None):
    return (
        check(),
        [
            check(
                held
            )
        ],
        first or
        check(),
    )


def exceptions():
    try:
        try:
            {}["no"]
        except KeyError:
            check()
            raise ValueError("planted")
        finally:
            check()
    except ValueError:
        check()
    for _ in range(2):
        try:
            check()
            continue
        finally:
            check()


def recursion(depth, lib=free):
    if depth:
        return recursion(depth - 1, lib)
    check(lib)
    for size in 1, 2, 40, 100, 1000, TEXT_MAX - 1:
        check(lib, size)


def mutual(depth):
    """Through C and back: a call of the loop each time."""
    if not depth:
        return check()
    return list(map(mutual, [depth - 1]))


# ---- Threads ----

def worker(nr):
    for _ in range(20):
        check(free if nr % 2 else held)


def threads():
    made = [threading.Thread(target=worker, args=(i,), name="loader-%d" % i)
            for i in range(8)]
    for one in made:
        one.start()
    for one in made:
        one.join()
    if free.walk_in_thread():
        faults.append("frames in a thread without Python")


def memory():
    """What peek_copy() says of addresses."""
    there = ctypes.create_string_buffer(b"0123456789abcdef")
    to = ctypes.create_string_buffer(16)
    at = ctypes.addressof(there)
    if not held.peek_at(at, 16, to) or to.raw != b"0123456789abcdef":
        faults.append("peek: cannot read its own memory")
    for bad in 0, 8, 4095, 1 << 46 | 5, 1 << 62, (1 << 64) - 8, (1 << 64) - 1:
        if held.peek_at(bad, 8, to):
            faults.append("peek: read %#x" % bad)


def main():
    err = free.prepare(0)
    if err:
        print("python_prepare:", err)
        return 1
    if free.prepare(0):
        faults.append("a second python_prepare() fails")
    for case in (classes, decorated, from_c, comprehensions, generators,
                 lambda: asyncio.run(outer()), code_from_text, many_lines,
                 exceptions, threads, memory):
        case()
    for depth in 0, 5, 50, 57, 58, 59, 60, 61, 62, 63, 64, 65, 200, 900:
        recursion(depth)
        recursion(depth, held)
    for depth in 1, 10, 50, 100:
        mutual(depth)
    # What runs often is rewritten by the interpreter: once more.
    for _ in range(200):
        decorated()
        classes()
        generators()
    print("%d checks" % checks)
    print("\n".join(faults[:5]), end="")
    return 1 if faults else 0


sys.exit(main())
