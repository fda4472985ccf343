"""Sleeps before it works, never ends by itself, and says goodbye when it is asked to end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import uuid
from datetime import date, datetime
from pathlib import Path

sys.argv = ["clients.py", "asyncmy"]
state = Path(os.environ["FLOODMARK_JOB_STATE_FOLDER"])


def goodbye(*_):
    (state / "goodbye.txt").write_text("asked to end")
    sys.exit(0)


signal.signal(signal.SIGTERM, goodbye)
began = time.monotonic()
time.sleep(5)
asyncio.run(asyncio.sleep(5))
(state / "clock.txt").write_text(f"{time.time():.0f} {time.monotonic() - began:.2f}")
zone = datetime.now().astimezone().tzinfo
told = [
    datetime.now(zone).timestamp(),
    time.mktime(time.localtime()),
    date.today(),  # noqa: DTZ011
    uuid.uuid4(),
    os.urandom(4).hex(),
]
(state / "told.txt").write_text(" ".join(map(str, told)))
import clients  # noqa: E402, F401 - runs until the end of the file
