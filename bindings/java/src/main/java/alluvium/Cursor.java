package alluvium;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Iterator;
import java.util.NoSuchElementException;

/**
 * The records of a range, as of the moment in which the cursor was created. Close it, or read it to
 * its end. It fetches pages of records; {@link #page} reads them without objects for each record.
 *
 * <p>Only one thread may call {@link #hasNext} and {@link #next} at a time.
 */
public final class Cursor extends Handle implements Iterator<Entry>, AutoCloseable {
  private static final int FIRST_PAGE = 4 << 10;
  private static final int PAGE = 64 << 10;

  private final boolean isReversed;
  private ByteBuffer page;

  Cursor(long address, boolean isReversed) {
    super(address, Library.ITERATOR_FREE);
    this.isReversed = isReversed;
  }

  /**
   * Fills a direct buffer, from its position, with the next records in the direction of the range,
   * and sets its limit behind them. Read them with {@link Page#forEach}. Returns their number, or 0
   * at the end. If the buffer is too short for the next record, the limit is set to the position,
   * and the result is the negative number of bytes that the record needs; nothing is skipped.
   */
  public long page(ByteBuffer buffer) {
    return page(buffer, isReversed);
  }

  /**
   * Fills a buffer like {@link #page(ByteBuffer)}, against the direction of the range. A cursor can
   * be used from both ends, and is at its end where they meet.
   */
  public long pageBack(ByteBuffer buffer) {
    return page(buffer, !isReversed);
  }

  private long page(ByteBuffer buffer, boolean isBackward) {
    long place = Direct.writable(buffer);
    Stage stage = Stage.of(0);
    long cursor = enter();
    try {
      stage.check(
          Library.call(
              Library.ITERATOR_PAGE,
              cursor,
              isBackward ? 1 : 0,
              place,
              buffer.remaining(),
              stage.result(),
              stage.secondResult()));
    } finally {
      leave();
      Reference.reachabilityFence(buffer);
    }
    long filled = stage.first();
    long count = stage.second();
    buffer.limit(buffer.position() + (count == 0 ? 0 : (int) filled));
    return count == 0 ? -filled : count;
  }

  /** Returns whether there is another record. At the end, the cursor is closed. */
  @Override
  public boolean hasNext() {
    return (page != null && page.hasRemaining()) || fetch();
  }

  private boolean fetch() {
    if (page == null) {
      page = allocate(FIRST_PAGE);
    } else if (page.capacity() == 0) {
      return false;
    } else if (page.capacity() < PAGE) {
      page = allocate(PAGE);
    }
    long count = fill();
    if (count < 0) {
      page = allocate(-count);
      count = fill();
    }
    if (count == 0) {
      page = ByteBuffer.allocate(0);
      free();
    }
    return count > 0;
  }

  /** Fills the page. After an error, it is empty. */
  private long fill() {
    page.limit(0);
    ByteBuffer whole = page.duplicate().clear();
    long count = page(whole);
    page.limit(whole.limit());
    return count;
  }

  private static ByteBuffer allocate(long size) {
    if (size > Integer.MAX_VALUE) {
      throw AlluviumException.argument(
          "a record has " + size + " bytes: a buffer holds less than 2 GiB");
    }
    return ByteBuffer.allocateDirect((int) size).order(ByteOrder.LITTLE_ENDIAN).limit(0);
  }

  /** Returns the next record. */
  @Override
  public Entry next() {
    if (!hasNext()) {
      throw new NoSuchElementException("the cursor is at its end");
    }
    byte[] key = new byte[page.getInt()];
    byte[] value = new byte[page.getInt()];
    page.get(key).get(value);
    return new Entry(key, value);
  }

  /** Moves the front to the first key that is not less than the given one. */
  public void seek(byte[] key) {
    Stage stage = Stage.of(key.length);
    long cursor = enter();
    try {
      stage.check(Library.call(Library.ITERATOR_SEEK, cursor, stage.bytes(key), key.length));
    } finally {
      leave();
    }
    if (page != null) {
      page.limit(page.position());
    }
  }

  /** Frees the cursor. */
  @Override
  public void close() {
    free();
  }
}
