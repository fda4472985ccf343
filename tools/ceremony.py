"""Counts what code is spent on being code: `python -m tools.ceremony`.

Of `harness`, `reference_impl` and `reports` without tests. A private function counts as named once if no expression of
the three but its one use has its name; a parameter as handed on if its function does nothing with it but pass it to
a call. The names of all classes are one namespace here, so that both counts are lower bounds.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

import click

from tools.house import ROOT

_PACKAGES = ("harness", "reference_impl", "reports")
_CHILD = re.compile(r"Popen|create_subprocess_\w+|os\.fork|multiprocessing|ProcessPoolExecutor")
_SYSTEM = ROOT / "harness" / "system"
_NOTE = re.compile(r'(?<!tag=)"(~\w[\w-]*)"')

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceremony:
    """The counts."""

    functions: int
    once: int
    """Private functions and methods that are named once."""
    parameters: int
    handed_on: int
    body_median: float
    body_p90: float
    """Lines of a function's body without its docstring."""
    any_signatures: int
    """Signatures with an `Any`."""
    notes: int
    """Kinds of notes, such as `~due`, that are named by more than the tag of their struct: those of dicts."""


def measure(texts: Sequence[str]) -> Ceremony:
    """The counts of these modules."""
    trees = [ast.parse(text) for text in texts]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    named = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    named.update(node.attr for node in nodes if isinstance(node, ast.Attribute))
    functions = [node for node in nodes if isinstance(node, _Function)]
    arguments = [(one.arg, function) for function in functions for one in _arguments(function)]
    parameters = [(name, function) for name, function in arguments if name not in {"self", "cls"}]
    bodies = [lines for function in functions if (lines := _body_lines(function))]
    *_, p90 = quantiles(bodies, n=10)
    return Ceremony(
        functions=len(functions),
        once=sum(re.match(r"_(?!_)", one.name) is not None and named[one.name] == 1 for one in functions),
        parameters=len(parameters),
        handed_on=sum(_is_handed_on(name, function) for name, function in parameters),
        body_median=median(bodies),
        body_p90=p90,
        any_signatures=sum(map(_says_any, functions)),
        notes=len({kind for text in texts for kind in _NOTE.findall(text)}),
    )


def _arguments(function: _Function) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _says_any(function: _Function) -> bool:
    annotations = [*(one.annotation for one in _arguments(function)), function.returns]
    nodes = (node for one in annotations if one is not None for node in ast.walk(one))
    return any(isinstance(node, ast.Name) and node.id == "Any" for node in nodes)


def starts_children(text: str) -> bool:
    """Whether the code of this module names what starts a process, by which it is one more way to do so."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                names += [alias.name for alias in aliases]
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
                names = [attribute, f"{owner}.{attribute}"]
            case _:
                continue
        if any(_CHILD.fullmatch(name) for name in names):
            return True
    return False


def _body_lines(function: _Function) -> int:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def _is_handed_on(name: str, function: _Function) -> bool:
    nodes = list(ast.walk(function))
    uses = sum(isinstance(node, ast.Name) and node.id == name for node in nodes)
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    given = [one for call in calls for one in (*call.args, *(word.value for word in call.keywords))]
    return 0 < uses == sum(isinstance(one, ast.Name) and one.id == name for one in given)


@click.command()
def main() -> None:
    """Print the counts of this checkout."""
    files = [file for package in _PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    texts = {file: file.read_text() for file in files if "tests" not in file.relative_to(ROOT).parts}
    counted = measure(list(texts.values()))
    others = [file for file, text in texts.items() if _SYSTEM not in file.parents and starts_children(text)]
    once, handed_on = counted.once / counted.functions, counted.handed_on / counted.parameters
    click.echo(f"private functions named once: {counted.once} of {counted.functions} ({once:.1%})")
    click.echo(f"parameters only handed on: {counted.handed_on} of {counted.parameters} ({handed_on:.1%})")
    click.echo(f"lines of a body: median {counted.body_median:g}, p90 {counted.body_p90:g}")
    click.echo(f"signatures with Any: {counted.any_signatures}")
    click.echo(f"kinds of notes that are dicts: {counted.notes}")
    click.echo(f"modules outside harness/system that start a child: {len(others)}")


if __name__ == "__main__":
    main()
