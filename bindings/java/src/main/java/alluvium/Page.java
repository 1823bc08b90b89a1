package alluvium;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Objects;

/**
 * Records one after the other in a direct buffer: what {@link Batch#putPage} and {@link
 * Ingest#putPage} write in one call of the library, and what {@link Cursor#page} reads.
 *
 * <p>A record is the length of its key and the length of its value, both with 4 bytes in
 * little-endian order, and then the key and the value.
 */
public final class Page {
  private static final int HEAD = 8;

  private ByteBuffer bytes;

  /** Creates an empty page for this many bytes. It grows as needed. */
  public Page(int capacity) {
    bytes = allocate(capacity);
  }

  private static ByteBuffer allocate(int capacity) {
    return ByteBuffer.allocateDirect(capacity).order(ByteOrder.LITTLE_ENDIAN);
  }

  /** Appends a record. */
  public Page add(byte[] key, byte[] value) {
    reserve((long) HEAD + key.length + value.length);
    bytes.putInt(key.length).putInt(value.length).put(key).put(value);
    return this;
  }

  /** Appends a record of what remains in two buffers, whose positions do not change. */
  public Page add(ByteBuffer key, ByteBuffer value) {
    reserve((long) HEAD + key.remaining() + value.remaining());
    bytes.putInt(key.remaining()).putInt(value.remaining());
    bytes.put(key.duplicate()).put(value.duplicate());
    return this;
  }

  private void reserve(long size) {
    if (size <= bytes.remaining()) {
      return;
    }
    long capacity = Math.max(2L * bytes.capacity(), bytes.position() + size);
    if (capacity > Integer.MAX_VALUE - HEAD) {
      throw AlluviumException.argument("a page has less than 2 GiB: write it, and begin another");
    }
    bytes = allocate((int) capacity).put(bytes.flip());
  }

  /** Removes all records. */
  public void clear() {
    bytes.clear();
  }

  /** Returns the number of bytes of all records. */
  public int size() {
    return bytes.position();
  }

  /** Returns the records, from position 0 to the limit. The buffer shares the memory of the page. */
  public ByteBuffer records() {
    return bytes.duplicate().order(ByteOrder.LITTLE_ENDIAN).flip();
  }

  /** Calls a function for each record of a buffer, from its position to its limit. */
  public static void forEach(ByteBuffer records, Visitor visitor) {
    Objects.requireNonNull(visitor, "visitor");
    ByteBuffer page = records.duplicate().order(ByteOrder.LITTLE_ENDIAN);
    int at = page.position();
    int limit = page.limit();
    while (limit - at >= HEAD) {
      int key = page.getInt(at);
      int value = page.getInt(at + 4);
      at += HEAD;
      if (key < 0 || value < 0 || (long) key + value > limit - at) {
        return;
      }
      visitor.visit(page, at, key, at + key, value);
      at += key + value;
    }
  }

  /** Gets the place of a record. */
  @FunctionalInterface
  public interface Visitor {
    /** The key and the value are at these places of the page, with these lengths in bytes. */
    void visit(ByteBuffer page, int key, int keyLength, int value, int valueLength);
  }
}
