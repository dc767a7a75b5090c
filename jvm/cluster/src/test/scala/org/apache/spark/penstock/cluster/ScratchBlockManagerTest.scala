package org.apache.spark.penstock.cluster

import java.io.File
import java.nio.file.{Files, Path}

import org.apache.spark.network.shuffle.ExecutorDiskUtils
import org.apache.spark.storage.{RDDBlockId, ShuffleDataBlockId, ShuffleIndexBlockId}
import org.apache.spark.{SparkConf, SparkContext, SparkEnv}
import org.scalatest.funsuite.AnyFunSuite

class ScratchBlockManagerTest extends AnyFunSuite {

  private def within(work: (SparkContext, Path) => Unit): Unit = {
    val root = Files.createTempDirectory("scratch-blocks")
    val conf = new SparkConf()
      .setMaster("local[1]")
      .setAppName("blocks")
      .set("spark.ui.enabled", "false")
      .set("spark.local.dir", root.resolve("disk").toString)
      .set("spark.plugins", "io.penstock.cluster.ScratchPlugin")
      .set("spark.penstock.directory", root.toString)
      .set("spark.penstock.scratch.directory", root.resolve("memory").toString)
      .set("spark.penstock.scratch.memory", "64m")
    val context = new SparkContext(conf)
    try work(context, root)
    finally context.stop()
    val left = Seq("disk", "memory").flatMap(place => Option(root.resolve(place).toFile.list).toSeq.flatten)
    assert(left.filterNot(_.startsWith("spark-")).isEmpty, "blocks go with the application")
  }

  test("who knows Spark's rule finds a map output that is in memory: other executors, and the list of all blocks") {
    within { (context, root) =>
      assert(context.parallelize(0 until 100, 1).map(n => (n, n)).groupByKey(2).count() == 100)
      val blocks = SparkEnv.get.blockManager.diskBlockManager
      for (block <- Seq(ShuffleDataBlockId(0, 0, 0), ShuffleIndexBlockId(0, 0, 0))) {
        val own = blocks.getFile(block)
        assert(own.toPath.startsWith(root.resolve("memory")) && own.length > 0)
        val others = ExecutorDiskUtils.getFilePath(blocks.localDirsString, blocks.subDirsPerLocalDir, block.name)
        assert(new File(others).getCanonicalFile == own.getCanonicalFile)
        assert(blocks.getAllBlocks().contains(block))
      }
    }
  }

  test("whoever asks for the local directories, as Python's workers do, is given those on disk") {
    within { (_, root) =>
      val blocks = SparkEnv.get.blockManager.diskBlockManager
      assert(blocks.localDirs.forall(_.toPath.startsWith(root.resolve("disk"))))
      assert(blocks.getFile(RDDBlockId(1, 2)).toPath.startsWith(root.resolve("disk")))
    }
  }
}
