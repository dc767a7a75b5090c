package io.penstock.fs.gateways

import java.util.concurrent.TimeUnit.{MILLISECONDS, SECONDS}

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.testing.Properties

class GatewayPoolTest extends AnyFunSuite with Properties {

  private val Vector(a, b, c) = Vector("a", "b", "c").map(host => Gateway(Endpoint("http", host, 80))): @unchecked
  private def pool(gateways: Gateway*): GatewayPool = GatewayPool(gateways, seed = 0)

  private def ms(count: Long): Long = MILLISECONDS.toNanos(count)
  private def s(count: Long): Long = SECONDS.toNanos(count)

  /** So many calls one after the other, each answered after `took(gateway)`. */
  private def calls(pool: GatewayPool, count: Int, from: Long)(took: Gateway => Long): (GatewayPool, Seq[Gateway]) =
    (1 to count).foldLeft((pool, Seq.empty[Gateway])) { case ((pool, chosen), index) =>
      val start = from + index * s(1)
      val (started, attempt) = pool.start(start, prompt = true)
      (started.answered(attempt, start + took(attempt.gateway)).finished(attempt, 10), chosen :+ attempt.gateway)
    }

  /** Starts an attempt, whoever it goes to but those of `tried`, and fails it. */
  private def failing(pool: GatewayPool, now: Long, failure: Failure, tried: Gateway*): GatewayPool = {
    val (started, attempt) = pool.start(now, prompt = true, tried.toSet)
    started.failed(attempt, now, failure)
  }

  test("attempts go to the gateway with the fewest in flight, in turn among equals") {
    val (idle, chosen) = calls(pool(a, b, c), 6, from = 0)(_ => ms(1))
    assert(chosen == Seq(a, b, c, a, b, c))
    val (one, first) = idle.start(s(10), prompt = true)
    val (two, second) = one.start(s(10), prompt = true)
    val (three, third) = two.finished(first, 0).start(s(10), prompt = true)
    assert(Set(first, second, third).map(_.gateway) == Set(a, b, c))
    assert(three.start(s(10), prompt = true)._2.gateway == first.gateway, "the others are busy")
  }

  test("many processes do not all begin with the same gateway") {
    val firsts = (0 to 2).map(seed => GatewayPool(Seq(a, b, c), seed).start(0, prompt = true)._2.gateway)
    assert(firsts.toSet == Set(a, b, c))
    assert(GatewayPool(Seq(a, b, c), Int.MinValue).members.size == 3)
  }

  test("a retry goes to a gateway that was not tried yet") {
    val (started, first) = pool(a, b, c).start(0, prompt = true)
    val (again, second) = started.failed(first, 0, Failure.Broken).start(0, prompt = true, Set(first.gateway))
    val (_, third) = again.failed(second, 0, Failure.Broken).start(0, prompt = true, Set(first.gateway, second.gateway))
    assert(Set(first, second, third).map(_.gateway) == Set(a, b, c))
  }

  test("a gateway nobody is at is ejected at once, one that answers with errors after three in a row") {
    assert(failing(pool(a, b), 0, Failure.Unreachable).ejected == Set(a))
    val twice = (1 to 2).foldLeft(pool(a, b))((pool, _) => failing(pool, 0, Failure.Broken, b))
    assert(twice.ejected.isEmpty)
    assert(failing(twice, 0, Failure.Broken, b).ejected == Set(a))
    val (started, attempt) = twice.start(0, prompt = true, Set(b))
    val well = started.answered(attempt, 1).finished(attempt, 0)
    assert(failing(well, 0, Failure.Broken, b).ejected.isEmpty, "not in a row")
  }

