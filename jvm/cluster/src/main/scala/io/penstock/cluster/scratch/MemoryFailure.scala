package io.penstock.cluster.scratch

/** Whether memory is what a task failed by. Java tells such an error's number by its text alone. */
private[cluster] object MemoryFailure {

  private val OutOfRoom = Seq("No space left on device", "Disk quota exceeded", "Cannot allocate memory")

  /**
   * In a failure's stack trace. A full disk is taken for full memory: a file that is open tells its path no more. The
   * application is then in want of disk space in any case.
   */
  def of(stackTrace: String, directory: String): Option[String] =
    OutOfRoom.find(stackTrace.contains(_)).map(error => s"a task failed by “$error”").orElse {
      Option.when(stackTrace.contains(directory))(s"a task failed to use $directory")
    }
}
