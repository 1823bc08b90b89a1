package alluvium;

import java.nio.file.Path;
import java.util.Objects;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.LockSupport;

/**
 * An open store. Any thread may use any object of a store, also at the same time. Objects may be
 * closed in any order; those that a program forgets are freed after the garbage collector has found
 * them.
 *
 * <p>Options are texts in the syntax of the command line. All methods throw {@link
 * AlluviumException}.
 */
public final class Store extends Handle implements AutoCloseable {
  /** Set by `close`, which also frees the handle. */
  private volatile boolean isClosed;

  private Store(long address) {
    super(address, Library.STORE_FREE);
  }

  /** Opens the store in a directory, and creates one if there is none. */
  public static Store open(Path path) {
    return open(path, "");
  }

  /** Opens a store with options, such as {@code "--memory 64M --durability disk"}. */
  public static Store open(Path path, String options) {
    return opened(path.toString(), options);
  }

  /** Opens a store with options that have merge operators or compaction filters. */
  public static Store open(Path path, Options options) {
    return openedWith(path.toString(), options);
  }

  /** Opens an empty store in memory. */
  public static Store inMemory(String options) {
    return opened(null, options);
  }

  /** Opens an empty store in memory with options that have merge operators or compaction filters. */
  public static Store inMemory(Options options) {
    return openedWith(null, options);
  }

  private static Store opened(String path, String options) {
    Library.require();
    byte[] where = Stage.text(path);
    byte[] text = Stage.text(options);
    Stage stage = Stage.of(Stage.length(where) + Stage.length(text));
    stage.check(
        Library.call(Library.OPEN, stage.optional(where), stage.optional(text), stage.result()));
    return new Store(stage.first());
  }

  private static Store openedWith(String path, Options options) {
    byte[] where = Stage.text(path);
    Stage stage = Stage.of(Stage.length(where));
    long given = options.enter();
    try {
      stage.check(
          Library.call(Library.OPEN_WITH, stage.optional(where), given, stage.result()));
      return new Store(stage.first());
    } finally {
      options.leave();
    }
  }

  /** Returns the version of the library. */
  public static String version() {
    Library.require();
    return Library.bridge().text(Library.call(Library.VERSION, 0));
  }

  /**
   * Closes the store. Fails with {@link Kind#IN_USE} while cursors, snapshots, transactions or
   * ingests live, and names them; the store stays open. Does nothing if the store is closed or this
   * object was released.
   */
  @Override
  public void close() {
    if (isClosed || isFreed()) {
      return;
    }
    try {
      shutDown();
    } catch (AlluviumException failure) {
      if (failure.kind() != Kind.CLOSED) {
        throw failure;
      }
    }
    isClosed = true;
    free();
  }

  /** Closes the store like {@link #close}, and fails with {@link Kind#CLOSED} if it is closed. */
  public void shutDown() {
    end(0);
  }

  /**
   * Closes the store in any case. Objects that live on answer with {@link Kind#CLOSED}. Fails with
   * {@link Kind#CLOSED} if the store is closed.
   */
  public void forceClose() {
    end(1);
  }

  private void end(int force) {
    long store = enterOpen();
    try {
      Library.check(Library.call(Library.CLOSE, store, force));
    } finally {
      leave();
    }
  }

  /**
   * Frees this object and leaves the store open for the others. With the last of them, the store is
   * closed; then nobody learns of an error.
   */
  public void release() {
    free();
  }

  private long enterOpen() {
    if (isClosed) {
      throw new AlluviumException(Kind.CLOSED, "the store was closed: open it again");
    }
    return enter();
  }

  private void call(long function) {
    long store = enterOpen();
    try {
      Library.check(Library.call(function, store));
    } finally {
      leave();
    }
  }

  private void call(long function, String text) {
    byte[] bytes = Stage.text(text);
    Stage stage = Stage.of(Stage.length(bytes));
    long store = enterOpen();
    try {
      stage.check(Library.call(function, store, stage.optional(bytes)));
    } finally {
      leave();
    }
  }

  private String report(long function) {
    Stage stage = Stage.of(0);
    long store = enterOpen();
    try {
      stage.check(Library.call(function, store, stage.result()));
      return Library.takeText(stage, stage.first());
    } finally {
      leave();
    }
  }

  /** Calls a function that takes up to two texts and returns a handle. */
  private long create(long function, String name, String options) {
    byte[] text = Stage.text(name);
    byte[] more = Stage.text(options);
    Stage stage = Stage.of(Stage.length(text) + Stage.length(more));
    long store = enterOpen();
    try {
      if (function == Library.KEYSPACE_OPEN) {
        stage.check(
            Library.call(
                function, store, stage.optional(text), stage.optional(more), stage.result()));
      } else {
        stage.check(Library.call(function, store, stage.optional(text), stage.result()));
      }
      return stage.first();
    } finally {
      leave();
    }
  }

  /** Makes everything that was written survive a power failure. */
  public void sync() {
    call(Library.SYNC);
  }

  /** Writes everything that is in memory to its place on the disk, so that the log is short. */
  public void checkpoint() {
    call(Library.CHECKPOINT);
  }

  /** Rewrites the store to free the space of deleted and replaced records. */
  public void compact() {
    call(Library.COMPACT);
  }

  /**
   * Reads the whole store. Returns a JSON object: "whole" is true if there is no damage; "findings"
   * lists the damage.
   */
  public String check() {
    return report(Library.CHECK);
  }

  /** Returns the statistics of the store: a JSON object of numbers. */
  public String stats() {
    return report(Library.STATS);
  }

