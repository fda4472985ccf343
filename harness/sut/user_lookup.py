"""A user's own lookup behind `--sut MODULE:FUNCTION`, and the rules that its calls are held to.

Invariant: a call returns or raises an `Exception`; only a cancellation from outside of the call passes unchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

__all__ = ["UserCodeStopped", "UserLookup"]


class UserCodeStopped(Exception):
    """The function raised what would end the process or the task around it (`SystemExit` and the like)."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__(f"the lookup raised {raised!r}; raise a subclass of Exception instead")


class UserLookup:
    """Calls the user's function with `(record, pool)`."""

    def __init__(self, function: Callable[[Any, Any], Awaitable[Any]], *, code: Any) -> None:
        """`code`: the code object of what the user wrote, by which the loop watch knows it on a stack."""
        self._function = function
        self.__code__ = code

    async def __call__(self, record: Any, pool: Any) -> Any:
        """The function's result. Raises its `Exception`, or UserCodeStopped."""
        try:
            return await self._function(record, pool)
        except (SystemExit, KeyboardInterrupt) as raised:
            # A signal cannot be the cause: a campaign handles SIGINT, and a worker has a session of its own.
            raise UserCodeStopped(raised) from raised
        except asyncio.CancelledError as raised:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # by the record's timeout, or as the attempt ends
                raise
            raise UserCodeStopped(raised) from raised
