package io.penstock.build

import java.nio.file.{Files, Path, Paths, StandardCopyOption}
import java.security.MessageDigest
import java.util.HexFormat

import scala.jdk.CollectionConverters._
import scala.util.Using

import com.fasterxml.jackson.databind.{ObjectMapper, SerializationFeature}

/**
 * Makes the Python package's jars directory hold exactly what was staged, and describes it in `manifest.json`. What is
 * in `lab` below it is on the class path of comparisons alone.
 *
 * Each file is put in place by a rename and the manifest last, so that a reader never sees half a jar and a build that
 * was cut short leaves the directory recognisably stale.
 */
object InstallJars {

  private val Manifest = "manifest.json"
  private val Lab = "lab"

  def main(arguments: Array[String]): Unit = {
    val paths = arguments.map(Paths.get(_).toAbsolutePath.normalize)
    install(staging = paths(0), Licences.read(paths(1)), target = paths(2))
  }

  def install(staging: Path, licences: Licences, target: Path): Unit = {
    val staged = mirror(staging, target) ++ mirror(staging.resolve(Lab), target.resolve(Lab))
    val manifest = new ObjectMapper()
      .enable(SerializationFeature.INDENT_OUTPUT)
      .writeValueAsString(Map("jars" -> staged.filter(isJar).map(describe(_, licences)).asJava).asJava)
    replace(target.resolve(Manifest))(Files.writeString(_, manifest + "\n"))
  }

  /** Returns the files there are. */
  private def mirror(staging: Path, target: Path): Seq[Path] = {
    Files.createDirectories(target)
    val staged = builtFiles(staging)
    val wanted = staged.map(_.getFileName.toString).toSet
    builtFiles(target).filterNot(old => wanted(old.getFileName.toString)).foreach(Files.delete)
    staged.foreach { file =>
      val place = target.resolve(file.getFileName)
      // A jar that did not change keeps its inode: class-data archives and running clusters depend on it.
      if (!Files.exists(place) || Files.mismatch(file, place) >= 0) replace(place)(Files.copy(file, _))
    }
    staged
  }

  private def describe(jar: Path, licences: Licences): java.util.Map[String, Any] = {
    val file = jar.getFileName.toString
    val artifact = licences.of(file)
    val entries = Seq(
      "file" -> file,
      "name" -> artifact.fold(file.stripSuffix(".jar"))(_.name),
      "version" -> artifact.fold("")(_.version),
      "sha256" -> sha256(jar),
      "licences" -> artifact.fold(Seq("Apache-2.0"))(_.licences).asJava
    )
    val ordered = new java.util.LinkedHashMap[String, Any]
    entries.foreach { case (key, value) => ordered.put(key, value) }
    ordered
  }

  private def builtFiles(directory: Path): Seq[Path] =
    Using.resource(Files.list(directory)) {
      _.iterator.asScala
        .filter(file => isJar(file) || (file.toString.endsWith(".json") && !file.endsWith(Manifest)))
        .toSeq
        .sortBy(_.getFileName.toString)
    }

  private def isJar(file: Path): Boolean = file.toString.endsWith(".jar")

  private def replace(place: Path)(write: Path => Any): Unit = {
    val partial = place.resolveSibling(s".${place.getFileName}.partial")
    Files.deleteIfExists(partial)
    write(partial)
    Files.move(partial, place, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING)
  }

  private def sha256(file: Path): String =
    HexFormat.of.formatHex(MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(file)))
}
