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


OWN = [("127.0.0.1", 9000), ("s3.example.com", 443), ("db.example.com", 5432)]
SHUFFLE = (
    "SparkException: Aborted\nCaused by: java.io.IOException: Failed to connect to /10.1.2.3:4040\n"
    "\tat org.apache.spark.network.client.TransportClientFactory.createClient(TransportClientFactory.java:294)\n"
    "Caused by: io.netty.channel.AbstractChannel$AnnotatedConnectException: Connection refused: /10.1.2.3:4040\n"
)


@pytest.mark.parametrize(
    "errors",
    [
        "SdkClientException: Connect to 127.0.0.1:9000 [/127.0.0.1] failed: Connection refused",
        "Call From driver/127.0.0.2 to localhost:9000 failed on connection exception: java.net.ConnectException",
        "java.net.UnknownHostException: lake.s3.example.com",
        'Could not connect to the endpoint URL: "https://s3.example.com/lake"',
        "ConnectTimeoutException: Connect to s3.example.com:443 [s3.example.com/192.0.2.1] failed: connect timed out",
        "org.postgresql.util.PSQLException: Connection to db.example.com:5432 refused. Check that the hostname",
        'connection to server at "db.example.com" (192.0.2.1), port 5432 failed: Connection refused',
        SHUFFLE,
    ],
)
def test_a_silent_lake_catalog_or_executor_is_a_failure_of_the_infrastructure(errors: str) -> None:
    assert failure_reason(1, errors, OWN).code == "unreachable"


@pytest.mark.parametrize(
    "errors",
    [
        "ConnectionRefusedError: [Errno 111] Connection refused",
        "java.net.ConnectException: Connection refused",
        "requests.ConnectionError: HTTPConnectionPool(host='127.0.0.1', port=90001): Connection refused",
        "Connect to 127.0.0.1:8080 [/127.0.0.1] failed: Connection refused",
        "java.net.UnknownHostException: s3.example.com.attacker.org",
        "java.net.UnknownHostException: api.example.com",
        "org.postgresql.util.PSQLException: Connection to db.example.com:5433 refused.",
        "the table on 127.0.0.1:9000 has no column a",
        "java.io.IOException: Failed to connect to /10.1.2.3:4040\n\tat com.example.Main.main(Main.java:1)",
    ],
)
def test_a_silent_service_of_the_applications_own_is_its_own_failure(errors: str) -> None:
    assert failure_reason(1, errors, OWN).code == "driver_failed"
