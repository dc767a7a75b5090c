package io.penstock.fs.gateways

import java.io.IOException
import java.net.{HttpURLConnection, Inet6Address, InetAddress, URI, UnknownHostException}
import java.util.UUID
import java.util.concurrent.TimeUnit.{NANOSECONDS, SECONDS}
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.{ConcurrentHashMap, ScheduledThreadPoolExecutor}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.commons.lang3.concurrent.BasicThreadFactory
import org.slf4j.LoggerFactory

import io.penstock.fs.metrics.Counters

/**
 * The gateways of one store, shared by every client in this JVM that uses the same ones: what one learns, all know.
 *
 * @param scattered
 *   whether each address of an endpoint's name is a gateway of its own
 * @param probe
 *   whether a gateway answers; may take seconds
 */
final class Gateways private[gateways] (
    endpoints: Seq[Endpoint],
    scattered: Boolean,
    addresses: String => Seq[String] = Gateways.resolve,
    probe: Gateway => Boolean = Gateways.answers,
    clock: () => Long = () => System.nanoTime(),
    later: (Long, () => Unit) => Unit = Gateways.schedule
) {
  private var pool = GatewayPool(found(), seed = Gateways.Seed)

  if (scattered) watchAddresses()

  private[gateways] def start(prompt: Boolean, tried: Set[Gateway]): Gateways.InFlight = {
    val attempt = change(pool => pool.start(clock(), prompt, tried))
    new Gateways.InFlight(this, attempt)
  }

  /** One for each gateway, in the order of the endpoints. */
  def snapshot(): Seq[GatewayReading] = synchronized(pool).members.sortBy(_.gateway.name).map { member =>
    val ejectedFor = member.ejection.map(ejection => NANOSECONDS.toMillis(clock() - ejection.since))
    GatewayReading(member.gateway.name, member.requests, member.bytes, member.inFlight, ejectedFor)
  }

  private[gateways] def update(event: GatewayPool => GatewayPool): Unit = change(pool => (event(pool), ()))

  private[gateways] def now(): Long = clock()

  /** Looks the names up again: who has gone is given no more requests, who is new is. */
  private[gateways] def lookUp(): Unit = {
    val gateways = found()
    update(pool => if (pool.members.map(_.gateway).toSet == gateways.toSet) pool else pool.withGateways(gateways))
  }

  private def change[A](event: GatewayPool => (GatewayPool, A)): A = {
    val (ejected, due, answer) = synchronized {
      val before = pool.ejected
      val (changed, answer) = event(pool)
      val (marked, due) = changed.due(clock())
      pool = marked
      (pool.members.filter(member => member.ejection.nonEmpty && !before(member.gateway)), due, answer)
    }
    ejected.foreach { member =>
      Counters.GatewaysEjected.increment()
      Gateways.Log.warn("The gateway {} is out of service until it answers a probe", member.gateway.name)
      member.ejection.foreach(ejection => probeLater(ejection.until))
    }
    due.foreach(gateway => later(0, () => probed(gateway)))
    answer
  }

  /** Whoever is due then is given out by the pool to the first who asks. */
  private def probeLater(at: Long): Unit = later(math.max(0, at - clock()), () => update(identity))

  private def probed(gateway: Gateway): Unit = {
    val alive = probe(gateway)
    update(_.probed(gateway, clock(), alive))
    if (alive) Gateways.Log.info("The gateway {} is in service again", gateway.name)
    else synchronized(pool).members.find(_.gateway == gateway).flatMap(_.ejection).foreach(e => probeLater(e.until))
  }

  private def watchAddresses(): Unit =
    later(
      Gateways.LookUpEvery,
      () =>
        try lookUp()
        finally watchAddresses()
    )

  private def found(): Seq[Gateway] = endpoints.flatMap { endpoint =>
    if (!scattered || endpoint.scheme == "https") Seq(Gateway(endpoint))
    else
      try addresses(endpoint.host).distinct.map(address => Gateway(endpoint, Some(address)))
      catch { case _: UnknownHostException => known(endpoint) }
  }.distinct

  /** A name server that is down takes no gateway away. */
  private def known(endpoint: Endpoint): Seq[Gateway] = {
    val before = synchronized(Option(pool)).toSeq.flatMap(_.members).map(_.gateway).filter(_.endpoint == endpoint)
    if (before.isEmpty) Seq(Gateway(endpoint)) else before
  }
}

