package io.penstock.suites

import java.util.concurrent.atomic.LongAdder

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.hadoop.mapreduce.JobContext
import org.apache.parquet.hadoop.ParquetOutputFormat
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol
import org.slf4j.LoggerFactory

import io.penstock.fs.commit.AtomicCommitProtocol
import io.penstock.skipping.build.FullIndex

/** Indexes that are built when a write of a suite is committed, before the statement that wrote returns. */
object Tables {

  private val log = LoggerFactory.getLogger(getClass)

  /** In this JVM: indexes built, the files that they know, and tables that could have none. */
  val indexes, files, refused = new LongAdder

  private val sessions = mutable.WeakHashMap.empty[AnyRef, SparkSession]

  /** A session with the defaults, whatever a test has set in its own, beside all sessions of the same context. */
  def session(of: SparkSession): SparkSession = sessions.synchronized {
    sessions.getOrElseUpdate(
      of.sparkContext, {
        val session = of.newSession()
        Map(
          RowsToTables.Enabled -> "false",
          // These jobs are small: compiling their code takes longer than to run them.
          "spark.sql.codegen.wholeStage" -> "false",
          "spark.sql.codegen.factoryMode" -> "NO_CODEGEN",
          "spark.sql.adaptive.enabled" -> "false",
          "spark.sql.parquet.compression.codec" -> "uncompressed",
          // Has bounds; Spark's default has none.
          "spark.sql.parquet.outputTimestampType" -> "TIMESTAMP_MICROS",
          "spark.sql.leafNodeDefaultParallelism" -> RowsToTables.Files.toString
        ).foreach { case (name, value) => session.conf.set(name, value) }
        session
      }
    )
  }

  private[suites] def committed(path: String, job: JobContext): Unit =
    for {
      spark <- SparkSession.getActiveSession
      if Arm.isPenstock && job.getOutputFormatClass == classOf[ParquetOutputFormat[_]]
      if !path.startsWith("s3a:") || Arm.indexesOnTheStore
    }
      try {
        val known = FullIndex.build(session(spark), path)
        if (known > 0) {
          indexes.increment()
          files.add(known)
        }
      } catch {
        // Tables that were damaged on purpose, for example.
        case NonFatal(e) =>
          refused.increment()
          log.debug(s"No index of $path", e)
      }
}

/** Spark's own way to commit, with an index at the end. */
class IndexedCommits(jobId: String, path: String, dynamicPartitionOverwrite: Boolean)
    extends SQLHadoopMapReduceCommitProtocol(jobId, path, dynamicPartitionOverwrite) {

  override def commitJob(context: JobContext, messages: Seq[TaskCommitMessage]): Unit = {
    super.commitJob(context, messages)
    Tables.committed(path, context)
  }
}

/** Penstock's way to commit, with an index at the end. */
class IndexedAtomicCommits(jobId: String, path: String, dynamicPartitionOverwrite: Boolean)
    extends AtomicCommitProtocol(jobId, path, dynamicPartitionOverwrite) {

  override def commitJob(context: JobContext, messages: Seq[TaskCommitMessage]): Unit = {
    super.commitJob(context, messages)
    Tables.committed(path, context)
  }
}
