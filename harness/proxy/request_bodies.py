"""Reads the JSON bodies of the control interface: links, toxics and changes of them, validated.

Invariant: what this module returns is complete and typed; a toxic has exactly the attributes that its kind
declares.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from harness.proxy.json_body import boolean, integer, number, read_fields, read_json, string
from harness.proxy.link import Cutting
from harness.proxy.refusal import Refusal, bad_body, missing_field
from harness.proxy.toxic_kinds import TOXIC_KINDS
from harness.proxy.toxics.kind import ToxicKind
from harness.proxy.toxics.stage import Attributes, Stream, Toxic


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkAsked:
    """A link to make, or a change of one; None means that the body did not set the field."""

    name: str = ""
    listen: str | None = None
    upstream: str | None = None
    enabled: bool | None = None
    mysql: bool | None = None
    """Our own extension: follow MySQL's packets from each connection's first byte on, even without a packet
    toxic.
    """
    keep: bool | None = None
    """Our own extension, of a change: another upstream is for new connections only, and live ones stay."""


def read_link(body: bytes) -> LinkAsked:
    """A link to make; its name and upstream are required."""
    asked = _link(read_json(body))
    _complete(asked)
    return asked


def read_link_change(body: bytes) -> LinkAsked:
    """A change of a link; a name in the body is ignored."""
    asked = _link(read_json(body))
    if asked.upstream == "":
        raise missing_field("upstream")
    return asked


def read_links(body: bytes) -> list[LinkAsked]:
    """A list of links to make; every entry is validated before any link is made."""
    value = read_json(body)
    if value is None:
        return []
    if not isinstance(value, list):
        raise bad_body("it is not a JSON list")
    links = [_link(item) for item in value]
    for place, asked in enumerate(links, start=1):
        _complete(asked, suffix=f" at proxy {place}")
    return links


def _link(value: object) -> LinkAsked:
    texts = dict.fromkeys(("name", "listen", "upstream"), string)
    return LinkAsked(**read_fields(value, {**texts, **dict.fromkeys(("enabled", "mysql", "keep"), boolean)}))


def _complete(asked: LinkAsked, *, suffix: str = "") -> None:
    if not asked.name:
        raise missing_field(f"name{suffix}")
    if not asked.upstream:
        raise missing_field(f"upstream{suffix}")
    if asked.name in {".", ".."}:
        raise _unreachable_name("proxy", asked.name)


def _unreachable_name(thing: str, name: str) -> Refusal:
    """HTTP clients resolve `.` and `..` in a path, so no request could show or delete it."""
    words = f"a {thing} cannot be called {name}: HTTP clients drop that part of a path"
    return Refusal(words, HTTPStatus.BAD_REQUEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToxicAsked:
    """A toxic to add."""

    toxic: Toxic
    kind: ToxicKind
    attributes: Any
    """Raw; `attributes_asked` validates them. Toxiproxy too checks for a toxic of the same name first."""


def read_toxic(body: bytes) -> ToxicAsked:
    """A toxic to add."""
    value = read_json(body)
    asked = read_fields(value, {**dict.fromkeys(("name", "type", "stream"), string), "toxicity": number})
    stream = asked.get("stream", Stream.DOWNSTREAM.value)
    try:
        direction = Stream(stream.lower())
    except ValueError:
        words = "stream was invalid, can be either upstream or downstream"
        raise Refusal(words, HTTPStatus.BAD_REQUEST) from None
    type_ = asked.get("type", "")
    if type_ not in TOXIC_KINDS:
        raise Refusal("invalid toxic type", HTTPStatus.BAD_REQUEST)
    toxic = Toxic(
        name=asked.get("name") or f"{type_}_{stream}",
        type=type_,
        stream=stream,
        direction=direction,
        toxicity=asked.get("toxicity", 1.0),
        attributes={},
    )
    if toxic.name in {".", ".."}:
        raise _unreachable_name("toxic", toxic.name)
    return ToxicAsked(toxic=toxic, kind=TOXIC_KINDS[type_], attributes=value.get("attributes"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToxicChange:
    """A change of a toxic."""

    toxicity: float | None
    attributes: Any
    """Raw; `attributes_asked` validates them."""


def read_toxic_change(body: bytes) -> ToxicChange:
    """The new toxicity and attributes; name, type and stream cannot change and are ignored."""
    value = read_json(body)
    asked = read_fields(value, {"toxicity": number})
    return ToxicChange(toxicity=asked.get("toxicity"), attributes=(value or {}).get("attributes"))


def attributes_asked(given: object, kind: ToxicKind, *, before: Attributes) -> Attributes:
    """All attributes of the kind: from the body, else from `before`, else the default.

    Raises a `Refusal` for a bad value.
    """
    fields = {name: string if isinstance(at, str) else integer for name, at in kind.attributes.items()}
    found = {**kind.attributes, **before, **read_fields(given, fields)}
    if why := kind.refuse(found):
        raise Refusal(f"invalid attributes: {why}", HTTPStatus.BAD_REQUEST)
    return found


def read_cut(body: bytes) -> tuple[Cutting, int]:
    """How to end a link's live connections, `rst` or `fin`, and the number of the only one to end (0: all)."""
    asked = read_fields(read_json(body), {"how": string, "connection": integer})
    how = asked.get("how", "")
    try:
        return Cutting(how), int(asked.get("connection", 0))
    except ValueError:
        words = f"how was invalid, can be either {' or '.join(Cutting)}"
        raise Refusal(words, HTTPStatus.BAD_REQUEST) from None


def read_connection(body: bytes) -> int:
    """The number of the connection whose held bytes are to be sent; 0: all."""
    return int(read_fields(read_json(body), {"connection": integer}).get("connection", 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsAsked:
    """What a `PUT /floodmark` changes; None: not this."""

    seed: int | None = None
    identify: bool | None = None
    """Whether to find out which process opens each connection to come."""


def read_settings(body: bytes) -> SettingsAsked:
    """A `PUT /floodmark`; it has to change something."""
    asked = SettingsAsked(**read_fields(read_json(body), {"seed": integer, "identify": boolean}))
    if asked == SettingsAsked():
        raise Refusal("`seed` or `identify` must be set", HTTPStatus.BAD_REQUEST)
    if asked.seed is not None and asked.seed < 0:
        raise Refusal("`seed` must be a whole number, 0 or more", HTTPStatus.BAD_REQUEST)
    return asked
