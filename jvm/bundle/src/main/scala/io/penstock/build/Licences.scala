package io.penstock.build

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

/** A third-party library as its own project describes it; `licences` are the names that project gives them. */
case class Artifact(name: String, version: String, licences: Seq[String])

/** Which licences the third-party jars are under, by the name of the jar's file. */
class Licences(byFile: Map[String, Artifact]) {
  def of(file: String): Option[Artifact] = byFile.get(file)
}

object Licences {

  // "     (Apache-2.0) (MIT) Some Name (group:artifact:version - https://address)"
  private val Line = """\s*((?:\([^)]*\) )+).*\(([^:() ]+):([^:() ]+):([^:() ]+) - .*\)""".r
  private val Licence = """\(([^)]*)\)""".r

  /** Reads what license-maven-plugin's `add-third-party` wrote. */
  def read(report: Path): Licences = parse(Files.readAllLines(report).asScala.toSeq)

  def parse(lines: Seq[String]): Licences =
    new Licences(lines.collect { case Line(licences, group, artifact, version) =>
      val names = Licence.findAllMatchIn(licences).map(_.group(1)).toSeq
      s"$artifact-$version.jar" -> Artifact(s"$group:$artifact", version, names)
    }.toMap)
}
