package io.penstock.fs

import java.io.FileNotFoundException
import java.net.URI
import java.util.UUID
import java.util.concurrent.CompletableFuture

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.impl.OpenFileParameters
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.fs.s3a.commit.MagicCommitPaths
import org.apache.hadoop.fs.s3a.{S3AFileStatus, S3AFileSystem, Statistic, WriteOperationHelper}
import org.apache.hadoop.fs.store.audit.AuditSpan
import org.apache.hadoop.fs.{BlockLocation, FSDataInputStream, FSDataOutputStream, FileStatus, Path, PathFilter}
import org.apache.hadoop.util.Progressable
import org.apache.hadoop.util.functional.FutureIO

import io.penstock.fs.cache.{CacheSettings, ObjectVersion, PageCache, PageCaches}
import io.penstock.fs.commit.{CommitLog, CreatesTaskFiles, Replacing, TaskOutput}
import io.penstock.fs.list._
import io.penstock.fs.locality.{LiveHosts, Ranges}
import io.penstock.fs.read.{CachedObjects, PageStreamFactory, ScannedFile}
import io.penstock.fs.store.{EmptyBodies, EntityTag}
import io.penstock.fs.write.WriteThroughOperations

/**
 * S3A that tells where a file's pages are wanted, leaves the pages of what it writes in the cache, opens small objects
 * from there, lists a table's partitions together, finds a directory by one request and has what was deleted be gone in
 * every listing: `fs.s3a.impl=io.penstock.fs.PenstockFileSystem`. Everything else is S3A's own, and so are its
 * settings.
 */
class PenstockFileSystem extends S3AFileSystem with CreatesTaskFiles {

  override def initialize(name: URI, conf: Configuration): Unit = {
    val own = new Configuration(conf)
    own.set(CacheSettings.Instance, UUID.randomUUID.toString)
    val intercepted = EmptyBodies.added(EmptyBodies.added(own, name.getHost), name.getHost, classOf[OwnWrites])
    super.initialize(name, intercepted)
  }

  /** Asked for late: the bucket's own settings are known only once S3A has started. */
  private lazy val cache: Option[PageCache] = PageCaches.of(getConf, getBucket)

  /**
   * Where the pages of what is written are left behind, if anywhere; not what S3A encrypts itself, of which the store
   * has other bytes than the writer.
   */
  private lazy val written: Option[PageCache] =
    if (!getConf.getBoolean(CacheSettings.WriteThrough, true) || createStoreContext().isCSEEnabled) None
    else cache

  /** S3A makes these anew for every stream it writes with. */
  override def createWriteOperationHelper(span: AuditSpan): WriteOperationHelper = {
    val s3a = super.createWriteOperationHelper(span)
    written.fold(s3a)(new WriteThroughOperations(s3a, this, _))
  }

  /** A file of a task may be closed behind it, and is created as its commit wants it. */
  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream = TaskOutput.create(makeQualified(path)) {
    super.create(path, permission, overwrite, bufferSize, replication, blockSize, progress)
  }

  private lazy val strict = getConf.getBoolean(CacheSettings.Strict, false)

  /** None where S3A's listings are more than what the store lists. */
  private lazy val pages: Option[StorePages] = {
    val store = createStoreContext()
    Option.when(!store.isCSEEnabled && !store.isUseListV1)(new StorePages(this))
  }

  /** None where nothing may be older than its question. */
  private lazy val ahead: Option[ListingPrefetcher] =
    pages.filter(_ => getConf.getBoolean(ListingPrefetcher.Enabled, true) && !strict).map { pages =>
      val lister = new ListingPrefetcher(pages, () => now())
      OwnWrites.tell(getBucket, lister)
      lister
    }

  private lazy val probe: Option[PathProbe] = pages.map(pages => new PathProbe(pages.first))

  /**
   * In nanoseconds of any one clock: by it a listing is distinguished from the next one, and what was listed ahead is
   * forgotten.
   */
  protected def now(): Long = System.nanoTime()

