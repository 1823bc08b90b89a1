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
  private static final ByteBuffer EMPTY = ByteBuffer.allocate(0);

  private final boolean isReversed;

  /** The records that were fetched and not returned. */
  private ByteBuffer page = EMPTY;

  private int size = FIRST_PAGE;

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
    Stage stage = Stage.of(0);
    long place = Direct.writable(buffer);
    page(stage, place, buffer.remaining(), isBackward);
    Reference.reachabilityFence(buffer);
    long filled = stage.first();
    long count = stage.second();
    buffer.limit(buffer.position() + (count == 0 ? 0 : (int) filled));
    return count == 0 ? -filled : count;
  }

  /** Fills memory. The results of the stage are the number of bytes and the number of records. */
  private void page(Stage stage, long place, int length, boolean isBackward) {
    long cursor = enter();
    try {
      stage.check(
          Library.call(
              Library.ITERATOR_PAGE,
              cursor,
              isBackward ? 1 : 0,
              place,
              length,
              stage.result(),
              stage.secondResult()));
    } finally {
      leave();
    }
  }

  /** Returns whether there is another record. At the end, the cursor is closed. */
  @Override
  public boolean hasNext() {
    return page.hasRemaining() || (size > 0 && fetch());
  }

  private boolean fetch() {
    while (true) {
      Stage stage = Stage.of(size);
      page(stage, stage.rest(), size, isReversed);
      long filled = stage.first();
      if (stage.second() > 0) {
        fill(stage, (int) filled);
        return true;
      }
      if (filled == 0) {
        size = 0;
        page = EMPTY;
        free();
        return false;
      }
      if (filled > Integer.MAX_VALUE / 2) {
        throw AlluviumException.argument(
            "a record has " + filled + " bytes: a cursor returns those below 1 GiB");
      }
      size = (int) filled;
    }
  }

  private void fill(Stage stage, int filled) {
    if (page.capacity() < filled) {
      page = ByteBuffer.allocate(Math.max(size, filled)).order(ByteOrder.LITTLE_ENDIAN);
    }
    stage.copy(page.array(), filled);
    page.position(0).limit(filled);
    size = PAGE;
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
    page.limit(page.position());
  }

  /** Frees the cursor. */
  @Override
  public void close() {
    free();
  }
}
