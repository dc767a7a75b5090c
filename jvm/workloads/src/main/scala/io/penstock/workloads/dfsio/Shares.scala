package io.penstock.workloads.dfsio

/** Which of the files each client works on. */
object Shares {

  /** Files in turns: 0, `clients`, 2 × `clients` … for the first, and so on. */
  def of(client: Int, clients: Int, files: Int): Seq[Int] = client until files by clients

  /**
   * Which client's share each client should read, so that as few files as possible are read in the executor that wrote
   * them: what a node wrote it may still hold, and reading that says little about the store. All shares move on by the
   * same number of clients, so each file is read once, by nobody who wrote it where there is more than one client.
   *
   * @param writtenIn
   *   the executor that wrote each file
   * @param readers
   *   the executor of each client
   */
  def toRead(writtenIn: IndexedSeq[String], readers: IndexedSeq[String]): Int => Int = {
    val clients = readers.size
    val moves = if (clients > 1) 1 until clients else 0 to 0
    val best = moves.minBy(move => readWhereWritten(writtenIn, readers, client => (client + move) % clients))
    client => (client + best) % clients
  }

  /** How many files are read in the executor that wrote them. */
  def readWhereWritten(writtenIn: IndexedSeq[String], readers: IndexedSeq[String], shareOf: Int => Int): Int =
    readers.indices.map { client =>
      of(shareOf(client), readers.size, writtenIn.size).count(writtenIn(_) == readers(client))
    }.sum
}
