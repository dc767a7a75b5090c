package io.penstock.fs.commit

import java.util.concurrent.{Callable, ExecutionException, ExecutorService, Executors}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.hadoop.fs.s3a.commit.CommitConstants

/** The buckets of one table: its own, and those of partitions that have a location of their own. */
final private[commit] class Buckets(open: String => Bucket) {
  private val opened = mutable.Map.empty[String, Bucket]
  def apply(name: String): Bucket = synchronized(opened.getOrElseUpdate(name, open(name)))
}

private[commit] object Buckets {

  /** The file system of another bucket, by the scheme by which the table is known. */
  def fileSystem(table: Path, bucket: String, conf: Configuration): S3AFileSystem = {
    val scheme = table.getFileSystem(conf).getUri.getScheme
    new Path(s"$scheme://$bucket/").getFileSystem(conf).asInstanceOf[S3AFileSystem]
  }
}

/** Runs short requests side by side. */
final private[commit] class Parallel(threads: Int) {

  /** In order. The first failure is thrown once all have ended, so that nothing goes on behind the caller's back. */
  def map[A, B](items: Seq[A])(work: A => B): Vector[B] =
    if (items.sizeIs <= 1 || threads == 1) inTurn(items)(work)
    else {
      val pool: ExecutorService = Executors.newFixedThreadPool(
        math.min(threads, items.size),
        task => {
          val thread = new Thread(task, "penstock-commit")
          thread.setDaemon(true)
          thread
        }
      )
      try {
        val results = pool.invokeAll(items.map(item => (() => work(item)): Callable[B]).asJava)
        results.asScala.iterator
          .map(result =>
            try result.get()
            catch { case e: ExecutionException => throw e.getCause }
          )
          .toVector
      } finally pool.shutdown()
    }

  /** In this thread; as in `map`, a failure leaves out none of the others. */
  private def inTurn[A, B](items: Seq[A])(work: A => B): Vector[B] = {
    val results = items.iterator.map(item =>
      try Right(work(item))
      catch { case failure: Throwable => Left(failure) }
    )
    results.toVector.map(_.fold(throw _, identity))
  }

  def filter[A](items: Seq[A])(predicate: A => Boolean): Vector[A] =
    map(items)(item => (item, predicate(item))).collect { case (item, true) => item }
}

private[commit] object Parallel {

  /** As many threads as S3A's own committers would have. */
  def of(conf: Configuration): Parallel = new Parallel(
    conf.getInt(CommitConstants.FS_S3A_COMMITTER_THREADS, CommitConstants.DEFAULT_COMMITTER_THREADS)
  )
}
