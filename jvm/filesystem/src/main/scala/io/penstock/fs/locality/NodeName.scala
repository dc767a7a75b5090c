package io.penstock.fs.locality

/**
 * The name of the node an executor is on, in the one word that Spark's list of block managers has for a host's place
 * (`BlockManagerId.topologyInfo`). Where executors are pods their addresses are new with each application, and their
 * nodes, which keep the pages, are not.
 */
object NodeName {

  /** Others use that word too, for racks. */
  private val Prefix = "penstock-node:"

  def asTopology(node: String): String = Prefix + node

  def of(topology: Option[String]): Option[String] = topology.filter(_.startsWith(Prefix)).map(_.drop(Prefix.length))
}
