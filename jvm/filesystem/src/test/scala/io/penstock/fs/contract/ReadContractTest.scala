package io.penstock.fs.contract

import org.scalatest.funsuite.AnyFunSuite

/**
 * Hadoop's own tests of input streams, all of them, with a cache that has nothing yet and one that has what was
 * written.
 */
class ReadContractTest extends AnyFunSuite with ContractRuns {

  private val contracts = Seq(
    classOf[OpenContract],
    classOf[SeekContract],
    classOf[VectoredReadContract],
    classOf[UnbufferContract],
    classOf[StreamIOStatisticsContract]
  )

  for {
    (cache, writeThrough) <- Seq("a cold cache" -> false, "a warm cache" -> true)
    contract <- contracts
  } test(s"${contract.getSimpleName}, $cache") {
    val outcome = run(contract, penstock(writeThrough))
    assert(outcome.failed.isEmpty, outcome.failed.values.mkString("\n"))
    assert(outcome.ran > 0 && outcome.skipped.isEmpty)
  }
}
