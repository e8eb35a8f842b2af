"""What is printed about a case: one line per step, then what differed at the end; or one JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orders.scenarios.runner import CaseReport, StepReport


def lines(report: CaseReport) -> Iterator[str]:
    """The case for people, line by line."""
    yield f"{report.file}: {report.name}"
    for step in report.steps:
        yield _line(step)
        for problem in step.problems:
            yield f"        {report.file}:{step.line}: {problem}"
    for problem in report.problems:
        yield f"        {report.file}:{report.end_line}: at the end: {problem}"
    if report.broken:
        yield f"  invariants broken: {', '.join(report.broken)}"
    yield f"  {'holds' if report.passed else 'DIFFERS'}"


def _line(step: StepReport) -> str:
    where = f"{step.state} v{step.version}" if step.version is not None else ""
    verdict = f"{len(step.problems)} differ" if step.problems else "ok"
    note = f"  ({step.note})" if step.note else ""
    return f"  {step.number:>3}  {step.words:<44} {step.result or '-':<15} {where:<26} {verdict}{note}"


def as_object(report: CaseReport) -> dict[str, Any]:
    """The case for programs."""
    return {
        "file": report.file,
        "name": report.name,
        "passed": report.passed,
        "steps": [
            {
                "step": step.number,
                "line": step.line,
                "what": step.words,
                "result": step.result or None,
                "state": step.state or None,
                "version": step.version,
                "note": step.note,
                "differs": step.problems,
            }
            for step in report.steps
        ],
        "differs": report.problems,
        "broken_invariants": report.broken,
    }
