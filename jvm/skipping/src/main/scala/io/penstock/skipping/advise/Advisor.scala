package io.penstock.skipping.advise

import io.penstock.skipping.advise.Costs.percent
import io.penstock.skipping.history.ScanNote

/** From what queries asked of a table, the layout in which they would read the fewest bytes. Pure. */
object Advisor {

  /** A layout that saves less than this share of what is read now is not worth writing the table again. */
  private val WorthIt = 0.1

  /** Layouts that differ by less than this share of what is read now are alike: the simpler one is taken. */
  private val Alike = 0.02

  /** What `notes`, all of this table, say; `present`: where its index tells what they would read of it as it lies. */
  def advise(
      notes: Seq[ScanNote],
      facts: TableFacts,
      present: Option[PresentLayout],
      objectBytes: Long
  ): Advice =
    if (notes.isEmpty) Advice(None, 0, 0, 0, Seq("no scan of this table is noted"))
    else {
      val scans = notes.map(_.scans).sum
      val read = notes.map(_.bytes).sum
      val now = present.fold(read)(layout => notes.map(note => note.scans * layout.bytes(note.conditions)).sum)
      val indexed = present.fold("")(_ => s", as it is they would read ${Bytes.text(now)} by its index")
      val seen =
        s"noted: ${Costs.scans(scans)}, of files of ${Bytes.text(read)}; the table has ${Bytes.text(facts.bytes)}$indexed"
      val costs = new Costs(notes, facts)
      val ranked = new Candidates(facts, objectBytes).all.map(candidate => candidate -> costs.of(candidate))
      val least = ranked.map(_._2).minOption
      least.filter(bytes => now > 0 && now - bytes >= now * WorthIt) match {
        case None => Advice(None, scans, now, now, Seq(seen, whyNot(least, facts, objectBytes)))
        case Some(bytes) =>
          val (best, expected) = ranked
            .filter { case (_, cost) => cost <= bytes + now * Alike }
            .minBy { case (candidate, cost) => (candidate.complexity, cost) }
          val saving = s"they would read ${Bytes.text(expected.toLong)}, ${percent(1 - expected / now)} less"
          val reasons = seen +: (best.layout.columns.map(costs.use) ++ costs.unused(best)) :+ saving
          Advice(Some(best.layout), scans, now, expected.toLong, reasons)
      }
    }

  private def whyNot(least: Option[Double], facts: TableFacts, objectBytes: Long): String = least match {
    case Some(bytes) =>
      s"of the best other layout found they would read ${Bytes.text(bytes.toLong)}: not worth writing the table again"
    case None if facts.columns.isEmpty => "no column is asked for in a way that files can be skipped by"
    case None => s"it is too small to be cut into objects of ${Bytes.text(objectBytes)}"
  }
}