  test("an ejected gateway is given nothing until a probe of it succeeds") {
    val ejected = failing(pool(a, b), 0, Failure.Unreachable)
    val (_, chosen) = calls(ejected, 20, from = s(1))(_ => ms(1))
    assert(chosen.toSet == Set(b))
    assert(ejected.due(GatewayPool.FirstEjection - 1)._2.isEmpty)
    val (probing, due) = ejected.due(GatewayPool.FirstEjection)
    assert(due == Vector(a))
    assert(probing.due(s(60))._2.isEmpty, "one probe at a time")
    val back = probing.probed(a, s(2), alive = true)
    assert(calls(back, 4, from = s(2))(_ => ms(1))._2.toSet == Set(a, b))
  }

  test("each failed probe doubles the time to the next, up to half a minute") {
    val first = failing(pool(a, b), 0, Failure.Unreachable)
    val lengths = Iterator.iterate((first, 0L)) { case (pool, _) =>
      val until = pool.members.flatMap(_.ejection).head.until
      val after = pool.due(until)._1.probed(a, until, alive = false)
      (after, after.members.flatMap(_.ejection).head.until - until)
    }
    assert(lengths.slice(1, 8).map(_._2).toSeq == Seq(2, 4, 8, 16, 30, 30, 30).map(s(_)))
  }

  test("a gateway that returns only to fail again stays away longer, one that did well for a minute does not") {
    def again(after: Long): Long = {
      val back = failing(pool(a, b), 0, Failure.Unreachable).due(s(1))._1.probed(a, s(1), alive = true)
      val now = s(1) + after
      val (_, _, ejected) = {
        val (started, attempt) = back.start(now, prompt = true, Set(b))
        (started, attempt, started.failed(attempt, now + 1, Failure.Unreachable))
      }
      ejected.members.flatMap(_.ejection).head.length
    }
    assert(again(after = s(5)) == s(2))
    assert(again(after = s(61)) == s(1))
  }

  test("the many failures of one death eject once") {
    val (one, first) = pool(a, b).start(0, prompt = true, Set(b))
    val (two, second) = one.start(0, prompt = true, Set(b))
    val dead = two.failed(first, ms(1), Failure.Unreachable)
    val length = dead.members.flatMap(_.ejection).head.length
    val stillDead = dead.failed(second, ms(2), Failure.Unreachable)
    assert(stillDead.members.flatMap(_.ejection).map(_.length) == Vector(length))
    val back = dead.due(s(1))._1.probed(a, s(1), alive = true)
    assert(back.failed(second, s(2), Failure.Unreachable).ejected.isEmpty, "it began before the ejection")
  }

  test("the last gateway in service is never ejected; when it fails, the others are probed at once") {
    val one = failing(pool(a, b), 0, Failure.Unreachable, b)
    assert(one.due(ms(10))._2.isEmpty)
    val (started, attempt) = one.start(ms(10), prompt = true)
    assert(attempt.gateway == b)
    val both = started.failed(attempt, ms(10), Failure.Unreachable)
    assert(both.ejected == Set(a))
    assert(both.due(ms(10))._2 == Vector(a))
    assert(both.start(ms(11), prompt = true)._2.gateway == b, "there always is a choice")
  }

  test("an overloaded gateway is left alone as long as it asks, or longer from time to time, and is not ejected") {
    val (started, attempt) = pool(a, b).start(0, prompt = true)
    val busy = started.failed(attempt, 0, Failure.Overloaded(Some(s(2))))
    assert(busy.ejected.isEmpty)
    def fourAt(pool: GatewayPool, now: Long) = (1 to 4)
      .foldLeft((pool, Set.empty[Gateway])) { case ((pool, all), _) =>
        val (next, attempt) = pool.start(now, prompt = true)
        (next.finished(attempt, 0), all + attempt.gateway)
      }
      ._2
    assert(fourAt(busy, s(1)) == Set(b))
    assert(fourAt(busy, s(3)) == Set(a, b))
    val pauses = Iterator.iterate(pool(a, b))(failing(_, 0, Failure.Overloaded(None), b)).slice(1, 9)
    assert(
      pauses.map(_.members.head.overloadedUntil).toSeq == Seq(100, 200, 400, 800, 1600, 3200, 5000, 5000).map(ms(_))
    )
  }

