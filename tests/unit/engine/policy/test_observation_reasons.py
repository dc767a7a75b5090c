"""The reason for a driver's failure, derived from its output."""

from __future__ import annotations

import pytest

from penstock.engine.policy.observation import failure_reason


@pytest.mark.parametrize(
    ("errors", "code", "word"),
    [
        (
            "Traceback (most recent call last):\nModuleNotFoundError: No module named 'pandas'",
            "module_missing",
            "pandas",
        ),
        ("Error: Failed to load class com.example.Main.", "class_missing", "com.example.Main"),
        ("java.lang.ClassNotFoundException: org.x.Y\n\tat z", "class_missing", "org.x.Y"),
        ("Caused by: java.io.IOException: No space left on device", "disk_full", "disk"),
        ("java.lang.OutOfMemoryError: Java heap space", "out_of_memory", "Java heap space"),
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table or view `sales`.`orders` cannot be found. SQLSTATE: 42P01",
            "table_missing",
            "no table or view sales.orders",
        ),
        ("Status Code: 403, Request ID: 1", "lake_refused", "refused"),
        ("com.x.NoSuchBucket: gone", "bucket_missing", "bucket"),
    ],
)
def test_a_known_cause_is_named_with_what_to_do(errors: str, code: str, word: str) -> None:
    reason = failure_reason(1, errors)
    assert reason.code == code
    assert word in reason.message
    assert reason.fix


def test_an_unknown_cause_repeats_the_last_words_without_the_trace() -> None:
    errors = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\nValueError: no such colour\n'
    assert failure_reason(1, errors).message == "the driver ended with exit code 1: ValueError: no such colour"


@pytest.mark.parametrize(
    ("errors", "problem"),
    [
        ("a.b cannot be read by DuckDB\nWhy: it is a view\nFix: use --engine spark\n", "a.b cannot be read by DuckDB"),
        (
            'Parser Error: syntax error at or near "x"\n\nLINE 1: SELEKT x\n               ^\n',
            'Parser Error: syntax error at or near "x"',
        ),
    ],
)
def test_a_failed_statement_in_duckdb_is_named_by_its_problem(errors: str, problem: str) -> None:
    assert failure_reason(1, errors).message == f"the driver ended with exit code 1: {problem}"


def test_a_driver_killed_without_a_word_points_at_memory() -> None:
    assert failure_reason(137, "").code == "killed"
