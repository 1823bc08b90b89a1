package alluvium;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Merge operators and compaction filters that stores use, and the functions that the library calls.
 *
 * <p>The context of a callback is a number, not a pointer. No exception leaves a function: it goes
 * to the handler of the thread for uncaught exceptions.
 */
final class Callbacks {
  /** The functions that the library calls. */
  enum Function {
    MERGE,
    CHECK,
    DECIDE,
    FREE;

    String method() {
      return name().toLowerCase(java.util.Locale.ROOT);
    }

    private long address;

    /** Returns the address of the function of C, which lives as long as the process. */
    synchronized long address() {
      if (address == 0) {
        address = Library.bridge().callback(this);
      }
      return address;
    }
  }

  private static final Map<Long, Object> REGISTERED = new ConcurrentHashMap<>();
  private static final AtomicLong NEXT = new AtomicLong(1);

  private Callbacks() {}

  /** Registers an operator or a filter until the library frees it. Returns its context. */
  static long register(Object callback) {
    long context = NEXT.getAndIncrement();
    REGISTERED.put(context, callback);
    return context;
  }

  /** Returns the number of operators and filters that the library has not freed. */
  static int count() {
    return REGISTERED.size();
  }

  private static byte[] bytes(long address, long length) {
    return length == 0 ? new byte[0] : Library.bridge().copy(address, Math.toIntExact(length));
  }

  private static void append(long buffer, byte[] result) {
    // The stage of the thread has the arguments of the call that runs.
    Stage stage = Stage.nested(result.length);
    Library.call(Library.BUFFER_APPEND, buffer, stage.bytes(result), result.length);
    stage.check(0);
  }

  private static void report(Throwable failure) {
    try {
      Thread thread = Thread.currentThread();
      thread.getUncaughtExceptionHandler().uncaughtException(thread, failure);
    } catch (Throwable ignored) {
      // Nobody else can be told.
    }
  }

  static void merge(
      long context, long older, long olderLength, long newer, long newerLength, long buffer) {
    try {
      byte[] operand = bytes(newer, newerLength);
      byte[] result = operand;
      Stage.markCallback(true);
      try {
        MergeOperator operator = (MergeOperator) REGISTERED.get(context);
        result = operator.merge(bytes(older, olderLength), operand).clone();
      } catch (Throwable failure) {
        report(failure);
      } finally {
        Stage.markCallback(false);
      }
      append(buffer, result);
    } catch (Throwable failure) {
      report(failure);
    }
  }

  static int check(long context, long bytes, long length) {
    Stage.markCallback(true);
    try {
      return ((MergeOperator) REGISTERED.get(context)).accepts(bytes(bytes, length)) ? 0 : 1;
    } catch (Throwable failure) {
      report(failure);
      return 1;
    } finally {
      Stage.markCallback(false);
    }
  }

  static int decide(
      long context,
      long key,
      long keyLength,
      long value,
      long valueLength,
      long expiresMs,
      long nowMs,
      long buffer) {
    Stage.markCallback(true);
    try {
      CompactionFilter filter = (CompactionFilter) REGISTERED.get(context);
      CompactionFilter.Verdict verdict =
          filter.decide(bytes(key, keyLength), bytes(value, valueLength), expiresMs, nowMs);
      if (verdict.replacement() != null) {
        append(buffer, verdict.replacement());
      }
      return verdict.number();
    } catch (Throwable failure) {
      report(failure);
      return 0;
    } finally {
      Stage.markCallback(false);
    }
  }

  static void free(long context) {
    REGISTERED.remove(context);
  }
}
