"""Leaves virtual time in one of several ways: `python leaves.py` with the name of a function."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def thread():
    threading.Thread(target=print).start()


def pool():
    ThreadPoolExecutor().submit(print)


def process():
    subprocess.run(["true"], check=True)


def unix():
    asyncio.run(connects())


async def connects():
    await asyncio.open_unix_connection("nowhere.sock")


def elsewhere():
    socket.create_connection(("192.0.2.1", 80))


def bare():
    with socket.socket() as made:
        made.connect(("127.0.0.1", 3306))


def uvloop():
    import uvloop  # noqa: F401


def c():
    import MySQLdb  # noqa: F401


def fork():
    os.fork()


def swallows():
    """Whatever it is told, it goes on."""
    try:
        thread()
    except BaseException:
        Path(os.environ["FLOODMARK_JOB_DONE_FILE"]).touch()


globals()[sys.argv[1]]()
