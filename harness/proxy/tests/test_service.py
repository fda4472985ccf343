"""The proxy as a program: it says where it listens, keeps strangers out, and ends cleanly however it is told to."""

from __future__ import annotations

import json
import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from harness.cli.proxy import proxy
from harness.proxy.conformance.tests.peers import connected, end_of, receive, upstream
from harness.proxy.conformance.tests.subject import Link, Subject
from harness.proxy.http_server import BODY_MAX, HEAD_MAX
from harness.system.clock import Deadline, wait_until
from harness.system.errors import UsageError, WorldError

pytestmark = pytest.mark.real

Started = tuple[subprocess.Popen[str], Subject]
ROOT = Path(__file__).parents[3]


@pytest.fixture
def start() -> Iterator[Callable[..., Started]]:
    """Starts `floodmark proxy` with options on a free port."""
    with ExitStack() as stack:

        def started(*options: str) -> Started:
            command = [sys.executable, "-m", "harness", "proxy", "--port", "0", *options]
            process = stack.enter_context(
                subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
                )
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said.startswith("floodmark proxy: listening on 127.0.0.1:"), said
            port = int(said.partition("127.0.0.1:")[2].partition(",")[0])
            return process, Subject("own", port=port, process=process)  # type: ignore[arg-type]  # it speaks text

        yield started


