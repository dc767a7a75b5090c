package io.penstock.skipping.fuzz

import java.nio.file.{Files, Path, StandardCopyOption}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers

import io.penstock.skipping.LocalSpark
import io.penstock.skipping.build.{IndexMaintenance, IndexedTable}
import io.penstock.skipping.model.SkippingSettings.Prefix

/**
 * What fuzzing rests on: that a file which is skipped wrongly is noticed. Here the index lies: two files have changed
 * places, each with the length and the time that the index knows of the other.
 */
class OracleSuite extends AnyFunSuite with Matchers with LocalSpark {

  override protected def settings: Map[String, String] = FuzzedSpark.settings

  private val TableFiles = 6
  private val RowsPerFile = 200
  private val TableRows = TableFiles * RowsPerFile.toLong

  private lazy val home: Path = {
    val home = Files.createTempDirectory(directory, "lies-")
    val table = home.resolve("f").toUri.toString
    spark.range(0, TableRows, 1, TableFiles).write.parquet(table)
    IndexMaintenance.build(spark, IndexedTable.at(spark, table), Some(Seq("id")))
    // Smaller than the other table, so that it is the one that is broadcast.
    spark.range(0, TableRows, 10, 1).selectExpr("id", "id AS k").write.parquet(home.resolve("d").toUri.toString)
    home
  }

  private lazy val sessions: Seq[SparkSession] = Seq.fill(2)(spark.newSession())

  private lazy val oracle = new Oracle(sessions.head, sessions.last, home)

  private def show(): Unit = for (session <- sessions; table <- Seq("f", "d"))
    session.read.parquet(home.resolve(table).toUri.toString).createOrReplaceTempView(table)

  /** Files of the same length, by their numbers: Parquet's checksums make some a byte longer than others. */
  private lazy val alike: Seq[(Path, Int)] = {
    val listing = Files.list(home.resolve("f"))
    val files =
      try listing.iterator().asScala.toSeq.filter(_.toString.endsWith(".parquet")).sorted
      finally listing.close()
    files.zipWithIndex.groupBy { case (file, _) => Files.size(file) }.values.maxBy(_.size).take(2)
  }

  private def lying(claim: => Unit): Unit = {
    swap()
    show()
    try claim
    finally swap()
  }

  private def swap(): Unit = {
    val files = alike.map(_._1)
    val times = files.map(Files.getLastModifiedTime(_))
    val aside = home.resolve("aside")
    for ((from, to) <- Seq(files.head -> aside, files.last -> files.head, aside -> files.last))
      Files.move(from, to, StandardCopyOption.REPLACE_EXISTING)
    for ((file, time) <- files.zip(times)) Files.setLastModifiedTime(file, time)
  }

  private def query(joins: Seq[Join], where: Seq[String], settings: (String, String)*): Query = {
    val pays = Map(Prefix + "dynamic.max.files.per.key" -> "1.0")
    Query(Seq("x0.id AS i0"), Nil, Source("f", "x0"), joins, where, Nil, None, pays ++ settings)
  }

  /** About one row of a file that changes its place: by a filter, and by a join's key. */
  private lazy val all: Seq[Query] = {
    val key = alike.head._2 * RowsPerFile + 10
    Seq(
      query(Nil, Seq(s"x0.id = $key")),
      query(Seq(Join("INNER", Source("d", "x1", Seq(s"d.k = $key")), Seq("x0.id = x1.id"))), Nil)
    )
  }

  test("where the index is true, answers are the same from fewer files") {
    show()
    all.map(oracle.check) shouldBe Seq(
      Verdict.Same(skipped = TableFiles - 1, byKeys = false),
      Verdict.Same(skipped = TableFiles - 1, byKeys = true)
    )
  }

  test("a file that is skipped wrongly makes the answer different") {
    lying {
      for (query <- all) oracle.check(query) should matchPattern {
        case Verdict.Different(how: String) if how.contains("1 are missing") =>
      }
    }
  }

  test("verifying reads all files, finds nothing where the index is true, and fails the query where it lies") {
    val verified = all.map(query => query.copy(settings = query.settings + (Prefix + "verify" -> "true")))
    show()
    for (query <- verified) oracle.check(query) shouldBe Verdict.Same(skipped = 0, byKeys = false)
    lying {
      for (query <- verified) oracle.check(query) should matchPattern {
        case Verdict.Different(how: String) if how.contains("A file that would have been skipped") =>
      }
    }
  }

  test("a failure that Spark escapes by chance says nothing; any other is a difference") {
    def failure(condition: String, value: Int) =
      Outcome.Failure(s"SparkArithmeticException: [$condition] The value $value")
    val answer = Outcome.Answer(Nil, Map.empty)
    def verdict(eagerly: Outcome) = Verdict.of(answer, failure("CAST_OVERFLOW", 1), eagerly)
    verdict(failure("CAST_OVERFLOW", 2)) should matchPattern { case _: Verdict.Pointless => }
    verdict(failure("DIVIDE_BY_ZERO", 1)) should matchPattern { case _: Verdict.Different => }
    verdict(answer) should matchPattern { case _: Verdict.Different => }
  }
}
