package io.penstock.skipping.index

import io.penstock.skipping.filter.Keys

/** What was asked of a column before: `scans` scans each wanted the files with a value among these keys. */
case class Asked(column: String, scans: Long, keys: Keys)
