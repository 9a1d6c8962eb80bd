# SPDX-License-Identifier: MIT OR Apache-2.0
"""JUnit XML as CI systems read it: parsed, its counts those of its test cases, its broken limits those of the results."""

import json
import sys
import xml.etree.ElementTree as tree

import expect

results, *files = sys.argv[1:]
with open(results, encoding="utf-8") as file:
    results = json.load(file)
KINDS = {"failures": "failure", "errors": "error", "skipped": "skipped"}

for path in files:
    root = tree.parse(path).getroot()
    expect.same(root.tag, "testsuites", path)
    for suite in [root, *root]:
        cases = suite.findall(".//testcase")
        expect.same(int(suite.get("tests")), len(cases), f"{path}: tests")
        for count, kind in KINDS.items():
            expect.same(int(suite.get(count)), len(suite.findall(f".//testcase/{kind}")), f"{path}: {count}")
        for case in cases:
            expect.true(case.get("name") and case.get("classname"), f"{path}: a test case without a name")
            expect.true(all(kind.get("message") == kind.text for kind in case), f"{path}: {case.get('name')}")

# The first file is the run's own.
root = tree.parse(files[0]).getroot()
broken = [limit for limit in results["expectations"] if limit["met"] is False]
expect.same(len(root.findall(".//failure")), len(broken), "broken limits")
invalid = [cell for cell in results["cells"] if not cell["valid"]]
expect.true(len(root.findall(".//error")) >= len(invalid), "cells that are not valid")
expect.finish()
