package io.penstock.fs.testing

import java.net.URI
import java.nio.file.{Files, Path => FilePath}
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.scalacheck.Shrink
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.penstock.fs.metrics.Counters

/**
 * The S3 store of the tests, one for all suites of this JVM: in memory within it, or, where `PENSTOCK_TEST_S3_ENDPOINT`
 * names one, a store outside, whose keys are those of the profile `AWS_PROFILE` in `AWS_SHARED_CREDENTIALS_FILE`.
 */
object Store {

  private case class Server(endpoint: URI, accessKey: String, secretKey: String)

  private val outside = sys.env.get("PENSTOCK_TEST_S3_ENDPOINT")

  def isOutside: Boolean = outside.isDefined

  private lazy val server: Server = outside match {
    case Some(endpoint) =>
      val (accessKey, secretKey) = profileKeys()
      Server(URI.create(endpoint), accessKey, secretKey)
    case None =>
      val (accessKey, secretKey) = ("penstock-test", "penstock-test-secret")
      Server(EmbeddedStore.start(accessKey, secretKey), accessKey, secretKey)
  }

  def endpoint: URI = server.endpoint

  private val buckets = new AtomicInteger
  private val run = java.lang.Long.toString(System.currentTimeMillis, 36)

  /** A new, empty bucket, which nobody else uses. Take one for each suite, not for each test. */
  def newBucket(): Bucket = {
    val bucket = new Bucket(s"penstock-test-$run-${buckets.incrementAndGet()}", requests)
    bucket.create()
    bucket
  }

  /**
   * Plain S3A on this store, without Hadoop's defaults from the class path's XML files of others.
   *
   * @param endpoint
   *   where clients connect: the store, or a gateway in front of it
   */
  def conf(endpoint: URI = Store.endpoint): Configuration = {
    val conf = new Configuration()
    for {
      (name, value) <- Map(
        "fs.s3a.endpoint" -> endpoint.toString,
        "fs.s3a.endpoint.region" -> "us-east-1",
        "fs.s3a.path.style.access" -> "true",
        "fs.s3a.aws.credentials.provider" -> "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "fs.s3a.access.key" -> server.accessKey,
        "fs.s3a.secret.key" -> server.secretKey,
        "fs.s3a.attempts.maximum" -> "2",
        "fs.s3a.retry.limit" -> "3",
        "fs.s3a.retry.interval" -> "50ms",
        "fs.s3a.retry.throttle.limit" -> "3",
        "fs.s3a.retry.throttle.interval" -> "50ms",
        "fs.s3a.connection.establish.timeout" -> "2s",
        "fs.s3a.connection.timeout" -> "20s",
        // The least a store takes, so that small tests write several parts.
        "fs.s3a.multipart.size" -> "5M",
        "fs.s3a.block.size" -> "1M",
        "fs.s3a.buffer.dir" -> bufferDirectory.toString,
        // Without the second, S3A alone cannot write an empty object to Ceph 16.
        "fs.s3a.audit.execution.interceptors" -> "io.penstock.fs.metrics.RequestCounter,io.penstock.fs.store.EmptyBodies"
      )
    } conf.set(name, value)
    conf
  }

  /** A file system of its own for this configuration, which the caller closes; Hadoop's cache ignores settings. */
  def fileSystem(bucket: Bucket, conf: Configuration): FileSystem = FileSystem.newInstance(bucket.uri, conf)

  private lazy val requests = new SignedRequests(endpoint, server.accessKey, server.secretKey)

  private lazy val bufferDirectory: FilePath = {
    val directory = Files.createTempDirectory("penstock-s3a-buffers-")
    sys.addShutdownHook {
      Trees.delete(directory)
    }
    directory
  }

  private def profileKeys(): (String, String) = {
    val file = FilePath.of(sys.env("AWS_SHARED_CREDENTIALS_FILE"))
    val profile = sys.env.getOrElse("AWS_PROFILE", "default")
    val section = Files
      .readAllLines(file)
      .asScala
      .map(_.trim)
      .dropWhile(_ != s"[$profile]")
      .drop(1)
      .takeWhile(!_.startsWith("["))
    val keys = section.map(_.split("=", 2).map(_.trim)).collect { case Array(name, value) => name -> value }.toMap
    (keys("aws_access_key_id"), keys("aws_secret_access_key"))
  }

  /** One bucket, seen without S3A and without the SDK, so that looking changes no count. */
  final class Bucket private[Store] (val name: String, requests: SignedRequests) {

    val uri: URI = URI.create(s"s3a://$name/")

    def path(key: String): Path = new Path(s"s3a://$name/$key")

    private[Store] def create(): Unit = requests.send("PUT", s"/$name").expect(200)

    /** Stores an object; its entity tag, without quotes. */
    def put(key: String, data: Array[Byte]): String = requests.send("PUT", s"/$name/$key", body = data).expect(200).etag

    def get(key: String): Option[Array[Byte]] = {
      val response = requests.send("GET", s"/$name/$key")
      if (response.status == 404) None else Some(response.expect(200).body)
    }

    /** The entity tag, without quotes. */
    def etag(key: String): Option[String] = {
      val response = requests.send("HEAD", s"/$name/$key")
      if (response.status == 404) None else Some(response.expect(200).etag)
    }

    def delete(key: String): Unit = requests.send("DELETE", s"/$name/$key").expect(200, 204)

    /** Keys below a prefix, in order; at most 1,000. */
    def list(prefix: String = ""): Seq[String] =
      requests.send("GET", s"/$name", Map("list-type" -> "2", "prefix" -> prefix)).expect(200).elements("Key")

    /** Keys of uploads that are neither completed nor aborted. */
    def pendingUploads(): Seq[String] =
      requests.send("GET", s"/$name", Map("uploads" -> "")).expect(200).elements("Key")
  }
}

/** Which requests S3A sends, of all its clients in this JVM. */
object Requests {

  /** How many of each kind while `work` was done; kinds that were not sent are left out. */
  def during(work: => Unit): Map[String, Long] = {
    val before = sent()
    work
    sent().map { case (kind, count) => kind -> (count - before(kind)) }.filter(_._2 != 0)
  }

  private def sent(): Map[String, Long] =
    Counters.RequestsByKind.map(requests => requests.kind -> requests.sent.value).toMap
}

/** Directories in which others, as a fetch that nobody waits for, make and delete files meanwhile. */
object Trees {

  def files(directory: FilePath): Vector[FilePath] =
    Option(directory.toFile.listFiles).toVector.flatten.flatMap { file =>
      if (file.isDirectory) files(file.toPath) else Vector(file.toPath)
    }

  /** Files that others make there meanwhile may stay. */
  def delete(directory: FilePath): Unit = {
    Option(directory.toFile.listFiles).toVector.flatten.foreach(file => delete(file.toPath))
    directory.toFile.delete(): Unit
  }
}

/** Property checks of what costs microseconds: 300 cases each, where ScalaTest's own default is 10. */
trait Properties extends ScalaCheckPropertyChecks {

  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 300)

  /** A failure is reported as it came: a smaller case may be none that the generator gives, and fail by that alone. */
  implicit protected def unshrunk[A]: Shrink[A] = Shrink.shrinkAny
}
