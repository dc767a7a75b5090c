package org.apache.spark.penstock

import org.apache.spark.SparkContext

object Listeners {

  /** Returns once they have heard of everything that has happened so far. */
  def settle(context: SparkContext): Unit = context.listenerBus.waitUntilEmpty()
}
