package io.penstock.workloads.tpcds

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

import io.penstock.workloads.UsageError

/** A query by the name it is asked for and reported under: `q3`, `q14a`, `ss_max`. */
case class Query(name: String, sql: String)

/** The 104 queries, and the sets of them that the field measures. */
object Queries {

  // Four of the 99 come as two statements.
  private val inTwoParts = Set(14, 23, 24, 39)

  /** The 103 statements of the 99 queries, in order, and the scan of store sales that makes them 104. */
  val all: Seq[String] = (1 to 99).flatMap(expand) :+ "ss_max"

  /** The 54 whose time goes into reading: the set of the published comparisons of 3x replication and erasure coding. */
  val io54: Seq[String] = Seq(3, 7, 12, 13, 15, 17, 19, 20, 21, 24, 25, 26, 27, 28, 29, 31, 32, 34, 39, 40, 42, 43, 45,
    46, 48, 49, 51, 52, 55, 56, 60, 63, 64, 65, 66, 68, 71, 73, 75, 76, 79, 82, 83, 84, 85, 87, 88, 89, 90, 91, 92, 93,
    96, 97).flatMap(expand)

  /** Short, selective star joins: the set of the published "power" and "throughput" runs. */
  val nine: Seq[String] = Seq(19, 42, 43, 52, 55, 63, 68, 72, 98).flatMap(expand)

  val sets: Map[String, Seq[String]] = Map("all" -> all, "io54" -> io54, "nine" -> nine)

  def set(name: String): Seq[String] = sets.getOrElse(
    name,
    throw new UsageError(s"There is no query set '$name'. Sets: ${sets.keys.toSeq.sorted.mkString(", ")}.")
  )

  /** Names as a user types them, in that order; `q14` means both its parts. */
  def named(names: Seq[String]): Seq[String] = names.flatMap { name =>
    val parts = if (all.contains(name)) Seq(name) else Seq(s"${name}a", s"${name}b").filter(all.contains)
    if (parts.isEmpty) throw new UsageError(s"There is no query '$name'. Queries: q1 to q99 and ss_max.")
    parts
  }

  def load(name: String): Query = {
    val resource = Option(getClass.getResourceAsStream(s"$name.sql"))
      .getOrElse(throw new IllegalStateException(s"the build left out the query $name"))
    Query(name, Using.resource(resource)(in => new String(in.readAllBytes(), UTF_8)))
  }

  private def expand(number: Int): Seq[String] =
    if (inTwoParts(number)) Seq(s"q${number}a", s"q${number}b") else Seq(s"q$number")
}