  override def listStatus(directory: Path): Array[FileStatus] = {
    def alone = super.listStatus(directory)
    // A listing that was requested ahead may be that old.
    val asked = System.currentTimeMillis - ahead.fold(0L)(_ => ListingPrefetcher.MaxAge)
    ahead
      .fold(alone)(_.list(pathToKey(directory), alone)(_.iterator.map(status).toArray))
      .map(DatedStatus(_, asked))
  }

  override def globStatus(pattern: Path): Array[FileStatus] = data(pattern, super.globStatus(pattern))

  override def globStatus(pattern: Path, filter: PathFilter): Array[FileStatus] =
    data(pattern, super.globStatus(pattern, filter))

  /** What a pattern matches, without the directories that Penstock keeps in a table, unless the pattern names them. */
  private def data(pattern: Path, matched: Array[FileStatus]): Array[FileStatus] = {
    def names(path: Path) = path.toUri.getPath.split('/').filter(PenstockFileSystem.OwnDirectories).toSet
    if (matched == null) null
    else {
      val named = names(pattern)
      matched.filter(status => names(status.getPath).subsetOf(named))
    }
  }

  private def status(listed: ListedObject): FileStatus =
    status(keyToQualifiedPath(listed.key), listed.length, listed.modified, listed.etag)

  private def status(path: Path, length: Long, modified: Long, etag: String): S3AFileStatus =
    new S3AFileStatus(length, modified, path, getDefaultBlockSize(path), getUsername, etag, null)

  /** None where only objects are listed, as in every S3 store. */
  private lazy val lingering: Option[EmptyDirectoryCleaner] =
    Option.when(getConf.getBoolean(EmptyDirectoryCleaner.Setting, false))(EmptyDirectoryCleaner.of(this))

  override def delete(path: Path, recursive: Boolean): Boolean = {
    val deleted = super.delete(path, recursive)
    // A single object was asked for by name: its directory is nobody's to remove.
    if (deleted && recursive) removeLingering(path)
    deleted
  }

  override def rename(from: Path, to: Path): Boolean = {
    val renamed = super.rename(from, to)
    if (renamed) removeLingering(from)
    renamed
  }

  private def removeLingering(directory: Path): Unit =
    for (directories <- lingering; key <- Some(pathToKey(directory)) if key.nonEmpty) directories.remove(s"$key/")

  /** Where pages of what is read are kept; none where streams are S3A's own. */
  private lazy val read: Option[PageCache] = if (PageStreamFactory.isUsed(getConf)) cache else None

  private lazy val warm: Option[CachedObjects] = read.map(CachedObjects(_, getConf))

  @volatile private var closed = false

  override def close(): Unit = {
    closed = true
    super.close()
  }

  /**
   * Opens a small object whose pages are all here by itself; anything else is S3A's to open, which its stream learns
   * the split's end of.
   */
  override def openFileWithOptions(
      path: Path,
      parameters: OpenFileParameters
  ): CompletableFuture[FSDataInputStream] = {
    // S3A asks for the status that it is not given.
    def asked(by: OpenFileParameters) =
      if (by.getStatus == null) Some(System.currentTimeMillis) else DatedStatus.asked(by.getStatus)
    def s3a(by: OpenFileParameters) = {
      val time = asked(by)
      super
        .openFileWithOptions(path, by)
        .thenApply[FSDataInputStream](PageStreamFactory.opened(by.getOptions, time, _))
    }
    val file = parameters.getStatus
    val opened =
      // A closed file system refuses, as it does what must be understood and is not.
      if (closed || file == null || !file.isFile || !parameters.getMandatoryKeys.isEmpty) None
      else
        for {
          objects <- warm
          at = makeQualified(path) if at == file.getPath
          of <- objects.find(getBucket, pathToKey(at), file, asked(parameters))
        } yield {
          incrementStatistic(Statistic.INVOCATION_OPEN)
          ScannedFile.isAwaited(ScannedFile(at, file.getLen, file.getModificationTime)): Unit
          objects.open(of, statistics) { etag =>
            val time = asked(parameters)
            val opened = etag.fold(file) { tag =>
              val tagged = status(at, file.getLen, file.getModificationTime, tag)
              time.fold[FileStatus](tagged)(DatedStatus(tagged, _))
            }
            FutureIO.awaitFuture(s3a(parameters.withStatus(opened)))
          }
        }
    opened.fold(s3a(parameters))(CompletableFuture.completedFuture(_))
  }

