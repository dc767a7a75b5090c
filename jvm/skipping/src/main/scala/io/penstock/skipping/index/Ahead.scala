package io.penstock.skipping.index

import java.util.concurrent.{Callable, ExecutionException, Executors, Future}

import scala.collection.mutable

/** Does short pieces of work that mostly wait for the network, several at a time. */
private[index] object Ahead {

  /**
   * The results in order, never more than `threads` of them ahead of whoever takes them. The threads end with the
   * iterator, so it must be used up; or with the first failure, which is thrown.
   */
  def map[A, B](items: Iterator[A], threads: Int)(work: A => B): Iterator[B] = {
    val pool = Executors.newFixedThreadPool(
      threads,
      task => {
        val thread = new Thread(task, "penstock-skipping-index")
        thread.setDaemon(true)
        thread
      }
    )
    val running = mutable.Queue.empty[Future[B]]
    def fill(): Unit =
      while (running.size < threads && items.hasNext) {
        val item = items.next()
        running.enqueue(pool.submit((() => work(item)): Callable[B]))
      }
    new Iterator[B] {
      override def hasNext: Boolean = {
        fill()
        if (running.isEmpty) pool.shutdown()
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
}
