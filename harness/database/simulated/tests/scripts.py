"""Scripts of two or three sessions, which the simulated server and the real one must answer alike.

Each covers something that a sink, the coordinator or a lookup relies on. Sessions begin with AUTOCOMMIT = 0, as
PyMySQL's do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from harness.database.endpoint import QUERY, QUERY_OF_PARTS
from harness.database.simulated.tests.two_servers import Answer, Ask, End, ReadOnly, Step
from harness.database.stored_tables import ROWS_OF

_FENCE = "SELECT token FROM fence WHERE subtask = %s FOR UPDATE"
_TOKEN = "SELECT token FROM fence WHERE subtask = %s"
_RAISE = (
    "UPDATE fence SET token = token + 1, ended = 0, origin_ms = COALESCE(origin_ms, %s) WHERE subtask = %s"
)
_TAKEN = "SELECT token, origin_ms FROM fence WHERE subtask = %s"
_ENDED = "UPDATE fence SET ended = 1 WHERE subtask = %s"
_FENCES = "SELECT subtask, token, ended FROM fence ORDER BY subtask"
_HAS = "SELECT token FROM epoch WHERE subtask = %s AND epoch = %s"
_EPOCH = "INSERT INTO epoch (subtask, epoch, token, pos, elements) VALUES (%s, %s, %s, %s, %s)"
_DELETE = "DELETE FROM epoch WHERE subtask = %s AND epoch = %s"
_NEWEST = "SELECT epoch, pos, elements FROM epoch WHERE subtask = %s ORDER BY epoch DESC LIMIT 1"
_FLOOR = "SELECT COALESCE(MAX(epoch), 0) FROM epoch WHERE subtask = %s"
_OUTPUT = "INSERT INTO output (subtask, id, j, v, epoch, token) VALUES (%s, %s, %s, %s, %s, %s)"
_UPSERT = f"{_OUTPUT} ON DUPLICATE KEY UPDATE token = output.token"
_DEAD = "INSERT INTO dead_letter (subtask, id, error, epoch, token) VALUES (%s, %s, %s, %s, %s)"
_UPSERT_DEAD = f"{_DEAD} ON DUPLICATE KEY UPDATE token = dead_letter.token"
_ROWS = "SELECT COUNT(*) FROM output"
_AUDIT = ROWS_OF["audit"]
_ACK = "REPLACE INTO ack (subtask, epoch, token, file) VALUES (%s, %s, %s, %s)"
_PARTS = (
    "SELECT ack.epoch, ack.token, ack.file FROM ack JOIN completed ON completed.epoch = ack.epoch"
    " WHERE ack.subtask = %s ORDER BY ack.epoch DESC LIMIT %s"
)
_HELD = "SELECT epoch, token FROM ack WHERE subtask = %s AND epoch <= %s"
_TO_DECIDE = (
    "SELECT epoch, subtask, token FROM ack"
    " WHERE epoch > (SELECT COALESCE(MAX(epoch), 0) FROM completed) ORDER BY epoch"
)
_COMPLETE = "INSERT INTO completed (epoch) VALUES (%s)"
_COMPLETED = "SELECT COALESCE(MAX(epoch), 0) FROM completed"
_PATIENCE = "SET SESSION innodb_lock_wait_timeout = 1"
_GET, _USED = "SELECT GET_LOCK(%s, %s)", "SELECT IS_USED_LOCK(%s)"
_NAME = "{db}/0"
_XID = "'{db}:0','1:1'"
_OTHER_XID = "'{db}:0','1:2'"


def _rows(first: int, count: int) -> list[tuple[object, ...]]:
    return [(0, id_, 0, f'"v{id_}"', 1, 1) for id_ in range(first, first + count)]


def _outputs(session: str, first: int = 1, count: int = 2, sql: str = _OUTPUT) -> Ask:
    return Ask(session, sql, _rows(first, count), many=True)


def _epoch(session: str, epoch: int = 1) -> Ask:
    return Ask(session, _EPOCH, (0, epoch, 1, 5, "[]"))


def _branch(session: str, xid: str = _XID, *, until: str = "PREPARE") -> list[Step]:
    """From its beginning up to XA END or XA PREPARE."""
    steps: list[Step] = [Ask(session, f"XA START {xid}"), _outputs(session), _epoch(session)]
    steps.append(Ask(session, f"XA END {xid}"))
    if until == "PREPARE":
        steps.append(Ask(session, f"XA PREPARE {xid}"))
    return steps


SCRIPTS: Mapping[str, Sequence[Step]] = MappingProxyType(
    {
        "a fence that is held makes others wait until the COMMIT": [
            Ask("a", _RAISE, (7, 0)),
            Ask("a", _TAKEN, (0,)),
            Ask("b", _TOKEN, (0,)),
            Ask("b", "ROLLBACK"),
            Ask("b", _FENCE, (0,)),
            Ask("c", _FENCE, (1,)),
            Ask("a", "COMMIT"),
            Answer("b"),
            Ask("b", _TAKEN, (0,)),
        ],
        "a fence is had in the order of asking": [
            Ask("a", _FENCE, (0,)),
            Ask("b", _RAISE, (1, 0)),
            Ask("c", _FENCE, (0,)),
            Ask("a", "ROLLBACK"),
            Answer("b"),
            Ask("b", "COMMIT"),
            Answer("c"),
        ],
        "a lock that is not had in time leaves the transaction open": [
            Ask("b", _PATIENCE),
            Ask("a", _FENCE, (0,)),
            _outputs("b"),
            Ask("b", _FENCE, (0,)),
            Answer("b"),
            Ask("b", "COMMIT"),
            Ask("a", "ROLLBACK"),
            Ask("a", _ROWS),
        ],
        "the end of a session gives its locks back": [
            Ask("a", _RAISE, (7, 0)),
            Ask("b", _FENCE, (0,)),
            End("a"),
            Answer("b"),
        ],
        "a transaction reads what was there when it read first, and its own writes": [
            Ask("a", _TOKEN, (0,)),
            Ask("b", _RAISE, (7, 0)),
            Ask("b", "COMMIT"),
            Ask("a", _TOKEN, (0,)),
            Ask("a", _FENCE, (0,)),
            Ask("a", _TOKEN, (0,)),
            Ask("a", _RAISE, (9, 0)),
            Ask("a", _TAKEN, (0,)),
            Ask("a", "ROLLBACK"),
            Ask("a", _TAKEN, (0,)),
        ],
        "a locking read alone fixes no view": [
            Ask("a", _FENCE, (1,)),
            _epoch("b"),
            Ask("b", "COMMIT"),
            Ask("a", _HAS, (0, 1)),
        ],
        "outputs show with the COMMIT, all at once": [
            _outputs("a", 1, 3),
            Ask("a", _DEAD, [(0, 9, "it failed", 1, 1)], many=True),
            _epoch("a"),
            Ask("b", _ROWS),
            Ask("b", _HAS, (0, 1)),
            Ask("b", "ROLLBACK"),
            Ask("a", _HAS, (0, 1)),
            Ask("a", "COMMIT"),
            Ask("b", _ROWS),
            Ask("b", _AUDIT),
            Ask("b", _HAS, (0, 1)),
            Ask("b", _NEWEST, (0,)),
            Ask("b", _FLOOR, (0,)),
            Ask("b", _FLOOR, (1,)),
            Ask("b", "SELECT COUNT(*) FROM dead_letter"),
        ],
        "a COMMIT whose answer was lost shows in the epoch row": [
            Ask("a", _FENCE, (0,)),
            _outputs("a"),
            _epoch("a"),
            Ask("a", "COMMIT"),
            End("a"),
            Ask("b", _FENCE, (0,)),
            Ask("b", _HAS, (0, 1)),
            Ask("b", "ROLLBACK"),
            Ask("b", _ROWS),
        ],
        "a transaction without its COMMIT leaves nothing": [
            Ask("a", _FENCE, (0,)),
            _outputs("a"),
            _epoch("a"),
            Ask("b", _FENCE, (0,)),
            End("a"),
            Answer("b"),
            Ask("b", _HAS, (0, 1)),
            Ask("b", _ROWS),
        ],
        "a second row of an epoch is refused": [
            _epoch("a"),
            Ask("a", "COMMIT"),
            _outputs("b"),
            _epoch("b"),
            Ask("b", _ROWS),
            Ask("b", "ROLLBACK"),
            Ask("b", _DELETE, (0, 1)),
            Ask("b", _DELETE, (0, 2)),
            _epoch("b"),
            Ask("b", "COMMIT"),
        ],
        "a second row of an epoch waits for the first to end: COMMIT": [
            _epoch("a"),
            _epoch("b"),
            Ask("a", "COMMIT"),
            Answer("b"),
        ],
        "a second row of an epoch waits for the first to end: ROLLBACK": [
            _epoch("a"),
            _epoch("b"),
            Ask("a", "ROLLBACK"),
            Answer("b"),
        ],
        "of two that wait for each other the later asker gives up": [
            Ask("a", _FENCE, (0,)),
            Ask("b", _FENCE, (1,)),
            Ask("a", _FENCE, (1,)),
            Ask("b", _FENCE, (0,)),
            Answer("a"),
            Ask("a", "COMMIT"),
            Ask("b", _FENCE, (0,)),
        ],
        "of two that wait for each other the one that changed less gives up": [
            Ask("a", _FENCE, (0,)),
            _outputs("b", 1, 5),
            Ask("b", _FENCE, (1,)),
            Ask("a", _FENCE, (1,)),
            Ask("b", _FENCE, (0,)),
            Answer("a"),
            Ask("a", _FENCE, (0,)),
            Ask("b", "COMMIT"),
            Answer("a"),
            Ask("a", _ROWS),
        ],
        "all fences in one statement wait for each": [
            Ask("a", _RAISE, (7, 1)),
            Ask("b", f"{_FENCES} FOR UPDATE"),
            Ask("c", _FENCE, (0,)),
            Ask("a", "COMMIT"),
            Answer("b"),
            Ask("b", _FENCES),
            Ask("b", "COMMIT"),
            Answer("c"),
        ],
        "acknowledgements are replaced, and completed once": [
            Ask("a", _ACK, (0, 1, 1, "f1")),
            Ask("a", _ACK, (0, 1, 2, "f2")),
            Ask("a", _ACK, (0, 2, 2, "f3")),
            Ask("a", _ACK, (1, 1, 1, "g1")),
            Ask("a", "COMMIT"),
            Ask("b", _TO_DECIDE),
            Ask("b", _COMPLETE, (1,)),
            Ask("b", _TO_DECIDE),
            Ask("a", _COMPLETED),
            Ask("a", _PARTS, (0, 3)),
            Ask("a", "ROLLBACK"),
            Ask("b", "COMMIT"),
            Ask("a", _COMPLETED),
            Ask("a", _PARTS, (0, 3)),
            Ask("a", _HELD, (0, 2)),
            Ask("a", _COMPLETE, (1,)),
            Ask("a", _ENDED, (1,)),
            Ask("a", _ENDED, (1,)),
            Ask("a", _FENCES),
        ],
        "a name is had by one session, and waited for": [
            Ask("a", _USED, (_NAME,)),
            Ask("a", _GET, (_NAME, 1)),
            Ask("a", _GET, (_NAME, 1)),
            Ask("b", _GET, (_NAME, 0)),
            Ask("b", _GET, (_NAME, 1)),
            Answer("b"),
            Ask("b", _USED, (_NAME,)),
            Ask("b", _GET, (_NAME, 10)),
            End("a"),
            Answer("b"),
            Ask("c", _USED, (_NAME,)),
        ],
        "a name is taken from a session that is killed": [
            Ask("a", _GET, (_NAME, 1)),
            Ask("a", _RAISE, (7, 0)),
            Ask("b", "KILL {a}"),
            Ask("b", _GET, (_NAME, 5)),
            Ask("b", _FENCE, (0,)),
            Ask("a", _TOKEN, (0,)),
            Ask("b", "KILL 999999999"),
        ],
        "a COMMIT keeps a name, and a ROLLBACK too": [
            Ask("a", _GET, (_NAME, 1)),
            Ask("a", "ROLLBACK"),
            Ask("a", "COMMIT"),
            Ask("b", _USED, (_NAME,)),
        ],
        "who is killed while it waits for a row hears that it is gone": [
            Ask("a", _FENCE, (0,)),
            Ask("b", _FENCE, (0,)),
            Ask("c", _FENCE, (0,)),
            Ask("a", "KILL {b}"),
            Answer("b"),
            Ask("a", "ROLLBACK"),
            Answer("c"),
        ],
        "who is killed while it waits for a name hears that it is gone": [
            Ask("a", _GET, (_NAME, 1)),
            Ask("b", _GET, (_NAME, 10)),
            Ask("a", "KILL {b}"),
            Answer("b"),
        ],
        "KILL QUERY ends a wait for a row, and not its transaction": [
            Ask("a", _FENCE, (0,)),
            Ask("b", _FENCE, (1,)),
            Ask("b", _FENCE, (0,)),
            Ask("a", "KILL QUERY {b}"),
            Answer("b"),
            Ask("a", _FENCE, (1,)),
            Ask("b", "COMMIT"),
            Answer("a"),
        ],
        "a branch shows with its XA COMMIT": [
            *_branch("a"),
            Ask("b", _ROWS),
            Ask("b", _HAS, (0, 1)),
            Ask("b", "XA RECOVER"),
            Ask("a", f"XA COMMIT {_XID}"),
            Ask("b", "XA RECOVER"),
            Ask("b", "ROLLBACK"),
            Ask("b", _ROWS),
            Ask("b", _HAS, (0, 1)),
        ],
        "a prepared branch outlives its session, and another commits it": [
            *_branch("a"),
            Ask("b", "SET AUTOCOMMIT = 1"),
            Ask("b", f"XA COMMIT {_XID}"),
            End("a"),
            Ask("c", "XA RECOVER"),
            Ask("c", f"XA COMMIT {_XID}"),
            Ask("c", _ROWS),
            Ask("c", f"XA COMMIT {_XID}"),
            Ask("c", "ROLLBACK"),
            Ask("c", f"XA COMMIT {_XID}"),
            Ask("c", "SET AUTOCOMMIT = 1"),
            Ask("c", f"XA COMMIT {_XID}"),
            Ask("c", f"XA COMMIT {_XID}"),
            Ask("c", f"XA ROLLBACK {_XID}"),
            Ask("c", _ROWS),
        ],
        "a prepared branch keeps its locks until it is rolled back": [
            *_branch("a"),
            End("a"),
            Ask("b", _PATIENCE),
            _epoch("b"),
            Answer("b"),
            Ask("b", "ROLLBACK"),
            Ask("b", "SET AUTOCOMMIT = 1"),
            Ask("b", f"XA ROLLBACK {_XID}"),
            _epoch("b"),
            Ask("b", _ROWS),
        ],
        "a branch that is not prepared ends with its session": [
            *_branch("a", until="END"),
            End("a"),
            _epoch("b"),
            Ask("b", "XA RECOVER"),
            Ask("b", _ROWS),
        ],
        "the steps of a branch come in their order": [
            Ask("a", f"XA END {_XID}"),
            Ask("a", f"XA PREPARE {_XID}"),
            Ask("a", f"XA START {_XID}"),
            Ask("a", f"XA START {_OTHER_XID}"),
            Ask("a", f"XA PREPARE {_XID}"),
            Ask("a", f"XA END {_OTHER_XID}"),
            Ask("a", "COMMIT"),
            Ask("a", "ROLLBACK"),
            Ask("a", f"XA COMMIT {_XID}"),
            Ask("a", f"XA END {_XID}"),
            Ask("a", f"XA PREPARE {_OTHER_XID}"),
            _outputs("a"),
            Ask("a", "COMMIT"),
            Ask("a", _ROWS),
            Ask("a", f"XA COMMIT {_XID}"),
            Ask("a", f"XA PREPARE {_XID}"),
            Ask("a", f"XA PREPARE {_XID}"),
            Ask("a", _ROWS),
            Ask("a", "XA RECOVER"),
            Ask("a", f"XA ROLLBACK {_XID}"),
            Ask("a", f"XA ROLLBACK {_XID}"),
        ],
        "a branch begins outside of a transaction, and no xid twice": [
            Ask("a", _TOKEN, (0,)),
            Ask("a", f"XA START {_XID}"),
            Ask("a", "ROLLBACK"),
            Ask("a", f"XA START {_XID}"),
            Ask("b", f"XA START {_XID}"),
            Ask("a", f"XA END {_XID}"),
            Ask("a", f"XA COMMIT {_XID} ONE PHASE"),
            Ask("b", f"XA START {_XID}"),
            Ask("b", f"XA END {_XID}"),
            Ask("b", f"XA ROLLBACK {_XID}"),
            Ask("b", f"XA COMMIT {_XID}"),
        ],
        "a branch that meets a deadlock is rolled back": [
            Ask("b", _FENCE, (0,)),
            _outputs("b", 1, 5),
            Ask("a", f"XA START {_XID}"),
            Ask("a", _FENCE, (1,)),
            Ask("b", _FENCE, (1,)),
            Ask("a", _FENCE, (0,)),
            Answer("b"),
            Ask("a", _FENCE, (1,)),
            Ask("a", "ROLLBACK"),
            Ask("a", f"XA END {_XID}"),
            Ask("a", f"XA PREPARE {_XID}"),
            Ask("a", f"XA COMMIT {_XID}"),
            Ask("a", f"XA ROLLBACK {_XID}"),
            Ask("a", "ROLLBACK"),
        ],
        "a server that only reads refuses writes and their COMMIT": [
            _outputs("a"),
            Ask("c", f"XA START {_XID}"),
            _outputs("c"),
            ReadOnly(on=True),
            Ask("a", "COMMIT"),
            Ask("b", _FENCE, (0,)),
            Ask("b", _RAISE, (7, 0)),
            _outputs("b"),
            Ask("b", _ACK, (0, 1, 1, "f")),
            Ask("b", "COMMIT"),
            Ask("b", "XA RECOVER"),
            Ask("c", f"XA END {_XID}"),
            Ask("c", f"XA PREPARE {_XID}"),
            ReadOnly(on=False),
            Ask("a", "COMMIT"),
            Ask("a", _ROWS),
        ],
        "a prepared branch and a server that only reads": [
            *_branch("a"),
            End("a"),
            ReadOnly(on=True),
            Ask("b", "SET AUTOCOMMIT = 1"),
            Ask("b", f"XA COMMIT {_XID}"),
            ReadOnly(on=False),
            Ask("b", "XA RECOVER"),
            Ask("b", f"XA COMMIT {_XID}"),
            Ask("b", _ROWS),
        ],
        "a lookup is answered with its nonce": [
            Ask("l", QUERY, (3, 77, 0, 2)),
            Ask("l", QUERY, (0, 78, 0, 999)),
            Ask("l", QUERY_OF_PARTS, (0, 79, 0, 2, 3)),
            Ask("l", "SELECT name, city FROM customer WHERE k = %s", (2,)),
            Ask("l", "SELECT name, city FROM customer WHERE k = %s", ("2",)),
            Ask("l", "SELECT colour FROM customer WHERE k = %s", (2,)),
            Ask("l", "SELECT name FROM nowhere"),
            Ask("l", "SELECT name FROM customer WHERE WHERE"),
        ],
        "a lookup that takes too long is ended": [
            Ask("l", "SET SESSION max_statement_time = 1"),
            Ask("l", QUERY, (0, 77, 5, 2)),
            Answer("l"),
            Ask("l", QUERY, (0, 78, 0, 2)),
        ],
        "lookups wait for who has locked their table": [
            Ask("root", "LOCK TABLES customer WRITE"),
            Ask("l", QUERY, (0, 77, 0, 2)),
            Ask("m", "SELECT name FROM customer WHERE k = %s", (1,)),
            Ask("a", _TOKEN, (0,)),
            Ask("root", "UNLOCK TABLES"),
            Answer("l"),
            Answer("m"),
        ],
        "lookups wait for a table no longer than they may": [
            Ask("root", "LOCK TABLES customer WRITE"),
            Ask("l", "SET SESSION max_statement_time = 1"),
            Ask("l", QUERY, (0, 77, 0, 2)),
            Ask("m", QUERY, (0, 78, 0, 2)),
            Answer("l"),
            Ask("a", "KILL QUERY {m}"),
            Answer("m"),
            Ask("m", QUERY, (0, 79, 0, 2)),
            End("root"),
            Answer("m"),
        ],
        "lookups wait for no row": [
            Ask("root", "SELECT subtask FROM fence ORDER BY subtask LIMIT %s FOR UPDATE", (1,)),
            Ask("l", QUERY, (0, 77, 0, 2)),
            Ask("b", _FENCE, (1,)),
            Ask("b", _FENCE, (0,)),
            End("root"),
            Answer("b"),
        ],
        "root may write where the server only reads": [
            ReadOnly(on=True),
            Ask("root", f"{_FENCES} FOR UPDATE"),
            Ask("root", _COMPLETE, (1,)),
            Ask("root", "COMMIT"),
            Ask("a", f"{_FENCES} FOR UPDATE"),
            Ask("a", _COMPLETED),
        ],
        "in autocommit a statement is a transaction": [
            Ask("a", "SET AUTOCOMMIT = 1"),
            Ask("a", _RAISE, (7, 0)),
            Ask("a", _FENCE, (0,)),
            Ask("b", _FENCE, (0,)),
            Ask("b", "ROLLBACK"),
            Ask("a", "BEGIN"),
            Ask("a", _FENCE, (0,)),
            Ask("b", _FENCE, (0,)),
            Ask("a", "COMMIT"),
            Answer("b"),
        ],
        "AUTOCOMMIT = 1 commits what is open": [
            _outputs("a"),
            Ask("a", "SET AUTOCOMMIT = 1"),
            Ask("b", _ROWS),
            Ask("a", "SET AUTOCOMMIT = 0"),
            _outputs("a", 3, 1),
            Ask("a", "START TRANSACTION"),
            Ask("a", "ROLLBACK"),
            Ask("a", _ROWS),
        ],
    }
)

KEYED_SCRIPTS: Mapping[str, Sequence[Step]] = MappingProxyType(
    {
        "an output with a key is written once": [
            _outputs("a", 1, 2, _UPSERT),
            Ask("a", "COMMIT"),
            _outputs("b", 2, 2, _UPSERT),
            Ask("b", _ROWS),
            Ask("b", "COMMIT"),
            Ask("b", _AUDIT),
            _outputs("b", 3, 1, _UPSERT),
        ],
        "a dead letter with a key is written once, and a plain second one is refused": [
            Ask("a", _UPSERT_DEAD, [(0, 7, "E: x", 1, 1)], many=True),
            Ask("a", "COMMIT"),
            Ask("b", _UPSERT_DEAD, [(0, 7, "E: y", 2, 2), (0, 8, "E: z", 2, 2)], many=True),
            Ask("b", "COMMIT"),
            Ask("b", ROWS_OF["dead_letter"]),
            Ask("b", _DEAD, [(0, 8, "E: z", 3, 3)], many=True),
            Ask("b", "ROLLBACK"),
            Ask("b", "SELECT COUNT(*) FROM dead_letter"),
        ],
        "an output with a key waits for the same one": [
            _outputs("a", 1, 2, _UPSERT),
            _outputs("b", 2, 2, _UPSERT),
            Ask("a", "COMMIT"),
            Answer("b"),
            Ask("b", "COMMIT"),
            Ask("b", _ROWS),
        ],
        "a plain second output of a key is refused, and its statement with it": [
            _outputs("a", 3, 1),
            Ask("a", "COMMIT"),
            _outputs("b", 2, 2),
            Ask("b", _ROWS),
            Ask("b", "COMMIT"),
            Ask("b", _ROWS),
        ],
    }
)
