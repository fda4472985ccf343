"""Small nasty programs for the driver's tests, each a `python -c`; `-S -E` starts them in some 15 ms."""

from __future__ import annotations

import sys

GOOD = r"""
import os, sys, json
HELLO = b'{"ev":"hello","protocol":1,"name":"nasty","version":"0","abilities":["ordered","marker","snapshot"]}\n'
QUIET = b'{"ev":"quiet"}\n'
BLOCKED = b'{"ev":"blocked"}\n'
def write(line):
    data = line if isinstance(line, bytes) else line.encode()
    while data:
        data = data[os.write(1, data):]
def event(**fields):
    write(json.dumps(fields) + "\n")
def quiet():
    write(QUIET)
def next_command():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)
def greet():
    next_command()
    write(HELLO + QUIET)
def serve():
    while True:
        command = next_command()
        if command["cmd"] == "stats":
            event(ev="stats", queue=0, calls_running=0, timers=0, mails=0, now=0)
        if command["cmd"] == "close":
            event(ev="closed", dropped_mails=0, timers=0)
        quiet()
"""
"""What a nasty program has at hand to be good with, up to its nasty moment."""


def nasty(text: str) -> list[str]:
    """The command line of a program that runs `text` after the good things were defined."""
    return [sys.executable, "-S", "-E", "-c", GOOD + text]
