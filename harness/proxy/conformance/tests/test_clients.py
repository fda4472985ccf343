"""The three clients that people use steer either proxy unchanged, each as its own readme shows."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from harness.proxy.conformance.tests.peers import Server, connected, end_of, receive
from harness.proxy.conformance.tests.subject import Link, Subject

pytestmark = pytest.mark.real

LIMIT_S = 60

NODE = """
const { Toxiproxy, ToxiproxyError } = require("toxiproxy-node-client");
(async () => {
  const [host, upstream] = process.argv.slice(1);
  const toxiproxy = new Toxiproxy(host);
  const proxy = await toxiproxy.createProxy({ name: "db", listen: "localhost:0", upstream });
  const toxic = await proxy.addToxic({ type: "latency", name: "slow", attributes: { latency: 50, jitter: 0 } });
  const fetched = await proxy.getToxic("slow");
  await proxy.addToxic({ type: "bandwidth", stream: "upstream", toxicity: 0.5, attributes: { rate: 1000 } });
  const twin = await proxy.addToxic({ type: "latency", name: "slow", attributes: {} }).catch((error) => error);
  const missing = await toxiproxy.get("nobody").catch((error) => error);
  await toxic.remove();
  const updated = await proxy.update({ enabled: false, listen: proxy.listen, upstream });
  const all = await toxiproxy.getAll();
  const populated = await toxiproxy.populate([{ name: "two", listen: "localhost:0", upstream }]);
  await toxiproxy.reset();
  const after = await toxiproxy.get("db");
  const cured = await after.getToxic("bandwidth_upstream").catch((error) => error);
  const version = await toxiproxy.getVersion();
  await proxy.remove();
  console.log(JSON.stringify({
    fetched: fetched.attributes, twin: twin instanceof ToxiproxyError, missing: missing instanceof ToxiproxyError,
    disabled: updated.enabled, all: Object.keys(all), populated: Object.keys(populated),
    cured: cured instanceof ToxiproxyError, enabled: after.enabled, version,
    left: Object.keys(await toxiproxy.getAll()),
  }));
})().catch((error) => { console.error(error); process.exit(1); });
"""


def test_toxiproxy_python(lone_proxy: Subject, server: Server) -> None:
    client = pytest.importorskip("toxiproxy", reason="toxiproxy-python is not installed")
    errors = pytest.importorskip("toxiproxy.exceptions")
    steered: Any = client.Toxiproxy()
    steered.update_api_consumer("127.0.0.1", lone_proxy.port)
    assert steered.running()
    assert json.loads(steered.version())["version"].startswith("2.12.0")
    upstream = f"127.0.0.1:{server.address[1]}"
    proxy: Any = steered.create(upstream=upstream, name="db")
    with pytest.raises(errors.ProxyExists):
        steered.create(upstream=upstream, name="db")
    proxy.add_toxic(type="latency", attributes={"latency": 5, "jitter": 1})
    proxy.add_toxic(name="limit", type="limit_data", stream="upstream", toxicity=0.5, attributes={"bytes": 3})
    assert proxy.get_toxic("latency_downstream").attributes == {"latency": 5, "jitter": 1}
    assert list(proxy.toxics()) == ["limit", "latency_downstream"]
    with pytest.raises(errors.InvalidToxic):
        proxy.add_toxic(type="nonsense")
    with pytest.raises(errors.NotFound):
        proxy.destroy_toxic("none")
    with proxy.down():
        assert not steered.get_proxy("db").enabled
    assert proxy.destroy_toxic("limit")

    with connected(Link(subject=lone_proxy, name="db").address, server) as pair:
        pair.server.sendall(b"x")
        assert receive(pair.client, 1) == b"x"

    assert steered.reset()
    assert proxy.toxics() == {}
    listen = steered.get_proxy("db").listen
    kept = steered.populate(
        [
            {"name": "db", "upstream": upstream, "listen": listen},
            {"name": "two", "upstream": upstream, "listen": "127.0.0.1:0"},
        ]
    )
    assert [made.name for made in kept] == ["two"]
    steered.destroy_all()
    assert steered.proxies() == {}


def test_toxiproxy_cli(lone_proxy: Subject, server: Server) -> None:
    program = shutil.which("toxiproxy-cli")
    if program is None:
        pytest.skip(
            "there is no toxiproxy-cli on the PATH (go install github.com/Shopify/toxiproxy/v2/cmd/cli)"
        )

    def cli(*words: str) -> str:
        command = [program, "--host", f"http://127.0.0.1:{lone_proxy.port}", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    upstream = f"127.0.0.1:{server.address[1]}"
    assert "Created new proxy db" in cli("create", "--listen", "localhost:0", "--upstream", upstream, "db")
    cli("toxic", "add", "-t", "latency", "-n", "slow", "-a", "latency=30", "-a", "jitter=2", "db")
    cli(
        "toxic",
        "add",
        "-t",
        "limit_data",
        "-n",
        "cap",
        "--upstream",
        "--toxicity",
        "0.5",
        "-a",
        "bytes=3",
        "db",
    )
    cli("toxic", "update", "-n", "slow", "-a", "latency=40", "db")
    link = Link(subject=lone_proxy, name="db")
    shown = {
        toxic["name"]: (toxic["stream"], toxic["toxicity"], toxic["attributes"])
        for toxic in link.shown["toxics"]
    }
    assert shown == {
        "cap": ("upstream", 0.5, {"bytes": 3}),
        "slow": ("downstream", 1, {"latency": 40, "jitter": 2}),
    }
    assert "slow" in cli("inspect", "db")
    assert "db" in cli("list")
    cli("toggle", "db")
    assert link.shown["enabled"] is False
    cli("toggle", "db")
    cli("toxic", "delete", "-n", "cap", "db")
    assert [toxic["name"] for toxic in link.shown["toxics"]] == ["slow"]
    with connected(link.address, server) as pair:
        cli("delete", "db")
        assert end_of(pair.client)[1] is not None
    assert lone_proxy.ask("GET", "/proxies").json == {}


def test_toxiproxy_node_client(lone_proxy: Subject, server: Server) -> None:
    program = shutil.which("node")
    if program is None:
        pytest.skip("there is no node on the PATH")
    found = subprocess.run(
        [program, "-e", 'require.resolve("toxiproxy-node-client")'],
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    if found.returncode:
        pytest.skip("node finds no toxiproxy-node-client (npm install it, and name its folder in NODE_PATH)")
    words = [f"http://127.0.0.1:{lone_proxy.port}", f"127.0.0.1:{server.address[1]}"]

    done = subprocess.run(
        [program, "-e", NODE, *words], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.pop("version").find("2.12.0") >= 0
    assert told == {
        "fetched": {"latency": 50, "jitter": 0},
        "twin": True,
        "missing": True,
        "disabled": False,
        "all": ["db"],
        "populated": ["two"],
        "cured": True,
        "enabled": True,
        "left": ["two"],
    }
