package io.penstock.cluster

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, StandardCopyOption}

/** Files that other processes read while they change: a reader sees the old content or the new, never a part. */
private[cluster] object AtomicFile {

  def replace(file: Path, content: String): Unit = {
    val temporary = file.resolveSibling(s".${file.getFileName}.${ProcessHandle.current.pid}")
    Files.write(temporary, content.getBytes(UTF_8))
    Files.move(temporary, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING)
  }
}
