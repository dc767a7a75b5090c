package io.penstock.workloads

import java.util.concurrent.TimeUnit.MICROSECONDS
import java.util.concurrent.locks.LockSupport

import software.amazon.awssdk.core.interceptor.{Context, ExecutionAttributes, ExecutionInterceptor}

/**
 * For the lab only: makes a store on this machine as far away as one with a real round trip, by letting each attempt of
 * each request wait before it is sent. Every client that takes the SDK's interceptors waits alike.
 *
 * `fs.s3a.audit.execution.interceptors=io.penstock.workloads.RoundTrip`, and the time in microseconds as the JVM's
 * `-Dpenstock.lab.round.trip`: S3A makes interceptors without telling them its settings. Without it, none waits.
 */
class RoundTrip private[workloads] (nanos: Long) extends ExecutionInterceptor {

  def this() = this(RoundTrip.nanos)

  override def beforeTransmission(context: Context.BeforeTransmission, attributes: ExecutionAttributes): Unit = {
    val until = System.nanoTime() + nanos
    // May return early.
    while (until - System.nanoTime() > 0) LockSupport.parkNanos(until - System.nanoTime())
  }
}

object RoundTrip {
  private val nanos = MICROSECONDS.toNanos(java.lang.Long.getLong("penstock.lab.round.trip", 0L))
}
