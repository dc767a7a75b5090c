package io.penstock.cluster

import java.io.StringWriter

import com.fasterxml.jackson.core.{JsonFactory, JsonGenerator}

import io.penstock.fs.Counters

/** The two files others read: `progress.json` while the application runs, `summary.json` when it has ended. */
private[cluster] object Reports {

  private val factory = new JsonFactory

  def progress(seen: Observed, nowMs: Long): String = json { out =>
    out.writeStringField("application_id", seen.applicationId)
    out.writeStringField("name", seen.name)
    out.writeStringField("description", seen.description)
    out.writeNumberField("jobs_done", seen.jobsDone)
    out.writeArrayFieldStart("stages")
    for (stage <- seen.activeStages.toSeq.sortBy(_._1).map(_._2)) {
      out.writeStartObject()
      out.writeNumberField("id", stage.id)
      out.writeStringField("name", stage.name)
      out.writeNumberField("tasks", stage.tasks)
      out.writeNumberField("done", stage.done)
      out.writeNumberField("running", stage.running)
      out.writeNumberField("failed", stage.failed)
      out.writeEndObject()
    }
    out.writeEndArray()
    out.writeNumberField("stages_done", seen.stagesDone)
    out.writeNumberField("tasks_done", seen.tasksDone)
    out.writeNumberField("tasks_failed", seen.tasksFailed)
    out.writeNumberField("rows_read", seen.work.rowsRead)
    out.writeNumberField("bytes_read", seen.work.bytesRead)
    out.writeNumberField("bytes_written", seen.work.bytesWritten)
    out.writeNumberField("shuffle_bytes", seen.work.shuffleReadBytes + seen.work.shuffleWriteBytes)
    out.writeNumberField("executors", seen.executors.size)
    out.writeNumberField("updated_ms", nowMs)
    out.writeNumberField("first_task_ms", seen.firstTaskLaunchedMs)
  }

  /**
   * `counts` are the file system's, of all processes; `skipping` are the driver's: nobody else lists a table's files.
   */
  def summary(
      seen: Observed,
      counts: Map[String, Long],
      skipping: Seq[(String, Long)],
      nowMs: Long
  ): String = json { out =>
    val work = seen.work
    val endedMs = if (seen.endedMs == 0) nowMs else seen.endedMs
    out.writeNumberField("elapsed_ms", if (seen.startedMs == 0) 0 else endedMs - seen.startedMs)
    out.writeNumberField("task_ms", work.taskMs)
    out.writeNumberField("executor_cpu_ms", work.cpuNs / 1000000)
    out.writeNumberField("gc_ms", work.gcMs)
    out.writeNumberField("rows_read", work.rowsRead)
    out.writeNumberField("bytes_read", work.bytesRead)
    out.writeNumberField("rows_written", work.rowsWritten)
    out.writeNumberField("bytes_written", work.bytesWritten)
    out.writeNumberField("shuffle_read_bytes", work.shuffleReadBytes)
    out.writeNumberField("shuffle_write_bytes", work.shuffleWriteBytes)
    out.writeNumberField("spill_memory_bytes", work.spillMemoryBytes)
    out.writeNumberField("spill_disk_bytes", work.spillDiskBytes)
    out.writeNumberField("peak_execution_memory_bytes", work.peakExecutionMemoryBytes)
    out.writeNumberField("peak_heap_bytes", seen.peakHeapBytes)
    out.writeNumberField("tasks", seen.tasksDone)
    out.writeNumberField("tasks_failed", seen.tasksFailed)
    out.writeNumberField("stages", seen.stagesDone)
    out.writeNumberField("jobs", seen.jobsDone)
    out.writeNumberField("context_started_ms", seen.startedMs)
    out.writeNumberField("first_task_launched_ms", seen.firstTaskLaunchedMs)
    out.writeNumberField("first_task_finished_ms", seen.firstTaskFinishedMs)
    lake(out, counts)
    out.writeObjectFieldStart("skipping")
    for ((name, value) <- skipping) out.writeNumberField(name, value)
    out.writeEndObject()
  }

  private def lake(out: JsonGenerator, counts: Map[String, Long]): Unit = {
    def count(counter: Counters.Counter): Long = counts.getOrElse(counter.name, 0L)
    def byKind(field: String)(value: Counters.Requests => Long): Unit = {
      out.writeObjectFieldStart(field)
      for (requests <- Counters.RequestsByKind) out.writeNumberField(requests.kind, value(requests))
      out.writeEndObject()
    }
    byKind("s3_requests")(requests => count(requests.sent))
    byKind("s3_request_us")(requests => count(requests.waitedUs))
    out.writeNumberField("s3_retries", count(Counters.RequestRetries))
    val told =
      Counters.RequestsByKind.flatMap(requests => Seq(requests.sent, requests.waitedUs)) :+ Counters.RequestRetries
    out.writeObjectFieldStart("lake")
    for (counter <- Counters.All if !told.contains(counter)) out.writeNumberField(counter.name, count(counter))
    out.writeEndObject()
  }

  private def json(fields: JsonGenerator => Unit): String = {
    val text = new StringWriter
    val out = factory.createGenerator(text)
    out.writeStartObject()
    fields(out)
    out.writeEndObject()
    out.close()
    text.toString
  }
}
