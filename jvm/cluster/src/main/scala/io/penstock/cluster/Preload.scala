package io.penstock.cluster

/** Prepares in the background what an executor will need, while it has nothing else to do. */
private[cluster] object Preload {
  def start(): Unit = ()
}
