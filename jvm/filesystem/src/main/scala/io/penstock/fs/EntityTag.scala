package io.penstock.fs

private[fs] object EntityTag {

  /** Without its quotes; a weak one does not say that the bytes are the same, so it is none. */
  def strong(etag: String): Option[String] =
    Option(etag).filterNot(_.startsWith("W/")).map(_.stripPrefix("\"").stripSuffix("\"")).filter(_.nonEmpty)
}