  test("where every gateway is overloaded, they are used all the same") {
    val all = failing(failing(pool(a, b), 0, Failure.Overloaded(None)), 0, Failure.Overloaded(None))
    assert(all.members.forall(_.overloadedUntil > 0))
    assert(calls(all, 2, from = 0)(_ => 1)._2.toSet == Set(a, b))
  }

  test("a gateway several times slower than the others is ejected, unless all of that is still fast") {
    val (slow, _) = calls(pool(a, b, c), 40, from = 0)(gateway => if (gateway == a) ms(900) else ms(50))
    assert(slow.ejected == Set(a))
    val (fast, _) = calls(pool(a, b, c), 40, from = 0)(gateway => if (gateway == a) ms(90) else ms(1))
    assert(fast.ejected.isEmpty)
    val (alike, _) = calls(pool(a, b, c), 40, from = 0)(gateway => if (gateway == a) ms(900) else ms(500))
    assert(alike.ejected.isEmpty, "a far store is no slow gateway")
  }

  test("a gateway that owes an answer for long is ejected, not one that is being sent a body") {
    val (waiting, _) = pool(a, b).start(0, prompt = true, Set(b))
    assert(waiting.start(GatewayPool.Overdue, prompt = true)._1.ejected.isEmpty)
    assert(waiting.start(GatewayPool.Overdue + 1, prompt = true)._1.ejected == Set(a))
    val (uploading, _) = pool(a, b).start(0, prompt = false, Set(b))
    assert(uploading.start(s(600), prompt = true)._1.ejected.isEmpty)
  }

  test("one time-out is enough when it was a long one") {
    def timedOut(pool: GatewayPool, after: Long, prompt: Boolean) = {
      val (started, attempt) = pool.start(0, prompt, Set(b))
      started.failed(attempt, after, Failure.Broken).ejected
    }
    assert(timedOut(pool(a, b), s(15), prompt = true) == Set(a))
    assert(timedOut(pool(a, b), s(2), prompt = true).isEmpty)
    assert(timedOut(pool(a, b), s(15), prompt = false).isEmpty)
  }

  test("where no gateway answers, none of them is to blame") {
    val (one, _) = pool(a, b).start(0, prompt = true)
    val (two, _) = one.start(0, prompt = true)
    assert(two.start(s(600), prompt = true)._1.ejected.isEmpty)
  }

  test("addresses that go are given nothing, those that come are, and those that stay keep their history") {
    val dead = failing(pool(a, b), 0, Failure.Unreachable, b)
    val (busy, underWay) = dead.start(0, prompt = true)
    val moved = busy.withGateways(Seq(a, c))
    assert(calls(moved, 4, from = 0)(_ => 1)._2.toSet == Set(c))
    assert(moved.ejected == Set(a))
    assert(
      moved.finished(underWay, 5).failed(underWay, 1, Failure.Unreachable).ejected == Set(a),
      "the end of one gone"
    )
    assert(moved.withGateways(Seq(a)).start(1, prompt = true)._2.gateway == a, "ejected, but there is no other")
  }

  test("one that goes under load and comes back is given as much as the others, not whatever there is") {
    val started = (1 to 6).foldLeft((pool(a, b), Vector.empty[Attempt])) { case ((pool, open), _) =>
      val (next, attempt) = pool.start(0, prompt = true)
      (next, open :+ attempt)
    }
    val (busy, open) = started
    val back = busy.withGateways(Seq(a)).withGateways(Seq(a, b))
    val ended = open.zipWithIndex.foldLeft(back) {
      case (pool, (attempt, 0)) => pool.failed(attempt, 1, Failure.Unreachable)
      case (pool, (attempt, n)) if n < 4 => pool.answered(attempt, 1).finished(attempt, 1)
      case (pool, (attempt, _)) => pool.failed(attempt, 1, Failure.Broken)
    }
    assert(ended.members.forall(_.inFlight == 0))
    assert(ended.members.find(_.gateway == b).exists(_.failures == 0), "what failed before was its former life")
  }

