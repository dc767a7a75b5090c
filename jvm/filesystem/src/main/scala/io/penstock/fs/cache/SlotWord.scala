package io.penstock.fs.cache

/**
 * What the page table knows of one slot besides its key, in one word, so that one atomic instruction changes all of it.
 *
 * The version grows with every reservation: a word that was read is never mistaken for the same bits of a later tenant.
 * Ages are in seconds and wrap after twelve days, which at worst lets a page look younger than it is.
 */
private[cache] final class SlotWord(val bits: Long) extends AnyVal {
  import SlotWord._

  def state: Int = (bits & 3).toInt
  def isPresent: Boolean = state == Present

  /** Nobody has ever used the slot, so no probe went past it. */
  def isUntouched: Boolean = bits == 0

  /** How often it was found lately, 0 to [[SlotWord.MaxFrequency]]. */
  def frequency: Int = (bits >>> 2 & 3).toInt

  /** Whether it was ever found after it came. */
  def wasHit: Boolean = (bits >>> 4 & 1) == 1

  /** Whether it was worth something when it came, and still waits to be found for the first time. */
  def isAwaited: Boolean = frequency > 0 && !wasHit

  /** What it takes on the medium, in [[SlotWord.BlockSize]]. */
  def blocks: Int = (bits >>> 5 & MaxBlocks).toInt

  def bytes: Long = blocks.toLong * BlockSize

  /** Seconds since the last change that stamped the word. */
  def age(now: Int): Int = now - stamp & MaxAge

  private def stamp: Int = (bits >>> 20 & MaxAge).toInt

  private def version: Long = bits >>> 40

  def reserved(blocks: Int, now: Int): SlotWord = pack(Reserved, 0, hit = false, blocks, now, version + 1)
  def present(frequency: Int, now: Int): SlotWord = pack(Present, frequency, hit = false, blocks, now, version)
  def found(frequency: Int, now: Int): SlotWord = pack(Present, frequency, hit = true, blocks, now, version)

  /** With its last step a page loses its stamp's renewal too: it has had its time. */
  def decayed(now: Int): SlotWord =
    pack(Present, frequency - 1, wasHit, blocks, if (frequency > 1) now else stamp, version)

  def evicting(now: Int): SlotWord = pack(Evicting, frequency, wasHit, blocks, now, version)
  def free: SlotWord = pack(Free, 0, hit = false, 0, 0, version)
}

private[cache] object SlotWord {
  val Free = 0
  val Reserved = 1
  val Present = 2
  val Evicting = 3

  val MaxFrequency = 3
  val MaxBlocks = 0x7fff
  val MaxAge = 0xfffff

  /** File systems hand out whole blocks of this many bytes, tmpfs included. */
  val BlockSize = 4096

  def blocksOf(bytes: Long): Int = math.toIntExact((bytes + BlockSize - 1) / BlockSize)

  private def pack(state: Int, frequency: Int, hit: Boolean, blocks: Int, now: Int, version: Long): SlotWord =
    new SlotWord(
      state.toLong | frequency.toLong << 2 | (if (hit) 1L << 4 else 0L) | blocks.toLong << 5 |
        (now & MaxAge).toLong << 20 | version << 40
    )
}
