package io.penstock.fs.cache

import java.io.IOException
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Path, StandardOpenOption}
import java.util.zip.CRC32C

/** Which page a file holds. */
private[cache] final case class PageLabel(of: ObjectIdentity, index: Long, pageSize: Int) {

  def key: PageKey = of.page(index, pageSize)

  /** How many bytes the page must have. */
  def length: Int = math.min(pageSize.toLong, of.length - index * pageSize).toInt
}

/**
 * The file of one page: its bytes, then a trailer that says whose they are and lets every block be checked alone.
 *
 * Trailer, big-endian: CRC32C of each block (4 bytes each), then bucket, key, entity tag and scope (UTF-8, each after
 * its length in 4 bytes), object length (8), index (8), page size (4), bytes of data (4), bytes of the whole trailer
 * (4), CRC32C of the trailer up to here (4), magic (8).
 */
private[cache] object PageFile {

  /**
   * Bytes that one checksum covers: what a reader of a few bytes has to check with them, and what still is in the
   * processor's nearest cache when its checksum is taken.
   */
  val ChecksumBlock: Int = 16 * 1024

  private val Magic = 0x50454e5041474532L // PENPAGE2
  private val EndSize = 16
  private val FixedSize = 4 * 4 + 8 + 8 + 4 + 4 + EndSize
  private val MaxTrailer = 1 << 20

  /** Not a page file, or not a whole one. */
  final class Damaged(message: String) extends IOException(message)

  /** What the trailer says. */
  final case class Trailer(label: PageLabel, length: Int, checksums: Array[Int])

  /** Writes the page whole; `data` keeps its position. */
  def write(to: FileChannel, data: ByteBuffer, trailer: ByteBuffer): Unit = {
    val buffers = Array(data.duplicate(), trailer)
    while (buffers.exists(_.hasRemaining)) to.write(buffers)
  }

  def trailerOf(label: PageLabel, data: ByteBuffer): ByteBuffer = {
    require(data.remaining == label.length, s"${data.remaining} bytes for a page of ${label.length}")
    trailerOf(
      label,
      Array.tabulate(blocksIn(data.remaining)) { block =>
        val from = block * ChecksumBlock
        checksum(data.slice(data.position() + from, math.min(ChecksumBlock, data.remaining - from)))
      }
    )
  }

  /** The trailer of a page whose blocks have these checksums. */
  def trailerOf(label: PageLabel, checksums: Array[Int]): ByteBuffer = {
    val texts = textsOf(label)
    val size = trailerSize(label)
    val trailer = ByteBuffer.allocate(size)
    checksums.foreach(trailer.putInt)
    for (text <- texts) trailer.putInt(text.length).put(text)
    trailer.putLong(label.of.length).putLong(label.index).putInt(label.pageSize).putInt(label.length).putInt(size)
    trailer.putInt(checksum(ByteBuffer.wrap(trailer.array, 0, size - 12))).putLong(Magic).flip()
  }

  /** Bytes of the trailer of this page. */
  def trailerSize(label: PageLabel): Int =
    blocksIn(label.length) * 4 + FixedSize + textsOf(label).map(_.length).sum

  private def textsOf(label: PageLabel): Seq[Array[Byte]] =
    Seq(label.of.bucket, label.of.key, label.of.etag, label.of.scope).map(_.getBytes(UTF_8))

  /** Puts another trailer behind the `length` bytes of data of a page that has one. */
  def replaceTrailer(file: FileChannel, length: Int, trailer: ByteBuffer): Unit = {
    file.truncate(length + trailer.remaining.toLong)
    file.position(length.toLong)
    while (trailer.hasRemaining) file.write(trailer)
  }

  def blocksIn(length: Int): Int = (length + ChecksumBlock - 1) / ChecksumBlock

  /** CRC32C, as every checksum of a page. */
  def checksum(bytes: ByteBuffer): Int = {
    val crc = new CRC32C
    crc.update(bytes)
    crc.getValue.toInt
  }

  /** Maps the whole file. */
  def map(path: Path): ByteBuffer = {
    val channel = FileChannel.open(path, StandardOpenOption.READ)
    try {
      val size = channel.size()
      if (size > Int.MaxValue) throw new Damaged(s"$path is too long for a page")
      channel.map(FileChannel.MapMode.READ_ONLY, 0, size)
    } finally channel.close()
  }

  /**
   * What the trailer of a whole page file says.
   *
   * @throws Damaged
   *   if it is not one, as when the file was cut short
   */
  def trailerIn(file: ByteBuffer): Trailer = {
    val fileSize = file.capacity
    if (fileSize < FixedSize) throw new Damaged("too short for a page")
    if (file.getLong(fileSize - 8) != Magic) throw new Damaged("does not end as a page does")
    val size = file.getInt(fileSize - EndSize)
    if (size < FixedSize || size > math.min(fileSize, MaxTrailer)) throw new Damaged("the trailer's size is impossible")
    val bytes = new Array[Byte](size)
    file.get(fileSize - size, bytes)
    val trailer = ByteBuffer.wrap(bytes)
    if (checksum(ByteBuffer.wrap(bytes, 0, size - 12)) != trailer.getInt(size - 12))
      throw new Damaged("the trailer's checksum is wrong")
    val length = trailer.getInt(size - EndSize - 4)
    if (length.toLong + size != fileSize) throw new Damaged("data or trailer are missing")
    val checksums = Array.fill(blocksIn(length))(trailer.getInt())
    def text(): String = {
      val bytes = new Array[Byte](trailer.getInt())
      trailer.get(bytes)
      new String(bytes, UTF_8)
    }
    val (bucket, key, etag, scope) = (text(), text(), text(), text())
    val identity = ObjectIdentity(bucket, key, trailer.getLong(), etag, scope)
    Trailer(PageLabel(identity, trailer.getLong(), trailer.getInt()), length, checksums)
  }
}
