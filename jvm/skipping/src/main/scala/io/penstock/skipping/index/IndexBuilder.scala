package io.penstock.skipping.index

import scala.collection.mutable
import scala.reflect.ClassTag

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.SparkContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.util.SerializableConfiguration

/**
 * Reads files by Spark tasks. Each writes the entries of its files to a part of its own, so that the driver need not
 * hold those of a large table.
 */
private[index] object IndexBuilder {

  /** @param unreadable files that are not known to the index, each with the reason */
  case class Written(parts: Vector[Manifest.Part], unreadable: Vector[FileScan.Unreadable])

  /** Parts with the entries of these files: not part of the index until a manifest names them. */
  def write(spark: SparkSession, root: Path, files: Seq[ListedFile], plan: Seq[PlannedColumn]): Written = {
    val written = run(spark, root, files, plan, fromData = true) { (outcomes, conf) =>
      val unreadable = mutable.ArrayBuffer.empty[FileScan.Unreadable]
      val entries = outcomes.flatMap {
        case FileScan.Known(entry) => Some(entry)
        case file: FileScan.Unreadable =>
          unreadable += file
          None
        case FileScan.Gone => None
      }
      val part = new IndexStore(root, conf).write(entries, plan.map(_.column))
      Written(part.toVector, unreadable.toVector)
    }
    Written(written.flatMap(_.parts).toVector, written.flatMap(_.unreadable).toVector)
  }

  /** The entries of few files, for which no data are read. */
  def read(spark: SparkSession, root: Path, files: Seq[ListedFile], plan: Seq[PlannedColumn]): Seq[FileEntry] =
    run(spark, root, files, plan, fromData = false)((outcomes, _) =>
      outcomes.collect { case FileScan.Known(entry) => entry }.toVector
    ).flatten

  private def run[A: ClassTag](
      spark: SparkSession,
      root: Path,
      files: Seq[ListedFile],
      plan: Seq[PlannedColumn],
      fromData: Boolean
  )(
      work: (Iterator[FileScan.Outcome], Configuration) => A
  ): Seq[A] =
    if (files.isEmpty) Seq.empty
    else {
      val context = spark.sparkContext
      val conf = context.broadcast(new SerializableConfiguration(spark.sessionState.newHadoopConf()))
      val tasks = math.min(context.defaultParallelism, files.size / FileScan.Threads + 1)
      described(context, s"Skipping index of $root: reading ${files.size} files") {
        context
          .parallelize(files, tasks)
          .mapPartitions { batch =>
            Iterator.single(work(new FileScan(root, plan, fromData, conf.value.value).read(batch), conf.value.value))
          }
          .collect()
          .toSeq
      }
    }

  /** As the Spark UI shows the job. */
  private def described[A](context: SparkContext, description: String)(action: => A): A = {
    val former = context.getLocalProperty(Description)
    context.setJobDescription(description)
    try action
    finally context.setLocalProperty(Description, former)
  }

  private val Description = "spark.job.description"
}
