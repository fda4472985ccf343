"""Sessions of level sim whose statements a real server executes, in no virtual time.

Answers to one connection's thread of a MySQL server. Invariant: no decision depends on real time. A statement without a
reply is parked if the server says that it waits for a lock, and waited for otherwise; a lock's timeout, SLEEP, GET_LOCK
and NOW go by the virtual clock. The text of these statements is changed on its way, and their columns' names are
changed back.

Not virtual: UUID(), RAND() without a seed, SYSDATE(), SLEEP of an expression, BENCHMARK. `Bridge.not_virtual` counts
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.database.simulated.replies import (
    KILLED,
    LOCK_WAIT,
    NO_SUCH_SESSION,
    PACKET,
    TOO_LONG,
    Done,
    Reply,
    refused,
)
from harness.database.simulated.server import SimulatedServer, SimulatedSession, Waiting
from harness.levels.sim.bridge import Bridge, Login, Parked, RealSession, number_at, read_login
from harness.proxy.mysql.commands import ANSWERLESS, HANDSHAKE, QUERY, QUIT, CommandExchange
from harness.proxy.mysql.dialogue import Dialogue
from harness.proxy.mysql.frames import HEADER_BYTES, framed
from harness.system.clock import Deadline
from harness.system.errors import WorldError

_LOOK_S: Final = 0.002
"""How long a statement may take before the server is asked whether it waits for a lock."""
_LOOK_S_MAX: Final = 0.05
_STATEMENT_S: Final = 60.0
"""How long a statement that waits for no lock may take in real time."""
_WELCOME: Final = b"\x00\x00\x00\x02\x00\x00\x00"
_QUIT_PACKET: Final = b"\x01\0\0" + bytes([QUIT])
"""Without its number."""
_OK_MARK: Final = b"\x00"
_ERROR_MARK: Final = b"\xff"
_EOF_MARK: Final = b"\xfe"
_EOF_BYTES: Final = 9
"""An old EOF packet is shorter; a row may begin with the same byte."""
EPOCH_S: Final = 1_767_225_600
"""What NOW() is when a run begins: 2026-01-01 00:00:00 UTC."""

_SLEEP: Final = re.compile(rb"\bsleep\s*\(\s*((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*\)", re.IGNORECASE)
_NAMED_LOCK: Final = re.compile(rb"\bget_lock\s*\([^()]*?,\s*(\d+)\s*\)", re.IGNORECASE)
_ONLY_READS: Final = re.compile(rb"\s*(?:SELECT|SHOW)\b(?!.*(?:\bINTO\b|;))", re.IGNORECASE | re.DOTALL)
_TELLS_TIME: Final = re.compile(
    rb"\b(now|sysdate|curdate|curtime|unix_timestamp|utc_\w+|current_\w+|localtime\w*)\b|\b(insert|update|replace)\b",
    re.IGNORECASE,
)
"""What may read the clock; a column's default may be the time."""
_TELLS_NUMBER: Final = re.compile(rb"\bconnection_id\s*\(|\bpseudo_thread_id\b", re.IGNORECASE)
_KILL: Final = re.compile(r"kill (?P<what>query |connection )?(?P<number>\d+);?")
_LOCK_LIMIT: Final = re.compile(
    r"set (?:session |@@(?:session\.)?)?innodb_lock_wait_timeout ?:?= ?(?P<s>\d+);?"
)
_SILENCE_LIMIT: Final = re.compile(r"set (?:session |@@(?:session\.)?)?wait_timeout ?:?= ?(?P<s>\d+);?")
_REAL: Final = re.compile(
    r"\b(uuid|uuid_short|rand|sysdate|benchmark)\s*\(|\b(sleep)\s*\((?!\s*[\d.]+(?:e[+-]?\d+)?\s*\))",
    re.IGNORECASE,
)


