package io.penstock.skipping.index

import java.util.BitSet

import io.penstock.skipping.filter.FileFilter

/**
 * An index of which only the manifest has been read: which columns there are. The rest takes longer, and is read when
 * something is asked that takes it, so that a query which asks nothing of these columns does not wait for it.
 *
 * @param files
 *   how many entries the manifest speaks of
 * @param read
 *   called once; None where the entries cannot be used: then nothing is known of any file
 */
private[index] class DeferredIndex(
    override val root: String,
    override val columns: Seq[IndexedColumn],
    override val files: Int,
    private var read: () => Option[TableIndex]
) extends TableIndex {

  @volatile private var known = Option.empty[Option[TableIndex]]

  def isLoaded: Boolean = known.isDefined

  /** Whoever comes while it is read waits for it. */
  def load(): Option[TableIndex] = known.getOrElse(synchronized {
    known.getOrElse {
      val index = read()
      known = Some(index)
      // It holds a whole configuration.
      read = null
      index
    }
  })

  override def column(name: String): Option[ColumnSummary] =
    if (columns.exists(_.name == name)) load().flatMap(_.column(name)) else None

  override def find(directory: String, name: String, length: Long, modificationMs: Long): Int =
    load().fold(-1)(_.find(directory, name, length, modificationMs))

  override def select(filter: FileFilter): BitSet = load().fold(all)(_.select(filter))

  private def all: BitSet = {
    val every = new BitSet(files)
    every.set(0, files)
    every
  }
}
