"""The driver of a Python file that asks Sail in Spark's place: where it asks for a session, it gets one of Sail.

All that the file asks for passes by Spark Connect. What may write is refused before it reaches Sail, whose writes no
commit makes whole. A plan sees each table as the catalog has it when the plan names it first.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
from pyspark.errors import PySparkException
from pyspark.sql.connect.proto import Plan, Relation

from penstock.engine.engines.access import LakeAccess
from penstock.engine.engines.iceberg.catalog import Tables, read_only
from penstock.engine.engines.sail.driver import SAIL, require_reading, session_over
from penstock.engine.engines.sail.statements import in_sails_words
from penstock.engine.engines.statement_driver import log_below, opened, summarize
from penstock.errors import InvalidInput, PenstockError

_READING = frozenset(
    {
        "sql_command",
        "create_dataframe_view",
        "register_function",
        "register_table_function",
        "remove_cached_remote_relation_command",
    }
)
"""Spark Connect's commands that write nothing."""
_FIX = "run the file with --engine spark"


class Refusals(grpc.UnaryStreamClientInterceptor):  # type: ignore[misc]  # it has no types
    """Refuses plans that may write, and begins another statement of the tables with each that it lets pass."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def intercept_unary_stream(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        if isinstance(getattr(request, "plan", None), Plan):
            require_reading_plan(request.plan)
            self._tables.begin()
        return continuation(details, request)


def require_reading_plan(plan: Plan) -> None:
    """Raise `InvalidInput` where the plan may write; otherwise put its statements into Sail's words."""
    if not plan.HasField("command"):
        return
    command = plan.command.WhichOneof("command_type")
    if command not in _READING:
        raise InvalidInput(read_only(SAIL), why=f"“{command}” may write", fix=_FIX)
    if command == "sql_command":
        for statement in _statements(plan.command.sql_command.input):
            require_reading(statement.query, fix=_FIX)
            statement.query = in_sails_words(statement.query)


def _statements(relation: Relation) -> Iterator[Any]:
    if relation.HasField("with_relations"):
        yield from _statements(relation.with_relations.root)
    elif relation.HasField("sql"):
        yield relation.sql


def run(access: dict[str, Any]) -> None:
    """Run the file to its end. Raises what it raises, `SystemExit` included."""
    size, lake, metastore = opened(access)
    script = access["script"]
    file = _local(script["file"], lake)
    tables = Tables(metastore, lake, script["tables"], SAIL)
    with session_over(tables, lake, size, interceptor=Refusals(tables)):
        # Where a file builds a session by Spark's usual words, PySpark gives it the one that there is.
        os.environ["SPARK_REMOTE"] = "sc://127.0.0.1"
        sys.argv = [str(file), *script["arguments"]]
        modules = (_local(one, lake) for one in script["python_files"])
        # A module is found by its directory, an archive is one.
        sys.path[:0] = [str(file.parent), *(str(one.parent if one.suffix == ".py" else one) for one in modules)]
        try:
            runpy.run_path(str(file), run_name="__main__")
        except PySparkException:
            # Sail only says that there is no such table.
            for problem in tables.problems:
                print(problem, file=sys.stderr)
            raise
        except InvalidInput as refused:
            lines = [one.lineno for one in traceback.extract_tb(refused.__traceback__) if one.filename == str(file)]
            place = f", at line {lines[-1]} of {file.name}" if lines else ""
            raise InvalidInput(refused.problem, why=f"{refused.why}{place}", fix=refused.fix) from None


def _local(address: str, lake: LakeAccess) -> Path:
    if "://" not in address:
        return Path(address)
    file = Path.cwd() / address.rpartition("/")[2]
    file.write_bytes(lake.store.get(lake.lake.key(address)))
    return file


def main(arguments: Sequence[str]) -> int:
    access, cluster, artifacts = map(Path, arguments)
    started = time.monotonic()
    log_below(artifacts)
    try:
        run(json.loads(access.read_text(encoding="utf-8")))
    except PenstockError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        summarize(cluster, started)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
