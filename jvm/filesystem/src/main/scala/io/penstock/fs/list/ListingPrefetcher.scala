package io.penstock.fs.list

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong
import java.util.{Collections, Set => JavaSet, WeakHashMap}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.s3a.S3AFileSystem
import software.amazon.awssdk.core.SdkRequest
import software.amazon.awssdk.core.interceptor.{Context, ExecutionAttributes, ExecutionInterceptor}
import software.amazon.awssdk.services.s3.model._

import io.penstock.fs.store.StoreClient

/**
 * Lists partition directories that are listed one after the other, as Spark does with those of a table, by pages of
 * objects instead of one by one: two thousand partitions of a file each are three requests.
 *
 * What is learnt ahead is for the thread that asked, and is forgotten when this process writes or deletes below the
 * same parent ([[ListingPrefetcher.changed]]): so a thread hears what others of its process have done, and what other
 * processes have done up to [[Siblings.MaxAge]] before.
 */
final private[fs] class ListingPrefetcher(
    pages: ListingPrefetcher.Pages,
    clock: () => Long
) {

  private val parents = new ConcurrentHashMap[(Long, String), Siblings]

  /**
   * The objects of a directory, in order; `alone`, which asks the store for this one, where it is no partition, holds
   * none or holds directories, and where nothing speaks for listing its siblings too.
   *
   * @param key
   *   of the directory, without a slash at its end
   */
  def list[A](key: String, alone: => A)(listed: Vector[ListedObject] => A): A = {
    val parent = key.substring(0, key.lastIndexOf('/') + 1)
    val directory = key.substring(parent.length)
    if (parent.isEmpty || !KeyPage.isPartition(directory)) alone
    else {
      val siblings = of(parent)
      siblings.synchronized {
        siblings.ask(directory, clock()) match {
          case Answer.Known(objects) => Some(objects)
          case Answer.Ahead(objects) =>
            val asked = clock()
            val changes = siblings.changes
            val partitions = pages.page(parent, s"$key/", objects).partitions(parent)
            val found = siblings.learn(directory, partitions, asked, changes)
            siblings.answered(clock())
            found
          case Answer.Alone => None
        }
      } match {
        case Some(objects) => listed(objects)
        case None =>
          try alone
          finally siblings.synchronized(siblings.answered(clock()))
      }
    }
  }

  /** Parents that nobody lists are forgotten: what is kept is of listings under way. */
  private def of(parent: String): Siblings = {
    if (parents.size > ListingPrefetcher.Parents) {
      val now = clock()
      parents.values.removeIf(_.isIdle(now))
    }
    parents.computeIfAbsent((Thread.currentThread.getId, parent), _ => new Siblings)
  }

  /** Something was written, moved or deleted at this key, or below it. */
  def changed(key: String): Unit = {
    val below = s"${key.stripSuffix("/")}/"
    parents.forEach { (of, siblings) =>
      if (key.startsWith(of._2) || of._2.startsWith(below)) siblings.changed()
    }
  }
}

private[fs] object ListingPrefetcher {

  /** Whether partitions are listed together; never with [[io.penstock.fs.cache.CacheSettings.Strict]]. */
  val Enabled: String = "fs.s3a.penstock.list.ahead"

  /** The age in milliseconds that a listing has at most when it is returned. */
  val MaxAge: Long = Siblings.MaxAge / (1000 * 1000)

  private val Parents = 64

  trait Pages {

    /** Objects below `prefix` whose keys come after `after`, at most so many, in order. */
    def page(prefix: String, after: String, objects: Int): KeyPage
  }
}

/** What to do about the listing of one partition directory. */
sealed private[list] trait Answer

private[list] object Answer {

  /** The directory was listed with one before it. */
  final case class Known(objects: Vector[ListedObject]) extends Answer

  /** One request for the directory and what follows it, of so many objects at most. */
  final case class Ahead(objects: Int) extends Answer

  /** As if there were no listing ahead. */
  case object Alone extends Answer
}

