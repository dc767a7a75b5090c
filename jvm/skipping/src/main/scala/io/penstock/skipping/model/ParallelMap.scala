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

/** The module's bounded parallel map, for short tasks that mostly wait for the network. */
private[skipping] object ParallelMap {

  private val IdleSeconds = 5L

  /**
   * Apply `work` to the items in threads of its own and return the results in order. At most `threads` tasks are ahead
   * of the consumer. The iterator belongs to one thread; it throws the first failure of `work`, and its interruption
   * stops the tasks.
   */
  def map[A, B](items: Iterator[A], threads: Int)(work: A => B): Iterator[B] = {
    val pool =
      new ThreadPoolExecutor(threads, threads, IdleSeconds, TimeUnit.SECONDS, new LinkedBlockingQueue[Runnable], daemon)
    // The consumer may stop half-way, as a killed task does; idle threads then end by themselves.
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
