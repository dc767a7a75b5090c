package io.penstock.fs.commit

import scala.util.Random

/**
 * Lets processes take steps one at a time, in an order drawn from a seed, so that a run can be had again. A process
 * asks before each step and waits for its turn; it may be killed instead.
 *
 * @param sleep
 *   whether a process sleeps after so many steps until all others have ended or sleep, too. Turns drawn at random never
 *   hold a process back for long, so what goes wrong after a long pause needs one on purpose.
 */
final class Interleaving(
    seed: Long,
    names: Seq[String],
    kill: (String, Int) => Boolean,
    sleep: (String, Int) => Boolean = (_, _) => false
) {

  private val random = new Random(seed)
  private val steps = scala.collection.mutable.Map.empty[String, Int].withDefaultValue(0)
  private var waiting = Set.empty[String]
  private var running = names.toSet
  private var dead = Set.empty[String]
  private var turn: Option[String] = None

  /** Returns when it is the process's turn. */
  def step(name: String): Unit = synchronized {
    waiting += name
    choose()
    while (!turn.contains(name)) wait()
    turn = None
    waiting -= name
    steps(name) += 1
    if (kill(name, steps(name))) dead += name
    if (dead(name)) throw new MemoryStore.Killed
  }

  def ended(name: String): Unit = synchronized {
    running -= name
    choose()
  }

  private def choose(): Unit =
    if (turn.isEmpty && waiting.nonEmpty && waiting == running) {
      val awake = waiting.filterNot(name => sleep(name, steps(name)))
      val candidates = if (awake.isEmpty) waiting else awake
      turn = Some(candidates.toVector.sorted.apply(random.nextInt(candidates.size)))
      notifyAll()
    }

  /** Runs one process for each name to its end. */
  def run(process: String => Unit): Unit = {
    val threads = names.map { name =>
      val thread = new Thread(() =>
        try process(name)
        finally ended(name)
      )
      thread.setName(name)
      thread.start()
      thread
    }
    threads.foreach(_.join())
  }
}
