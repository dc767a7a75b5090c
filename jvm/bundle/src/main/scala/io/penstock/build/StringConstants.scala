package io.penstock.build

import java.io.{DataInputStream, InputStream}
import java.util.jar.JarFile

import scala.jdk.CollectionConverters._
import scala.util.Using

/** The string literals of compiled classes: the only trace of a setting that is read without being declared. */
object StringConstants {

  def ofJar(jar: String): Set[String] =
    Using.resource(new JarFile(jar)) { file =>
      file.entries.asScala
        .filter(_.getName.endsWith(".class"))
        .flatMap(entry => Using.resource(file.getInputStream(entry))(ofClass))
        .toSet
    }

  /** Reads the constant pool as the Java Virtual Machine Specification, chapter 4.4, lays it out. */
  private def ofClass(stream: InputStream): Seq[String] = {
    val data = new DataInputStream(stream)
    data.skipNBytes(8)
    val count = data.readUnsignedShort()
    val texts = Map.newBuilder[Int, String]
    val literals = Seq.newBuilder[Int]
    var index = 1
    while (index < count) {
      val tag = data.readUnsignedByte()
      tag match {
        case 1 => texts += index -> data.readUTF()
        case 8 => literals += data.readUnsignedShort()
        case 7 | 16 | 19 | 20 => data.skipNBytes(2)
        case 15 => data.skipNBytes(3)
        case 5 | 6 => data.skipNBytes(8)
        case _ => data.skipNBytes(4)
      }
      // A long or a double takes two places.
      index += (if (tag == 5 || tag == 6) 2 else 1)
    }
    val byIndex = texts.result()
    literals.result().flatMap(byIndex.get)
  }
}
