"""Which world a run gets: choosing and opening one, and installing what it needs (`floodmark setup`).

Both the local and the containers world are known here; a run is handed a `harness.world.world.World` of either.
"""

from __future__ import annotations

__all__: list[str] = []
