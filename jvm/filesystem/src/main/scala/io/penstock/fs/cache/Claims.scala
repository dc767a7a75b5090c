package io.penstock.fs.cache

import java.io.IOException
import java.nio.ByteBuffer
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}
import java.util.concurrent.{ConcurrentHashMap, CountDownLatch, TimeUnit}

import scala.annotation.tailrec

import io.penstock.fs.Counters

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
private[cache] final class Claims(
    locks: () => Option[LockFile],
    find: PageLabel => Page,
    insert: (PageLabel, ByteBuffer, Boolean) => Boolean
) {
  import Claims._

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

private object Claims {

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
