package alluvium;

/** The store as of one moment. */
public final class Snapshot extends Handle implements AutoCloseable {
  Snapshot(long address) {
    super(address, Library.SNAPSHOT_FREE);
  }

  /** Returns the value of a key, or null if it was absent. */
  public byte[] get(Keyspace keyspace, byte[] key) {
    Stage stage = Stage.of(key.length);
    long space = keyspace.enter();
    long snapshot = enter();
    try {
      stage.check(
          Library.call(
              Library.SNAPSHOT_GET,
              snapshot,
              space,
              stage.bytes(key),
              key.length,
              stage.result()));
      return Library.take(stage, stage.first());
    } finally {
      leave();
      keyspace.leave();
    }
  }

  /** Returns a cursor over a range as of the snapshot. */
  public Cursor iterate(Keyspace keyspace, Range range) {
    return keyspace.iterate(this, range);
  }

  /** Frees the object. A named snapshot remains. */
  @Override
  public void close() {
    free();
  }
}
