package io.penstock.cluster

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}

import org.apache.spark.SparkConf
import org.apache.spark.storage.TopologyMapper

import io.penstock.fs.locality.NodeName

/**
 * Which node the executor at an address is on: `spark.storage.replication.topologyMapper`.
 *
 * Whoever started the executor said so before it came up, in the file `nodes/<address>` of `spark.penstock.directory`.
 * Where nobody did, the address itself remains its place.
 */
class NodeTopology(conf: SparkConf) extends TopologyMapper(conf) {

  private val told: Path = Paths.get(conf.get("spark.penstock.directory")).resolve("nodes")

  override def getTopologyForHost(host: String): Option[String] = {
    val address = host.stripPrefix("[").stripSuffix("]")
    try
      Option
        .when(NodeTopology.Address.matches(address))(Files.readAllBytes(told.resolve(address)))
        .map(name => NodeName.asTopology(new String(name, UTF_8)))
    catch { case _: IOException => None }
  }
}

private object NodeTopology {
  private val Address = "[0-9a-fA-F.:]+".r
}
