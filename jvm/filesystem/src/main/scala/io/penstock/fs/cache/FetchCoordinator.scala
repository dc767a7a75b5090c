package io.penstock.fs.cache

import java.io.IOException
import java.nio.ByteBuffer
import java.nio.channels.{ClosedByInterruptException, FileChannel, FileLock, OverlappingFileLockException}
import java.nio.file.attribute.BasicFileAttributes
import java.nio.file.{Files, NoSuchFileException, Path, StandardOpenOption}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}
import java.util.concurrent.locks.LockSupport
import java.util.concurrent.{ConcurrentHashMap, CountDownLatch, TimeUnit}

import scala.annotation.tailrec
import scala.collection.mutable

import io.penstock.fs.metrics.Counters

/**
 * Who fetches a missing page: one thread of the process by a map, one process of the node by a lock on one byte, which
 * the kernel drops when the process dies.
 *
 * @param locks
 *   where the processes meet; none when no tier works, and then each process fetches for itself
 * @param find
 *   the page if it has come meanwhile, else null
 * @param insert
 *   keeps a page, of a scan or of another reader; false if no tier took it
 */
private[cache] final class FetchCoordinator(
    locks: () => Option[LockFile],
    find: PageLabel => Page,
    insert: (PageLabel, ByteBuffer, Boolean) => Boolean
) {
  import FetchCoordinator._

  private val fetches = new ConcurrentHashMap[PageKey, Fetch]

  def isFetching(key: PageKey): Boolean = fetches.containsKey(key)

  def claim(label: PageLabel, patienceMs: Long): Claim = {
    val key = label.key
    val deadline = System.nanoTime + TimeUnit.MILLISECONDS.toNanos(patienceMs)
    @tailrec def ask(): Claim = {
      val mine = new Fetch
      val other = fetches.putIfAbsent(key, mine)
      if (other == null) askProcesses(label, key, mine, deadline)
      else if (!other.await(deadline - System.nanoTime)) Claim.Busy
      else
        other.result.map(new HeapPage(_)).getOrElse(find(label)) match {
          case null => ask()
          case page => Claim.Arrived(page)
        }
    }
    try ask()
    catch {
      case _: InterruptedException =>
        Thread.currentThread.interrupt()
        Claim.Busy
    }
  }

  private def askProcesses(label: PageLabel, key: PageKey, mine: Fetch, deadline: Long): Claim = {
    var granted = false
    try {
      val claim = lockOf(key) match {
        case None => new Grant(label, key, mine, None)
        case Some((file, byte)) => poll(label, key, mine, deadline, file, byte)
      }
      granted = claim.isInstanceOf[Claim.Granted]
      claim
    } catch {
      // A file system without locks: this process fetches for itself.
      case _: IOException =>
        granted = true
        new Grant(label, key, mine, None)
    } finally if (!granted) finish(key, mine, None)
  }

  private def poll(label: PageLabel, key: PageKey, mine: Fetch, deadline: Long, locks: LockFile, byte: Long): Claim = {
    @tailrec def again(pauseMs: Long): Claim = locks.tryLock(byte) match {
      case Some(lock) =>
        // Who had the lock a moment ago may have brought the page.
        find(label) match {
          case null => new Grant(label, key, mine, Some(lock))
          case page =>
            lock.release()
            Claim.Arrived(page)
        }
      case None =>
        val left = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime)
        if (left <= 0) Claim.Busy
        else {
          if (pauseMs == FirstPauseMs) Counters.FillWaits.increment()
          Thread.sleep(math.min(pauseMs, left))
          find(label) match {
            case null => again(math.min(pauseMs * 2, LongestPauseMs))
            case page => Claim.Arrived(page)
          }
        }
    }
    again(FirstPauseMs)
  }

  /** Byte 0 belongs to the tier's directory; that two pages share a byte is as likely as that they share a name. */
  private def lockOf(key: PageKey): Option[(LockFile, Long)] = locks().map(_ -> (1 + (key.low >>> 2)))

  private def finish(key: PageKey, fetch: Fetch, result: Option[Array[Byte]]): Unit = {
    fetches.remove(key, fetch)
    fetch.finish(result)
  }

  private final class Grant(label: PageLabel, key: PageKey, mine: Fetch, lock: Option[LockFile.Lock])
      extends Claim.Granted {

    private val done = new AtomicBoolean

    override def fill(data: ByteBuffer, scanned: Boolean): Boolean = {
      var kept = false
      end {
        kept = insert(label, data, scanned)
        if (kept) Counters.PagesFilled.increment()
        // Those who wait here get it even if no tier takes it: it is fetched once.
        if (kept || mine.waiting == 0) None
        else {
          val bytes = new Array[Byte](data.remaining)
          data.get(data.position(), bytes)
          Some(bytes)
        }
      }
      kept
    }

    override def abandon(): Unit = end(None)

    private def end(result: => Option[Array[Byte]]): Unit =
      if (done.compareAndSet(false, true)) {
        var bytes: Option[Array[Byte]] = None
        try bytes = result
        finally
          try lock.foreach(_.release())
          catch { case _: IOException => () }
          finally finish(key, mine, bytes)
      }
  }
}

