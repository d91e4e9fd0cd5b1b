"""Refuses runs in threads that a tool may have started, where the rules of the tool's run would not be seen.

A new thread has no context variables, so an agent that is run there does not find the run it may be part of, and
nothing in Python tells who started the thread. A run without context is therefore refused if in this process a run with
approval rules or given grants is in progress, unless there is a sign that the application began it: it runs in the main
thread, or in a thread or with an agent that was used for a run of its own before. The caller says which it is: by
copying the context, or with ``detached=True``.
"""

import threading

from ziggurat.core.context import RUN_ID, Context
from ziggurat.core.errors import ConfigurationError

_guarded: set[str] = set()  # ids of runs in progress that have approval rules or given grants
_thread = threading.local()


def rules_hold(ctx: Context) -> None:
    """Note that a run in progress has approval rules or was given grants."""
    run_id = ctx.scope.get(RUN_ID)
    if run_id is not None:
        _guarded.add(run_id)


def run_ended(run_id: str) -> None:
    """Note that a run is no longer in progress in this process."""
    _guarded.discard(run_id)


def trust_thread() -> None:
    """Note that the runs of this thread are runs of their own."""
    _thread.trusted = True


def check_thread(agent: str) -> None:
    """Check that a run which is part of no other may start in this thread."""
    if not _guarded or getattr(_thread, "trusted", False):
        return
    thread = threading.current_thread()
    if thread is not threading.main_thread():
        raise ConfigurationError(
            f"{agent} was not run: the thread {thread.name} may have been started by a tool, and it lacks the context "
            "by which the rules of that tool's run would hold. In a tool, start it with asyncio.to_thread(...), or "
            "give the thread or pool contextvars.copy_context().run with your function as its argument. In a thread "
            "that belongs to no run, such as a server's, pass detached=True"
        )
