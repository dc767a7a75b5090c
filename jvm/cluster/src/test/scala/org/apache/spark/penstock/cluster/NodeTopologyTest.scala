package org.apache.spark.penstock.cluster

import java.nio.file.{Files, Path}

import org.apache.spark.SparkConf
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.locality.NodeName

class NodeTopologyTest extends AnyFunSuite {

  private val directory = Files.createTempDirectory("topology")
  private val nodes = Files.createDirectory(directory.resolve("nodes"))
  private val topology = new NodeTopology(new SparkConf(false).set("spark.penstock.directory", directory.toString))

  private def tell(address: String, node: String): Path = Files.writeString(nodes.resolve(address), node)

  test("an address is on the node that was reported for it, from then on") {
    assert(topology.getTopologyForHost("10.1.2.3").isEmpty)
    tell("10.1.2.3", "worker-7.example")
    tell("fd00::7", "worker-8")
    assert(NodeName.of(topology.getTopologyForHost("10.1.2.3")).contains("worker-7.example"))
    assert(NodeName.of(topology.getTopologyForHost("[fd00::7]")).contains("worker-8"))
  }

  test("what is no address is on no node, whatever files there are") {
    Files.writeString(directory.resolve("secret"), "s3cret")
    for (host <- Seq("..", ".", "../secret", "", "a b")) assert(topology.getTopologyForHost(host).isEmpty)
  }

  test("what others say of a host's place is no node's name") {
    assert(NodeName.of(Some("/rack-1")).isEmpty)
    assert(NodeName.of(None).isEmpty)
  }
}