private object FetchCoordinator {

  private val FirstPauseMs = 1L
  private val LongestPauseMs = 20L

  /** A fetch that a thread of this process has under way. */
  private final class Fetch {
    private val over = new CountDownLatch(1)
    private val waiters = new AtomicInteger

    /** The page, if those who wait cannot find it in a tier. */
    @volatile var result: Option[Array[Byte]] = None

    def waiting: Int = waiters.get

    def await(nanos: Long): Boolean = nanos > 0 && {
      waiters.incrementAndGet()
      Counters.FillWaits.increment()
      over.await(nanos, TimeUnit.NANOSECONDS)
    }

    def finish(bytes: Option[Array[Byte]]): Unit = {
      result = bytes
      over.countDown()
    }
  }
}

/**
 * Locks on single bytes of a file that the kernel drops when their owner dies.
 *
 * The kernel also drops all of a process's locks on a file when the process closes any descriptor of it, so each file
 * is opened once per process, by [[LockFile.of]], and never closed.
 */
private[cache] final class LockFile private (channel: FileChannel) {

  /** The lock on one byte; none if another thread or process has it. */
  def tryLock(byte: Long): Option[LockFile.Lock] =
    // Not `lock`, which closes the channel, and with it every lock, when its thread is interrupted.
    try Option(channel.tryLock(byte, 1, false)).map(new LockFile.Lock(_))
    catch { case _: OverlappingFileLockException => None }

  /** Holds the lock on a byte that is only ever held for milliseconds. */
  def holding[A](byte: Long)(body: => A): A = {
    val deadline = System.nanoTime + LockFile.Patience * 1000000L
    @tailrec def acquire(): LockFile.Lock = tryLock(byte) match {
      case Some(acquired) => acquired
      case None =>
        if (System.nanoTime > deadline)
          throw new IOException("another process holds the cache's lock and does not let go")
        LockSupport.parkNanos(LockFile.PauseNanos)
        if (Thread.currentThread.isInterrupted) throw new ClosedByInterruptException
        acquire()
    }
    val lock = acquire()
    try body
    finally lock.release()
  }
}

private[cache] object LockFile {

  /** Milliseconds. */
  private val Patience = 10000L

  private val PauseNanos = 1000000L

  final class Lock private[LockFile] (lock: FileLock) {
    def release(): Unit = lock.release()
  }

  private val opened = mutable.HashMap.empty[AnyRef, LockFile]

  /** The one of this process for the file, which is created where there is none. */
  def of(path: Path): LockFile = opened.synchronized {
    @tailrec def known(attempts: Int): LockFile = identityOf(path) match {
      case Some(identity) => opened.getOrElseUpdate(identity, open(path))
      case None if attempts > 0 =>
        PrivateFiles.createFile(path)
        known(attempts - 1)
      case None => throw new NoSuchFileException(path.toString)
    }
    known(attempts = 3)
  }

  private def open(path: Path): LockFile =
    new LockFile(FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE))

  /** Of the file itself, whatever its name: a directory removed and made anew has another lock file. */
  private def identityOf(path: Path): Option[AnyRef] =
    try Some(Files.readAttributes(path, classOf[BasicFileAttributes]).fileKey)
    catch { case _: NoSuchFileException => None }
}
