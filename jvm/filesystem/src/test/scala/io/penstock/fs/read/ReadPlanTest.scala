package io.penstock.fs.read

import org.apache.hadoop.fs.s3a.S3AInputPolicy
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.testing.Properties

class ReadPlanTest extends AnyFunSuite with Properties {

  private val plans = for {
    pageSize <- Gen.choose(1, 10)
    length <- Gen.choose(1L, 200L)
    longest <- Gen.choose(1L, 60L)
    shortest <- Gen.choose(0, 25)
    over <- Gen.choose(0, 60)
    merged <- Gen.choose(1, 60)
  } yield ReadPlan(Layout(length, pageSize), longest, shortest, over, merged)

  private val planned = for {
    plan <- plans
    missing <- Gen.someOf(0L until plan.layout.pages).map(_.toVector.sorted)
  } yield (plan, missing)

  private def bytes(plan: ReadPlan, request: Request): Long =
    plan.layout.end(request.last) - plan.layout.start(request.first)

  test("every missing page is in exactly one request, in order, and no request begins or ends with another page") {
    forAll(planned) { case (plan, missing) =>
      val requests = plan.requests(missing)
      assert(missing.forall(page => requests.count(_.contains(page)) == 1))
      assert(requests.forall(request => missing.contains(request.first) && missing.contains(request.last)))
      assert(requests.zip(requests.drop(1)).forall { case (a, b) => a.last < b.first })
    }
  }

  test("no request but a single page's is longer than allowed, and none reads over a gap worth a seek") {
    forAll(planned) { case (plan, missing) =>
      for (request <- plan.requests(missing)) {
        assert(request.first == request.last || bytes(plan, request) <= plan.longestRequest)
        val inside = missing.filter(request.contains)
        for ((a, b) <- inside.zip(inside.drop(1)) if b > a + 1)
          assert(plan.layout.start(b) - plan.layout.end(a) < plan.shortestSeek)
      }
    }
  }

  test("ranges that go to buffers alone are joined where their gap and length allow it, and only there") {
    val ranges = for {
      plan <- plans
      steps <- Gen.listOf(Gen.zip(Gen.choose(0L, 30L), Gen.choose(1L, 30L)))
    } yield {
      val ends = steps.scanLeft((0L, 0L)) { case ((_, before), (gap, length)) => (before + gap, before + gap + length) }
      (plan, ends.tail.map { case (start, end) => new ReadPlanTest.Range(start, end) })
    }
    forAll(ranges) { case (plan, stretches) =>
      val requests = plan.exact(stretches)
      assert(requests.flatten == stretches)
      for (request <- requests) {
        assert(request.size == 1 || request.last.until - request.head.from <= plan.longestMerged)
        assert(request.zip(request.drop(1)).forall { case (a, b) => b.from - a.until < plan.shortestSeek })
      }
      for ((a, b) <- requests.zip(requests.drop(1)))
        assert(
          b.head.from - a.last.until >= plan.shortestSeek || b.head.until - a.head.from > plan.longestMerged
        )
    }
  }

  test("two requests could not have been one") {
    forAll(planned) { case (plan, missing) =>
      val requests = plan.requests(missing)
      for ((a, b) <- requests.zip(requests.drop(1))) {
        val gap = plan.layout.start(b.first) - plan.layout.end(a.last)
        val next = plan.layout.end(b.first) - plan.layout.start(a.first)
        assert((gap > 0 && gap >= plan.shortestSeek) || next > plan.longestRequest)
      }
    }
  }

  test("what is wanted is in the span, which is no wider than a small object or a footer asks for") {
    val wanted = for {
      plan <- plans
      position <- Gen.choose(0L, plan.layout.length - 1)
      length <- Gen.choose(1L, 50L)
      first <- Gen.oneOf(true, false)
    } yield (plan, position, length, first)
    forAll(wanted) { case (plan, position, length, first) =>
      val layout = plan.layout
      val span = plan.span(position, length, first)
      val last = layout.pageOf(math.min(layout.length, position + length) - 1)
      assert(span.contains(layout.pageOf(position)) && span.contains(last) && span.last < layout.pages)
      val footer = first && position >= layout.length - layout.pageSize
      if (layout.pages > ReadPlan.SmallObjectPages && !footer)
        assert(span == Request(layout.pageOf(position), last))
      if (footer) assert(layout.start(span.first) <= math.max(0, layout.length - layout.pageSize))
    }
  }

  test("reading through goes from the first missing page to the last before more is here than is worth reading over") {
    val responses = for {
      plan <- plans
      first <- Gen.choose(0L, plan.layout.pages - 1)
      last <- Gen.choose(first, plan.layout.pages - 1)
      here <- Gen.someOf(first + 1 to last)
    } yield (plan, Request(first, last), here.toSet)
    forAll(responses) { case (plan, wanted, here) =>
      val layout = plan.layout
      val response = plan.readThrough(wanted, here)
      assert(response.first == wanted.first && response.last <= wanted.last && !here(response.last))
      val missing = (response.first to response.last).filterNot(here)
      for ((a, b) <- missing.zip(missing.drop(1)) if b > a + 1)
        assert(layout.start(b) - layout.end(a) < plan.readOver)
      for (next <- (response.last + 1 to wanted.last).find(!here(_)))
        assert(next > response.last + 1 && layout.start(next) - layout.end(response.last) >= plan.readOver)
    }
  }

