package alluvium;

import java.util.Objects;

/**
 * Decides about the values that a compaction writes again. The store calls it from its own threads,
 * also several at the same time. It may not call the store.
 */
@FunctionalInterface
public interface CompactionFilter {
  /**
   * Returns what becomes of a value. Times are in milliseconds since 1970; a value that never
   * expires has 0. If it throws, the value is kept, and the exception goes to the thread's handler
   * of uncaught exceptions.
   */
  Verdict decide(byte[] key, byte[] value, long expiresMs, long nowMs);

  /** What becomes of a value. */
  final class Verdict {
    private static final Verdict KEEP = new Verdict(0, null);
    private static final Verdict REMOVE = new Verdict(1, null);

    private final int number;
    private final byte[] replacement;

    private Verdict(int number, byte[] replacement) {
      this.number = number;
      this.replacement = replacement;
    }

    /** Keeps the value. */
    public static Verdict keep() {
      return KEEP;
    }

    /** Removes the key. */
    public static Verdict remove() {
      return REMOVE;
    }

    /** Replaces the value. */
    public static Verdict replace(byte[] value) {
      return new Verdict(2, Objects.requireNonNull(value, "value"));
    }

    int number() {
      return number;
    }

    byte[] replacement() {
      return replacement;
    }
  }
}
