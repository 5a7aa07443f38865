# SPDX-License-Identifier: MIT
"""Prints the numbers of a JUnit file of pytest: passed, failed, skipped."""
import sys
import xml.etree.ElementTree as tree

suite = tree.parse(sys.argv[1]).getroot().find("testsuite")
n = {k: int(suite.get(k)) for k in ("tests", "failures", "errors", "skipped")}
bad = n["failures"] + n["errors"]
print(n["tests"] - bad - n["skipped"], bad, n["skipped"])
