"""Locks that a forked child can use, whatever its parent's threads held at the fork."""

import os
import threading


class ProcessLock:
    """A reentrant lock for each process: a forked child's lock is free when the child begins."""

    def __init__(self) -> None:
        self._locks: dict[int, threading.RLock] = {}

    def here(self) -> threading.RLock:
        """This process's lock, to be used in a `with`."""
        return self._locks.setdefault(os.getpid(), threading.RLock())
