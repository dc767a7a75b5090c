package io.penstock.cluster.scratch

import org.scalatest.funsuite.AnyFunSuite

class MemoryFailureTest extends AnyFunSuite {

  test("a write that found no room closes memory, however deep its error is") {
    val trace =
      "org.apache.spark.SparkException: …\nCaused by: java.io.IOException: No space left on device\n\tat java…"
    assert(MemoryFailure.of(trace, "/dev/shm/x").contains("a task failed by “No space left on device”"))
  }

  test("a directory that is gone closes memory") {
    val trace = "java.io.FileNotFoundException: /dev/shm/x/00/temp_local_1 (No such file or directory)"
    assert(MemoryFailure.of(trace, "/dev/shm/x").contains("a task failed to use /dev/shm/x"))
  }

  test("an application's own failure does not") {
    assert(MemoryFailure.of("java.lang.ArithmeticException: / by zero\n\tat Main.main", "/dev/shm/x").isEmpty)
  }
}
