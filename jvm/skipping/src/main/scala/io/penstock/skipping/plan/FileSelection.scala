package io.penstock.skipping.plan

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.datasources.{FileStatusWithMetadata, PartitionDirectory}

import io.penstock.skipping.filter.FileFilter
import io.penstock.skipping.index.{TableIndex, TablePath}

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
      val directories = new RelativeDirectories(index.root)
      val skipped = Seq.newBuilder[FileStatusWithMetadata]
      val kept = listed.flatMap { partition =>
        val (keep, skip) = partition.files.partition { file =>
          val number = directories.of(file.getPath).fold(-1) { directory =>
            index.find(directory, file.getPath.getName, file.getLen, file.getModificationTime)
          }
          number < 0 || matching.get(number)
        }
        skipped ++= skip
        // A partition whose files all go is as if it had been pruned; one that was empty before is none of ours.
        if (skip.isEmpty) Some(partition) else Option.when(keep.nonEmpty)(partition.copy(files = keep))
      }
      FileSelection(kept, skipped.result())
  }

  /** Files of a listing come directory by directory: what was found out for the last one is remembered. */
  private class RelativeDirectories(root: String) {
    private var lastParent: Path = _
    private var lastDirectory: Option[String] = None

    /** None outside of the table's root. */
    def of(file: Path): Option[String] = {
      val parent = file.getParent
      if (parent != lastParent) {
        lastParent = parent
        lastDirectory = TablePath.relative(root, parent.toString)
      }
      lastDirectory
    }
  }
}