def raw(port: int, sent: bytes) -> bytes:
    """All that is answered to some bytes until the proxy closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(sent)
        return end_of(client)[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_0_and_closes_what_it_had_open(
    start: Callable[..., Started], number: signal.Signals
) -> None:
    process, subject = start("--seed", "7")
    with upstream() as server:
        link = subject.link(server.address)
        address = link.address
        with connected(address, server) as pair:
            process.send_signal(number)

            assert process.wait(timeout=60) == 0
            assert end_of(pair.client)[1] is not None
            assert end_of(pair.server)[1] is not None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=1)


def test_all_its_ports_are_on_loopback(start: Callable[..., Started]) -> None:
    process, subject = start()
    subject.ask("POST", "/proxies", {"name": "a", "upstream": "127.0.0.1:1"})

    sockets = psutil.Process(process.pid).net_connections("tcp")
    listening = [one.laddr.ip for one in sockets if one.status == psutil.CONN_LISTEN]

    assert listening == ["127.0.0.1"] * 2


def test_a_token_is_wanted_of_every_request(start: Callable[..., Started]) -> None:
    _, subject = start("--token", "s3cret")

    assert subject.ask("GET", "/proxies").status == 401
    assert subject.ask("POST", "/proxies", "{", headers={"Authorization": "Bearer wrong"}).status == 401
    assert subject.ask("GET", "/version", headers={"Authorization": "Bearer s3cret"}).status == 200


def test_a_config_makes_links_and_the_log_has_every_event(
    start: Callable[..., Started], tmp_path: Path
) -> None:
    with upstream() as server:
        config, log = tmp_path / "links.json", tmp_path / "deeds.jsonl"
        config.write_text(
            json.dumps(
                [{"name": "db", "listen": "127.0.0.1:0", "upstream": f"127.0.0.1:{server.address[1]}"}]
            )
        )
        process, subject = start("--config", str(config), "--log", str(log))
        link = Link(subject=subject, name="db")
        with connected(link.address, server):
            (cut,) = subject.ask("POST", f"{link.path}/cut", {"how": "rst"}).json["connections"]
        process.terminate()
        process.wait(timeout=60)

    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(event["link"], event["connection"], event["did"]) for event in events] == [("db", cut, "reset")]


def test_another_seed_can_be_set_and_only_a_whole_number_is_one(start: Callable[..., Started]) -> None:
    _, subject = start("--seed", "7")
    assert subject.ask("GET", "/floodmark").json["seed"] == 7

    assert subject.ask("PUT", "/floodmark", {"seed": 8}).json["seed"] == 8
    for wrong in ('{"seed": -1}', '{"seed": "9"}', '{"seed": 1.5}', '{"identify": 1}', "{}", "[]"):
        assert subject.ask("PUT", "/floodmark", wrong).status == 400
    assert subject.ask("GET", "/floodmark").json["seed"] == 8


def test_which_process_opens_a_connection_is_found_out_from_when_it_is_asked_until_the_next_seed(
    start: Callable[..., Started],
) -> None:
    _, subject = start()
    pids = []
    with upstream() as server:
        link = subject.link(server.address)
        for asked in ({"seed": 8}, {"identify": True}, {"identify": False}, {"identify": True}, {"seed": 9}):
            subject.ask("PUT", "/floodmark", asked)
            with connected(link.address, server):
                shown = subject.ask("GET", f"{link.path}/connections").json["connections"][-1]
            pids.append(shown.get("pid"))

    assert pids == [None, os.getpid(), None, os.getpid(), None]


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.org"])  # noqa: S104 - the point
def test_an_address_beyond_loopback_is_refused(host: str) -> None:
    result = CliRunner().invoke(proxy, ["--host", host], standalone_mode=False)

    assert isinstance(result.exception, UsageError)
    assert "--beyond-loopback" in result.exception.fix


def test_a_taken_port_is_an_error_of_the_environment() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = CliRunner().invoke(proxy, ["--port", str(taken.getsockname()[1])], standalone_mode=False)

    assert isinstance(result.exception, WorldError)
    assert "--port" in result.exception.fix


@pytest.mark.parametrize(
    ("text", "says"), [("{", "bad request body"), ('[{"name":"a"}]', "upstream at proxy 1")]
)
def test_a_bad_config_is_refused_with_its_mistake(tmp_path: Path, text: str, says: str) -> None:
    config = tmp_path / "links.json"
    config.write_text(text)

    result = CliRunner().invoke(proxy, ["--port", "0", "--config", str(config)], standalone_mode=False)

    assert isinstance(result.exception, UsageError)
    assert says in result.exception.what


BAD_REQUESTS = [
    (b"nonsense\r\n\r\n", b"400 "),
    (b"GET / HTTP/2\r\n\r\n", b"400 "),
    (b"GET /version HTTP/1.1\r\nbad header\r\n\r\n", b"400 "),
    (b"POST /proxies HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"400 "),
    (b"POST /proxies HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", b"411 "),
    (b"POST /proxies HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (BODY_MAX + 1), b"413 "),
    (b"GET /version HTTP/1.1\r\nx: %s\r\n\r\n" % (b"y" * HEAD_MAX * 2), b"431 "),
]


def test_what_is_no_request_is_refused_and_the_next_one_is_served(start: Callable[..., Started]) -> None:
    _, subject = start()
    for sent, status in BAD_REQUESTS:
        assert raw(subject.port, sent).startswith(b"HTTP/1.1 " + status), sent[:60]

        assert subject.ask("GET", "/version").status == 200


def test_who_sends_far_too_much_reads_the_refusal_all_the_same(start: Callable[..., Started]) -> None:
    _, subject = start()
    body = b"x" * BODY_MAX * 30

    answer = raw(subject.port, b"POST /populate HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    assert answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("version", "said", "closes"),
    [
        (b"1.1", b"", False),
        (b"1.1", b"Close", True),
        (b"1.1", b"TE, close", True),
        (b"1.0", b"", True),
    ],
)
def test_a_client_says_whether_its_connection_stays_open(
    start: Callable[..., Started], version: bytes, said: bytes, *, closes: bool
) -> None:
    _, subject = start()
    with socket.create_connection(("127.0.0.1", subject.port), timeout=60) as client:
        client.sendall(b"GET /version HTTP/%b\r\nConnection: %b\r\n\r\n" % (version, said))
        assert client.recv(65_536).startswith(b"HTTP/1.1 200 ")
        client.sendall(b"GET /version HTTP/1.1\r\nConnection: close\r\n\r\n")

        assert (end_of(client)[0] == b"") is closes


def test_no_name_leads_to_a_file(start: Callable[..., Started]) -> None:
    _, subject = start()
    for path in (
        "/proxies/..%2F..%2Fetc%2Fpasswd",
        "/proxies/%2Fetc%2Fpasswd",
        "/proxies/a%00b/toxics/%2Fetc",
    ):
        reply = subject.ask("GET", path)

        assert (reply.status, reply.json["error"]) == (404, "proxy not found")


def test_an_ipv6_host_is_printed_in_brackets_proxy_h() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "harness", "proxy", "--host", "::1", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.terminate()

    assert re.fullmatch(r"floodmark proxy: listening on \[::1\]:\d+, seed \d+\n", said)


def test_a_full_disk_under_the_log_stops_nothing_proxy_b(start: Callable[..., Started]) -> None:
    """`/dev/full` takes no byte, as a full disk."""
    process, subject = start("--log", "/dev/full")
    with upstream() as server:
        link = subject.link(server.address)
        for _ in range(3):
            with connected(link.address, server) as pair:
                link.poison("latency", {"latency": 1}, name="late")
                pair.server.sendall(b"passes")
                assert receive(pair.client, 6) == b"passes"
                assert link.cure("late").status == 204
                assert subject.ask("POST", f"{link.path}/cut", {"how": "rst"}).status == 200
        assert len(subject.ask("GET", f"{link.path}/deeds").json["deeds"]) >= 6

    process.terminate()
    assert process.wait(timeout=60) == 0
    assert process.stdout is not None
    assert "log entries are lost, for /dev/full cannot be written now: No space left" in process.stdout.read()


def test_out_of_descriptors_clients_wait_until_there_are_some(start: Callable[..., Started]) -> None:
    process, subject = start()
    used = {int(entry.name) for entry in Path(f"/proc/{process.pid}/fd").iterdir()}
    first_free = next(number for number in count() if number not in used)
    soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (first_free, hard))
    with socket.create_connection(("127.0.0.1", subject.port), timeout=60) as waiting:
        waiting.sendall(b"GET /version HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert not wait_until(lambda: bool(select.select([waiting], [], [], 0)[0]), deadline=Deadline(0.2))

        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (soft, hard))

        assert end_of(waiting)[0].startswith(b"HTTP/1.1 200 ")
    process.terminate()
    assert process.stdout is not None
    assert process.stdout.read() == ""
