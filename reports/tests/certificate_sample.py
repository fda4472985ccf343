"""Certificates for the tests of their page: a green one, and one of a hostile subject that is not."""

from __future__ import annotations

from typing import Final

from harness.scenario.certificate import (
    Certificate,
    CertifiedRun,
    CheckRow,
    SealedFile,
    SecondWord,
    SubjectOfCertificate,
    sealed,
)

HOSTILE: Final = "<script>alert(1)</script>|`\x1b[31m\u202e"
_FAMILIES: Final = ("no fault", "network", "database", "process", "records and answers")
_VERDICTS: Final = {
    "V1": "Ordered mode: results leave in the order of their records, and watermarks keep their place.",
    "V8": "Every record's results are visible in the end, each once, with the right value and time.",
    "V20": "A record that failed for good fails its task or goes to the dead letters; it is never swallowed.",
}


def _file(name: str) -> SealedFile:
    return SealedFile(file=name, sha256="5f0c" * 16, bytes=1234)


def certificate(*, bad: bool = False, text: str = "shop:lookup") -> Certificate:
    """A certificate of 40 runs; `bad`: of which one fails, `text` being told wherever a subject could tell it."""
    runs = [
        CertifiedRun(
            name=f"latency-spike-unordered {text}" if bad and not number else "latency-spike-unordered",
            seed=number,
            families=["network"],
            verdict="fail" if bad and not number else "pass",
            holds=not bad or bool(number),
            sentence=f"Record 285 was accepted, answered and lost: {text}." if bad else "All hold.",
            checks={"V8": "fail" if bad and not number else "pass"},
            second="agrees",
            scenario=_file(f"scenarios/{number}.yaml"),
            history=_file(f"history/{number}.jsonl.gz"),
            judgement=_file(f"verdicts/{number}.json"),
            again="floodmark run latency-spike-unordered --level sim --seed 1 --sut shop:lookup",
            paste=text if bad else "",
        )
        for number in range(40)
    ]
    second = SecondWord(judge="harness/judge/second_judge.py", sha256="ab" * 32, judged=40, agreed=40)
    return sealed(
        Certificate(
            schema_version=1,
            tone="bad" if bad else "good",
            word="not conformant" if bad else "conformant",
            sentence="40 of 40 runs made: 39 hold, 1 do not." if bad else "40 of 40 runs made: 40 hold.",
            cause=f"Record 285 was accepted, answered and lost: {text}." if bad else "",
            subject=SubjectOfCertificate(
                kind="lookup",
                name=text,
                about="a user's lookup in the reference operator",
                files=[_file("a/rather/long/path/to/the/module/of/the/lookup/enrichment.py")],
                facts={"reference operator": "package reference_impl, 86 files, sha256 " + "00ad" * 16},
                expected_from=["The calm twin: the function itself, alone and without faults."],
            ),
            profile="lookup",
            profile_about="calm, slow, cut and silent connections",
            level="sim",
            world=["simulated"],
            versions={"python": "3.11.7", "floodmark": "0.1.0"},
            made_at="2026-11-26T15:51:05+00:00",
            took_s=61.0,
            asked=40,
            rows=_rows(bad=bad),
            runs=runs,
            not_shown=["V20 is not shown at all: no run tried it."],
            second=second,
            digest="cd" * 32,
            again="floodmark certify --sut shop:lookup --profile lookup --level sim",
        )
    )


def _rows(*, bad: bool) -> list[CheckRow]:
    return [
        CheckRow(
            check=check,
            about=about,
            family=family,
            runs=40,
            passed=0 if check == "V20" else 39,
            violations=int(bad and check == "V8"),
            vacuous=40 if check == "V20" else 0,
        )
        for check, about in _VERDICTS.items()
        for family in _FAMILIES
    ]
