package alluvium;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;

/** A map from keys to values, in the order of the keys or hashed. Null stands for an absent value. */
public final class Keyspace extends Handle implements AutoCloseable {
  /** The length of the value of an absent key. */
  public static final long ABSENT = -1;

  Keyspace(long address) {
    super(address, Library.KEYSPACE_FREE);
  }

  /** Frees the object; the keyspace remains. */
  @Override
  public void close() {
    free();
  }

  /** Returns the value of a key, or null if the key is absent. */
  public byte[] get(byte[] key) {
    Stage stage = Stage.of(key.length);
    long keyspace = enter();
    try {
      long start = stage.bytes(key);
      stage.check(
          Library.call(
              Library.GET_INTO,
              keyspace,
              start,
              key.length,
              stage.rest(),
              stage.room(),
              stage.result()));
      long length = stage.first();
      if (length == ABSENT) {
        return null;
      }
      if (length <= stage.room()) {
        return stage.copy((int) length);
      }
      stage.check(Library.call(Library.GET, keyspace, start, key.length, stage.result()));
      byte[] value = Library.take(stage, stage.first());
      stage.expect(length);
      return value;
    } finally {
      leave();
    }
  }

  /**
   * Copies the value of a key into a buffer. Both buffers are direct; the key is what remains in
   * its buffer. Returns the length of the value in bytes, or {@link #ABSENT}. If the value fits, the
   * limit of its buffer is set behind it. If it is longer than what remains, only the part that fits
   * is copied, and the limit stays.
   */
  public long get(ByteBuffer key, ByteBuffer value) {
    long start = Direct.address(key);
    long place = Direct.writable(value);
    Stage stage = Stage.of(0);
    long keyspace = enter();
    try {
      stage.check(
          Library.call(
              Library.GET_INTO,
              keyspace,
              start,
              key.remaining(),
              place,
              value.remaining(),
              stage.result()));
    } finally {
      leave();
      Reference.reachabilityFence(key);
      Reference.reachabilityFence(value);
    }
    long length = stage.first();
    if (length >= 0 && length <= value.remaining()) {
      value.limit(value.position() + (int) length);
    }
    return length;
  }

  /** Returns whether a key has a value. */
  public boolean contains(byte[] key) {
    Stage stage = Stage.of(key.length);
    long keyspace = enter();
    try {
      stage.check(
          Library.call(
              Library.CONTAINS, keyspace, stage.bytes(key), key.length, stage.result()));
      return stage.firstInt() != 0;
    } finally {
      leave();
    }
  }

  /** Returns the values of keys, null for absent ones. Faster than one after the other. */
  public byte[][] multiGet(byte[]... keys) {
    long size = 24L * keys.length;
    for (byte[] key : keys) {
      size += key.length;
    }
    Stage stage = Stage.of(size);
    long keyspace = enter();
    try {
      int count = keys.length;
      long pointers = stage.rest();
      long behind = pointers + 24L * count;
      for (byte[] key : keys) {
        stage.word(behind);
        behind += key.length;
      }
      long lengths = stage.rest();
      for (byte[] key : keys) {
        stage.word(key.length);
      }
      long values = stage.rest();
      for (int i = 0; i < count; i++) {
        stage.word(0);
      }
      for (byte[] key : keys) {
        stage.bytes(key);
      }
      stage.check(
          Library.call(Library.MULTI_GET, keyspace, count, pointers, lengths, values));
      return taken(stage, values, count);
    } finally {
      leave();
    }
  }

  private static byte[][] taken(Stage stage, long values, int count) {
    byte[][] found = new byte[count][];
    int done = 0;
    try {
      while (done < count) {
        long value = stage.wordAt(values + 8L * done);
        done++;
        found[done - 1] = Library.take(stage, value);
      }
    } finally {
      // Values that were not copied, after an error, are freed.
      for (; done < count; done++) {
        Library.call(Library.VALUE_FREE, stage.wordAt(values + 8L * done));
      }
    }
    return found;
  }

  /** Sets the value of a key. */
  public void put(byte[] key, byte[] value) {
    put(key, value, 0);
  }

  /** Sets a value that expires at a time in milliseconds since 1970, or never for 0. */
  public void put(byte[] key, byte[] value, long expiresMs) {
    Stage stage = Stage.of((long) key.length + value.length);
    long keyspace = enter();
    try {
      stage.check(
          Library.call(
              Library.PUT,
              keyspace,
              stage.bytes(key),
              key.length,
              stage.bytes(value),
              value.length,
              expiresMs));
    } finally {
      leave();
    }
  }

