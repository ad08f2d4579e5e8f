#!/usr/bin/env python3
"""Keeps a file that late writers cannot change, beside the largest fence that took it.

    store.py take FOLDER             takes the folder for a holder and prints its version
    store.py write FOLDER VERSION    makes standard input its content, if it still has that version; prints the next

The content is FOLDER/data, whole at any time; the fence comes from INTERLOCK_FENCE. Refused: exit code 1.

Promised: once a holder has taken the folder, no earlier one changes the content; what was answered is on the disk.
Not promised: anything about writers that go past this program, or about file systems whose `flock` does not reach
all of them, as on some networks.
"""

import fcntl
import json
import os
import signal
import sys
from pathlib import Path

LOCK_SECONDS_MAX = 30


def main(verb, folder, version=None):
    fence, folder = int(os.environ["INTERLOCK_FENCE"]), Path(folder)
    # Read before locking, so that slow input does not hold the lock.
    content = sys.stdin.buffer.read() if verb == "write" else None
    opened = lock(folder)
    guard = read(folder / "guard")
    if fence < guard["fence"]:
        sys.exit(f"refused: fence {fence} is stale, {guard['fence']} has taken {folder}")
    if content is not None and int(version) != guard["version"]:
        sys.exit(f"refused: version {version} is stale, {folder} has {guard['version']}")
    # Write the guard before the content: if this process dies in between, the content is still the old one, and a
    # holder that read it under the old version has to read it again.
    guard = {"fence": fence, "version": guard["version"] + (content is not None)}
    replace(folder / "guard", json.dumps(guard).encode(), opened)
    if content is not None:
        replace(folder / "data", content, opened)
    print(guard["version"])


def lock(folder):
    """Locks the folder until this process ends, however it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    parent = os.open(folder.parent, os.O_RDONLY)
    os.fsync(parent)
    opened = os.open(folder, os.O_RDONLY)
    # A process that was stopped while it had the lock must not block the others forever.
    signal.alarm(LOCK_SECONDS_MAX)
    fcntl.flock(opened, fcntl.LOCK_EX)
    signal.alarm(0)
    return opened


def read(file):
    return json.loads(file.read_bytes()) if file.exists() else {"fence": 0, "version": 0}


def replace(file, content, folder):
    """Readers see the old content or the new one, never a part; after a power failure, too."""
    new = file.with_suffix(".new")
    with open(new, "wb") as written:
        written.write(content)
        written.flush()
        os.fsync(written.fileno())
    os.replace(new, file)
    os.fsync(folder)


main(*sys.argv[1:])
