# SPDX-License-Identifier: MIT
"""Walks in a signal handler while the interpreter ends under daemon threads,
after sub-interpreters came and went and a child was forked."""
import os
import sys
import threading
import time

from shim import free

SUB = ("import sys\n"
       "def f(n):\n"
       "  return n and f(n - 1)\n"
       "for i in range(300): f(30)\n")


class AtTheEnd:
    def __del__(self):
        sum(i for i in range(200000))


def sampled():
    timer = free.sample_thread(2000)

    def inner(n):
        return n and inner(n - 1)
    while True:
        inner(20)
        sum(i for i in range(100))
    free.sample_end(timer)


def sub_interpreters():
    try:
        import _interpreters as subs            # 3.13
    except ImportError:
        import _xxsubinterpreters as subs
    for _ in range(3):
        one = subs.create()
        if hasattr(subs, "exec"):
            subs.exec(one, SUB)
        else:
            subs.run_string(one, SUB)
        subs.destroy(one)


def main():
    if free.prepare(0):
        return 1
    free.sample_thread(2000)
    for _ in range(4):
        threading.Thread(target=sampled, daemon=True).start()
    sub_interpreters()
    child = os.fork()
    if not child:
        timer = free.sample_thread(2000)        # timers are not inherited
        sum(i for i in range(300000))
        free.sample_end(timer)
        os._exit(7)
    if os.waitpid(child, 0)[1] != 7 << 8:
        return 1
    time.sleep(0.1)
    sys.modules["at_the_end"] = AtTheEnd()
    print(free.count_samples() > 50)
    return 0


sys.exit(main())
