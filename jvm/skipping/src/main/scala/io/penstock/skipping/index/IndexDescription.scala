package io.penstock.skipping.index

/** An index as people are told of it: every column of the table is among `columns` or `leftOut`. */
case class IndexDescription(columns: Seq[DescribedColumn], leftOut: Seq[LeftOut])

/** @param summary None where not a single file is known */
case class DescribedColumn(planned: PlannedColumn, summary: Option[ColumnSummary])
