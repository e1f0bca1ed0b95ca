"""Counts what a client reaches: each call is tried by itself, and what fails is named."""

import asyncio
import contextlib
import io
import json
import sys
import traceback


class Row:
    def __init__(self):
        self.reached, self.missed = [], {}

    @contextlib.contextmanager
    def call(self, name):
        """One call of the client, with what is expected of its answer. What the client prints is dropped."""
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                yield
            self.reached.append(name)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.missed[name] = f"{type(error).__name__}: {error} ({where.name}:{where.lineno})"

    def told(self):
        total = len(self.reached) + len(self.missed)
        print(json.dumps({"reached": len(self.reached), "total": total, "missed": self.missed}), flush=True)


@contextlib.contextmanager
def refused(kind, saying=""):
    """What is inside must be refused with this, in words that hold that."""
    try:
        yield
    except kind as error:
        assert saying in str(error), f"{saying!r} is not in {error}"
    else:
        raise AssertionError(f"no {kind.__name__}")


async def until(what, seconds=20):
    """Waits for what becomes true."""
    for _ in range(seconds * 10):
        value = what()
        value = await value if asyncio.iscoroutine(value) else value
        if value:
            return value
        await asyncio.sleep(0.1)
    raise TimeoutError("it never came")


def run(main):
    row = Row()
    asyncio.run(main(row, *sys.argv[1:]))
    row.told()
