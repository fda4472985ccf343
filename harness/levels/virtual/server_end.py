"""The database in a virtual network: what a client's packets ask, sessions of a real server answer in no virtual time.

Answers to a MySQL server's listener and connection threads. Invariant: a connection is answered in the order of its
requests; one that ends rolls back what it left open, as the server does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from harness.database.simulated.replies import SHUTDOWN, ConnectRefused, Reply
from harness.database.simulated.server import SimulatedServer
from harness.levels.sim.bridge import Bridge
from harness.levels.sim.bridged_session import BridgedSession, Command, CommandReader, Entry, NotFollowed
from harness.levels.virtual.network import Socket
from harness.system.errors import WorldError

_READ_MAX: Final = 1 << 20


class ServerEnd:
    """One connection in the server. Mutable."""

    def __init__(
        self,
        accepted: Socket,
        *,
        server: SimulatedServer,
        bridge: Bridge,
        asked: Callable[[int, Command], None],
    ) -> None:
        """`asked` is called with the number of the session and each command, before it is carried out."""
        self._socket = accepted
        self._bridge = bridge
        self._hub = server.hub
        self._asked = asked
        self._reader = CommandReader()
        self._waiting: deque[Command] = deque()
        self._is_busy = False
        self._due = 0
        """The number of the reply that is on its way; an interrupt replaces it."""
        self._session: BridgedSession | None = None
        accepted.heard = self._hear
        try:
            session = server.open_session(is_lookups=True, kind=partial(BridgedSession, bridge=bridge))
        except ConnectRefused as refused:
            accepted.send(self._reader.failure(None, refused.code, "Too many connections"))
            accepted.close()
            return
        assert isinstance(session, BridgedSession), "it was made so"
        self._session = session
        session.on_end = self._be_ended
        session.on_interrupt = self._answered
        accepted.send(self._reader.ours(bridge.greeting(session.number)))
        self._hear()

    def _hear(self) -> None:
        """Read what has arrived."""
        while self._session is not None and not self._socket.is_closed:
            try:
                data = self._socket.recv(_READ_MAX)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._leave()
                return
            try:
                for one in self._reader.read(data):
                    if self._is_over:
                        return
                    self._take(one)
            except NotFollowed as error:
                self._bridge.failure = WorldError(
                    f"level sim cannot follow the job's packets: {error}", fix="run it with --level job"
                )
                raise self._bridge.failure from error

    @property
    def _is_over(self) -> bool:
        return self._session is None

    def _take(self, one: Entry | Command | None) -> None:
        session = self._session
        assert session is not None
        if one is None:
            self._leave()
        elif isinstance(one, Entry):
            session.log_in(one.login)
            self._socket.send(self._reader.welcome(one))
        elif self._is_busy:
            self._waiting.append(one)
        else:
            self._execute(one)

    def _execute(self, command: Command) -> None:
        session = self._session
        assert session is not None
        self._is_busy = True
        self._command = command
        self._asked(session.number, command)
        sql = command.exchange.statement() or f"<{command.exchange.kinds()[0]}>"
        reply = session.execute(sql, (command,), self._answered)
        if reply is not None:
            self._answered(reply)

    def _answered(self, reply: Reply) -> None:
        """The reply is due after its SLEEP; a later one, of a KILL, takes its place."""
        self._due += 1
        number = self._due
        if reply.more_ms:
            self._hub.at(self._hub.now_ms + reply.more_ms, lambda: self._send(reply, number))
        else:
            self._send(reply, number)

    def _send(self, reply: Reply, number: int) -> None:
        if number != self._due or self._socket.is_closed:
            return
        command = self._command
        data: bytes = (
            reply.rows[0][0]
            if reply.rows
            else self._reader.failure(command, reply.code or SHUTDOWN, reply.message)
        )
        try:
            self._socket.send(data)
        except OSError:
            self._leave()
            return
        self._is_busy = False
        if self._waiting and self._session is not None:
            self._execute(self._waiting.popleft())

    def _leave(self) -> None:
        """The client has gone."""
        session, self._session = self._session, None
        self._socket.close()
        self._due += 1
        if session is not None:
            session.end()

    def _be_ended(self, code: int) -> None:
        """The server ends the session: KILL, or its silence."""
        del code
        self._session = None
        self._socket.close()
