package io.penstock.skipping.history

import scala.collection.concurrent.TrieMap
import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{SparkListener, SparkListenerApplicationEnd}
import org.apache.spark.sql.execution.QueryExecution
import org.apache.spark.sql.util.QueryExecutionListener
import org.slf4j.LoggerFactory

import io.penstock.skipping.SkippingSettings

/**
 * `spark.sql.queryExecutionListeners=io.penstock.skipping.history.QueryHistory`: notes what each query that succeeded
 * asked of its tables, where `spark.penstock.skipping.history` says where.
 *
 * Runs beside queries, on the driver's event queue: none waits for it, and none fails where notes cannot be kept.
 */
class QueryHistory extends QueryExecutionListener {

  import QueryHistory._

  override def onSuccess(function: String, query: QueryExecution, durationNs: Long): Unit =
    try {
      val session = query.sparkSession
      for (directory <- new SkippingSettings(session.sessionState.conf).history) {
        val notes = new ScanNotes(session.sessionState.conf.caseSensitiveAnalysis).of(query.executedPlan)
        if (notes.nonEmpty) {
          val book = bookOf(session.sparkContext, directory)
          book.add(notes)
          // What is told while the application stops may be told after its end.
          if (session.sparkContext.isStopped) book.flush()
        }
      }
    } catch { case NonFatal(e) => warn(e) }

  override def onFailure(function: String, query: QueryExecution, failure: Exception): Unit = ()
}

private object QueryHistory {
  private val log = LoggerFactory.getLogger(classOf[QueryHistory])

  /** By application and directory: an application's sessions share one. */
  private val books = TrieMap.empty[(String, String), NoteBook]

  @volatile private var warned = false

  private def bookOf(context: SparkContext, directory: String): NoteBook = {
    val key = (context.applicationId, directory)
    books.getOrElse(
      key, {
        val history = new History(directory, context.hadoopConfiguration)
        val book = new NoteBook(history.write(context.applicationId, _))
        books.putIfAbsent(key, book).getOrElse {
          // One that is stopping takes no more listeners, though it still has queries to tell of.
          if (!context.isStopped) context.addSparkListener(new AtTheEnd(key, book))
          history.prune()
          book
        }
      }
    )
  }

  private class AtTheEnd(key: (String, String), book: NoteBook) extends SparkListener {
    override def onApplicationEnd(end: SparkListenerApplicationEnd): Unit = {
      books.remove(key)
      try book.flush()
      catch { case NonFatal(e) => warn(e) }
    }
  }

  private def warn(failure: Throwable): Unit = if (!warned) {
    warned = true
    log.warn("What queries ask for is not noted for advice on layouts; queries are not affected", failure)
  }
}
