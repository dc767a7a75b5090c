package io.penstock.skipping.plan

import org.apache.spark.sql.execution.datasources.{FileStatusWithMetadata, PartitionDirectory}

import io.penstock.skipping.filter.FileFilter
import io.penstock.skipping.index.{ListedFiles, TableIndex}

/**
 * What is left of a listing once the files that cannot match are taken out.
 *
 * @param kept
 *   to be read
 * @param skipped
 *   the index says that none of their rows matches
 */
case class FileSelection(kept: Seq[PartitionDirectory], skipped: Seq[FileStatusWithMetadata]) {
  lazy val files: Long = kept.map(_.files.size.toLong).sum + skipped.size
  lazy val bytes: Long = kept.map(_.files.map(_.getLen).sum).sum + bytesSkipped
  lazy val bytesSkipped: Long = skipped.map(_.getLen).sum
}

object FileSelection {

  /** A file that the index does not know as it is listed is kept. */
  def of(index: TableIndex, filter: FileFilter, listed: Seq[PartitionDirectory]): FileSelection = filter match {
    case FileFilter.Anything => FileSelection(listed, Nil)
    case _ =>
      val matching = index.select(filter)
      val listedFiles = new ListedFiles(index)
      val skipped = Seq.newBuilder[FileStatusWithMetadata]
      val kept = listed.flatMap { partition =>
        val (keep, skip) = partition.files.partition { file =>
          val number = listedFiles.number(file)
          number < 0 || matching.get(number)
        }
        skipped ++= skip
        // A partition whose files all go is as if it had been pruned; one that was empty before is none of ours.
        if (skip.isEmpty) Some(partition) else Option.when(keep.nonEmpty)(partition.copy(files = keep))
      }
      FileSelection(kept, skipped.result())
  }
}
