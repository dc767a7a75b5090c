package io.penstock.workloads.terasort

import scala.collection.immutable.ListMap

import com.fasterxml.jackson.annotation.JsonIgnoreProperties

/** What a manifest says of generated records: as much as a sorted copy of them can be checked against. */
@JsonIgnoreProperties(ignoreUnknown = true)
final case class DataSet(records: Long, checksum: String)

object DataSet {

  /** The content of the manifest; `more` is for people and for whoever looks for data of certain properties. */
  def describe(tally: Tally, more: Map[String, Any]): Map[String, Any] =
    ListMap[String, Any](
      "records" -> tally.records,
      "bytes" -> tally.records * Record.Bytes,
      "checksum" -> tally.checksum.toString
    ) ++ more
}
