package alluvium;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/**
 * Memory outside the heap for the arguments and the results of one call. Each thread has its own.
 *
 * <pre>
 * OFFSET  SIZE  MEANING
 *      0     8  first result
 *      8     8  second result
 *     16     …  arguments
 * </pre>
 */
final class Stage {
  /** The bytes of the results. */
  private static final int RESULTS = 16;

  /** A thread keeps this much. Longer arguments get memory of their own. */
  private static final int KEPT = 1 << 20;

  private static final int FIRST = 4 << 10;

  private static final ThreadLocal<Stage> OF_THREAD = ThreadLocal.withInitial(() -> new Stage(FIRST));
  private static final ThreadLocal<Stage> NESTED = ThreadLocal.withInitial(() -> new Stage(FIRST));

  private ByteBuffer memory;
  private long address;
  private int at;
  private boolean isInCallback;

  private Stage(int size) {
    allocate(size);
  }

  private void allocate(int size) {
    memory = ByteBuffer.allocateDirect(size).order(ByteOrder.LITTLE_ENDIAN);
    address = Library.bridge().address(memory);
  }

  /** Returns the stage of the thread with room for arguments of this many bytes. */
  static Stage of(long size) {
    Stage stage = OF_THREAD.get();
    if (stage.isInCallback) {
      throw AlluviumException.argument(
          "a merge operator or a compaction filter calls the store: let it compute from its arguments");
    }
    return stage.withRoom(size);
  }

  /** Marks the beginning or the end of a callback on this thread, whose stage is in use. */
  static void markCallback(boolean begins) {
    OF_THREAD.get().isInCallback = begins;
  }

  /** Returns the stage for a call within a callback. */
  static Stage nested(long size) {
    return NESTED.get().withRoom(size);
  }

  private Stage withRoom(long size) {
    at = RESULTS;
    if (size <= memory.capacity() - RESULTS) {
      return this;
    }
    if (size > Integer.MAX_VALUE - 2 * RESULTS) {
      throw AlluviumException.argument(
          "the arguments of a call have " + size + " bytes: a call takes less than 2 GiB");
    }
    if (size > KEPT) {
      Stage large = new Stage((int) size + RESULTS);
      large.at = RESULTS;
      return large;
    }
    allocate(Integer.highestOneBit((int) size + RESULTS) << 1);
    return this;
  }

  /** Writes bytes. Returns their address, which is not 0. */
  long bytes(byte[] bytes) {
    int start = at;
    memory.put(start, bytes);
    at += bytes.length;
    return address + start;
  }

  /** Writes bytes. Returns their address, or 0 for null. */
  long optional(byte[] bytes) {
    return bytes == null ? 0 : bytes(bytes);
  }

  /** Writes a word. Returns its address. */
  long word(long word) {
    int start = at;
    memory.putLong(start, word);
    at += 8;
    return address + start;
  }

  /** Returns the address behind what was written. */
  long rest() {
    return address + at;
  }

  /** Returns the number of bytes behind what was written. */
  int room() {
    return memory.capacity() - at;
  }

  /** Copies bytes from behind what was written. */
  byte[] copy(int length) {
    byte[] bytes = new byte[length];
    copy(bytes, length);
    return bytes;
  }

  /** Copies bytes from behind what was written to the beginning of an array. */
  void copy(byte[] bytes, int length) {
    memory.get(at, bytes, 0, length);
  }

  /** Makes room for results of this length in later calls, unless they are long. */
  void expect(long length) {
    if (length > memory.capacity() / 2 && length < KEPT / 16) {
      allocate(Integer.highestOneBit((int) length) << 2);
    }
  }

  /** Returns a word by its address. */
  long wordAt(long place) {
    return memory.getLong((int) (place - address));
  }

  /** Returns the address for the first result. */
  long result() {
    return address;
  }

  /** Returns the address for the second result. */
  long secondResult() {
    return address + 8;
  }

  long first() {
    return memory.getLong(0);
  }

  long second() {
    return memory.getLong(8);
  }

  int firstInt() {
    return memory.getInt(0);
  }

  /** Ends a call: keeps the memory until here, and throws the error of the library. */
  void check(long error) {
    Reference.reachabilityFence(this);
    Library.check(error);
  }

  /** Returns a text as the library reads it, with a zero byte at its end; null stays null. */
  static byte[] text(String text) {
    if (text == null) {
      return null;
    }
    if (text.indexOf('\0') >= 0) {
      throw AlluviumException.argument(
          "\"" + text.replace("\0", "\\0") + "\" has a zero byte: remove it");
    }
    try {
      ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
      byte[] bytes = new byte[encoded.remaining() + 1];
      encoded.get(bytes, 0, bytes.length - 1);
      return bytes;
    } catch (CharacterCodingException invalid) {
      throw AlluviumException.argument("\"" + text + "\" is not Unicode text: it has half a character");
    }
  }

  static long length(byte[] bytes) {
    return bytes == null ? 0 : bytes.length;
  }
}
