"""PyFlink's asynchronous operator as a peer; run by a Python with apache-flink, not by ours.

Answers to PyFlink's `AsyncDataStream.ordered_wait`. It prints its version first. For each line "records capacity
latency_ms" on standard input it runs one job and prints "ok SECONDS" (from the first call of the function to the end
of the last) or "error WHY". Invariant: it imports nothing of Floodmark, and prints "ok" only if every record came out
once and in order.
"""

from __future__ import annotations

import asyncio
import platform
import sys
from importlib.metadata import version
from typing import Any

_TIMEOUT_S = 60


def main() -> None:
    """Print the version; then run one job for each line, until the input ends."""
    _say(f"PyFlink {version('apache-flink')}, Python {platform.python_version()}")
    for order in sys.stdin:
        records, capacity, latency_ms = map(int, order.split())
        try:
            answer = f"ok {_run(records, capacity, latency_ms)}"
        except Exception as failure:  # noqa: BLE001 - whatever it is, whoever asked must hear of it
            answer = f"error {type(failure).__name__}: {' '.join(str(failure).split())[:500]}"
        _say(answer)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _run(records: int, capacity: int, latency_ms: int) -> float:
    from pyflink.common import Time, Types, WatermarkStrategy  # type: ignore[import-not-found]  # noqa: PLC0415
    from pyflink.datastream import (  # type: ignore[import-not-found]  # noqa: PLC0415
        AsyncDataStream,
        StreamExecutionEnvironment,
    )
    from pyflink.datastream.connectors.number_seq import (  # type: ignore[import-not-found]  # noqa: PLC0415
        NumberSequenceSource,
    )

    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(1)
    environment.set_python_executable(sys.executable)
    numbers = environment.from_source(
        NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    answers = AsyncDataStream.ordered_wait(
        numbers,
        _echo(latency_ms / 1000),
        Time.seconds(_TIMEOUT_S),
        capacity,
        Types.TUPLE([Types.LONG(), Types.DOUBLE(), Types.DOUBLE()]),
    )
    with answers.execute_and_collect() as results:
        came_out = list(results)
    if [value for value, _, _ in came_out] != list(range(records)):
        raise ValueError(f"{len(came_out)} results for {records} records, or not in order")
    began, ended = min(began for _, began, _ in came_out), max(ended for _, _, ended in came_out)
    return float(ended - began)


def _echo(latency_s: float) -> Any:
    """A function that answers with its value after the latency, and with the loop's time before and after."""
    from pyflink.datastream import AsyncFunction  # noqa: PLC0415

    class Echo(AsyncFunction):  # type: ignore[misc]  # untyped where it is there, absent where it is not
        async def async_invoke(self, value: int) -> list[tuple[int, float, float]]:
            clock = asyncio.get_running_loop()
            began = clock.time()
            if latency_s:
                await asyncio.sleep(latency_s)
            return [(value, began, clock.time())]

    return Echo()


if __name__ == "__main__":
    main()