/**
 * One gateway's use by this JVM since it started.
 *
 * @param bytes
 *   of responses' bodies
 * @param ejectedMs
 *   how long it has been out of service; none: it is in service
 */
final case class GatewayReading(name: String, requests: Long, bytes: Long, inFlight: Int, ejectedMs: Option[Long])

object Gateways {

  private val Log = LoggerFactory.getLogger(classOf[Gateways])

  /** The JVM itself keeps what a name server said for 30 s (networkaddress.cache.ttl). */
  private val LookUpEvery: Long = SECONDS.toNanos(10)
  private val ProbeTimeoutMs = 2000
  private val Seed: Int = UUID.randomUUID.hashCode

  private val shared = new ConcurrentHashMap[(Seq[Endpoint], Boolean), Gateways]

  private lazy val background = timer(threads = 2, "penstock-gateways")

  /** Its threads keep no JVM alive, and what is cancelled is forgotten. */
  private[gateways] def timer(threads: Int, name: String): ScheduledThreadPoolExecutor = {
    val named = BasicThreadFactory.builder().namingPattern(name).daemon(true).build()
    val pool = new ScheduledThreadPoolExecutor(threads, named)
    pool.setRemoveOnCancelPolicy(true)
    pool
  }

  private[gateways] def of(endpoints: Seq[Endpoint], scattered: Boolean): Gateways =
    shared.computeIfAbsent((endpoints, scattered), _ => new Gateways(endpoints, scattered))

  /** Every gateway this JVM uses beside others; a store with a single one has no part in this. */
  def snapshot(): Seq[GatewayReading] = shared.values.asScala.iterator.flatMap(_.snapshot()).toSeq

  private def schedule(nanoseconds: Long, work: () => Unit): Unit = {
    val task: Runnable = () =>
      try work()
      catch { case NonFatal(error) => Log.warn("Looking after the gateways failed; it goes on", error) }
    background.schedule(task, nanoseconds, NANOSECONDS)
  }

  /** @throws java.net.UnknownHostException */
  private[gateways] def resolve(host: String): Seq[String] = distinctHosts(InetAddress.getAllByName(host).toSeq)

  /** A machine with an address of each family is one gateway, not two: only those of the JVM's preferred one count. */
  private[gateways] def distinctHosts(found: Seq[InetAddress]): Seq[String] =
    found.filter(_.getClass == found.head.getClass).map {
      case address: Inet6Address => s"[${address.getHostAddress.takeWhile(_ != '%')}]"
      case address => address.getHostAddress
    }

  /** Any answer but a server's error to an unsigned request: even “forbidden” says that the gateway works. */
  private def answers(gateway: Gateway): Boolean = {
    val host = gateway.address.getOrElse(gateway.endpoint.host)
    val uri = URI.create(s"${gateway.endpoint.scheme}://$host:${gateway.endpoint.port}/")
    try {
      val connection = uri.toURL.openConnection().asInstanceOf[HttpURLConnection]
      connection.setInstanceFollowRedirects(false)
      connection.setConnectTimeout(ProbeTimeoutMs)
      connection.setReadTimeout(ProbeTimeoutMs)
      try connection.getResponseCode < 500
      finally connection.disconnect()
    } catch { case _: IOException => false }
  }

  /** One attempt from its start to its one end; later ends are ignored. */
  final private[gateways] class InFlight(gateways: Gateways, attempt: Attempt) {
    private val ended = new AtomicBoolean

    def gateway: Gateway = attempt.gateway

    def open: Boolean = !ended.get

    def answered(): Unit = if (open) gateways.update(_.answered(attempt, gateways.now()))

    def finished(bytes: Long): Unit = if (ended.compareAndSet(false, true)) gateways.update(_.finished(attempt, bytes))

    def failed(failure: Failure): Unit =
      if (ended.compareAndSet(false, true)) gateways.update(_.failed(attempt, gateways.now(), failure))
  }
}
