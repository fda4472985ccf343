"""A line to the server as root for acts that come again and again; another fault may cut it, and it is renewed.

Invariant: a server that is down or paused for a moment breaks no fault: the act is left out that time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self, TypeVar

from harness.faults.real.server_control import ServerControl

__all__ = ["RootLine"]

_T = TypeVar("_T")
_CUT = frozenset({0, 1040, 1053, 1152, 1927, 2002, 2003, 2006, 2013, 2014, 2055, 3032})


class RootLine:
    """Call it with an act that takes a connection. Mutable: the connection changes.

    `first` are statements for each connection before any act.
    """

    def __init__(
        self, server: ServerControl, *, database: str = "", limit_s: float = 3.0, first: Sequence[str] = ()
    ) -> None:
        self._server = server
        self._database = database
        self._limit_s = limit_s
        self._first = first
        self._held: AbstractContextManager[Any] | None = None
        self._connection: Any = None

    def __call__(self, act: Callable[[Any], _T]) -> _T | None:
        """What the act gives; None if the server could not be asked, or hung up meanwhile."""
        import pymysql

        try:
            return act(self._open())
        except (pymysql.MySQLError, OSError) as error:
            self.close()
            if isinstance(error, pymysql.MySQLError) and error.args and error.args[0] not in _CUT:
                raise
            return None

    def _open(self) -> Any:
        if self._held is None:
            held = self._server.root(self._database, limit_s=self._limit_s, wait_s=0.0)
            self._connection = held.__enter__()
            self._held = held
            with self._connection.cursor() as cursor:
                for statement in self._first:
                    cursor.execute(statement)
        return self._connection

    def close(self) -> None:
        """Hang up."""
        held, self._held = self._held, None
        if held is not None:
            held.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
