package io.penstock.cluster

import java.nio.file.Paths

import org.scalatest.funsuite.AnyFunSuite

class ExecutorLauncherTest extends AnyFunSuite {

  private val minimal =
    List("--directory", "/d e/ü", "--properties-file", "/p", "--executor-id", "3", "--cores", "2")

  test("options come in any order and keep spaces and letters of any language") {
    val options = ExecutorLauncher.Options.parse(minimal.grouped(2).toList.reverse.flatten)
    assert(options.directory == Paths.get("/d e/ü"))
    assert(options.executorId == "3")
    assert(options.cores == 2)
    assert(options.host == "127.0.0.1")
  }

  test("a missing option is named") {
    for (absent <- Seq("directory", "properties-file", "executor-id", "cores")) {
      val options = minimal.grouped(2).filterNot(_.head == s"--$absent").toList.flatten
      val problem = intercept[IllegalArgumentException](ExecutorLauncher.Options.parse(options))
      assert(problem.getMessage.contains(s"--$absent"))
    }
  }

  test("an option without a value is refused") {
    intercept[IllegalArgumentException](ExecutorLauncher.Options.parse(minimal :+ "--host"))
  }
}
