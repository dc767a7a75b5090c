package io.penstock.fs.gateways

import software.amazon.awssdk.core.interceptor.{ExecutionAttribute, ExecutionAttributes}

import io.penstock.fs.Counters

/** One call of the SDK's client: its attempts, one after the other. */
final private[gateways] class GatewayCall {
  private var tried = Set.empty[Gateway]
  private var latest: Option[Gateways.InFlight] = None

  /** Whether the latest attempt's end is that of its response's body. */
  @volatile var streams: Boolean = false

  def current: Option[Gateways.InFlight] = synchronized(latest)

  def next(gateways: Gateways, prompt: Boolean): Gateways.InFlight = synchronized {
    // Whoever has not ended by now is being retried for a reason nobody could name.
    latest.foreach(_.failed(Failure.Broken))
    val attempt = gateways.start(prompt, tried)
    if (latest.exists(_.gateway != attempt.gateway)) Counters.GatewayFailovers.increment()
    tried += attempt.gateway
    latest = Some(attempt)
    streams = false
    attempt
  }
}

private[gateways] object GatewayCall {

  private val Key = new ExecutionAttribute[GatewayCall]("io.penstock.fs.gateways.GatewayCall")

  def of(attributes: ExecutionAttributes): GatewayCall = Option(attributes.getAttribute(Key)).getOrElse {
    val call = new GatewayCall
    attributes.putAttribute(Key, call)
    call
  }

  /** The latest attempt of a call, where the client signs at all. */
  def current(attributes: ExecutionAttributes): Option[Gateways.InFlight] =
    Option(attributes.getAttribute(Key)).flatMap(_.current)

  /** Leaves it open whether an attempt failed where the exception tells nothing about its gateway. */
  def gaveUp(attributes: ExecutionAttributes, error: Throwable): Unit =
    current(attributes).filter(_.open).foreach { attempt =>
      Failures.of(error) match {
        case Some(failure) => attempt.failed(failure)
        case None => attempt.finished(0)
      }
    }
}
