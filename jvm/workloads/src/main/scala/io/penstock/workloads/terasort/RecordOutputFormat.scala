package io.penstock.workloads.terasort

import org.apache.hadoop.io.NullWritable
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat
import org.apache.hadoop.mapreduce.{RecordWriter, TaskAttemptContext}
import org.apache.spark.rdd.RDD

/** Blocks of records one after the other in a file a task, committed by whatever committer the file system has. */
final class RecordOutputFormat extends FileOutputFormat[NullWritable, RecordBlock] {

  override def getRecordWriter(context: TaskAttemptContext): RecordWriter[NullWritable, RecordBlock] = {
    val file = getDefaultWorkFile(context, "")
    val out = file.getFileSystem(context.getConfiguration).create(file, false)
    new RecordWriter[NullWritable, RecordBlock] {
      override def write(nothing: NullWritable, block: RecordBlock): Unit = block.writeTo(out)
      override def close(context: TaskAttemptContext): Unit = out.close()
    }
  }
}

object RecordOutputFormat {

  /** A file for each partition, named in their order, visible all at once; fails where there is something already. */
  def save(blocks: RDD[RecordBlock], location: String): Unit =
    blocks
      .map(block => (NullWritable.get, block))
      .saveAsNewAPIHadoopFile(
        location,
        classOf[NullWritable],
        classOf[RecordBlock],
        classOf[RecordOutputFormat],
        blocks.sparkContext.hadoopConfiguration
      )
}
