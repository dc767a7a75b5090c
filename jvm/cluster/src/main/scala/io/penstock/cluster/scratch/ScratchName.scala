package io.penstock.cluster.scratch

/** What a scratch file is for. `smallest` is the least that is set aside for a new one, in bytes. */
sealed abstract class Kind(val smallest: Long)

object Kind {

  /** The output of one map task. */
  case object MapOutput extends Kind(1L << 20)

  /** Where the partitions of a map output begin, and their checksums: eight bytes for each partition. */
  case object MapIndex extends Kind(16L << 10)

  /** What a task writes because its memory is full, or on the way to a map output. */
  case object Spill extends Kind(256L << 10)
}

/**
 * A shuffle's or spill's file, under the name it will have when it is complete: a map output is written beside its
 * place and renamed.
 *
 * @param temporary
 *   it is removed by the task that wrote it, and nobody else knows it
 */
final case class ScratchName private (text: String, kind: Kind, temporary: Boolean)

object ScratchName {

  // Spark's own temporary sibling of a file: its name and a random UUID.
  private val Sibling = """\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$""".r
  private val MapFile = """shuffle_\d+_\d+_\d+\.(data|index|checksum\.\w+)""".r

  /**
   * None for what is no shuffle and no spill: blocks that an application persists, broadcasts. They stay as long as the
   * application wants, and would keep memory from what is written and read once.
   */
  def parse(fileName: String): Option[ScratchName] = Sibling.replaceFirstIn(fileName, "") match {
    case name @ MapFile("data") => Some(ScratchName(name, Kind.MapOutput, temporary = false))
    case name @ MapFile(_) => Some(ScratchName(name, Kind.MapIndex, temporary = false))
    case name if name.startsWith("temp_shuffle_") || name.startsWith("temp_local_") =>
      Some(ScratchName(name, Kind.Spill, temporary = true))
    case _ => None
  }
}
