"""contents.py FILE...: checks that each file is a strict CycloneDX 1.6 list of connd's contents."""

import json
import pathlib
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

for name in sys.argv[1:]:
    text = pathlib.Path(name).read_text()
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    assert error is None, error
    contents = json.loads(text)["components"]
    required = {part["name"]: part for part in contents if part["scope"] == "required"}
    assert {"grpc-swift-2", "swift-runtime"} <= required.keys(), required.keys()
    # These are only in the libraries for applications.
    assert not {"swift-nio", "swift-protobuf"} & required.keys(), required.keys()
    assert all(part["version"] and part["licenses"] and part["supplier"] for part in required.values())
    # A file of this package has the notices of two more.
    assert required["grpc-swift-2"]["licenses"] == [{"expression": "Apache-2.0 AND BSD-2-Clause AND MIT"}]
    print(f"{name}: {len(required)} packages with versions and licences")
