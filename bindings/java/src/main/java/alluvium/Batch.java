package alluvium;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;

/** Writes that take effect together, by {@link Store#write}. */
public final class Batch extends Handle implements AutoCloseable {
  /** Creates an empty batch with the durability of the store. */
  public Batch() {
    this(null);
  }

  /** Creates an empty batch with the durability "memory", "process" or "disk". */
  public Batch(String durability) {
    super(created(durability), Library.BATCH_FREE);
  }

  private static long created(String durability) {
    Library.require();
    byte[] text = Stage.text(durability);
    Stage stage = Stage.of(Stage.length(text));
    stage.check(Library.call(Library.BATCH_CREATE, stage.optional(text), stage.result()));
    return stage.first();
  }

  /** Adds a put. */
  public Batch put(Keyspace keyspace, byte[] key, byte[] value) {
    return put(keyspace, key, value, 0);
  }

  /** Adds a put whose value expires at a time in milliseconds since 1970, or never for 0. */
  public Batch put(Keyspace keyspace, byte[] key, byte[] value, long expiresMs) {
    Stage stage = Stage.of((long) key.length + value.length);
    long space = keyspace.enter();
    long batch = enter();
    try {
      stage.check(
          Library.call(
              Library.BATCH_PUT,
              batch,
              space,
              stage.bytes(key),
              key.length,
              stage.bytes(value),
              value.length,
              expiresMs));
    } finally {
      leave();
      keyspace.leave();
    }
    return this;
  }

  /** Adds a put for each record of a {@link Page}. After an error, the batch has some of them. */
  public Batch putPage(Keyspace keyspace, ByteBuffer records) {
    long start = Direct.address(records);
    long space = keyspace.enter();
    long batch = enter();
    try {
      Library.check(
          Library.call(Library.BATCH_PUT_PAGE, batch, space, start, records.remaining()));
    } finally {
      leave();
      keyspace.leave();
      Reference.reachabilityFence(records);
    }
    return this;
  }

  /** Adds a delete. */
  public Batch delete(Keyspace keyspace, byte[] key) {
    return delete(keyspace, key, 0);
  }

  /** Adds a delete at a time in milliseconds since 1970, or now for 0. */
  public Batch delete(Keyspace keyspace, byte[] key, long atMs) {
    Stage stage = Stage.of(key.length);
    long space = keyspace.enter();
    long batch = enter();
    try {
      stage.check(
          Library.call(Library.BATCH_DELETE, batch, space, stage.bytes(key), key.length, atMs));
    } finally {
      leave();
      keyspace.leave();
    }
    return this;
  }

  /** Adds a range delete; null is the end of the keyspace. */
  public Batch deleteRange(Keyspace keyspace, byte[] start, byte[] end) {
    Stage stage = Stage.of(start.length + Stage.length(end));
    long space = keyspace.enter();
    long batch = enter();
    try {
      stage.check(
          Library.call(
              Library.BATCH_DELETE_RANGE,
              batch,
              space,
              stage.bytes(start),
              start.length,
              stage.optional(end),
              Stage.length(end)));
    } finally {
      leave();
      keyspace.leave();
    }
    return this;
  }

  /** Adds a merge. */
  public Batch merge(Keyspace keyspace, byte[] key, byte[] operand) {
    Stage stage = Stage.of((long) key.length + operand.length);
    long space = keyspace.enter();
    long batch = enter();
    try {
      stage.check(
          Library.call(
              Library.BATCH_MERGE,
              batch,
              space,
              stage.bytes(key),
              key.length,
              stage.bytes(operand),
              operand.length));
    } finally {
      leave();
      keyspace.leave();
    }
    return this;
  }

  /** Returns the number of writes. */
  public long count() {
    long batch = enter();
    try {
      return Library.call(Library.BATCH_COUNT, batch);
    } finally {
      leave();
    }
  }

  /** Removes all writes. */
  public void clear() {
    long batch = enter();
    try {
      Library.call(Library.BATCH_CLEAR, batch);
    } finally {
      leave();
    }
  }

  /** Frees the batch. */
  @Override
  public void close() {
    free();
  }
}
