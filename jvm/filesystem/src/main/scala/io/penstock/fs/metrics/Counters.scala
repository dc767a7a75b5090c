package io.penstock.fs.metrics

import java.util.concurrent.atomic.LongAdder
import java.util.{Collections, Locale, Map => JavaMap}

import com.codahale.metrics.{Gauge, MetricRegistry}
import org.apache.spark.SparkContext
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import software.amazon.awssdk.core.interceptor.{Context, ExecutionAttribute, ExecutionAttributes, ExecutionInterceptor}
import software.amazon.awssdk.http.SdkHttpRequest

/**
 * What this file system has done in this JVM since it started, as named sums that only grow. Adding never blocks.
 *
 * The names are what summaries, metrics and reports show; a sum over processes is a sum per name.
 */
object Counters {

  final class Counter private[Counters] (val name: String) {
    private val adder = new LongAdder
    def add(amount: Long): Unit = adder.add(amount)
    def increment(): Unit = adder.increment()
    def value: Long = adder.sum
  }

  private val counters = Vector.newBuilder[Counter]

  private def counter(name: String): Counter = {
    val counter = new Counter(name)
    counters += counter
    counter
  }

  /** Requests of one kind: LIST is a GET on a bucket, the other kinds are the HTTP methods. */
  final class Requests private[Counters] (val kind: String) {

    /** Attempts handed to the HTTP client: every attempt counts, as the store sees it. */
    val sent: Counter = counter(s"requests_${kind.toLowerCase(Locale.ROOT)}")

    /** Microseconds until the head of the answer was there, of all attempts that were answered. */
    val waitedUs: Counter = counter(s"request_us_${kind.toLowerCase(Locale.ROOT)}")
  }

  val RequestsByKind: Vector[Requests] = Vector("GET", "HEAD", "PUT", "POST", "DELETE", "LIST").map(new Requests(_))

  /** Attempts that were not the first of their call. */
  val RequestRetries: Counter = counter("request_retries")

  /** Answers by which the store asks for patience (429, 503), and by which it says that it failed (any other 5xx). */
  val AnswersThrottled: Counter = counter("answers_throttled")
  val AnswersFailed: Counter = counter("answers_failed")

  /** Answers by the time until their head was there: each is in the first class that is long enough. */
  val AnsweredWithinMs: Vector[(Long, Counter)] =
    Vector(1L, 4L, 16L, 64L, 256L, 1024L, 4096L).map(limit => limit -> counter(s"answered_within_${limit}_ms"))
  val AnsweredLater: Counter = counter("answered_later")

  /** Bodies of requests, and of answers as far as they were read. */
  val BytesSent: Counter = counter("bytes_sent")
  val BytesReceived: Counter = counter("bytes_received")

  /** Pages asked for and found in a tier, or not. */
  val PageHits: Counter = counter("page_hits")
  val PageMisses: Counter = counter("page_misses")

  /** Bytes given to readers, by where they came from. */
  val BytesFromMemory: Counter = counter("bytes_from_memory")
  val BytesFromDisk: Counter = counter("bytes_from_disk")
  val BytesFromStore: Counter = counter("bytes_from_store")

  /** Bytes fetched from the store into pages, those nobody asked for included. */
  val BytesFetched: Counter = counter("bytes_fetched")

  /** Pages kept: fetched, left behind by a writer, moved from memory to disk. */
  val PagesFilled: Counter = counter("pages_filled")
  val PagesWrittenThrough: Counter = counter("pages_written_through")
  val PagesDemoted: Counter = counter("pages_demoted")
  val PagesEvicted: Counter = counter("pages_evicted")
  val PagesDamaged: Counter = counter("pages_damaged")

  /** Pages of which bytes went to a reader alone, since keeping them would not have paid. */
  val PagesNotKept: Counter = counter("pages_not_kept")

  /** Misses that waited for another thread or process that was fetching the same page. */
  val FillWaits: Counter = counter("fill_waits")

  /** Fetches that broke off and went on from where they were. */
  val FetchesResumed: Counter = counter("fetches_resumed")

  /** Objects found to be another version than the caller's status said. */
  val ObjectsChanged: Counter = counter("objects_changed")

  val GatewaysEjected: Counter = counter("gateways_ejected")

  /** Requests that were sent again to another gateway than the one that failed them. */
  val GatewayFailovers: Counter = counter("gateway_failovers")