/**
 * The policy of listing ahead, of the directories below one parent. Pure: times are given, in nanoseconds of one clock.
 *
 * Whoever lists two partitions within [[Siblings.Pause]] is expected to list those that follow them. What was learnt
 * ahead is returned once, and forgotten after [[Siblings.MaxAge]] or once the lister has paused: so partitions listed
 * one after the other count as one listing, of the time at which its page was asked for.
 */
final private[list] class Siblings {
  import Siblings._

  private var known = Map.empty[String, Vector[ListedObject]]
  private var learnt = 0
  private var askedAt = 0L

  /** Read without the lock of whoever uses this, by those who tidy up. */
  @volatile private var pausedSince = Option.empty[Long]
  private var objects = FirstPage
  private var hopeless = false
  private var learntAfter = 0L
  private val changeCount = new AtomicLong

  def ask(directory: String, now: Long): Answer = {
    val goesOn = pausedSince.exists(now - _ <= Pause)
    if (!goesOn) begin()
    else if (now - askedAt > MaxAge || changes != learntAfter) known = Map.empty
    known.get(directory) match {
      case Some(objects) =>
        known -= directory
        pausedSince = Some(now)
        Answer.Known(objects)
      case None if !goesOn || hopeless => Answer.Alone
      case None => Answer.Ahead(nextPage())
    }
  }

  /** How often something below the parent was changed by this process. */
  def changes: Long = changeCount.get

  /** Told by whoever changes something, without the lock of whoever uses this. */
  def changed(): Unit = changeCount.incrementAndGet(): Unit

  /**
   * The page that [[ask]] wanted for `directory`; what the directory holds, if the page tells.
   *
   * @param after
   *   how many changes there had been when the page was asked for: with one more it may be older than that
   */
  def learn(
      directory: String,
      partitions: Map[String, Vector[ListedObject]],
      asked: Long,
      after: Long
  ): Option[Vector[ListedObject]] = {
    learntAfter = after
    known = partitions - directory
    learnt = known.size
    askedAt = asked
    // Larger than the page, or with directories of its own: so are those that follow.
    if (!partitions.contains(directory)) {
      hopeless = objects == LargestPage
      objects = LargestPage
    }
    partitions.get(directory)
  }

  /** The caller has its answer. */
  def answered(now: Long): Unit = pausedSince = Some(now)

  def isIdle(now: Long): Boolean = pausedSince.forall(now - _ > Pause)

  private def begin(): Unit = {
    known = Map.empty
    learnt = 0
    objects = FirstPage
    hopeless = false
  }

  /** Larger while most of what is learnt is asked for, and small where partitions are picked here and there. */
  private def nextPage(): Int = {
    if (learnt > 0)
      objects = if (2 * known.size <= learnt) math.min(objects * Growth, LargestPage) else FirstPage
    objects
  }
}

private[list] object Siblings {

  /** Between an answer and the next question of one lister. */
  val Pause: Long = 100L * 1000 * 1000

  /** The age of what is returned without asking the store. */
  val MaxAge: Long = 1000L * 1000 * 1000

  val FirstPage = 50
  val Growth = 5

  /** What S3 gives at most with one request. */
  val LargestPage = 1000
}

/** Pages of objects as the store lists them. */
final private[fs] class StorePages(fs: S3AFileSystem) extends ListingPrefetcher.Pages {

  private val store = new StoreClient(fs)

  override def page(prefix: String, after: String, objects: Int): KeyPage =
    page(store.requests.newListObjectsV2RequestBuilder(prefix, null, objects).startAfter(after), after)

  /** The first objects whose keys begin with `prefix`, so many at most. */
  def first(prefix: String, objects: Int): KeyPage =
    page(store.requests.newListObjectsV2RequestBuilder(prefix, null, objects), prefix)

  private def page(request: ListObjectsV2Request.Builder, named: String): KeyPage = {
    val answer = store.retrying("list", named)(store.client.listObjectsV2(request.build()))
    val listed = answer.contents.asScala.iterator.map { o =>
      ListedObject(o.key, o.size.longValue, o.lastModified.toEpochMilli, o.eTag)
    }
    KeyPage(listed.toVector, last = !answer.isTruncated)
  }
}

