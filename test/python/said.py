# SPDX-License-Identifier: MIT
"""Finds the interpreter, and lets it say so (stderr)."""
import sys

from shim import free

LOG_INFO = 2
sys.exit(free.prepare(LOG_INFO))
