"""The Spark application of the chaos suite: `application.py WORK JOURNAL ROOT BASE`, run like any user's application.

It runs the jobs of its lanes and records in the journal, a local file that no fault reaches, that a job began, that its
commit returned, or that it failed and why. A killed process records nothing more.
"""

import json
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

WORK, JOURNAL, ROOT, BASE = sys.argv[1:5]


def record(**line):
    with lock:
        journal.write(json.dumps({"at": time.time(), **line}) + "\n")
        journal.flush()


def causes(error):
    """The JVM's exception with its causes, without stacks; only the JVM knows whether a job was decided."""
    thrown = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    found = []
    try:
        while thrown is not None and len(found) < 12:
            found.append(thrown.toString())
            thrown = thrown.getCause()
    except Exception as lost:
        error, found = lost, []
    return {"known": bool(found), "causes": found or [f"{type(error).__name__}: {error}"]}


def do(spark, job):
    address = f"{ROOT}/{job['table']}"
    if job["kind"] == "query":
        spark.read.parquet(BASE).createOrReplaceTempView("base")
        text = job["query"].replace("{base}", "base")
        return [list(row) for row in spark.sql(text).collect()]
    if job["kind"] == "read back":
        return sorted(list(row) for row in spark.read.parquet(address).groupBy("job", "part").count().collect())
    partitions = ", ".join(map(str, job["partitions"]))
    rows = spark.range(0, job["rows"], 1, job["files"]).selectExpr(
        f"'{job['id']}' AS job",
        f"'{spark.sparkContext.applicationId}' AS attempt",
        "id AS row",
        f"md5(concat_ws('/', '{job['id']}', id)) AS digest",
        f"element_at(array({partitions}), int(id % {len(job['partitions'])}) + 1) AS part",
    )
    if job["starves"]:
        rows = rows.where("length(repeat('x', 600000000 + int(row % 2))) > 0")
    mode = "append" if job["kind"] == "append" else "overwrite"
    dynamic = "dynamic" if job["kind"] == "dynamic overwrite" else "static"
    rows.write.mode(mode).option("partitionOverwriteMode", dynamic).partitionBy("part").parquet(address)
    return None


def run(spark, lane):
    for job in lane:
        record(job=job["id"], event="began")
        try:
            answer = do(spark, job)
        except Exception as error:
            failure = causes(error)
            record(job=job["id"], event="failed", **failure)
            if not failure["known"]:
                lost.set()
                return
        else:
            record(job=job["id"], event="done", answer=answer)


lanes = json.loads(Path(WORK).read_text(encoding="utf-8"))
lock = threading.Lock()
lost = threading.Event()  # the JVM is gone, and this process ends with it
journal = Path(JOURNAL).open("a", encoding="utf-8")  # noqa: SIM115  open for the life of the process
session = SparkSession.builder.getOrCreate()
record(event="application began", application=session.sparkContext.applicationId)
threads = [threading.Thread(target=run, args=(session.newSession(), lane)) for lane in lanes]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if lost.is_set():
    sys.exit("the driver's JVM is gone")
record(event="application ended")
session.stop()
