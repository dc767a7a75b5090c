package io.penstock.skipping.testing

import org.scalacheck.Shrink
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/** Property checks of what costs microseconds: 300 cases each, where ScalaTest's own default is 10. */
trait Properties extends ScalaCheckPropertyChecks {

  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 300)

  /** A failure is reported as it came: a smaller case may be none that the generator gives, and fail by that alone. */
  implicit protected def unshrunk[A]: Shrink[A] = Shrink.shrinkAny
}
