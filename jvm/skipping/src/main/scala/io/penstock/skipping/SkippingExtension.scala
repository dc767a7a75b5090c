package io.penstock.skipping

import org.apache.spark.sql.SparkSessionExtensions

import io.penstock.skipping.index.RefreshOnWrite
import io.penstock.skipping.sql.SkippingParser

/** `spark.sql.extensions=io.penstock.skipping.SkippingExtension`: files that cannot match are never read. */
class SkippingExtension extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    SkippingSettings.register()
    extensions.injectParser((_, delegate) => SkippingParser.around(delegate))
    extensions.injectColumnar(new RefreshOnWrite(_))
  }
}
