package io.penstock.fs.cache

/** How large a tier may become. */
private[cache] sealed trait TierSize {

  /**
   * The budget in bytes.
   *
   * @param total
   *   what percentages are of
   * @param available
   *   what the file system could give the tier, including what the tier has already
   */
  def budget(total: Long, available: Long): Long
}

private[cache] object TierSize {

  /** Taken at its word. */
  final case class Bytes(bytes: Long) extends TierSize {
    override def budget(total: Long, available: Long): Long = bytes
  }

  /** Never more than half of what is available: the file system has other users. */
  final case class Percent(percent: Double) extends TierSize {
    override def budget(total: Long, available: Long): Long =
      math.min((total * percent / 100).toLong, available / 2)
  }

  private val Sized = """(\d+)\s*([KMGT]?)B?""".r
  private val Share = """(\d+(?:\.\d+)?)\s*%""".r

  /** Left says what is wrong with the text. */
  def parse(text: String): Either[String, TierSize] = text.trim.toUpperCase(java.util.Locale.ROOT) match {
    case Sized(number, unit) if number.length <= 15 =>
      val shift = if (unit.isEmpty) 0 else 10 * (" KMGT".indexOf(unit))
      val bytes = BigInt(number) << shift
      if (bytes.isValidLong) Right(Bytes(bytes.toLong)) else Left(s"'$text' is more than any disk holds")
    case Share(number) if number.toDouble <= 100 => Right(Percent(number.toDouble))
    case _ => Left(s"'$text' is no size: write bytes, 512M, 20G, or a percentage up to 100%")
  }
}
