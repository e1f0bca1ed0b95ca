#!/usr/bin/env python3
"""A guard served by an agent: refuses messages that look like they carry a secret. Python's own library is enough.

    RIALTO_URL=http://127.0.0.1:8700 RIALTO_TOKEN=… python3 examples/guard_agent.py

It joins, says with `network.mod.serve` what it wants to be asked about, waits for `rialto.mod.check` in its inbox and
answers each with `network.mod.verdict`. A master may serve mods at once; anybody else waits until the operator has said

    rialto mod approve secrets agent:guard
"""

import json
import os
import re
import sys
import time
import urllib.error
import urllib.request

URL = os.environ.get("RIALTO_URL", "http://127.0.0.1:8700")
TOKEN = os.environ.get("RIALTO_TOKEN", "")
NAME = os.environ.get("RIALTO_AGENT", "guard")
SECRET = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bghp_[A-Za-z0-9]{36}\b")


class Refused(Exception):
    """The network said no; `code` says why."""

    def __init__(self, error):
        super().__init__(error.get("message"))
        self.code = error.get("code")


def call(method, path, bearer, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": "Bearer " + bearer, "Content-Type": "application/json"}
    request = urllib.request.Request(URL + path, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=90) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise Refused(json.load(error).get("error", {})) from error


def send(session, kind, payload):
    return call("POST", "/v1/events", session, {"type": kind, "target": "core", "payload": payload})


def serve(session):
    wish = {"name": "secrets", "mode": "guard", "intercepts": ["workspace.message.*"], "deadline_ms": 5000}
    while True:
        try:
            return send(session, "network.mod.serve", wish)
        except Refused as refused:
            if refused.code != "forbidden":
                raise
            print(f"waiting: {refused}", file=sys.stderr, flush=True)
            time.sleep(1)


def verdict(event):
    if SECRET.search(json.dumps(event.get("payload", {}))):
        return {"verdict": "reject", "code": "secrets.found", "message": "this looks like a secret: send it another way"}
    return {"verdict": "pass"}


def main():
    session = call("POST", "/v1/join", TOKEN, {"agent_id": NAME})["session_id"]
    serve(session)
    print("mod/secrets is served", flush=True)
    after = ""
    while True:
        page = call("GET", "/v1/events?view=inbox&wait=30" + after, session)
        after = "&after=" + page["next_cursor"]
        for event in page["events"]:
            if event["type"] != "rialto.mod.check":
                continue
            asked = event["payload"]
            try:
                send(session, "network.mod.verdict", {"ticket": asked["ticket"], **verdict(asked["event"])})
            except Refused as refused:
                # It came too late: the network has decided without us.
                print(f"{asked['ticket']}: {refused}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
