package io.penstock.workloads.dfsio

import io.penstock.workloads.Report
import io.penstock.workloads.clients.RateOverTime

/** What the clients of one measurement came to, as the lab records it. */
object Curve {

  /** `write, 4 clients`: one point of the curve. */
  def name(direction: String, clients: Int): String =
    s"$direction, $clients ${if (clients == 1) "client" else "clients"}"

  /**
   * Rates are in bytes per second. The elapsed time is that of the last client to be done; the clients' own rates are
   * over the time that each of them took, as TestDFSIO's average rate and its standard deviation are.
   */
  def record(report: Report, direction: String, done: Seq[Transferred], more: (String, Any)*): Unit = {
    val name = Curve.name(direction, done.size)
    val rates = done.map(client => client.bytes / (client.nanos / 1e9)).sorted
    val mean = rates.sum / rates.size
    report.measure(
      name,
      done.map(_.nanos).max / 1e6,
      done.map(_.bytes).sum,
      0,
      Seq(
        "clients" -> done.size,
        "operations" -> done.map(_.share.size).sum,
        "client_rate_lowest" -> rates.head,
        "client_rate_median" -> median(rates),
        "client_rate_highest" -> rates.last,
        "client_rate_mean" -> mean,
        "client_rate_deviation" -> math.sqrt(rates.map(rate => (rate - mean) * (rate - mean)).sum / rates.size),
        "content_ms" -> done.map(_.contentNanos).sum / 1e6
      ) ++ more: _*
    )
    for ((step, second) <- RateOverTime.merged(done.map(_.steps)).zipWithIndex)
      report.point(name, second, step.bytes, step.operations)
  }

  /** The mean of the middle two where their number is even. `sorted` is not empty. */
  private[dfsio] def median(sorted: Seq[Double]): Double =
    (sorted((sorted.size - 1) / 2) + sorted(sorted.size / 2)) / 2
}
