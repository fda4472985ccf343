"""What each kind of toxic does to bytes, one file a kind, in Toxiproxy's words; `stage` is what they share."""

from __future__ import annotations

__all__: list[str] = []