  /** By a status that S3A asks for. */
  override def open(path: Path, bufferSize: Int): FSDataInputStream = {
    val asked = System.currentTimeMillis
    PageStreamFactory.opened(PenstockFileSystem.WholeFile, Some(asked), super.open(path, bufferSize))
  }

  /** A scan that opens a file knows it from its listing, which is what its splits were made by. */
  override def getFileStatus(path: Path): FileStatus = ScannedFile.at(path) match {
    case Some(file) if !strict =>
      val qualified = makeQualified(path)
      if (read.exists(_.keeps)) ScannedFile.await(file.copy(path = qualified))
      status(qualified, file.length, file.modified, etag = null)
    case scanned =>
      val asked = System.currentTimeMillis
      val found = if (scanned.isEmpty) probed(path, Statistic.INVOCATION_GET_FILE_STATUS) else None
      found match {
        case Some(FoundPath.Object(listed)) => DatedStatus(status(listed), asked)
        case Some(FoundPath.Directory) => new S3AFileStatus(false, makeQualified(path), getUsername)
        case Some(FoundPath.Nothing) =>
          throw new FileNotFoundException(s"No such file or directory: ${makeQualified(path)}")
        case None => DatedStatus(super.getFileStatus(path), asked)
      }
  }

  override def exists(path: Path): Boolean =
    try probed(path, Statistic.INVOCATION_EXISTS).fold(super.exists(path))(_ != FoundPath.Nothing)
    catch { case _: FileNotFoundException => false }

  /** What one listing tells of the path; None where S3A has to be asked. */
  private def probed(path: Path, counted: Statistic): Option[FoundPath] = {
    val key = pathToKey(makeQualified(path))
    // Within a task's uncommitted output, S3A knows of files that no listing has.
    def isMagic = MagicCommitPaths.isMagicPath(MagicCommitPaths.splitPathToElements(path))
    if (closed || !PathProbe.isLikelyDirectory(key) || isMagic) None
    else {
      val found = probe.flatMap(_.find(key))
      if (found.isDefined) incrementStatistic(counted)
      found
    }
  }

  /**
   * Drops the pages of the object as it is now.
   *
   * @throws java.io.IOException
   *   if the store cannot be asked which that is
   */
  private[fs] def forget(path: Path): Unit = read.foreach { pages =>
    super.getFileStatus(path) match {
      case found: S3AFileStatus =>
        for (etag <- EntityTag.strong(found.getEtag))
          pages.forget(ObjectVersion(getBucket, pathToKey(makeQualified(path)), found.getLen, etag))
      case _ => ()
    }
  }

  /** The hosts that each range of the file prefers; what S3A says where there is no choice of hosts. */
  override def getFileBlockLocations(file: FileStatus, start: Long, length: Long): Array[BlockLocation] = {
    lazy val ring = LiveHosts.ring(getConf)
    if (file == null || start < 0 || length < 0 || file.isDirectory || ring.size < 2)
      super.getFileBlockLocations(file, start, length)
    else Ranges.locate(ring, file.getPath.toUri.getPath, file.getLen, start, length)
  }
}

private object PenstockFileSystem {

  /** Beside a table's data: its record of commits, and its skipping index. */
  private val OwnDirectories = Set(CommitLog.Directory, Replacing.SkippingIndex).map(_.stripSuffix("/"))

  private val WholeFile = new Configuration(false)
}

/**
 * A file's status as of a time.
 *
 * @param asked
 *   when the store was asked for it, in milliseconds since 1970
 */
final private class DatedStatus(file: S3AFileStatus, val asked: Long)
    extends S3AFileStatus(
      file.getLen,
      file.getModificationTime,
      file.getPath,
      file.getBlockSize,
      file.getOwner,
      file.getEtag,
      file.getVersionId
    )

private object DatedStatus {

  def apply(status: FileStatus, asked: Long): FileStatus = status match {
    case file: S3AFileStatus if file.isFile => new DatedStatus(file, asked)
    case other => other
  }

  def asked(status: FileStatus): Option[Long] = status match {
    case dated: DatedStatus => Some(dated.asked)
    case _ => None
  }
}
