package alluvium;

import java.nio.ByteBuffer;

/** Buffers of the program, which the library reads and writes without a copy. */
final class Direct {
  private Direct() {}

  /** Returns the address of what remains in a direct buffer. */
  static long address(ByteBuffer buffer) {
    if (!buffer.isDirect()) {
      throw AlluviumException.argument(
          "a buffer is not direct: create it with ByteBuffer.allocateDirect");
    }
    return Library.bridge().address(buffer) + buffer.position();
  }

  /** Returns the address of what remains in a direct buffer that can be written. */
  static long writable(ByteBuffer buffer) {
    if (buffer.isReadOnly()) {
      throw AlluviumException.argument("a buffer for results is read-only: pass one that is not");
    }
    return address(buffer);
  }
}
