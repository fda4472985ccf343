"""User code in the harness's process neither ends it nor writes to its standard output."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

import pytest

from harness.sut.user_code import ProcessEnded, is_raised_by_code, set_aside


def test_what_user_code_writes_to_the_descriptor_goes_to_standard_error_u3(
    capfd: pytest.CaptureFixture[str],
) -> None:
    print("ours")  # noqa: T201 - as the harness prints results
    with set_aside():
        os.write(1, b"raw\n")
        print("printed")  # noqa: T201
        ctypes.CDLL(None).puts(b"from C")
    print("ours again")  # noqa: T201
    sys.stdout.flush()

    said = capfd.readouterr()
    assert said.out == "ours\nours again\n"
    assert {"raw", "printed", "from C"} <= set(said.err.splitlines())


def test_it_is_set_aside_until_the_outermost_block_ends_u3(capfd: pytest.CaptureFixture[str]) -> None:
    with set_aside():
        with set_aside():
            os.write(1, b"inner\n")
        os.write(1, b"outer\n")
    os.write(1, b"ours\n")

    assert capfd.readouterr().out == "ours\n"


def test_the_end_of_the_process_is_an_exception_while_it_lasts_u3() -> None:
    ends = os._exit

    with pytest.raises(ProcessEnded) as raised, set_aside():
        os._exit(7)

    assert repr(raised.value) == "os._exit(7)"
    assert os._exit is ends


def test_an_interrupt_by_a_raise_is_told_from_a_signal_u3() -> None:
    with pytest.raises(KeyboardInterrupt) as raised:
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt) as signalled:
        signal.default_int_handler(signal.SIGINT, None)

    assert is_raised_by_code(raised.value)
    assert not is_raised_by_code(signalled.value)
