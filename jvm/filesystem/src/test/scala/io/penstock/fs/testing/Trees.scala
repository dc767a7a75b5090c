package io.penstock.fs.testing

import java.nio.file.Path

/** Directories in which others, as a fetch that nobody waits for, make and delete files meanwhile. */
object Trees {

  def files(directory: Path): Vector[Path] =
    Option(directory.toFile.listFiles).toVector.flatten.flatMap { file =>
      if (file.isDirectory) files(file.toPath) else Vector(file.toPath)
    }

  /** What others make there meanwhile may stay. */
  def delete(directory: Path): Unit = {
    Option(directory.toFile.listFiles).toVector.flatten.foreach(file => delete(file.toPath))
    directory.toFile.delete(): Unit
  }
}