  /** Sets the value of a key to what remains in two direct buffers. */
  public void put(ByteBuffer key, ByteBuffer value, long expiresMs) {
    long start = Direct.address(key);
    long place = Direct.address(value);
    long keyspace = enter();
    try {
      Library.check(
          Library.call(
              Library.PUT, keyspace, start, key.remaining(), place, value.remaining(), expiresMs));
    } finally {
      leave();
      Reference.reachabilityFence(key);
      Reference.reachabilityFence(value);
    }
  }

  /** Deletes a key. An absent key is no error. */
  public void delete(byte[] key) {
    delete(key, 0);
  }

  /** Deletes a key at a time in milliseconds since 1970, or now for 0. */
  public void delete(byte[] key, long atMs) {
    Stage stage = Stage.of(key.length);
    long keyspace = enter();
    try {
      stage.check(
          Library.call(Library.DELETE, keyspace, stage.bytes(key), key.length, atMs));
    } finally {
      leave();
    }
  }

  /** Deletes a key. Returns the value that it had, or null if it was absent. */
  public byte[] take(byte[] key) {
    Stage stage = Stage.of(key.length);
    long keyspace = enter();
    try {
      stage.check(
          Library.call(Library.TAKE, keyspace, stage.bytes(key), key.length, stage.result()));
      return Library.take(stage, stage.first());
    } finally {
      leave();
    }
  }

  /**
   * Deletes all keys from {@code start} to before {@code end}; null is the end of the keyspace. A
   * hashed keyspace can only be deleted as a whole, from the empty key to null.
   */
  public void deleteRange(byte[] start, byte[] end) {
    Stage stage = Stage.of(start.length + Stage.length(end));
    long keyspace = enter();
    try {
      stage.check(
          Library.call(
              Library.DELETE_RANGE,
              keyspace,
              stage.bytes(start),
              start.length,
              stage.optional(end),
              Stage.length(end)));
    } finally {
      leave();
    }
  }

  /** Merges an operand into the value of a key, with the merge operator of the keyspace. */
  public void merge(byte[] key, byte[] operand) {
    Stage stage = Stage.of((long) key.length + operand.length);
    long keyspace = enter();
    try {
      stage.check(
          Library.call(
              Library.MERGE,
              keyspace,
              stage.bytes(key),
              key.length,
              stage.bytes(operand),
              operand.length));
    } finally {
      leave();
    }
  }

  /**
   * Sets a key to a value if it has the expected one; null stands for an absent key. Returns whether
   * it was set.
   */
  public boolean compareAndSet(byte[] key, byte[] expected, byte[] value) {
    Stage stage = Stage.of(key.length + Stage.length(expected) + Stage.length(value));
    long keyspace = enter();
    try {
      stage.check(
          Library.call(
              Library.COMPARE_AND_SET,
              keyspace,
              stage.bytes(key),
              key.length,
              stage.optional(expected),
              Stage.length(expected),
              stage.optional(value),
              Stage.length(value),
              stage.result()));
      return stage.firstInt() != 0;
    } finally {
      leave();
    }
  }

  /** Estimates the number of keys. */
  public long approximateCount() {
    Stage stage = Stage.of(0);
    long keyspace = enter();
    try {
      stage.check(Library.call(Library.APPROXIMATE_COUNT, keyspace, stage.result()));
      return stage.first();
    } finally {
      leave();
    }
  }

  /** Returns a cursor over a range. */
  public Cursor iterate(Range range) {
    return iterate(null, range);
  }

  Cursor iterate(Snapshot snapshot, Range range) {
    Stage stage = Stage.of(range.size());
    long moment = Handle.enter(snapshot);
    long keyspace = enter();
    try {
      if (snapshot != null && moment == 0) {
        // To the library, no snapshot is the present moment.
        throw AlluviumException.argument("the snapshot was closed: iterate before");
      }
      stage.check(
          Library.call(
              Library.ITERATOR_CREATE, keyspace, moment, range.write(stage), stage.result()));
      return new Cursor(stage.first(), range.isReversed());
    } finally {
      leave();
      Handle.leave(snapshot);
    }
  }

  /** Begins to load records in the order of their keys. They become visible together. */
  public Ingest ingest() {
    Stage stage = Stage.of(0);
    long keyspace = enter();
    try {
      stage.check(Library.call(Library.INGEST_BEGIN, keyspace, stage.result()));
      return new Ingest(stage.first());
    } finally {
      leave();
    }
  }
}
