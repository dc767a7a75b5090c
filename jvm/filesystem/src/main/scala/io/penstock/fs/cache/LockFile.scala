package io.penstock.fs.cache

import java.io.IOException
import java.nio.channels.{ClosedByInterruptException, FileChannel, FileLock, OverlappingFileLockException}
import java.nio.file.attribute.BasicFileAttributes
import java.nio.file.{Files, NoSuchFileException, Path, StandardOpenOption}
import java.util.concurrent.locks.LockSupport

import scala.annotation.tailrec
import scala.collection.mutable

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
