package io.penstock.fs.cache

import java.util.Locale

import org.apache.hadoop.conf.Configuration

import io.penstock.fs.CacheSettings

/**
 * Whether pages that a reader needs are fetched whole and kept, or their bytes go straight to the reader. Pure.
 *
 * Keeping a page costs a copy, and the fetch of what nobody has asked for; it saves the next readers a request. So what
 * is read once is cheaper without, unless the store is slow or each request to it is a journey.
 */
private[cache] sealed abstract class AdmissionPolicy(val name: String) {

  /**
   * @param touches
   *   how often each of the pages was read before without being kept, on average
   */
  def admits(touches: Double, read: AdmissionPolicy.Read, costs: => AdmissionPolicy.Costs): Boolean
}

private[cache] object AdmissionPolicy {

  /** Keeps whatever is read: for `cache warm`, and for who knows that everything is read again. */
  case object Always extends AdmissionPolicy("always") {
    override def admits(touches: Double, read: Read, costs: => Costs): Boolean = true
  }

  /** Keeps what is read for the second time, whatever that costs. */
  case object Again extends AdmissionPolicy("again") {
    override def admits(touches: Double, read: Read, costs: => Costs): Boolean = isAgain(touches)
  }

  /**
   * Keeps what is read for the second time from a store that is slower than the tier, and at once what is expected to
   * pay, as far as this process has measured both.
   */
  case object Measured extends AdmissionPolicy("measured") {
    override def admits(touches: Double, read: Read, costs: => Costs): Boolean = {
      val measured = costs
      if (isAgain(touches)) measured.saved(read) > 0
      else read.again * measured.saved(read) >= measured.spent(read)
    }
  }

  /** Of several pages half have been read before. */
  private def isAgain(touches: Double): Boolean = touches >= 0.5

  private val All = Seq(Measured, Again, Always)

  /**
   * What one request of a reader asks for.
   *
   * @param wanted
   *   bytes that the reader has asked for
   * @param kept
   *   bytes of the pages they lie on
   * @param request
   *   bytes of the request that would bring the wanted ones, `wanted` at least: a scan's requests are long
   */
  final case class Read(wanted: Long, kept: Long, request: Long) {

    /**
     * How often as much is expected to be read from these pages, of which nobody has read yet: who reads pieces soon
     * wants their neighbours, and whole pages are seldom read twice. Both are guesses.
     */
    def again: Double = 0.1 + 0.9 * (kept - wanted) / kept.max(1)
  }

  /**
   * @param request
   *   nanoseconds until the store begins an answer
   * @param transfer
   *   nanoseconds a byte of it takes
   * @param writing
   *   nanoseconds a byte takes to be written to the tier
   * @param reading
   *   nanoseconds a byte takes to be read from there
   */
  final case class Costs(request: Double, transfer: Double, writing: Double, reading: Double) {

    /** Nanoseconds by which a read again is cheaper from the tier. */
    def saved(read: Read): Double =
      request * read.wanted / read.request.max(1) + read.wanted * (transfer - reading)

    /** Nanoseconds that keeping the pages takes beyond reading the wanted bytes. */
    def spent(read: Read): Double = (read.kept - read.wanted) * transfer + read.kept * writing
  }

  object Costs {

    /** A store on the same machine and a tier in memory, until something has been measured. */
    val Unmeasured: Costs = Costs(request = 500000, transfer = 1, writing = 0.7, reading = 0.1)
  }

  /** @return left: what is wrong, and what would be right */
  def from(conf: Configuration): Either[String, AdmissionPolicy] = {
    val text = conf.getTrimmed(CacheSettings.Admission, Measured.name)
    All
      .find(_.name == text.toLowerCase(Locale.ROOT))
      .toRight(s"${CacheSettings.Admission}: '$text' is no policy: write ${All.map(_.name).mkString(", ")}")
  }
}