  /**
   * Returns the keyspaces of the store: a JSON array of objects with "name", "structure",
   * "compression", "value_threshold", "merge_operator" and "compaction_filter".
   */
  public String keyspaces() {
    return report(Library.KEYSPACES);
  }

  /** Copies the store into an empty directory, while it is used. The copy can be opened. */
  public void backup(Path path) {
    call(Library.BACKUP, path.toString());
  }

  /** Creates a store in an empty directory from a backup, and checks it. */
  public static void restore(Path from, Path to) {
    restore(from, to, null);
  }

  /** Restores a store that has merge operators or compaction filters. */
  public static void restore(Path from, Path to, Options options) {
    Library.require();
    byte[] source = Stage.text(from.toString());
    byte[] target = Stage.text(to.toString());
    Stage stage = Stage.of((long) source.length + target.length);
    long given = Handle.enter(options);
    try {
      stage.check(Library.call(Library.RESTORE, stage.bytes(source), stage.bytes(target), given));
    } finally {
      Handle.leave(options);
    }
  }

  /**
   * Repairs a damaged store that is not open, as far as possible. Returns a JSON object: "whole" is
   * true if nothing was lost; "done", "lost" and "left" list what was repaired, what is lost, and
   * what is still damaged.
   */
  public static String repair(Path path) {
    return repair(path, null);
  }

  /** Repairs a store that has merge operators or compaction filters. */
  public static String repair(Path path, Options options) {
    Library.require();
    byte[] where = Stage.text(path.toString());
    Stage stage = Stage.of(where.length);
    long given = Handle.enter(options);
    try {
      stage.check(Library.call(Library.REPAIR, stage.bytes(where), given, stage.result()));
      return Library.takeText(stage, stage.first());
    } finally {
      Handle.leave(options);
    }
  }

  /** Returns the keyspace with this name, and creates it if it does not exist. */
  public Keyspace keyspace(String name) {
    return keyspace(name, null);
  }

  /**
   * Returns the keyspace with this name, and creates it if it does not exist, with options such as
   * {@code "--structure levels,k=4"}. An existing keyspace must have the same.
   */
  public Keyspace keyspace(String name, String options) {
    return new Keyspace(create(Library.KEYSPACE_OPEN, name, options));
  }

  /** Returns the existing keyspace with this name. */
  public Keyspace existingKeyspace(String name) {
    return new Keyspace(create(Library.KEYSPACE_EXISTING, name, null));
  }

  /** Drops a keyspace and everything in it. */
  public void dropKeyspace(String name) {
    call(Library.KEYSPACE_DROP, name);
  }

  /** Renames a keyspace. Its objects stay valid. */
  public void renameKeyspace(String from, String to) {
    byte[] source = Stage.text(from);
    byte[] target = Stage.text(to);
    Stage stage = Stage.of(Stage.length(source) + Stage.length(target));
    long store = enterOpen();
    try {
      stage.check(
          Library.call(
              Library.KEYSPACE_RENAME, store, stage.optional(source), stage.optional(target)));
    } finally {
      leave();
    }
  }

  /** Writes a batch: all of it takes effect, or nothing. The batch can be written again. */
  public void write(Batch batch) {
    long writes = batch.enter();
    try {
      long store = enterOpen();
      try {
        Library.check(Library.call(Library.WRITE, store, writes));
      } finally {
        leave();
      }
    } finally {
      batch.leave();
    }
  }

  /** Returns a snapshot of everything that was committed. */
  public Snapshot snapshot() {
    return new Snapshot(create(Library.SNAPSHOT_CREATE, null, null));
  }

  /** Returns a snapshot that the store keeps until it is removed, also when it is closed. */
  public Snapshot createSnapshot(String name) {
    Objects.requireNonNull(name, "name");
    return new Snapshot(create(Library.SNAPSHOT_CREATE, name, null));
  }

  /** Opens a named snapshot. */
  public Snapshot openSnapshot(String name) {
    return new Snapshot(create(Library.SNAPSHOT_OPEN, name, null));
  }

  /** Removes a named snapshot. Objects of it stay valid. */
  public void removeSnapshot(String name) {
    call(Library.SNAPSHOT_REMOVE, name);
  }

  /** Begins a serializable transaction. */
  public Transaction begin() {
    return begin("");
  }

  /** Begins a transaction with options, such as {@code "--isolation snapshot --locking"}. */
  public Transaction begin(String options) {
    return new Transaction(create(Library.TRANSACTION_BEGIN, options, null));
  }

  /**
   * The body of a transaction.
   *
   * @param <T> what it returns
   * @param <E> what it throws
   */
  @FunctionalInterface
  public interface Body<T, E extends Exception> {
    /** Reads and writes through the transaction, which the caller commits. */
    T run(Transaction transaction) throws E;
  }

  /** The number of times that {@link #transact} runs a body. */
  private static final int ATTEMPTS = 64;

  /**
   * Runs a body with a transaction and commits it. After a conflict or a deadlock, it runs the body
   * again, up to 64 times. If the body throws, the transaction is rolled back.
   */
  public <T, E extends Exception> T transact(String options, Body<T, E> body) throws E {
    for (int attempt = 1; ; attempt++) {
      try (Transaction transaction = begin(options)) {
        T result = body.run(transaction);
        transaction.commit();
        return result;
      } catch (ConflictException conflict) {
        if (attempt == ATTEMPTS) {
          throw conflict;
        }
      }
      long longest = 100_000L << Math.min(attempt - 1, 10);
      LockSupport.parkNanos(ThreadLocalRandom.current().nextLong(longest));
    }
  }

  /** Runs a body with a serializable transaction: see {@link #transact(String, Body)}. */
  public <T, E extends Exception> T transact(Body<T, E> body) throws E {
    return transact("", body);
  }
}
