"""The counters of a proxy in Prometheus' text form, named and labelled like Toxiproxy's.

Toxiproxy counts a connection when it ends; these count bytes as they pass. Invariant: a counter never falls.
"""

from __future__ import annotations

from collections.abc import Iterable

from harness.proxy.link import Link
from harness.proxy.stage import Stream

__all__ = ["metrics_text"]

_COUNTERS = ("toxiproxy_proxy_received_bytes_total", "toxiproxy_proxy_sent_bytes_total")


def metrics_text(links: Iterable[Link]) -> str:
    """Both counters of every link and direction."""
    traffic = [(link, stream, link.traffic()[stream]) for link in links for stream in Stream]
    lines = []
    for number, counter in enumerate(_COUNTERS):
        lines.append(f"# TYPE {counter} counter")
        lines += [
            f"{counter}{{{_labels(link, stream)}}} {counted[number]}" for link, stream, counted in traffic
        ]
    return "\n".join(lines) + "\n"


def _labels(link: Link, stream: Stream) -> str:
    labels = {
        "direction": stream.value,
        "listener": link.listen,
        "proxy": link.name,
        "upstream": link.upstream,
    }
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
