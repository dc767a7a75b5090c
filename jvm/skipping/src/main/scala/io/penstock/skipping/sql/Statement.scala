package io.penstock.skipping.sql

import io.penstock.skipping.layout.Layout

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

  final case class Advice(table: Seq[String]) extends Statement

  /** `layout`: none where it is to be as advised. */
  final case class Rewrite(table: Seq[String], into: Option[Seq[String]], layout: Option[Layout]) extends Statement
}