  private def ahead(policy: S3AInputPolicy, most: Int, pages: Long = 100): ReadAhead =
    ReadAhead(policy, most, Layout(pages, 1), end = pages)

  test("who passes asks for everything at once until he has jumped, and then for twice as much each time") {
    def passed(policy: S3AInputPolicy, jumps: Boolean = false) = {
      val opened = ahead(policy, 8)
      val (begun, _) = (if (jumps) opened.enter(50, ReadAhead.Jump)._1 else opened).enter(0, ReadAhead.ReadOn)
      Seq.unfold((begun.pointless, 1L)) { case (state, page) =>
        Option.when(page < 100) {
          val (next, request) = state.readThrough(page)
          (request, (next, request.last + 1))
        }
      }
    }
    assert(passed(S3AInputPolicy.Sequential) == Seq(Request(1, 99)))
    assert(passed(S3AInputPolicy.Normal) == Seq(Request(1, 99)))
    assert(
      passed(S3AInputPolicy.Normal, jumps = true) ==
        Seq(Request(1, 4), Request(5, 12), Request(13, 28), Request(29, 60), Request(61, 99))
    )
  }

  /** Reads pages 0, 1, 2, …; what was fetched ahead, with the page whose reading asked for it. */
  private def readOn(start: ReadAhead, from: Long, until: Long): Seq[(Long, Request)] = {
    var state = start
    (from until until).flatMap { page =>
      val (next, request) = state.enter(page, ReadAhead.ReadOn)
      state = next
      request.map(page -> _)
    }
  }

  test("a reader who reads on gets twice as much ahead with each step, up to the limit, each page once") {
    val fetched = readOn(ahead(S3AInputPolicy.Normal, 8, pages = 40), 0, 40)
    assert(
      fetched == Seq(
        0L -> Request(1, 2),
        1L -> Request(3, 6),
        3L -> Request(7, 14),
        7L -> Request(15, 22),
        15L -> Request(23, 30),
        23L -> Request(31, 38),
        31L -> Request(39, 39)
      )
    )
  }

  test("nothing is fetched ahead twice, behind the reader, or beyond the end") {
    val readers = for {
      policy <- Gen.oneOf(S3AInputPolicy.Normal, S3AInputPolicy.Sequential, S3AInputPolicy.Random)
      most <- Gen.choose(0, 9)
      pages <- Gen.choose(1L, 60L)
      from <- Gen.choose(0L, pages - 1)
      until <- Gen.oneOf(Gen.const(pages), Gen.choose(from + 1, pages))
    } yield (policy, most, pages, from, until)
    forAll(readers) { case (policy, most, pages, from, until) =>
      val ahead = readOn(ReadAhead(policy, most, Layout(pages, 1), until), from, pages)
      val fetched = ahead.flatMap { case (_, request) => request.first to request.last }
      assert(fetched == fetched.distinct.sorted && fetched.forall(page => page > from && page < pages))
      assert(ahead.forall { case (page, request) => request.first > page && request.last - request.first < most })
      val within = fetched.takeWhile(_ < until)
      if (most > 0 && policy != S3AInputPolicy.Random) assert(within == (from + 1 until until))
    }
  }

  test("a jump ends reading ahead; a random reader must read on before it begins") {
    val (jumped, nothing) = ahead(S3AInputPolicy.Normal, 8).enter(5, ReadAhead.Jump)
    assert(nothing.isEmpty)
    assert(jumped.enter(6, ReadAhead.ReadOn)._2.contains(Request(7, 8)))
    assert(readOn(ahead(S3AInputPolicy.Random, 8), 0, 3) == Seq(2L -> Request(3, 4)))
    assert(readOn(ahead(S3AInputPolicy.Normal, 8).pointless, 0, 50).isEmpty)
  }

  test("nothing is fetched behind a split's end until a reader reads on there, and no response goes beyond it") {
    def split(policy: S3AInputPolicy) = ReadAhead(policy, 8, Layout(10000, 100), end = 1250)
    val sequential = split(S3AInputPolicy.Sequential)
    val asked = readOn(sequential, 0, 40)
    assert(asked.takeWhile(_._1 < 13).flatMap { case (_, r) => r.first to r.last } == (1 to 12))
    assert(asked.dropWhile(_._1 < 13).head == (14L -> Request(15, 22)))
    assert(sequential.readThrough(0)._2 == Request(0, 12))
    assert(split(S3AInputPolicy.Normal).enter(11, ReadAhead.ReadOn)._2.contains(Request(12, 12)))
  }

  test("pages of one read tell nothing of the next, but do not end what has begun") {
    def within(start: ReadAhead) = start.enter(6, ReadAhead.SameRead)
    val (jumped, _) = ahead(S3AInputPolicy.Normal, 8).enter(5, ReadAhead.Jump)
    assert(within(jumped) == ((jumped, None)))
    val (begun, _) = ahead(S3AInputPolicy.Normal, 8).enter(5, ReadAhead.ReadOn)
    assert(within(begun) == begun.enter(6, ReadAhead.ReadOn) && within(begun)._2.contains(Request(8, 11)))
  }
}

private object ReadPlanTest {
  final class Range(val from: Long, val until: Long) extends ReadPlan.Stretch
}
