"""Work that goes on while a program does something else, in order, one thing after the other."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class Background:
    """A thread that does what it is given. What went wrong is raised at the next call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._condition = threading.Condition()
        self._tasks: deque[Callable[[], object]] = deque()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def submit(self, task: Callable[[], object]) -> None:
        """Does something after everything that was given before."""
        with self._condition:
            self._tasks.append(task)
            if self._thread is None:
                # Not a daemon: a program that ends without waiting ends once everything is done.
                self._thread = threading.Thread(target=self._work, name=self._name)
                self._thread.start()

    def wait_until(self, ready: Callable[[int], bool], wait: Callable[[int], object] | None = None) -> None:
        """Waits until a function of the number of unfinished tasks is content; ``wait`` is called once if it has to."""
        with self._condition:
            if ready(len(self._tasks)):
                return
            if wait is not None:
                wait(len(self._tasks))
            while not ready(len(self._tasks)):
                self._condition.wait()

    def wait(self) -> None:
        """Waits until everything is done, and raises what went wrong."""
        self.wait_until(lambda unfinished: unfinished == 0)
        self.check()

    def check(self) -> None:
        """Raises what went wrong since the last call."""
        with self._condition:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _work(self) -> None:
        while True:
            with self._condition:
                if not self._tasks:
                    self._thread = None
                    return
                task = self._tasks[0]
            failure: BaseException | None = None
            try:
                task()
            except BaseException as error:
                failure = error
            with self._condition:
                if self._failure is None:
                    self._failure = failure
                elif failure is not None:
                    self._failure.add_note(f"and then: {failure}")
                self._tasks.popleft()
                self._condition.notify_all()
            # Nothing that the task holds, such as memory, is kept until the next one comes.
            del task
