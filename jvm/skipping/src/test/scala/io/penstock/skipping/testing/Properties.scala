package io.penstock.skipping.testing

import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/** Property checks of what costs microseconds: 300 cases each, where ScalaTest's own default is 10. */
trait Properties extends ScalaCheckPropertyChecks {

  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 300)
}
