package io.penstock.cluster

import java.nio.file.{FileSystems, Files, Path => LocalPath, Paths}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.xbean.asm9.commons.{ClassRemapper, Remapper}
import org.apache.xbean.asm9.{ClassReader, ClassWriter, Opcodes}
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.metrics.Counters
import io.penstock.skipping.SkippingExtension

/** The packages of each module in their order: each may use those before it. The empty name is the module's root. */
class PackagesTest extends AnyFunSuite {

  oneWay(
    "io.penstock.fs",
    Counters.getClass,
    Seq("metrics", "store", "credentials", "connections", "locality", "gateways", "cache") ++
      Seq("list", "read", "write", "commit", "", "scan")
  )
  oneWay(
    "io.penstock.skipping",
    classOf[SkippingExtension],
    Seq("line", "model", "index", "build", "join", "plan", "layout", "history", "advise", "sql", "")
  )
  oneWay("io.penstock.cluster", classOf[ScratchPlugin], Seq("protocol", "scratch", "observe", ""))

  private def oneWay(root: String, inModule: Class[_], order: Seq[String]): Unit =
    test(s"packages of $root import one way") {
      val own = (root.replace('.', '/') + "/(?:([a-z]+)/)?[^/]+").r
      def packageOf(name: String): Option[String] = name match {
        case own(inner) => Some(Option(inner).getOrElse(""))
        case _ => None
      }
      val uses = for {
        (name, code) <- classesBeside(inModule)
        from <- packageOf(name).toSeq
        to <- references(code).flatMap(packageOf(_))
      } yield from -> to
      assert(uses.flatMap(use => Seq(use._1, use._2)).toSet === order.toSet)
      assert(uses.distinct.filter { case (from, to) => order.indexOf(to) > order.indexOf(from) } === Nil)
    }

  /** Names and code of all classes of a jar, or of a directory of classes. */
  private def classesBeside(one: Class[_]): Seq[(String, Array[Byte])] = {
    val location = Paths.get(one.getProtectionDomain.getCodeSource.getLocation.toURI)
    if (Files.isDirectory(location)) classesIn(location)
    else {
      val jar = FileSystems.newFileSystem(location)
      try classesIn(jar.getPath("/"))
      finally jar.close()
    }
  }

  private def classesIn(root: LocalPath): Seq[(String, Array[Byte])] = {
    val files = Files.walk(root).iterator.asScala.filter(_.toString.endsWith(".class")).toSeq
    files.map(file => root.relativize(file).toString.stripSuffix(".class") -> Files.readAllBytes(file))
  }

  /** The classes that the code of a class refers to. */
  private def references(code: Array[Byte]): Set[String] = {
    val found = mutable.Set.empty[String]
    val collector = new Remapper(Opcodes.ASM9) { override def map(name: String): String = { found += name; name } }
    new ClassReader(code).accept(new ClassRemapper(new ClassWriter(0), collector), ClassReader.SKIP_DEBUG)
    found.toSet
  }
}
