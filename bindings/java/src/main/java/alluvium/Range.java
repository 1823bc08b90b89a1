package alluvium;

import java.util.Objects;

/** A range of keys: {@code Range.all().from(a).to(b).reversed()}. Ranges do not change. */
public final class Range {
  private static final int PREFIX = 1;
  private static final int AFTER_START = 2;
  private static final int THROUGH_END = 4;
  private static final int KEYS_ONLY = 8;
  private static final int UNORDERED = 16;

  private static final Range ALL = new Range(null, null, 0, false);

  private final byte[] start;
  private final byte[] end;
  private final int flags;
  private final boolean isReversed;

  private Range(byte[] start, byte[] end, int flags, boolean isReversed) {
    this.start = start;
    this.end = end;
    this.flags = flags;
    this.isReversed = isReversed;
  }

  /** Returns the range of a whole keyspace. */
  public static Range all() {
    return ALL;
  }

  /** Returns the range of the keys that begin with a prefix. */
  public static Range prefix(byte[] prefix) {
    return new Range(copy(prefix), null, PREFIX, false);
  }

  /** Lets the range begin with a key. */
  public Range from(byte[] key) {
    return new Range(copy(key), end, flags & ~AFTER_START, isReversed);
  }

  /** Lets the range begin after a key. */
  public Range after(byte[] key) {
    return new Range(copy(key), end, flags | AFTER_START, isReversed);
  }

  /** Lets the range end before a key. */
  public Range to(byte[] key) {
    return new Range(start, copy(key), flags & ~THROUGH_END, isReversed);
  }

  /** Lets the range end with a key. */
  public Range through(byte[] key) {
    return new Range(start, copy(key), flags | THROUGH_END, isReversed);
  }

  /** Lets values be empty, and long ones not be read. */
  public Range keysOnly() {
    return new Range(start, end, flags | KEYS_ONLY, isReversed);
  }

  /** Lets the records have no order. Hashed keyspaces need this; there must be no bounds. */
  public Range unordered() {
    return new Range(start, end, flags | UNORDERED, isReversed);
  }

  /** Lets the records come from the end of the range. */
  public Range reversed() {
    return new Range(start, end, flags, !isReversed);
  }

  boolean isReversed() {
    return isReversed;
  }

  /** Returns the bytes that the range occupies in a stage. */
  long size() {
    return 40 + Stage.length(start) + Stage.length(end);
  }

  /** Writes the range as the library reads it, at the beginning of a stage. */
  long write(Stage stage) {
    long behind = stage.rest() + 40;
    long place = stage.word(start == null ? 0 : behind);
    stage.word(Stage.length(start));
    stage.word(end == null ? 0 : behind + Stage.length(start));
    stage.word(Stage.length(end));
    stage.word(flags);
    stage.optional(start);
    stage.optional(end);
    return place;
  }

  private static byte[] copy(byte[] key) {
    return Objects.requireNonNull(key, "key").clone();
  }
}
