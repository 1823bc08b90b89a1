package alluvium;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;

/** A load of records in the order of their keys, which does not use the log. */
public final class Ingest extends Handle implements AutoCloseable {
  Ingest(long address) {
    super(address, Library.INGEST_FREE);
  }

  /** Adds a record. Its key must be greater than the one before it. */
  public void put(byte[] key, byte[] value) {
    putPage(new Page(8 + key.length + value.length).add(key, value).records());
  }

  /**
   * Adds the records of a {@link Page}. Each key must be greater than the one before it. A record
   * that is refused, and those after it, are left out; the ingest can continue with others.
   */
  public void putPage(ByteBuffer records) {
    long start = Direct.address(records);
    long ingest = enter();
    try {
      Library.check(
          Library.call(Library.INGEST_PUT_PAGE, ingest, start, records.remaining()));
    } finally {
      leave();
      Reference.reachabilityFence(records);
    }
  }

  /** Makes all records visible. Returns their number. */
  public long finish() {
    Stage stage = Stage.of(0);
    long ingest = enter();
    try {
      stage.check(Library.call(Library.INGEST_FINISH, ingest, stage.result()));
      return stage.first();
    } finally {
      leave();
    }
  }

  /** Frees the ingest. One that was not finished writes nothing. */
  @Override
  public void close() {
    free();
  }
}
