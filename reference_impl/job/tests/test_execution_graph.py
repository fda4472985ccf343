"""Claims about the job as its coordinator sees it."""

from __future__ import annotations

import pytest

from reference_impl.job.execution_graph import ExecutionGraph, ExecutionState, JobVertex
from reference_impl.job.tests.coordination_rig import TWO_VERTICES


def test_what_an_earlier_attempt_still_reports_changes_nothing() -> None:
    graph = ExecutionGraph(TWO_VERTICES)
    old = next(iter(graph))
    graph.restart()

    assert not graph.update_state(old, ExecutionState.RUNNING)
    assert graph.state(old) is None
    assert {graph.state(attempt) for attempt in graph} == {ExecutionState.CREATED}


def test_no_two_attempts_are_ever_the_same_at_whatever_parallelism() -> None:
    graph = ExecutionGraph(TWO_VERTICES)
    seen = set(graph)
    for parallelism in (1, 3, 2):
        vertex = JobVertex(name="source", operator_ids=("source-op",), parallelism=parallelism)
        graph.restart([vertex])

        assert len(graph.attempts("source")) == parallelism
        assert seen.isdisjoint(graph)
        seen.update(graph)


def test_a_vertex_comes_after_what_it_reads() -> None:
    with pytest.raises(ValueError, match=r"'sink' reads \['source'\], not given before it"):
        ExecutionGraph(reversed(TWO_VERTICES))


def test_two_vertices_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two vertices are called 'source'"):
        ExecutionGraph([TWO_VERTICES[0], TWO_VERTICES[0]])


@pytest.mark.parametrize("parallelism", [0, 129])
def test_a_parallelism_out_of_bounds_is_refused_s8(parallelism: int) -> None:
    with pytest.raises(ValueError, match=f"vertex 'v' has parallelism {parallelism}.*maximum of 128"):
        JobVertex(name="v", operator_ids=("op",), parallelism=parallelism)
