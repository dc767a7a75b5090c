package io.penstock.skipping

import java.nio.file.{Files, Path => LocalPath}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.xbean.asm9.commons.{ClassRemapper, Remapper}
import org.apache.xbean.asm9.{ClassReader, ClassWriter, Opcodes}
import org.scalatest.funsuite.AnyFunSuite

class PackagesTest extends AnyFunSuite {

  /** The packages of the module, each of which may use those before it; the root is the extension. */
  private val order = Seq("line", "model", "index", "build", "join", "plan", "layout", "history", "advise", "sql", "")

  private val own = "io/penstock/skipping/(?:([a-z]+)/)?[^/]+".r

  test("packages import one way") {
    val classes = LocalPath.of(classOf[SkippingExtension].getProtectionDomain.getCodeSource.getLocation.toURI)
    val files = Files.walk(classes).iterator.asScala.filter(_.toString.endsWith(".class")).toSeq
    val uses = for {
      file <- files
      from <- packageOf(classes.relativize(file).toString.stripSuffix(".class")).toSeq
      to <- references(Files.readAllBytes(file)).flatMap(packageOf(_))
    } yield from -> to
    assert(uses.flatMap(use => Seq(use._1, use._2)).toSet === order.toSet)
    assert(uses.distinct.filter { case (from, to) => order.indexOf(to) > order.indexOf(from) } === Nil)
  }

  private def packageOf(name: String): Option[String] = name match {
    case own(inner) => Some(Option(inner).getOrElse(""))
    case _ => None
  }

  /** The classes that the code of a class refers to. */
  private def references(code: Array[Byte]): Set[String] = {
    val found = mutable.Set.empty[String]
    val collector = new Remapper(Opcodes.ASM9) { override def map(name: String): String = { found += name; name } }
    new ClassReader(code).accept(new ClassRemapper(new ClassWriter(0), collector), ClassReader.SKIP_DEBUG)
    found.toSet
  }
}
