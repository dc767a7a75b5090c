package io.penstock.catalog

import java.io.{IOException, UncheckedIOException}
import java.util
import java.util.UUID

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.iceberg.hadoop.HadoopFileIO
import org.apache.iceberg.inmemory.InMemoryInputFile
import org.apache.iceberg.io.{InputFile, SeekableInputStream}
import org.apache.spark.SparkConf
import org.apache.spark.serializer.{JavaSerializer, KryoSerializer}
import org.scalatest.funsuite.AnyFunSuite

class MetadataFilesTest extends AnyFunSuite {

  /** A store whose files notice how often they are opened, and asked for their length. */
  private final class Store {
    val opened: mutable.Buffer[String] = mutable.Buffer()
    var lengths = 0

    def file(name: String, content: Array[Byte]): InputFile = new InputFile {
      override def location(): String = name
      override def exists(): Boolean = true
      override def getLength: Long = {
        lengths += 1
        content.length.toLong
      }
      override def newStream(): SeekableInputStream = {
        opened += name
        new InMemoryInputFile(content).newStream()
      }
    }
  }

  private def named(suffix: String, directory: String = "metadata"): String =
    s"s3a://lake/warehouse/t/$directory/00001-${UUID.randomUUID()}$suffix"

  private def read(file: InputFile): Seq[Byte] = {
    val stream = file.newStream()
    try stream.readAllBytes().toSeq
    finally stream.close()
  }

  private val content = Array.tabulate(1000)(_.toByte)

  test("a file of metadata is read once, and sends no request afterwards") {
    for (suffix <- Seq(".metadata.json", ".gz.metadata.json", "-m0.avro", ".avro")) {
      val (store, files) = (new Store, new MetadataFiles(1 << 20))
      val location = named(suffix)
      for (_ <- 1 to 3) assert(read(files.of(store.file(location, content))) == content.toSeq)
      assert(store.opened == Seq(location))
      assert(files.of(store.file(location, content)).getLength == content.length)
      assert(store.lengths == 0)
    }
  }

  test("a stream of what is kept seeks as one of the store's does") {
    val (store, files) = (new Store, new MetadataFiles(1 << 20))
    val file = files.of(store.file(named("-m0.avro"), content))
    val stream = file.newStream()
    stream.seek(990)
    assert(stream.getPos == 990)
    assert(stream.readAllBytes().toSeq == content.toSeq.drop(990))
  }

  test("a file whose name may be written again is read every time") {
    for (
      location <- Seq(
        "s3a://lake/t/metadata/v1.metadata.json",
        "s3a://lake/t/metadata/version-hint.text",
        named(".parquet", "data"),
        named(".avro", "data"),
        named(".stats", "metadata")
      )
    ) {
      val (store, files) = (new Store, new MetadataFiles(1 << 20))
      assert(read(files.of(store.file(location, content))) == content.toSeq)
      val changed = content.reverse
      assert(read(files.of(store.file(location, changed))) == changed.toSeq)
    }
  }

  test("a file that fails while it is read is not kept in part") {
    val files = new MetadataFiles(1 << 20)
    val name = named(".metadata.json")
    val broken = new InputFile {
      override def location(): String = name
      override def exists(): Boolean = true
      override def getLength: Long = content.length.toLong
      override def newStream(): SeekableInputStream = throw new UncheckedIOException(new IOException("reset"))
    }
    intercept[UncheckedIOException](read(files.of(broken)))
    assert(read(files.of(new Store().file(name, content))) == content.toSeq)
  }

  test("the least recently used files make room, and one that is too large is not kept") {
    val (store, files) = (new Store, new MetadataFiles(8000))
    val locations = Seq.fill(9)(named(".avro"))
    locations.take(8).foreach(one => read(files.of(store.file(one, content))))
    read(files.of(store.file(locations.head, content)))
    read(files.of(store.file(locations(8), content)))
    store.opened.clear()
    read(files.of(store.file(locations.head, content)))
    assert(store.opened.isEmpty)
    read(files.of(store.file(locations(1), content)))
    assert(store.opened == Seq(locations(1)))
    val large = named(".avro")
    for (_ <- 1 to 2) assert(read(files.of(store.file(large, content ++ content))).length == 2000)
    assert(store.opened.count(_ == large) == 4)
    for (_ <- 1 to 2) assert(read(files.of(store.file(large, content ++ content), 2000)).length == 2000)
    assert(store.opened.count(_ == large) == 6)
  }

  private def configured(settings: (String, String)*): MetadataFileIO = {
    val conf = new Configuration
    for ((name, value) <- settings) conf.set(name, value)
    val io = new MetadataFileIO
    io.setConf(conf)
    io.initialize(util.Map.of("a", "b"))
    io
  }

  private def settings(conf: Configuration): Map[String, String] =
    conf.asScala.map(setting => setting.getKey -> setting.getValue).toMap

  private val serializers =
    Seq(new JavaSerializer(new SparkConf), new KryoSerializer(new SparkConf)).map(_.newInstance())

  test("an executor has the driver's configuration, and makes it once") {
    for (serializer <- serializers) {
      val io = configured("fs.s3a.endpoint" -> "${here}", "large" -> "ä" * 100000)
      val copies = Seq.fill(2)(serializer.deserialize[MetadataFileIO](serializer.serialize(io)))
      for (copy <- copies) {
        assert(settings(copy.getConf) == settings(io.getConf))
        assert(copy.properties == io.properties)
      }
      assert(copies.map(_.getConf).distinctBy(System.identityHashCode).size == 1)
    }
  }

  test("configurations of other settings stay apart") {
    val serializer = serializers.head
    def copy(value: String) = serializer.deserialize[MetadataFileIO](serializer.serialize(configured("user" -> value)))
    val (first, second) = (copy("a"), copy("b"))
    assert(first.getConf.get("user") == "a")
    assert(second.getConf.get("user") == "b")
  }

  test("a copy for the executors takes half of the bytes of Iceberg's own at most") {
    val plain = new HadoopFileIO(new Configuration)
    def bytes(of: HadoopFileIO): Int = serializers.head.serialize(of).remaining
    assert(bytes(configured()) * 2 < bytes(plain))
  }
}