@dataclass(slots=True, kw_only=True)
class Command:
    """One command of a client. Mutable: gets the reply's bytes."""

    exchange: CommandExchange
    data: bytes
    """Its packets as sent, with those before it that have no reply."""
    dialogue: Dialogue
    reply: bytes = b""

    @property
    def is_open(self) -> bool:
        """Whether the reply is not whole."""
        return self.exchange in self.dialogue.session.open

    def read_from(self, real: RealSession) -> None:
        """Read the rest of the reply, whatever time it takes."""
        while self.is_open:
            self.take(real.received())

    def take(self, data: bytes) -> None:
        """Bytes of the reply. Raises WorldError if they are not understood."""
        self.reply += data
        self.dialogue.replies.track(data)
        if why := self.dialogue.session.why_lost:
            raise WorldError(
                f"level sim cannot follow the client's packets: {why}", fix="run it with --level live"
            )

    def packets(self) -> Sequence[bytes]:
        """The reply's packets without their headers."""
        return packets_of(self.reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The packet by which a client logs in."""

    login: Login
    sequence: int


class NotFollowed(Exception):
    """The packets of a client are not understood."""


class CommandReader:
    """Reads what a client sends. Mutable: keeps what is not whole."""

    def __init__(self) -> None:
        self.dialogue = Dialogue()
        self._before = b""
        """Packets without a reply, which go with the next command."""
        self._packet = b""
        """The packets of a command that is not whole."""

    def read(self, data: bytes) -> Iterator[Entry | Command | None]:
        """What is whole in these bytes; None: the client leaves. Raises NotFollowed."""
        if data[:3] + data[4:] == _QUIT_PACKET:  # mysql.connector numbers it as part of the command before
            yield None
            return
        for part in self.dialogue.requests.parts(data):
            self._packet += part.data
            if part.packet is None:
                raise NotFollowed(self.dialogue.session.why_lost)
            if not part.ends:
                continue
            exchange = part.packet.message
            assert isinstance(exchange, CommandExchange), "a packet belongs to an exchange"
            whole, self._packet = self._packet, b""
            if exchange.command == HANDSHAKE:
                yield Entry(login=read_login(whole[HEADER_BYTES:]), sequence=part.packet.sequence)
            elif exchange.command == QUIT:
                yield None
            elif exchange.command in ANSWERLESS:
                self._before += whole
            elif part.packet.last:
                before, self._before = self._before, b""
                yield Command(exchange=exchange, data=before + whole, dialogue=self.dialogue)

    def welcome(self, entry: Entry) -> bytes:
        """The reply to a login: any user and password will do."""
        return self.ours(framed(_WELCOME, sequence=entry.sequence + 1))

    def ours(self, data: bytes) -> bytes:
        """Bytes of our own, which the dialogue follows as the server's."""
        self.dialogue.replies.track(data)
        return data

    def failure(self, command: Command | None, code: int | str, message: str) -> bytes:
        """The packet of an error in the server's place; of None, in place of the greeting."""
        payload = _ERROR_MARK + int(code).to_bytes(2, "little")
        if command is None:  # it has no SQL state
            return framed(payload + message.encode(), sequence=0)
        if command.is_open:
            self.dialogue.session.open.remove(command.exchange)
        return framed(payload + b"#HY000" + message.encode(), sequence=1)


class BridgedSession(SimulatedSession):
    """A session of the simulated server whose statements a real session executes. Mutable."""

    def __init__(
        self, server: SimulatedServer, number: int, *, is_root: bool, is_lookups: bool, bridge: Bridge
    ) -> None:
        super().__init__(server, number, is_root=is_root, is_lookups=is_lookups)
        self._bridge = bridge
        self._real: RealSession | None = None
        self._is_deserted = False
        """Its client has gone while a statement waits; the server goes on with it."""

    @property
    def real_number(self) -> int:
        """The server's number of it; 0: it has not logged in."""
        return 0 if self._real is None else self._real.number

    def log_in(self, login: Login) -> None:
        """Take a real session for a client that has logged in."""
        self._real = self._bridge.session(login)
        if self._bridge.tells_numbers:
            self._real.ask(f"SET pseudo_thread_id = {self.number}")

    def execute(
        self, sql: str, args: Sequence[Any] | None, done: Done, *, many: bool = False
    ) -> Reply | None:
        """See `SimulatedSession`; `args` is the `Command`. Raises WorldError, which the bridge keeps for the run."""
        assert args is not None and not many, "a bridged session gets commands"  # noqa: PT018 - one thing
        try:
            return self._execute(sql, args, done)
        except WorldError as error:
            self._bridge.failure = error
            raise

    def _execute(self, sql: str, args: Sequence[Any], done: Done) -> Reply | None:
        (command,) = args
        server = self.server
        if self.packet_bytes_max is not None and len(command.data) > self.packet_bytes_max:
            self.end()
            if self.on_end is not None:
                self.on_end(PACKET)
            return refused(PACKET)
        if server.customers_holder is not None and "customer" in sql:
            self._wait_for_table(sql, args, done)
            return None
        if "customer" in sql:
            server.tables.customers.selected += 1
        own = self._in_our_place(sql, command)
        if own is not None:
            return own
        reply = self._perform(sql, command, done)
        self._silent_since_ms = server.hub.now_ms + (0 if reply is None else reply.more_ms)
        if self.silence_ms is not None and self._silence_due is None:
            self._watch_silence()
        if reply is not None:
            self._bridge.look_again()
        return reply

    def _wait_for_table(self, sql: str, args: Sequence[Any], done: Done) -> None:
        """A fault's session has locked the table `customer`, in the simulated server."""
        waiting = self.server.customers_queue
        running = self.wait(
            sql, done, end_wait=lambda: waiting.remove(go_on) if go_on in waiting else None,
            limit_ms=self.statement_ms, late=refused(TOO_LONG),
        )  # fmt: skip

        def go_on() -> None:
            if self.running is running:
                running.end_wait = None
                self.stop(running)
                reply = self.execute(sql, args, done)
                if reply is not None:
                    self.answer(done, reply)

        waiting.append(go_on)

    def _in_our_place(self, sql: str, command: Command) -> Reply | None:
        """The reply to a statement on the virtual server: KILL, and the limits that are virtual."""
        if killed := _KILL.fullmatch(sql):
            number = int(killed["number"])
            kill = self.server.kill_query if killed["what"] == "query " else self.server.kill
            if not kill(number):
                return refused(NO_SUCH_SESSION)
            return self._ok(command) if self.alive else refused(KILLED)
        if limit := _LOCK_LIMIT.fullmatch(sql):
            self.lock_wait_ms = 1000 * int(limit["s"])
            return self._ok(command)
        if limit := _SILENCE_LIMIT.fullmatch(sql):
            self.silence_ms = 1000 * int(limit["s"])
            self._watch_silence()
            return self._ok(command)
        return None

    def _ok(self, command: Command) -> Reply:
        """The server's own OK, of a statement without effect: it knows the client's abilities."""
        command.data = framed(bytes([QUERY]) + b"DO 0", sequence=0)
        assert self._real is not None, "a client logs in before it asks"
        self._real.send(command.data)
        command.read_from(self._real)
        return Reply([(command.reply,)])

    def _perform(self, sql: str, command: Command, done: Done) -> Reply | None:
        real, bridge = self._real, self._bridge
        assert real is not None, "a client logs in before it asks"
        text = command.exchange.text
        for name in _REAL.finditer(sql):
            bridge.not_virtual[(name[1] or "sleep of an expression").lower()] += 1
        if _TELLS_TIME.search(text):
            now_us = bridge.now_us()
            real.ask(f"SET timestamp = {EPOCH_S + now_us // 1_000_000}.{now_us % 1_000_000:06}")
        if _TELLS_NUMBER.search(text):
            real.ask(f"SET pseudo_thread_id = {self.number}")
        virtual = list(_SLEEP.finditer(text)) if command.exchange.command == QUERY else []
        named = _NAMED_LOCK.search(text) if command.exchange.command == QUERY else None
        sent = command.data
        for found in (*virtual, *([named] if named else ())):
            sent = sent.replace(found[0], _without_time(found))

        def whole() -> Reply:
            """The reply; its columns have the names that the statement gives them."""
            for found in (*virtual, *([named] if named else ())):
                command.reply = command.reply.replace(_without_time(found), found[0], 1)
            bridge.sizes[text] = tuple(HEADER_BYTES + len(packet) for packet in command.packets())
            return self._reply(command, virtual)

        real.send(sent)
        if not self._read(command, real):
            self._park(sql, command, whole, done)
        elif named is None or not _is_refused(command):
            return whole()
        else:
            self._park_named(sql, command, sent, whole, 1000 * int(named[1]), done)
        return None

    def _reply(self, command: Command, sleeps: Sequence[re.Match[bytes]]) -> Reply:
        """The reply as the link sees it: its bytes, its error, and how long the statement took."""
        slept_ms = self.server.slow_ms
        self.server.slept += slept_ms > 0
        self._bridge.changes += not _ONLY_READS.match(command.exchange.text)
        packets, text = command.packets(), command.exchange.text
        failed, has_no_rows = packets[0][:1] == _ERROR_MARK, packets[0][:1] == _OK_MARK
        for found in sleeps:
            before = text[: found.start()]
            is_once = has_no_rows or before.count(b"(") > before.count(
                b")"
            )  # in a subquery; else for each row
            slept_ms += round(1000 * float(found[1])) * (1 if is_once else len(_rows_of(packets)))
        answer = Reply(
            [(command.reply,)],
            code=number_at(packets[0], 1, 2) if failed else None,
            message=packets[0][9:].decode(errors="replace") if failed else "",
            more_ms=slept_ms,
        )
        return self.slept(command.exchange.statement(), answer)

    # ------------------------------------------------------------------------------------- locks

    def _read(self, command: Command, real: RealSession) -> bool:
        """Read the whole reply; False: the statement waits for a lock."""
        deadline, look_s = Deadline(_STATEMENT_S), _LOOK_S
        while command.is_open:
            if real.has_spoken(look_s):
                command.take(real.received())
                continue
            if real.number in self._bridge.waiting() and not real.has_spoken(0):
                return False
            look_s = min(2 * look_s, _LOOK_S_MAX)
            if deadline.passed:
                message = f"a statement took {_STATEMENT_S:g} s in the server of level sim"
                raise WorldError(f"{message}: {command.exchange.statement()}", fix="run it with --level live")
        return True

    def _park(self, sql: str, command: Command, whole: Callable[[], Reply], done: Done) -> None:
        real, bridge = self._real, self._bridge
        assert real is not None, "a client logs in before it asks"

        def answered() -> None:
            self._answered(running, done, whole())

        parked = Parked(real, lambda: self._read(command, real), answered, retries=False)

        def end_wait() -> None:
            """The statement is ended: by the virtual limit, KILL QUERY or a fault."""
            bridge.parked.remove(parked)
            bridge.kill_query(real)
            command.read_from(real)

        running = self.wait(sql, done, end_wait=end_wait, limit_ms=self.lock_wait_ms, late=refused(LOCK_WAIT))
        bridge.parked.append(parked)
        # A deadlock is found while its last statement begins to wait, and the victim may be another one.
        bridge.look_again()

    def _park_named(
        self, sql: str, command: Command, sent: bytes, whole: Callable[[], Reply], limit_ms: int, done: Done
    ) -> None:
        """GET_LOCK with a limit: asked for again at each release."""
        real, bridge, exchange = self._real, self._bridge, command.exchange
        assert real is not None, "a client logs in before it asks"

        def again() -> bool:
            command.reply = b""
            command.dialogue.session.open.appendleft(exchange)
            real.send(sent)
            command.read_from(real)
            return not _is_refused(command)

        parked = Parked(real, again, lambda: self._answered(running, done, whole()), retries=True)
        running = self.wait(
            sql, done, end_wait=lambda: bridge.parked.remove(parked), limit_ms=limit_ms, late=whole()
        )
        bridge.parked.append(parked)

    def _answered(self, running: Waiting, done: Done, reply: Reply) -> None:
        """A statement that waited has its reply; its client may have gone."""
        running.end_wait = None
        if self.running is running:
            self.stop(running)
        if self._is_deserted:
            self._leave()
        else:
            self.answer(done, reply)

    # --------------------------------------------------------------------------------------- ends

    def abandon(self) -> None:
        """The client stopped waiting; the server goes on with a statement that waits for a lock."""
        if not self._is_parked:
            super().abandon()

    @property
    def _is_parked(self) -> bool:
        return any(one.session is self._real for one in self._bridge.parked)

    def end(self) -> None:
        """The connection is closed: what it has locked is free once a statement that waits has ended."""
        if not self.alive:
            return
        if self._is_parked and self.running is not None:
            self._is_deserted = True
            self._end_due(self.running)
            self.running = None
        super().end()
        if not self._is_deserted:
            self._leave()

    def _leave(self) -> None:
        real, self._real = self._real, None
        if real is not None:
            self._bridge.give_back(real)
            self._bridge.look_again()


def packets_of(data: bytes) -> Sequence[bytes]:
    """The packets in these bytes, without their headers."""
    found, at = [], 0
    while at < len(data):
        end = at + HEADER_BYTES + number_at(data, at, 3)
        found.append(data[at + HEADER_BYTES : end])
        at = end
    return found


def _rows_of(packets: Sequence[bytes]) -> Sequence[bytes]:
    """The rows of the first result set: behind the columns, and behind the EOF after them if there is one."""
    if len(packets[0]) != 1 or not packets[0][0]:
        return []
    rows = packets[1 + packets[0][0] :]
    if rows and rows[0][:1] == _EOF_MARK and len(rows[0]) < _EOF_BYTES and len(rows) > 1:
        rows = rows[1:]
    end = next((at for at, row in enumerate(rows) if row[:1] in {_EOF_MARK, _ERROR_MARK}), len(rows))
    return rows[:end]


def _is_refused(command: Command) -> bool:
    """Whether a GET_LOCK without time has not got its lock: its row is 0."""
    return _rows_of(command.packets())[:1] == [b"\x010"]


def _without_time(found: re.Match[bytes]) -> bytes:
    """The call with as many zeros in place of its seconds."""
    begin, end = found.start(1) - found.start(), found.end(1) - found.start()
    return found[0][:begin] + re.sub(rb"\d", b"0", found[1]) + found[0][end:]
