"""Both subjects of the suite: our proxy always, Toxiproxy where it is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from harness.proxy.conformance.tests.peers import Pair, Server, connected, upstream
from harness.proxy.conformance.tests.subject import Link, Subject, own_proxy, toxiproxy
from harness.system.errors import WorldError
from harness.world.proxy_program import find_proxy_program
from harness.world.settings import WorldSettings

SUBJECTS: list[Any] = ["own", pytest.param("toxiproxy", marks=pytest.mark.real)]


@pytest.fixture
def start() -> Callable[..., AbstractContextManager[Subject]]:
    """Starts a subject by name, with options."""
    return started


@contextmanager
def started(name: str, *options: str) -> Iterator[Subject]:
    """One of the two while the block lasts; a skip where Toxiproxy is not found."""
    if name == "own":
        with own_proxy(*options) as subject:
            yield subject
        return
    try:
        program = find_proxy_program(WorldSettings.from_environment())
    except WorldError as lacking:
        pytest.skip(lacking.what)
    with toxiproxy(program, *options) as subject:
        yield subject


@pytest.fixture(scope="module", params=SUBJECTS)
def proxy(request: pytest.FixtureRequest) -> Iterator[Subject]:
    """A subject that a module's tests share."""
    with started(request.param) as subject:
        yield subject


@pytest.fixture(params=SUBJECTS)
def lone_proxy(request: pytest.FixtureRequest) -> Iterator[Subject]:
    """A subject for one test alone, which may not survive it."""
    with started(request.param) as subject:
        yield subject


@pytest.fixture
def server() -> Iterator[Server]:
    """The upstream of a test."""
    with upstream() as made:
        yield made


@pytest.fixture
def link(proxy: Subject, server: Server) -> Link:
    """A link of a test."""
    return proxy.link(server.address)


@pytest.fixture
def pair(link: Link, server: Server) -> Iterator[Pair]:
    """A live connection through it."""
    with connected(link.address, server) as made:
        yield made