/** An object as a listing tells of it. `modified` is in milliseconds since 1970. */
final case class ListedObject(key: String, length: Long, modified: Long, etag: String)

/** Some of the objects below a prefix, in the order of their keys; `last` if none follows. */
final case class KeyPage(objects: Vector[ListedObject], last: Boolean) {

  /**
   * What each partition directory below `parent` (with its slash) holds, of those that this page lists from their first
   * object to their last. It must have been asked for from the beginning of a directory. What has directories of its
   * own, and what is no partition (`column=value`), is left out.
   */
  def partitions(parent: String): Map[String, Vector[ListedObject]] = {
    val directories = objects.filter(below(parent, _).contains('/')).groupBy(below(parent, _).takeWhile(_ != '/'))
    val cut = if (last) None else objects.lastOption.map(below(parent, _).takeWhile(_ != '/'))
    for {
      (name, held) <- directories
      if KeyPage.isPartition(name) && !cut.contains(name)
      inside = parent.length + name.length + 1
      if !held.exists(_.key.indexOf('/', inside) >= 0)
      // A marker that the directory is there is not in it.
      files = held.filter(_.key.length > inside)
      if files.nonEmpty
    } yield name -> files
  }

  private def below(parent: String, listed: ListedObject): String = listed.key.substring(parent.length)
}

object KeyPage {
  def isPartition(directory: String): Boolean = directory.indexOf('=') > 0
}

/**
 * Sees every request by which this process changes a bucket, whoever sends it, and has what was listed ahead of it be
 * forgotten: `fs.s3a.audit.execution.interceptors=io.penstock.fs.list.OwnWrites`. [[io.penstock.fs.PenstockFileSystem]]
 * brings it along.
 */
class OwnWrites extends ExecutionInterceptor {

  override def afterExecution(context: Context.AfterExecution, attributes: ExecutionAttributes): Unit =
    OwnWrites.sent(context.request)

  /** What nobody answered may have been done all the same. */
  override def onExecutionFailure(context: Context.FailedExecution, attributes: ExecutionAttributes): Unit =
    OwnWrites.sent(context.request)
}

private[fs] object OwnWrites {

  /** Who lists a bucket ahead; those that nobody uses any more go away by themselves. */
  private val listers = new ConcurrentHashMap[String, JavaSet[ListingPrefetcher]]

  /** From now on this lister hears of changes to the bucket. */
  def tell(bucket: String, lister: ListingPrefetcher): Unit = {
    val listening = listers.computeIfAbsent(bucket, _ => Collections.newSetFromMap(new WeakHashMap))
    listening.synchronized(listening.add(lister)): Unit
  }

  private def sent(request: SdkRequest): Unit = request match {
    case put: PutObjectRequest => changed(put.bucket, Seq(put.key))
    case done: CompleteMultipartUploadRequest => changed(done.bucket, Seq(done.key))
    case copy: CopyObjectRequest => changed(copy.destinationBucket, Seq(copy.destinationKey))
    case one: DeleteObjectRequest => changed(one.bucket, Seq(one.key))
    case many: DeleteObjectsRequest => changed(many.bucket, many.delete.objects.asScala.map(_.key).toSeq)
    case _ => ()
  }

  private def changed(bucket: String, keys: Seq[String]): Unit =
    Option(listers.get(bucket)).foreach { listening =>
      val now = listening.synchronized(listening.asScala.toVector)
      for (lister <- now; key <- keys) lister.changed(key)
    }
}
