package io.penstock.skipping.model

import java.util.concurrent.{
  Callable,
  ExecutionException,
  Future,
  LinkedBlockingQueue,
  ThreadFactory,
  ThreadPoolExecutor,
  TimeUnit
}

import scala.collection.mutable

/** Does short pieces of work that mostly wait for the network, several at a time. */
private[skipping] object ParallelMap {

  private val IdleSeconds = 5L

  /**
   * The results in order, never more than `threads` of them ahead of whoever takes them. The first failure is thrown.
   */
  def map[A, B](items: Iterator[A], threads: Int)(work: A => B): Iterator[B] = {
    val pool =
      new ThreadPoolExecutor(threads, threads, IdleSeconds, TimeUnit.SECONDS, new LinkedBlockingQueue[Runnable], daemon)
    // Whoever takes the results may stop half-way, as a killed task does.
    pool.allowCoreThreadTimeOut(true)
    val running = mutable.Queue.empty[Future[B]]
    def fill(): Unit =
      while (running.size < threads && items.hasNext) {
        val item = items.next()
        running.enqueue(pool.submit((() => work(item)): Callable[B]))
      }
    new Iterator[B] {
      override def hasNext: Boolean = {
        fill()
        running.nonEmpty
      }
      override def next(): B = {
        fill()
        try running.dequeue().get()
        catch {
          case e: ExecutionException =>
            pool.shutdownNow()
            throw e.getCause
          case e: InterruptedException =>
            pool.shutdownNow()
            throw e
        }
      }
    }
  }

  private val daemon: ThreadFactory = task => {
    val thread = new Thread(task, "penstock-skipping-index")
    thread.setDaemon(true)
    thread
  }
}
