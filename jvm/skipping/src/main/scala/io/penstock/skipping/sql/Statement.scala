package io.penstock.skipping.sql

/** A statement about skipping; `table` are the parts of the table's name, outermost first. */
sealed trait Statement {
  def table: Seq[String]
}

object Statement {

  /** None: the columns, or the kinds for each of them, are chosen. */
  final case class Build(table: Seq[String], columns: Option[Seq[String]], kinds: Option[Seq[String]]) extends Statement

  final case class Refresh(table: Seq[String]) extends Statement

  final case class Show(table: Seq[String]) extends Statement

  final case class Drop(table: Seq[String]) extends Statement
}
