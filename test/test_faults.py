# SPDX-License-Identifier: MIT
"""Calls of the library that fail, a part of them (`make faults` tries all):
the program does not notice, the file is whole, and what is lost is said."""
import itertools

import pytest
from tracing import SANITIZED
from faults.sweep import CUPTI_CODES, SCENES, Fault, Sweep, cupti_table

# A wrapper in the way of what the sanitizer wraps itself, and the same code.
pytestmark = pytest.mark.skipif("thread" in SANITIZED,
                                reason="one wrapper too many")


@pytest.fixture(scope="module")
def sweep():
    return Sweep()


@pytest.mark.skipif(bool(SANITIZED), reason="the sanitizer's own imports")
def test_every_import_is_in_the_table(sweep):
    """A new import: faults.c must say whether it can fail."""
    assert not sweep.unknown


def test_every_call_of_cupti_is_there(sweep):
    assert {n for calls in sweep.calls.values() for n in calls
            if n.startswith("cupti")} == cupti_table()


@pytest.mark.parametrize("scene", SCENES)
def test_each_function_fails(sweep, scene):
    assert not sweep.run(sweep.faults(scene, 1))


@pytest.mark.parametrize("scene", ["plain", "packed"])
def test_memory_ends(sweep, scene):
    """From that allocation on there is none."""
    step = sweep.calls[scene]["memory"] // 25
    assert not sweep.run(sweep.group_faults(scene, "memory", step))


@pytest.mark.parametrize("scene", ["plain", "windows"])
def test_cupti_refuses(sweep, scene):
    codes = itertools.cycle(CUPTI_CODES)
    faults = (Fault(scene, name, nth, stays, next(codes))
              for name, nr in sweep.calls[scene].items()
              if nr and name.startswith("cupti")
              for nth, stays in ((1, False), (nr, False), (1, True)))
    assert not sweep.run(faults)


def test_a_fault_is_a_fault(sweep):
    """The shim does what it says: this one costs the trace."""
    before = sweep.injected
    sweep.one(Fault("plain", "pthread_create", 1))
    sweep.one(Fault("plain", "cuptiActivityEnable", 2, False, 39))
    assert sweep.injected == before + 2
