package io.penstock.fs.read

import java.util.Locale
import java.util.concurrent.TimeUnit

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.impl.streams.StreamIntegration
import org.apache.hadoop.fs.s3a.{Constants, S3AUtils}

import io.penstock.fs.CacheSettings
import io.penstock.fs.gateways.GatewayClientFactory

/**
 * How streams read.
 *
 * @param endpoint
 *   what tells apart two stores that have buckets of the same name
 * @param maxStaleness
 *   for how many milliseconds a version that was seen is believed to be there
 * @param longestRequest
 *   in bytes; also the most that is fetched ahead at once
 * @param readOver
 *   in bytes; what a request costs a sequential reader, as bytes that would come in the same time
 * @param longestMerged
 *   in bytes; the most that ranges are joined to which go to their buffers alone
 * @param activeRequests
 *   of one vectored read, or of one reader who wants more than one request brings
 * @param overTls
 *   whether every response comes over TLS, which tells damaged bytes itself
 */
final private[read] case class StreamSettings(
    endpoint: String,
    strict: Boolean,
    maxStaleness: Long,
    longestRequest: Long,
    shortestSeek: Int,
    readOver: Int,
    longestMerged: Int,
    activeRequests: Int,
    overTls: Boolean
)

private[read] object StreamSettings {

  /** One request for a byte of each object in a minute costs nothing that can be measured. */
  private val DefaultMaxStaleness = TimeUnit.MINUTES.toMillis(1)

  /** A sequential reader pays a client's work for each request: with 8 MiB a cold scan took 1.3 times as long. */
  private val DefaultReadAhead = 32L * 1024 * 1024

  /** Some ten milliseconds of a connection. */
  private val DefaultReadOver = 4L * 1024 * 1024

  /** @param conf with the bucket's own settings already in place of the general ones */
  def apply(conf: Configuration): StreamSettings = {
    val vectored = StreamIntegration.populateVectoredIOContext(conf)
    StreamSettings(
      endpoint = conf.getTrimmed(Constants.ENDPOINT, "") + " " + conf.getTrimmed(Constants.AWS_REGION, ""),
      strict = conf.getBoolean(CacheSettings.Strict, false),
      maxStaleness = conf.getTimeDuration(CacheSettings.MaxStaleness, DefaultMaxStaleness, TimeUnit.MILLISECONDS),
      longestRequest = S3AUtils.longBytesOption(conf, CacheSettings.ReadAhead, DefaultReadAhead, 0),
      shortestSeek = vectored.getMinSeekForVectorReads,
      readOver = S3AUtils.longBytesOption(conf, CacheSettings.ReadOver, DefaultReadOver, 0).min(Int.MaxValue).toInt,
      longestMerged = vectored.getMaxReadSizeForVectorReads,
      activeRequests = math.max(1, vectored.getVectoredActiveRangeReads),
      overTls = overTls(conf)
    )
  }

  /**
   * Only where every endpoint is named: without a name the SDK follows the environment too. A name without a scheme has
   * S3A's.
   */
  private def overTls(conf: Configuration): Boolean = {
    val secure = conf.getBoolean(Constants.SECURE_CONNECTIONS, Constants.DEFAULT_SECURE_CONNECTIONS)
    val endpoints = conf.getTrimmed(Constants.ENDPOINT, "") +: conf.getTrimmedStrings(GatewayClientFactory.Endpoints)
    endpoints.map(_.toLowerCase(Locale.ROOT)).forall { endpoint =>
      endpoint.startsWith("https://") || (secure && endpoint.nonEmpty && !endpoint.contains("://"))
    }
  }
}
