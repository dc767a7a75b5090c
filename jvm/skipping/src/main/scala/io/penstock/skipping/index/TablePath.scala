package io.penstock.skipping.index

import org.apache.hadoop.fs.Path

/** How paths of a table's files are written in its index, and where an index may be. */
object TablePath {

  /** The directory of a table's index, below its root. Spark's listing does not see it. */
  val IndexDirectory = "_skipindex"

  /** A directory below a root as the index knows it: without slashes at its ends, the root itself empty. */
  def relative(root: Path, directory: Path): Option[String] = relative(root.toString, directory.toString)

  /** See above; both are absolute and qualified. */
  def relative(root: String, directory: String): Option[String] =
    if (directory == root) Some("")
    else Option.when(directory.startsWith(root + "/"))(directory.substring(root.length + 1))

  /**
   * Where the root of the table may be that a scan has this path of: itself and, above partition directories, what
   * holds those. Spark takes directories called `name=value` for partitions wherever it finds them.
   */
  def candidates(path: Path): Seq[Path] =
    path +: (Option(path.getParent) match {
      case Some(parent) if path.getName.contains("=") => candidates(parent)
      case _ => Nil
    })

  /**
   * The path without the directories at its end that are values of these partition columns, however those are spelt.
   */
  def abovePartitions(path: Path, columns: Seq[String]): Path = path.getName.split("=", 2) match {
    case Array(name, _) if path.getParent != null && columns.exists(_.equalsIgnoreCase(name)) =>
      abovePartitions(path.getParent, columns)
    case _ => path
  }
}
