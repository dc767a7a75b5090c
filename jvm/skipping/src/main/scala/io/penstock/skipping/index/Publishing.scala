package io.penstock.skipping.index

/** Which manifest comes next. Pure. */
private[index] object Publishing {

  /** Nobody who has read a manifest is still reading its parts after this, in milliseconds. */
  val GraceMs: Long = 60 * 60 * 1000

  /** The index of these parts alone. */
  def anew(
      id: String,
      root: String,
      plan: Seq[PlannedColumn],
      leftOut: Seq[LeftOut],
      parts: Vector[Manifest.Part],
      former: Option[Manifest],
      now: Long
  ): Manifest = {
    val superseded = former.toVector.flatMap(manifest => discard(manifest, manifest.parts.map(_.name), now))
    Manifest(Manifest.Format, id, root, Manifest.columns(plan), leftOut.toVector, parts, superseded)
  }

  /**
   * What was written from `base`, on top of what is there by now: somebody else may have published in between, whose
   * parts stay, since they are as true as ours. None where ours are of no use: the index was dropped, or built anew
   * with other columns.
   */
  def onTop(
      id: String,
      base: Manifest,
      latest: Option[Manifest],
      added: Vector[Manifest.Part],
      dropped: Set[String],
      now: Long
  ): Option[Manifest] = latest.filter(_.columns == base.columns).map { manifest =>
    val kept = manifest.parts.filterNot(part => dropped(part.name))
    val gone = manifest.parts.map(_.name).filter(dropped)
    manifest.copy(id = id, parts = kept ++ added, superseded = discard(manifest, gone, now))
  }

  /** Parts that no reader of this manifest, or of one that it replaced less than the grace before, needs. */
  def removable(next: Manifest, latest: Option[Manifest]): Set[String] = {
    val needed = (next.parts.map(_.name) ++ next.superseded.map(_.name)).toSet
    latest.toSet.flatMap((manifest: Manifest) => manifest.superseded.map(_.name)).diff(needed)
  }

  private def discard(manifest: Manifest, names: Seq[String], now: Long): Vector[Manifest.Superseded] =
    manifest.superseded.filter(_.since > now - GraceMs) ++ names.map(Manifest.Superseded(_, now))
}
