package io.penstock.skipping.index

import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Arrays, HashMap => JavaHashMap}

import scala.collection.mutable

/**
 * Which number a file has. An open-addressed table over one array of all names, since a map of strings would take
 * several times the memory of the statistics.
 */
private[index] class FileNumbers private (
    directories: JavaHashMap[String, Int],
    directoryOf: Array[Int],
    names: Array[Byte],
    nameEnds: Array[Int],
    lengths: Array[Long],
    modified: Array[Long]
) {

  val size: Int = lengths.length

  private val table = {
    // At most half full: a power of two, so that a mask takes the place of a division.
    val slots = Array.fill(math.max(2, Integer.highestOneBit(math.max(1, size)) << 2))(-1)
    for (file <- 0 until size) {
      var slot = FileNumbers.hash(directoryOf(file), names, nameStart(file), nameEnds(file)) & (slots.length - 1)
      while (slots(slot) >= 0 && !samePath(slots(slot), file)) slot = (slot + 1) & (slots.length - 1)
      slots(slot) = file
    }
    slots
  }

  def find(directory: String, name: String, length: Long, modificationMs: Long): Int =
    directories.getOrDefault(directory, -1) match {
      case -1 => -1
      case number =>
        val bytes = name.getBytes(UTF_8)
        var slot = FileNumbers.hash(number, bytes, 0, bytes.length) & (table.length - 1)
        while (table(slot) >= 0 && !isAt(table(slot), number, bytes, 0, bytes.length))
          slot = (slot + 1) & (table.length - 1)
        val file = table(slot)
        if (file >= 0 && lengths(file) == length && modified(file) == modificationMs) file else -1
    }

  private def nameStart(file: Int): Int = if (file == 0) 0 else nameEnds(file - 1)

  private def samePath(a: Int, b: Int): Boolean = isAt(a, directoryOf(b), names, nameStart(b), nameEnds(b))

  private def isAt(file: Int, directory: Int, name: Array[Byte], start: Int, end: Int): Boolean =
    directoryOf(file) == directory && Arrays.equals(names, nameStart(file), nameEnds(file), name, start, end)
}

private[index] object FileNumbers {

  class Builder {
    private val directories = new JavaHashMap[String, Int]
    private val directoryOf = new mutable.ArrayBuilder.ofInt
    private val names = new mutable.ArrayBuilder.ofByte
    private val nameEnds = new mutable.ArrayBuilder.ofInt
    private val lengths = new mutable.ArrayBuilder.ofLong
    private val modified = new mutable.ArrayBuilder.ofLong

    def add(entry: FileEntry): Unit = {
      directoryOf += directories.computeIfAbsent(entry.directory, _ => directories.size)
      names ++= entry.name.getBytes(UTF_8)
      nameEnds += names.length
      lengths += entry.length
      modified += entry.modificationMs
    }

    def result(): FileNumbers =
      new FileNumbers(
        directories,
        directoryOf.result(),
        names.result(),
        nameEnds.result(),
        lengths.result(),
        modified.result()
      )
  }

  private def hash(directory: Int, name: Array[Byte], start: Int, end: Int): Int = {
    var hash = directory
    var i = start
    while (i < end) {
      hash = 31 * hash + name(i)
      i += 1
    }
    // The low bits choose the slot: let the high ones take part.
    hash ^ (hash >>> 15)
  }
}
