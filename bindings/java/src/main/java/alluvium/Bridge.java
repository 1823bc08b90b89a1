package alluvium;

import java.nio.ByteBuffer;

/**
 * The way to the library: JNI, or from Java 22 on the foreign functions of the platform.
 *
 * <p>Each parameter of {@code alluvium.h} is a pointer or an integer, which the calling conventions
 * pass in one word. A function ignores the words behind its parameters, and no function has more
 * than eight. So one native method calls all functions.
 */
abstract class Bridge {
  /** Returns the address of a function. */
  abstract long symbol(String name);

  /** Calls a function. The result has 64 bits; a shorter result has undefined bits above it. */
  abstract long call(
      long function, long a, long b, long c, long d, long e, long f, long g, long h);

  /** Returns the address of the first byte of a direct buffer, whatever its position. */
  abstract long address(ByteBuffer direct);

  /** Copies memory of the library. */
  abstract byte[] copy(long address, int length);

  /** Copies a text of the library, which ends with a zero byte. */
  abstract String text(long address);

  /** Returns the address of a function of C that calls the method of {@link Callbacks}. */
  abstract long callback(Callbacks.Function function);
}
