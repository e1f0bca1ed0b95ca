#!/usr/bin/env python3
"""A guard as a process beside the node: refuses messages that look like they carry a secret.

In the node's configuration file:

    [mod.secrets]
    command = ["python3", "examples/guard_process.py"]
    intercepts = ["workspace.message.*"]

One JSON line per event comes in: {"event": {...}, "context": {network, address, role, verification}}.
One goes out: {"verdict": "pass" | "reject" | "modified", "code"?, "message"?, "event"?, "emit"?: [...]}.
"""

import json
import re
import sys

SECRET = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bghp_[A-Za-z0-9]{36}\b")


def verdict(event):
    if SECRET.search(json.dumps(event.get("payload", {}))):
        return {"verdict": "reject", "code": "secrets.found", "message": "this looks like a secret: send it another way"}
    return {"verdict": "pass"}


def main():
    for line in sys.stdin:
        print(json.dumps(verdict(json.loads(line)["event"])), flush=True)


if __name__ == "__main__":
    main()
