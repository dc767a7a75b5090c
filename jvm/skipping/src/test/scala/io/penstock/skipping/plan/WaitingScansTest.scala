package io.penstock.skipping.plan

import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicLong

import scala.concurrent.duration._
import scala.jdk.CollectionConverters._

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.types.LongType
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.skipping.SkippingExtension
import io.penstock.skipping.fuzz.Ending

/**
 * A scan holds its lock while it waits for keys. Adaptive execution prints the query's whole plan, and so takes the
 * lock, when a run of its own has planned a stage: a run for keys that does so never ends, nor does the scan.
 */
class WaitingScansTest extends AnyFunSuite with IndexedTables {

  override protected def settings: Map[String, String] = Map(
    "spark.sql.extensions" -> Seq(classOf[SkippingExtension], classOf[RunsAfterScans]).map(_.getName).mkString(","),
    // No keys come from broadcasts: each join has a run for keys.
    "spark.sql.autoBroadcastJoinThreshold" -> "-1",
    "spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly" -> "false",
    "spark.sql.optimizer.dynamicPartitionPruning.fallbackFilterRatio" -> "100"
  )

  override def beforeAll(): Unit = {
    super.beforeAll()
    val rows = spark.range(0, 800).selectExpr("cast(id div 200 as int) p", "id % 200 k", "id v")
    indexed("fact", rows, 8, "k", "k")
    for (name <- Seq("parts", "unindexed")) {
      val path = directory.resolve(name)
      rows.coalesce(1).write.partitionBy("p").parquet(path.toString)
      if (name == "parts") register(name, path, Seq("k"))
      else spark.read.parquet(path.toString).createOrReplaceTempView(name)
    }
    val dim = directory.resolve("dim").toString
    spark.range(0, 100).selectExpr("cast(id as int) d", "concat('name-', id) name").coalesce(1).write.parquet(dim)
    spark.read.parquet(dim).createOrReplaceTempView("dim")
  }

  /** Nobody prints the scans of a subquery before they run: what is printed of them is not computed yet. */
  private def inSubquery(table: String, key: String): String =
    s"SELECT name FROM dim WHERE d = (SELECT min(v) % 100 FROM $table JOIN dim ON $key = d WHERE name = 'name-3')"

  private def assertEnds(query: => Any): Unit = {
    val before = RunsAfterScans.waited.get
    Ending.within(60.seconds)(query)
    assert(RunsAfterScans.waited.get > before, "no run for keys has met a scan that waits for it")
  }

  test("a query ends whose scan waits for keys of files while the run for them plans a stage") {
    assertEnds(spark.sql(inSubquery("fact", "k")).collect())
  }

  test("a query ends whose scan waits for keys of partitions while the run for them plans a stage") {
    assertEnds(spark.sql(inSubquery("parts", "p")).collect())
  }

  test("so does a query over partitions of a table without an index") {
    assertEnds(spark.sql(inSubquery("unindexed", "p")).collect())
  }

  test("so does a query without skipping") {
    assertEnds(truth(inSubquery("parts", "p")))
  }

  test("every run for keys is planned as a subquery, whatever its scan's table") {
    for ((table, key) <- Seq("fact" -> "k", "parts" -> "p", "unindexed" -> "p")) withClue(table) {
      val join = s"SELECT v FROM $table JOIN dim ON $key = d WHERE name = 'name-3'"
      val runs = collectWithSubqueries(run(join)) { case SubqueryExec(_, plan: AdaptiveSparkPlanExec, _) => plan }
      assert(runs.nonEmpty && runs.forall(_.isSubquery))
    }
  }
}

/** Has each run for keys plan its first stage only when a scan waits for it. */
class RunsAfterScans extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = extensions.injectColumnar(_ => RunsAfterScans.Hold)
}

private object RunsAfterScans {

  /** How many runs a scan has waited for. */
  val waited = new AtomicLong

  object Hold extends ColumnarRule {
    override def preColumnarTransitions: Rule[SparkPlan] = { plan =>
      if (isRunForKeys(plan) && comes(isScanWaiting, 20.seconds)) waited.incrementAndGet()
      plan
    }
  }

  /** Only keys are grouped in this suite. */
  private def isRunForKeys(plan: SparkPlan): Boolean = plan.exists {
    case aggregate: BaseAggregateExec => aggregate.groupingExpressions.nonEmpty
    case _ => false
  }

  private val Waiting = Set(classOf[InSubqueryExec].getName, classOf[SkippingKeys].getName)

  private def isScanWaiting: Boolean = Thread.getAllStackTraces.values.asScala.exists(_.exists { frame =>
    frame.getMethodName == "updateResult" && Waiting(frame.getClassName)
  })

  private def comes(condition: => Boolean, limit: FiniteDuration): Boolean = {
    val deadline = limit.fromNow
    while (!condition && deadline.hasTimeLeft()) Thread.sleep(10)
    condition
  }
}

class SubqueryTimeoutTest extends AnyFunSuite {

  private val rows = Array(InternalRow(1L), InternalRow(2L))

  test("keys that come are taken") {
    assert(SubqueryTimeout.rows(Answering(() => rows), 30) === Some(rows))
  }

  test("keys that never come are not waited for without end") {
    val never = new CountDownLatch(1)
    val before = SubqueryTimeout.timesLost
    assert(SubqueryTimeout.rows(Answering { () => never.await(); rows }, 1) === None)
    assert(SubqueryTimeout.timesLost === before + 1)
  }

  test("a run for keys that fails fails as it did") {
    val failure = intercept[IllegalStateException] {
      SubqueryTimeout.rows(Answering(() => throw new IllegalStateException("no such file")), 30)
    }
    assert(failure.getMessage === "no such file")
  }

  test("any number of scans may wait at once: none of them takes a thread that another one's keys need") {
    val last = new CountDownLatch(200)
    val waiting = (1 to 200).map { _ =>
      val thread = new Thread(() => {
        SubqueryTimeout.rows(Answering { () => last.countDown(); last.await(); rows }, 30)
        ()
      })
      thread.start()
      thread
    }
    waiting.foreach(_.join(30000))
    assert(last.getCount === 0 && waiting.forall(!_.isAlive))
  }
}

/** A subquery that gives what the test chose. */
private case class Answering(answer: () => Array[InternalRow]) extends BaseSubqueryExec with LeafExecNode {
  override def name: String = "keys"
  override def child: SparkPlan = this
  override val output: Seq[Attribute] = Seq(AttributeReference("key", LongType)())
  override def outputPartitioning: Partitioning = UnknownPartitioning(0)
  override def executeCollect(): Array[InternalRow] = answer()
  override protected def doExecute(): RDD[InternalRow] = throw new UnsupportedOperationException
}