  private sealed trait Event
  private case class Start(prompt: Boolean, tried: Set[Gateway]) extends Event
  private case class End(which: Int, failure: Option[Failure]) extends Event
  private case class Pass(time: Long) extends Event
  private case class Probe(alive: Boolean) extends Event

  /** The name's addresses are these from now on. */
  private case class Move(to: Vector[Gateway]) extends Event

  private val gateways = Vector(a, b, c)
  private val failures =
    Gen.oneOf(Failure.Unreachable, Failure.Broken, Failure.Overloaded(None), Failure.Overloaded(Some(s(1))))
  private val events: Gen[List[Event]] = Gen.listOf(
    Gen.frequency(
      6 -> Gen.zip(Gen.oneOf(true, false), Gen.someOf(gateways).map(_.toSet)).map((Start.apply _).tupled),
      5 -> Gen.zip(Gen.choose(0, 1000), Gen.option(failures)).map((End.apply _).tupled),
      2 -> Gen.choose(0L, s(4)).map(Pass.apply),
      2 -> Gen.oneOf(true, false).map(Probe.apply),
      1 -> Gen.oneOf(Seq(a, b, c), Seq(a), Seq(b, c), Seq(c, a)).map(to => Move(to.toVector))
    )
  )

  test("whatever happens: someone is in service, the idlest of them is chosen, and every request is counted once") {
    forAll(events) { events =>
      var pool = GatewayPool(gateways, seed = 1)
      var open = Vector.empty[Attempt]
      var started = 0L
      var now = 0L
      var present = gateways
      // By the last attempt before it came: what was sent before is not its own.
      var since = gateways.map(_ -> 0L).toMap
      def counted(gateway: Gateway) = open.filter(at => at.gateway == gateway && at.id > since(gateway))
      for (event <- events) {
        event match {
          case Start(prompt, tried) =>
            val (next, attempt) = pool.start(now, prompt, tried)
            val inService = present.filterNot(next.ejected)
            if (inService.nonEmpty) assert(inService.contains(attempt.gateway))
            def free(gateway: Gateway) =
              !tried(gateway) && next.members.find(_.gateway == gateway).exists(_.overloadedUntil <= now)
            def load(gateway: Gateway) = counted(gateway).size
            val best = inService.filter(free)
            if (best.nonEmpty) assert(free(attempt.gateway) && load(attempt.gateway) == best.map(load).min)
            pool = next
            open :+= attempt
            started += 1
          case End(which, failure) if open.nonEmpty =>
            val attempt = open(which % open.size)
            open = open.filter(_ ne attempt)
            pool = failure.fold(pool.answered(attempt, now).finished(attempt, 1))(pool.failed(attempt, now, _))
          case End(_, _) => ()
          case Pass(time) => now += time
          case Probe(alive) =>
            val (probing, due) = pool.due(now)
            assert(due.toSet.subsetOf(pool.ejected))
            pool = due.foldLeft(probing)(_.probed(_, now, alive))
          case Move(to) =>
            since ++= to.filterNot(present.contains).map(_ -> pool.attempts)
            present = to
            pool = pool.withGateways(to)
        }
        assert(pool.members.map(_.gateway) == pool.members.map(_.gateway).distinct)
        assert(pool.members.map(_.gateway).toSet == present.toSet)
        assert(pool.members.forall(member => member.inFlight == counted(member.gateway).size))
        assert(pool.attempts == started)
        assert(pool.members.flatMap(_.unanswered.keys).forall(id => open.exists(_.id == id)))
      }
    }
  }
}