  /** Files that jobs made visible, and jobs whose driver had left that to the next one. */
  val FilesCommitted: Counter = counter("files_committed")
  val CommitsRolledForward: Counter = counter("commits_rolled_forward")

  /** Files whose tasks went on while they were uploaded. */
  val FilesClosedBehind: Counter = counter("files_closed_behind")

  val All: Vector[Counter] = counters.result()

  /** Every sum by its name; not one instant's, but never misses what happened before the call. */
  def now(): Map[String, Long] = All.iterator.map(c => c.name -> c.value).toMap
}

/**
 * Counts the requests of every S3A client in this JVM, and how long each was waited for, into [[Counters]]:
 * `fs.s3a.audit.execution.interceptors=io.penstock.fs.metrics.RequestCounter`.
 *
 * The SDK calls `beforeTransmission` once per attempt, right before it asks for a connection, and `afterTransmission`
 * when the head of an answer is there: an attempt that is never answered has no time.
 */
class RequestCounter private[fs] (nanoTime: () => Long) extends ExecutionInterceptor {
  import RequestCounter._

  def this() = this(() => System.nanoTime())

  override def beforeTransmission(context: Context.BeforeTransmission, attributes: ExecutionAttributes): Unit = {
    val request = context.httpRequest
    requestsLike(request).foreach(_.sent.increment())
    if (attributes.getAttribute(SentAt) != null) Counters.RequestRetries.increment()
    val body = request.firstMatchingHeader("Content-Length")
    if (body.isPresent) body.get.toLongOption.foreach(Counters.BytesSent.add)
    attributes.putAttribute(SentAt, Long.box(nanoTime()))
  }

  override def afterTransmission(context: Context.AfterTransmission, attributes: ExecutionAttributes): Unit = {
    val sentAt = attributes.getAttribute(SentAt)
    if (sentAt != null) answered(context.httpRequest, nanoTime() - sentAt)
    val status = context.httpResponse.statusCode
    if (status == 429 || status == 503) Counters.AnswersThrottled.increment()
    else if (status >= 500) Counters.AnswersFailed.increment()
  }
}

object RequestCounter {

  private val SentAt = new ExecutionAttribute[java.lang.Long]("io.penstock.fs.SentAt")

  private val ByKind = Counters.RequestsByKind.map(requests => requests.kind -> requests).toMap

  private def requestsLike(request: SdkHttpRequest): Option[Counters.Requests] = {
    val method = request.method.name
    ByKind.get(if (method == "GET" && isListing(request)) "LIST" else method)
  }

  /**
   * Both listings carry their own mark, whatever the address style: version 2 its type, version 1 and uploads a limit.
   */
  private def isListing(request: SdkHttpRequest): Boolean = {
    val parameters = request.rawQueryParameters
    parameters.containsKey("list-type") || parameters.containsKey("uploads") ||
    parameters.containsKey("max-keys") || parameters.containsKey("delimiter")
  }

  private def answered(request: SdkHttpRequest, nanoseconds: Long): Unit = {
    requestsLike(request).foreach(_.waitedUs.add(nanoseconds / 1000))
    val classes = Counters.AnsweredWithinMs
    var i = 0
    while (i < classes.size && nanoseconds > classes(i)._1 * 1000000) i += 1
    (if (i < classes.size) classes(i)._2 else Counters.AnsweredLater).increment()
  }
}

/**
 * Puts every count of [[Counters]] among Spark's own metrics, so that each of its sinks shows them:
 * `spark.plugins=io.penstock.fs.metrics.LakeMetrics`.
 *
 * They are called `plugin.io.penstock.fs.metrics.LakeMetrics.<name>`, of the driver and of each executor.
 */
class LakeMetrics extends SparkPlugin {

  override def driverPlugin(): DriverPlugin = new DriverPlugin {
    override def init(context: SparkContext, plugin: PluginContext): JavaMap[String, String] = {
      LakeMetrics.register(plugin.metricRegistry)
      Collections.emptyMap
    }
  }

  override def executorPlugin(): ExecutorPlugin = new ExecutorPlugin {
    override def init(plugin: PluginContext, settings: JavaMap[String, String]): Unit =
      LakeMetrics.register(plugin.metricRegistry)
  }
}

private[fs] object LakeMetrics {

  def register(registry: MetricRegistry): Unit =
    for (counter <- Counters.All) {
      val gauge: Gauge[Long] = () => counter.value
      registry.register(counter.name, gauge)
    }
}
