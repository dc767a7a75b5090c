package io.penstock.fs.commit

import java.util.concurrent.{ExecutorService, Executors, Semaphore}

import scala.util.Random

/**
 * Lets processes take steps one at a time, in an order that can be had again. A process asks before each step and waits
 * for its turn; it may be killed instead.
 *
 * @param pick
 *   whose turn it is of those that could go on, in the order of their names
 * @param sleep
 *   whether a process sleeps after so many steps until all others have ended or sleep, too. Turns drawn at random never
 *   hold a process back for long, so what goes wrong after a long pause needs one on purpose.
 */
final class Interleaving(
    pick: Vector[String] => String,
    names: Seq[String],
    kill: (String, Int) => Boolean,
    sleep: (String, Int) => Boolean = (_, _) => false
) {

  private val steps = scala.collection.mutable.Map.empty[String, Int].withDefaultValue(0)
  private var waiting = Set.empty[String]
  private var running = names.toSet
  private var dead = Set.empty[String]
  private var underWay = false
  // One each, so that a turn wakes the thread it is for and no other.
  private val turns = names.map(_ -> new Semaphore(0)).toMap

  /** Returns when it is the process's turn. */
  def step(name: String): Unit = {
    synchronized {
      waiting += name
      choose()
    }
    turns(name).acquire()
    synchronized {
      underWay = false
      waiting -= name
      steps(name) += 1
      if (kill(name, steps(name))) dead += name
      if (dead(name)) throw new MemoryStore.Killed
    }
  }

  def ended(name: String): Unit = synchronized {
    running -= name
    choose()
  }

  private def choose(): Unit =
    if (!underWay && waiting.nonEmpty && waiting == running) {
      val awake = waiting.filterNot(name => sleep(name, steps(name)))
      val candidates = if (awake.isEmpty) waiting else awake
      underWay = true
      turns(pick(candidates.toVector.sorted)).release()
    }

  /** How many steps a process has taken. */
  def taken(name: String): Int = synchronized(steps(name))

  /** Runs one process for each name to its end. */
  def run(process: String => Unit): Unit =
    names
      .map { name =>
        val life: Runnable = () =>
          try process(name)
          finally ended(name)
        Interleaving.threads.submit(life)
      }
      .foreach(_.get())
}

object Interleaving {

  // Kept from one interleaving to the next: a test has thousands of them, of a few steps each.
  private val threads: ExecutorService = Executors.newCachedThreadPool { task =>
    val thread = new Thread(task, "interleaved")
    thread.setDaemon(true)
    thread
  }

  /** Any process as likely as another. */
  def random(seed: Long): Vector[String] => String = {
    val random = new Random(seed)
    candidates => candidates(random.nextInt(candidates.size))
  }

  /**
   * The first process goes on until it has taken as many steps as the first number says, then another one for as many
   * as the second says, and so on in turns, and at last each to its end.
   */
  def turns(lengths: Seq[Int]): Vector[String] => String = {
    var left = lengths.toList
    var current = Option.empty[String]
    candidates => {
      left match {
        case 0 :: rest =>
          left = rest
          current = candidates.find(!current.contains(_)).orElse(current)
        case _ => ()
      }
      val next = current.filter(candidates.contains).getOrElse(candidates.head)
      current = Some(next)
      left = left match {
        case steps :: rest => (steps - 1) :: rest
        case Nil => Nil
      }
      next
    }
  }
}
