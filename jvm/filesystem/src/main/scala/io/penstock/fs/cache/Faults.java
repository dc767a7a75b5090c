package io.penstock.fs.cache;

/**
 * Makes a fault of mapped memory show where it happened.
 *
 * <p>When the file behind a mapping has become shorter, or its device fails, compiled code goes on with whatever it had,
 * and the {@code InternalError} that tells of it is thrown only when the thread next enters the virtual machine by one of
 * a few doors: possibly much later, in the code of somebody who never heard of the mapping. Making an array of arrays is
 * the cheapest of these doors (about 50 ns); system calls and other native methods are none. In Java because no other
 * language's arrays of arrays are made by that one instruction.
 */
public final class Faults {

  /** Not a constant: the compiler would take an array of constant lengths apart. */
  private static volatile int one = 1;

  private Faults() {}

  /**
   * @throws InternalError if this thread has touched mapped memory that was not there
   */
  public static void surface() {
    int length = one;
    if (new byte[length][length].length != length) throw new AssertionError();
  }
}
