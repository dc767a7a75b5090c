package io.penstock.skipping.fuzz

/** How a batch of files differs from what Spark writes by default. */
object Writing {

  /** As other writers, older ones and oddly configured ones write; what bounds are to be trusted, is not the same. */
  def settings(dice: Dice): Map[String, String] = dice.weighed(
    8 -> (() => Map.empty[String, String]),
    2 -> (() => Map("parquet.statistics.truncate.length" -> dice.of("1", "3", "64"))),
    1 -> (() => Map("parquet.column.statistics.enabled" -> "false")),
    1 -> (() => Map("parquet.block.size" -> "1", "parquet.block.size.row.check.min" -> "2")),
    1 -> (() => Map("parquet.writer.version" -> "PARQUET_2_0")),
    1 -> (() => Map("parquet.enable.dictionary" -> "false")),
    1 -> (() => Map("spark.sql.parquet.writeLegacyFormat" -> "true")),
    1 -> (() => Map("spark.sql.parquet.outputTimestampType" -> dice.of("INT96", "TIMESTAMP_MILLIS"))),
    1 -> { () =>
      Map(
        "spark.sql.parquet.datetimeRebaseModeInWrite" -> "LEGACY",
        "spark.sql.parquet.int96RebaseModeInWrite" -> "LEGACY",
        "spark.sql.parquet.outputTimestampType" -> dice.of("INT96", "TIMESTAMP_MICROS")
      )
    }
  )

  /** Types whose files Spark also reads as the wider one. */
  private val Narrower = Map(
    "BIGINT" -> "INT",
    "INT" -> "SMALLINT",
    "SMALLINT" -> "TINYINT",
    "DOUBLE" -> "FLOAT",
    "TIMESTAMP_NTZ" -> "DATE",
    "DECIMAL(9,2)" -> "DECIMAL(5,1)"
  )

  /** The columns the files get, and how they differ from the table's. */
  def columns(table: Table, dice: Dice): (Seq[Column], String) = dice.weighed(
    7 -> (() => (table.keys, "")),
    1 -> { () =>
      val without = dice.oneOf(table.keys)
      (table.keys.filterNot(_ == without), s" without ${without.name}")
    },
    1 -> { () =>
      val narrow = table.keys.map { column =>
        val kind = Narrower.get(column.kind.sql).flatMap(sql => Kind.All.find(_.sql == sql))
        kind.fold(column)(k => column.copy(kind = k))
      }
      (narrow, " of narrower types")
    },
    1 -> (() => (table.keys.map(c => c.copy(name = c.name.toUpperCase)), " with names in capitals")),
    1 -> (() => (table.keys.reverse, " in another order"))
  )
}
