"""The process of a session at level 2. It runs alone, with the standard library, and is not trusted by anybody."""

import ast
import builtins
import datetime
import json
import linecache
import os
import random
import resource
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, TextIO


class _Out:
    """Standard output of programs: sent in pieces, and dropped beyond a limit."""

    def __init__(self, send: Callable[..., None], limit: int) -> None:
        self._send, self._limit, self._left, self._text = send, limit, limit, ""

    def write(self, text: str) -> int:
        # one more character than the limit shows that there was more
        self._text += str(text)[: self._left + 1]
        self._left = max(-1, self._left - len(text))
        if len(self._text) > 4_000 or (self._left < 0 and self._text):
            self.flush()
        return len(text)

    def flush(self) -> None:
        text, self._text = self._text, ""
        if text:
            self._send(printed=text)

    def renew(self) -> None:
        self._left = self._limit


class _Link:
    """The connection to the host: a line of JSON each way."""

    def __init__(self) -> None:
        self._in: TextIO = os.fdopen(os.dup(0), encoding="utf-8")
        self._out: TextIO = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)

    def send(self, **message: Any) -> None:
        self._out.write(json.dumps(message, default=_refuse) + "\n")
        self._out.flush()

    def read(self) -> Any:
        line = self._in.readline()
        if not line:
            os._exit(0)
        return json.loads(line)

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        sys.stdout.flush()
        self.send(call=name, args=[_plain(each) for each in args], kwargs=kwargs)
        answer = self.read()
        if "error" in answer:
            raise getattr(builtins, answer["error"])(answer["text"])
        return answer["value"]


def _refuse(value: object) -> Any:
    if isinstance(value, (set, frozenset)):
        return list(value)
    raise TypeError(f"a value of the type {type(value).__name__} cannot leave the program")


def _plain(value: Any) -> Any:
    json.dumps(value, default=_refuse)  # raised where the call is made
    return value


def _freeze(now: float, seed: int) -> None:
    """Have programs find the time and the random numbers of the run."""
    random.seed(seed)
    time.time = time.monotonic = time.perf_counter = lambda: now
    time.time_ns = time.monotonic_ns = time.perf_counter_ns = lambda: int(now * 10**9)
    time.sleep = lambda seconds: None

    class Frozen(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "Frozen":
            return cls.fromtimestamp(now, tz or datetime.UTC).replace(tzinfo=tz)

        @classmethod
        def utcnow(cls) -> "Frozen":
            return cls.now()

        today = utcnow

    datetime.datetime = Frozen  # type: ignore[misc]


def _run(code: str, namespace: dict[str, Any], name: str) -> Any:
    """Run a program, and return the value of its last line if that is an expression."""
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), namespace)  # noqa: S102 - in the sandbox
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), name, "eval"), namespace)  # noqa: S307 - in the sandbox


def _fault(error: BaseException, name: str) -> str:
    """Return the traceback of a program, without the frames of this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != name:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace, chain=False))[-20_000:].rstrip()


def main() -> None:
    link = _Link()
    begin = link.read()
    if not begin["confined"]:
        limits = ((resource.RLIMIT_AS, begin["memory"]), (resource.RLIMIT_NPROC, 1), (resource.RLIMIT_FSIZE, 0))
        for limit, most in (*limits, (resource.RLIMIT_CORE, 0)):
            resource.setrlimit(limit, (most, most))
    sys.setrecursionlimit(begin["recursion"])
    sys.stdout = sys.stderr = out = _Out(link.send, begin["output"])
    _freeze(begin["now"], begin["seed"])
    namespace: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}
    number = 0
    link.send(ready=True)
    while True:
        message = link.read()
        number += 1
        name = f"<program {number}>"
        namespace.update(message["values"])
        for each in message["functions"]:
            namespace[each] = lambda *args, _name=each, **kwargs: link.call(_name, args, kwargs)
        out.renew()
        result: dict[str, Any]
        try:
            result = {"value": _plain(_run(message["code"], namespace, name))}
        except BaseException as error:  # noqa: BLE001 - of the program, which is told of it
            result = {"value": None, "error": _fault(error, name)}
        out.flush()
        link.send(done=True, **result)


if __name__ == "__main__":
    main()
