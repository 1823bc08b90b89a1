package alluvium;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** Calls the library by JNI, through {@code native/alluvium_jni.c}. */
final class JniBridge extends Bridge {
  @Override
  long symbol(String name) {
    return symbolOf(name);
  }

  @Override
  long call(long function, long a, long b, long c, long d, long e, long f, long g, long h) {
    return callWords(function, a, b, c, d, e, f, g, h);
  }

  @Override
  long address(ByteBuffer direct) {
    return addressOf(direct);
  }

  @Override
  byte[] copy(long address, int length) {
    byte[] bytes = new byte[length];
    copyInto(address, bytes);
    return bytes;
  }

  @Override
  String text(long address) {
    return new String(textAt(address), StandardCharsets.UTF_8);
  }

  @Override
  long callback(Callbacks.Function function) {
    return callbackOf(function.ordinal(), Callbacks.class);
  }

  private static native long symbolOf(String name);

  private static native long callWords(
      long function, long a, long b, long c, long d, long e, long f, long g, long h);

  private static native long addressOf(ByteBuffer direct);

  private static native void copyInto(long address, byte[] bytes);

  private static native byte[] textAt(long address);

  private static native long callbackOf(int function, Class<?> callbacks);
}
