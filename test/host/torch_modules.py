# SPDX-License-Identifier: MIT
"""torch_modules.py TORCH MODULE [SCENE...]: modules and operators on the
simulated PyTorch (TORCH, test/sim/torch_sim.h), in this interpreter.

Module is of a file MODULE, whose path ends as the real one's.  Each operator
launches a kernel.  Prints, as the last line, for each operator the calls of
modules that it was in, as the modules themselves noted it: name, thread,
[[class, object, call], ...], outermost first."""
import contextlib
import ctypes
import json
import runpy
import sys
import threading
import time

cuda = ctypes.CDLL("libcuda.so.1")
torch = None
Module = runpy.run_path(sys.argv[2])["Module"]

told, lock = [], threading.Lock()
mine = threading.local()
nr_calls = [0]


def calls():
    if not hasattr(mine, "calls"):
        mine.calls = []
    return mine.calls


def place():
    """Of a function, 16 bytes aligned, as C++ has it."""
    room = ctypes.create_string_buffer(1040)
    at = ctypes.addressof(room)
    return room, ctypes.c_void_p(at + -at % 16)


NONE, ZERO = ctypes.c_int64(-1), ctypes.c_uint64(0)


class Annotation:
    """A record_function(): begins and ends in functions of its own."""
    def __init__(self, name):
        self.name, (self.room, self.at) = name.encode(), place()

    def __enter__(self):
        torch.simTorchStart(self.at, 7, self.name, NONE, ZERO, None, ZERO)

    def __exit__(self, *why):
        torch.simTorchEnd(self.at)


def op(name="op", then=None):
    """An operator: its caller's frame stays while it runs."""
    room, at = place()
    with lock:
        name = "%s %d" % (name, len(told))
        told.append([name, threading.get_native_id(), list(calls())])
    torch.simTorchStart(at, 0, name.encode(), NONE, ZERO, None, ZERO)
    launch()
    if then:
        then()
    torch.simTorchEnd(at)


def noted(forward):
    """A forward that notes its call."""
    def noting(self, *args):
        with lock:
            nr_calls[0] += 1
            nr = nr_calls[0]
        calls().append([type(self).__name__, self.nr, nr])
        try:
            return forward(self, *args)
        finally:
            calls().pop()
    return noting


class Named(Module):
    nr_made = 0
    kept = []           # no address is used twice

    def __init__(self):
        Named.nr_made += 1
        self.nr = Named.nr_made
        Named.kept.append(self)


class Linear(Named):
    @noted
    def forward(self, x):
        op("linear")


class Empty(Named):
    @noted
    def forward(self, x):
        pass


class Sequential(Named):
    def __init__(self, *inner):
        super().__init__()
        self.inner = inner

    @noted
    def forward(self, x):
        for inner in self.inner:
            inner(x)


class Block(Named):
    """Operators of its own around those of others."""
    def __init__(self, inner):
        super().__init__()
        self.first, self.inner, self.last = Linear(), inner, Linear()

    @noted
    def forward(self, x):
        op("block")
        self.first(x)
        if self.inner:
            self.inner(x)
        self.last(x)
        op("block")


class Recursive(Named):
    @noted
    def forward(self, x):
        op("recursive")
        if x.depth:
            self(new(x.depth - 1))
            self(new(x.depth - 1))
        if x.depth % 2:
            op("recursive")


class Raising(Named):
    @noted
    def forward(self, x):
        op("raising")
        raise ValueError


class Yielding(Named):
    @noted
    def forward(self, x):
        op("before the generator")
        return self.values()

    def values(self):
        for _ in range(3):
            op("in a generator")    # in whatever it is asked from
            yield 1


class Asking(Named):
    def __init__(self, values):
        super().__init__()
        self.values = values

    @noted
    def forward(self, x):
        op("asking")
        next(self.values)
        op("asking")


class Nested(Named):
    """Modules inside an operator: as a checkpoint has them."""
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    @noted
    def forward(self, x):
        op("checkpoint", lambda: (op("inside"), self.inner(x), op("inside"),
                                  self.inner(x)))
        op("after")


