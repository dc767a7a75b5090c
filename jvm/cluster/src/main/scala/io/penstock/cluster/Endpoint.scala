package io.penstock.cluster

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, NoSuchFileException, Path}

/**
 * Where the executors of one application find its driver.
 *
 * As a file: three lines, in this order. `uiUrl` is empty when the driver has no UI.
 */
final case class Endpoint(driverUrl: String, applicationId: String, uiUrl: String) {

  def publish(directory: Path): Unit =
    AtomicFile.replace(directory.resolve(Endpoint.FileName), s"$driverUrl\n$applicationId\n$uiUrl\n")
}

object Endpoint {
  val FileName = "endpoint"

  /** The endpoint published in `directory`; None while there is none. */
  def read(directory: Path): Option[Endpoint] =
    try {
      // The limit keeps the empty third line of a driver without UI.
      val lines = new String(Files.readAllBytes(directory.resolve(FileName)), UTF_8).split("\n", -1)
      Some(Endpoint(lines(0), lines(1), lines(2)))
    } catch { case _: NoSuchFileException => None }

  def withdraw(directory: Path): Unit = { val _ = Files.deleteIfExists(directory.resolve(FileName)) }
}
