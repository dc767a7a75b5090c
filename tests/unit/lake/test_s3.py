import botocore.exceptions as aws
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import LakeError, NotFound
from penstock.lake.model import Lake
from penstock.lake.s3 import translate

ENDPOINT = "http://store:9000"
LAKE = Lake("sales", (ENDPOINT,), "data", "environment")


def refused(code: str, status: int) -> aws.ClientError:
    return aws.ClientError(
        {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}}, "GetObject"
    )


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        ("InvalidAccessKeyId", 403, "credentials"),
        ("SignatureDoesNotMatch", 403, "credentials"),
        ("AccessDenied", 403, "do not allow"),
        ("403", 403, "do not allow"),
        ("RequestTimeTooSkewed", 403, "clock"),
        ("NoSuchBucket", 404, "bucket"),
        ("SlowDown", 503, "overloaded"),
        ("503", 503, "overloaded"),
        ("PermanentRedirect", 301, "elsewhere"),
        ("307", 307, "elsewhere"),
        ("QuotaExceeded", 403, "full"),
        ("507", 507, "full"),
        ("InternalError", 500, "refused"),
    ],
)
def test_a_refusal_is_named_in_the_users_words(code: str, status: int, words: str) -> None:
    error = translate(refused(code, status), LAKE, ENDPOINT, key="k")
    assert isinstance(error, LakeError)
    assert words in error.problem
    assert code in error.why
    assert error.fix


def test_a_missing_object_is_not_found_and_a_missing_bucket_is_the_lakes_fault() -> None:
    assert isinstance(translate(refused("404", 404), LAKE, ENDPOINT, key="k"), NotFound)
    assert isinstance(translate(refused("NoSuchKey", 404), LAKE, ENDPOINT, key="k"), NotFound)
    assert "bucket" in translate(refused("404", 404), LAKE, ENDPOINT).problem
    assert "bucket" in translate(refused("NoSuchBucket", 404), LAKE, ENDPOINT, key="k").problem


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (aws.EndpointConnectionError(endpoint_url=ENDPOINT), "reached"),
        (aws.ConnectionClosedError(endpoint_url=ENDPOINT), "reached"),
        (aws.ConnectTimeoutError(endpoint_url=ENDPOINT), "slow"),
        (aws.ReadTimeoutError(endpoint_url=ENDPOINT), "slow"),
        (aws.SSLError(endpoint_url=ENDPOINT, error="self-signed"), "certificate"),
        (aws.NoCredentialsError(), "failed"),
    ],
)
def test_a_store_that_does_not_answer_is_named_in_the_users_words(error: Exception, words: str) -> None:
    seen = translate(error, LAKE, ENDPOINT)
    assert isinstance(seen, LakeError)
    assert words in seen.problem
    assert "sales" in str(seen)
    assert seen.fix


@given(st.text(max_size=20), st.integers(min_value=300, max_value=599), st.none() | st.text(min_size=1, max_size=5))
def test_every_error_of_a_store_has_a_problem_a_cause_and_a_fix(code: str, status: int, key: str | None) -> None:
    error = translate(refused(code, status), LAKE, ENDPOINT, key=key)
    assert error.problem
    assert error.why
    assert error.fix
    assert "{" not in error.problem + error.fix or "{" in (key or "")