class Annotated(Named):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    @noted
    def forward(self, x):
        with Annotation("inner annotation"):
            op("annotated")
            self.inner(x)
        self.inner(x)


class Deep(Named):
    """Bounded: of more than 64, not all are told."""
    @noted
    def forward(self, depth):
        if depth:
            self(depth - 1)
        else:
            op("deep")
            op("deep")


# ---- A GPU ----

PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry some_kernel(.param .u64 duration_ns, .param .u64 spin_ns)
{
ret;
}
"""
kernel, duration = ctypes.c_void_p(), ctypes.c_uint64(1000)
context = ctypes.c_void_p()


def open_gpu():
    device, module = ctypes.c_int(), ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module,
                                    b"some_kernel") == 0


def launch():
    parameters = (ctypes.c_void_p * 2)(ctypes.addressof(duration),
                                       ctypes.addressof(duration))
    assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, parameters,
                               None) == 0


# ---- Scenes ----

class Argument:
    kept = []

    def __init__(self, depth):
        self.depth = depth


def new(depth=0):
    """Not one that was there before."""
    Argument.kept.append(Argument(depth))
    return Argument.kept[-1]


def same():
    """The same call again, with nothing else between: only a dictionary's
    version tells."""
    x = new()
    one, two = Linear(), Block(None)
    for _ in range(3):
        one(x)
    for _ in range(3):
        two(x)
    shared = Linear()
    for block in Sequential(shared), Sequential(shared), \
            Sequential(shared, shared):
        block(x)


def everything():
    op("no module")
    model = Sequential(Block(Block(None)), Empty(), Linear(), Empty(),
                       Block(Linear()))
    for _ in range(2):
        model(new())
    op("no module")
    shared = Linear()
    for _ in range(3):
        shared(new())
        Sequential(shared, Sequential(shared))(new())
    Recursive()(new(3))
    for _ in range(2):
        try:
            Sequential(Linear(), Raising())(new())
        except ValueError:
            op("no module")
    values = Yielding()(new())
    Asking(values)(new())
    next(values)
    Nested(Block(Linear()))(new())
    with Annotation("outer annotation"):
        model(new())
        Annotated(Linear())(new())
    op("no module")


def full():
    """As many open ranges as a thread may have, and more."""
    for depth in 200, 238, 239, 240, 253, 254, 255, 256, 260:
        with contextlib.ExitStack() as stack:
            for i in range(depth):
                stack.enter_context(Annotation("annotation"))
            Sequential(Block(Linear()))(new())
            op("no module")
        op("no module")
    Sequential(Block(Linear()))(new())


def in_thread():
    assert cuda.cuCtxSetCurrent(context) == 0
    everything()


def in_threads():
    threads = [threading.Thread(target=in_thread) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def open_window():
    cuda.cuProfilerStart()
    wait_for_observers()


def windows():
    for i in range(3):
        open_window()
        Block(Linear())(new())
        op("no module")
        cuda.cuProfilerStop()
        before = len(told)
        Block(Linear())(new())
        del told[before:]


def across():
    """A window opens, and closes, inside modules."""
    class Changing(Named):
        @noted
        def forward(self, start):
            if start:
                before = len(told)
                op("before")
                del told[before:]
                open_window()
                op("in the window")
            else:
                op("in the window")
                cuda.cuProfilerStop()
                before = len(told)
                op("behind")
                del told[before:]

    changing = Changing()
    for _ in range(3):
        Block(Sequential(changing)).inner(True)
        Sequential(Linear())(new())
        Sequential(changing)(False)


def deep():
    sys.setrecursionlimit(5000)
    for depth in 30, 63, 64, 200:
        Deep()(depth)


def wait_for_observers():
    counts = (ctypes.c_uint64 * 6)()
    for _ in range(1000):
        torch.simTorchCounts(counts)
        if counts[0]:
            return
        time.sleep(0.01)


if __name__ == "__main__":
    open_gpu()
    torch = ctypes.CDLL(sys.argv[1])
    for scene in sys.argv[3:]:
        if scene not in ("windows", "across"):
            wait_for_observers()
        globals()[scene]()
    cuda.cuCtxSynchronize()
    print(json.dumps(told))
