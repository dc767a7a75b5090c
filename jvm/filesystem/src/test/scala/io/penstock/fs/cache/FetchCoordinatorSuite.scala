package io.penstock.fs.cache

import java.nio.ByteBuffer
import java.util.concurrent.atomic.AtomicInteger

import scala.concurrent.ExecutionContext.Implicits.global
import scala.concurrent.duration._
import scala.concurrent.{Await, Future, blocking}

import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers
import org.scalatest.time.{Millis, Seconds, Span}

import io.penstock.fs.metrics.Counters

class FetchCoordinatorSuite extends AnyFunSuite with Matchers with TemporaryTiers with Eventually {

  implicit override val patienceConfig: PatienceConfig = PatienceConfig(Span(60, Seconds), Span(5, Millis))

  private val sales = version("a", 2)
  private val Roomy = 16L * 1024 * 1024
  private val Patience = 60000L

  private def granted(cache: PageCache, patienceMs: Long = 0): Claim.Granted =
    cache.claim(sales, 0, patienceMs) match {
      case grant: Claim.Granted => grant
      case other => fail(s"not granted: $other")
    }

  private def bytesIn(claim: Claim): Seq[Byte] = claim match {
    case Claim.Arrived(page) =>
      val bytes = ByteBuffer.allocate(page.length)
      try page.read(0, bytes) shouldBe true
      finally page.close()
      bytes.array.toSeq
    case other => fail(s"not there: $other")
  }

  /** Claims in another thread, which waits for another's fetch when this returns. */
  private def waiting[A](body: => A): Future[A] = {
    val before = Counters.FillWaits.value
    val future = Future(blocking(body))
    eventually(assert(Counters.FillWaits.value > before))
    future
  }

  test("one page is one thread's at a time; another page is free") {
    val one = cache(memory(Roomy))
    val grant = granted(one)
    one.claim(sales, 0, 0) shouldBe Claim.Busy
    one.claim(sales, 0, 20) shouldBe Claim.Busy
    one.claim(sales, 1, 0) shouldBe a[Claim.Granted]
    grant.abandon()
    granted(one).fill(ByteBuffer.wrap(bytesOf(sales, 0)))
    bytesIn(one.claim(sales, 0, 0)) shouldBe bytesOf(sales, 0).toSeq
  }

  test("who waits gets what the other fetched, in the same process and in another") {
    val one = cache(memory(Roomy))
    val another = cache(memory(Roomy))
    val grant = granted(one)
    val waiters = Seq(one, another).map(cache => waiting(bytesIn(cache.claim(sales, 0, Patience))))
    waiters.foreach(_.isCompleted shouldBe false)
    grant.fill(ByteBuffer.wrap(bytesOf(sales, 0)))
    waiters.foreach(Await.result(_, 60.seconds) shouldBe bytesOf(sales, 0).toSeq)
  }

  test("who waits gets the page even when no tier takes it") {
    val one = cache(memory(10))
    val grant = granted(one)
    val waiter = waiting(bytesIn(one.claim(sales, 0, Patience)))
    grant.fill(ByteBuffer.wrap(bytesOf(sales, 0)))
    Await.result(waiter, 60.seconds) shouldBe bytesOf(sales, 0).toSeq
    one.find(sales, 0) shouldBe None
  }

  test("a fetch that was given up is the next one's") {
    val one = cache(memory(Roomy))
    val grant = granted(one)
    val waiters = Seq(one, cache(memory(Roomy))).map(cache => waiting(granted(cache, Patience).abandon()))
    grant.abandon()
    grant.abandon()
    waiters.foreach(Await.result(_, 60.seconds))
  }

  test("a page of the wrong length is refused and the claim is free again") {
    val one = cache(memory(Roomy))
    an[IllegalArgumentException] should be thrownBy granted(one).fill(ByteBuffer.allocate(3))
    granted(one).abandon()
  }

  test("an interrupted waiter stops waiting and stays interrupted; others' claims survive it") {
    val one = cache(memory(Roomy))
    val another = cache(memory(Roomy))
    val grant = granted(one)
    another.claim(sales, 0, 0) shouldBe Claim.Busy
    Thread.currentThread.interrupt()
    val answer = another.claim(sales, 0, Patience)
    Thread.interrupted() shouldBe true
    answer shouldBe Claim.Busy
    another.claim(sales, 0, 0) shouldBe Claim.Busy
    grant.abandon()
    granted(another).abandon()
  }

  test("many threads of several caches that miss one page fetch it once") {
    val caches = Vector.fill(3)(cache(memory(Roomy)))
    val fetches = new AtomicInteger
    def readThrough(cache: PageCache): Seq[Byte] = cache.claim(sales, 0, Patience) match {
      case grant: Claim.Granted =>
        fetches.incrementAndGet()
        Thread.sleep(20)
        grant.fill(ByteBuffer.wrap(bytesOf(sales, 0)))
        bytesOf(sales, 0).toSeq
      case arrived => bytesIn(arrived)
    }
    val threads = (0 until 9).map(n => Future(blocking(readThrough(caches(n % 3)))))
    threads.foreach(Await.result(_, 60.seconds) shouldBe bytesOf(sales, 0).toSeq)
    fetches.get shouldBe 1
  }
}
