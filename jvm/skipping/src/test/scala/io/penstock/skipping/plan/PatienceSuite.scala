package io.penstock.skipping.plan

import java.util.concurrent.CountDownLatch

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.{BaseSubqueryExec, LeafExecNode, SparkPlan}
import org.apache.spark.sql.types.LongType
import org.scalatest.funsuite.AnyFunSuite

class PatienceSuite extends AnyFunSuite {

  private val rows = Array(InternalRow(1L), InternalRow(2L))

  test("keys that come are taken") {
    assert(Patience.rows(Answering(() => rows), 30) === Some(rows))
  }

  test("keys that never come are not waited for without end") {
    val never = new CountDownLatch(1)
    val before = Patience.timesLost
    val started = System.nanoTime
    assert(Patience.rows(Answering { () => never.await(); rows }, 1) === None)
    assert(System.nanoTime - started < 20e9)
    assert(Patience.timesLost === before + 1)
  }

  test("a run for keys that fails fails as it did") {
    val failure = intercept[IllegalStateException] {
      Patience.rows(Answering(() => throw new IllegalStateException("no such file")), 30)
    }
    assert(failure.getMessage === "no such file")
  }

  test("any number of scans may wait at once: none of them takes a thread that another one's keys need") {
    val last = new CountDownLatch(200)
    val waiting = (1 to 200).map { _ =>
      val thread = new Thread(() => {
        Patience.rows(Answering { () => last.countDown(); last.await(); rows }, 30)
        ()
      })
      thread.start()
      thread
    }
    waiting.foreach(_.join(30000))
    assert(last.getCount === 0 && waiting.forall(!_.isAlive))
  }
}

/** A subquery that gives what it is told to. */
private case class Answering(answer: () => Array[InternalRow]) extends BaseSubqueryExec with LeafExecNode {
  override def name: String = "keys"
  override def child: SparkPlan = this
  override val output: Seq[Attribute] = Seq(AttributeReference("key", LongType)())
  override def outputPartitioning: Partitioning = UnknownPartitioning(0)
  override def executeCollect(): Array[InternalRow] = answer()
  override protected def doExecute(): RDD[InternalRow] = throw new UnsupportedOperationException
}
