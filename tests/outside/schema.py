# SPDX-License-Identifier: MIT OR Apache-2.0
"""Python's jsonschema judges a run's documents, and copies of them that are wrong: SCHEMAS (a folder) DOCUMENT…, each
`kind=path`."""

import copy
import json
import sys
import tomllib

from expect import finish, true
from jsonschema import Draft202012Validator


def load(path):
    if path.endswith(".toml"):
        return tomllib.load(open(path, "rb"))
    return json.load(open(path))


def places(schema, root, document, seen, at=()):
    """Each key that the schema requires, where the document first has it."""
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    if isinstance(document, dict):
        for key in schema.get("required", []):
            if key in document and (id(schema), key) not in seen:
                seen.add((id(schema), key))
                yield at, key
        for key, value in document.items():
            below = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            if isinstance(below, dict):
                yield from places(below, root, value, seen, at + (key,))
    elif isinstance(document, list) and isinstance(schema.get("items"), dict):
        for i in range(len(document)):
            yield from places(schema["items"], root, document[i], seen, at + (i,))


def wrong(schema, document, kind):
    """Copies with one fault each."""
    for at, key in places(schema, schema, document, set()):
        for what in ("missing", "of another type"):
            bad = copy.deepcopy(document)
            place = bad
            for step in at:
                place = place[step]
            if what == "missing":
                del place[key]
            else:
                place[key] = {"no": ["such", "thing"]} if not isinstance(place[key], dict) else 3
            # Where anything is allowed, nothing is wrong.
            if what == "missing" or key not in ("says", "value"):
                yield f"{'/'.join(map(str, at))}/{key} {what}", bad
    if kind == "experiment":
        for fault, change in {
            "unknown key": lambda e: e.update(streem={}),
            "cycle without a unit": lambda e: next(iter(e["stream"].values())).update(cycle=500),
            "no such wait": lambda e: next(iter(e["stream"].values()))["rx"].update(wait="sleep"),
            "no trials": lambda e: e.update(trials=0),
        }.items():
            bad = copy.deepcopy(document)
            change(bad)
            yield fault, bad
    else:
        yield "a newer format", {**document, "format": 99}


def main(schemas, *documents):
    validators = {}
    for kind in ("experiment", "results", "manifest"):
        schema = load(f"{schemas}/{kind}.json")
        Draft202012Validator.check_schema(schema)
        validators[kind] = Draft202012Validator(schema)
    for named in documents:
        kind, path = named.split("=", 1)
        validator, document = validators[kind], load(path)
        faults = [f"{path}: {'/'.join(map(str, e.absolute_path))}: {e.message}" for e in validator.iter_errors(document)]
        true(not faults, faults[:3])
        for fault, bad in wrong(validator.schema, document, kind):
            true(not validator.is_valid(bad), f"{path}: {fault}: accepted")
    finish()


main(*sys.argv[1:])
