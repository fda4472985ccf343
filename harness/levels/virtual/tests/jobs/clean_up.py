"""Tells what runs when it ends: each start adds a line of its own to a file in its state folder."""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
from pathlib import Path

import counted

counted.times += 1
NOTES = Path(os.environ["FLOODMARK_JOB_STATE_FOLDER"]) / "notes.txt"
START = os.environ["FLOODMARK_JOB_START"]


def note(what):
    with NOTES.open("a") as file:
        file.write(f"{START} {what}\n")


sys.argv = ["clients.py", "asyncmy"]
sys.path.insert(0, str(Path(__file__).parent))
atexit.register(note, "atexit")
note(f"begins, module imported {counted.times} times")
print("printed at once", flush=True)
try:
    import clients  # noqa: F401 - it runs the whole job
finally:
    note("finally")
asyncio.run(asyncio.sleep(0))
