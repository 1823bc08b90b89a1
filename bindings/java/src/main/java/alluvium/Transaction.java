package alluvium;

/**
 * Reads and writes that take effect together. {@link Store#transact} commits them, and runs them
 * again after a conflict.
 */
public final class Transaction extends Handle implements AutoCloseable {
  Transaction(long address) {
    super(address, Library.TRANSACTION_FREE);
  }

  /** Returns the value of a key as the transaction sees it, or null if it is absent. */
  public byte[] get(Keyspace keyspace, byte[] key) {
    return get(keyspace, key, Dependence.TRACKED);
  }

  /** Returns the value of a key, with a declared dependence. */
  public byte[] get(Keyspace keyspace, byte[] key, Dependence dependence) {
    Stage stage = Stage.of(key.length);
    long how = dependence.ordinal();
    long space = keyspace.enter();
    long transaction = enter();
    try {
      stage.check(
          Library.call(
              Library.TRANSACTION_GET,
              transaction,
              space,
              stage.bytes(key),
              key.length,
              how,
              stage.result()));
      return Library.take(stage, stage.first());
    } finally {
      leave();
      keyspace.leave();
    }
  }

  /** Sets the value of a key. */
  public void put(Keyspace keyspace, byte[] key, byte[] value) {
    put(keyspace, key, value, 0);
  }

  /** Sets a value that expires at a time in milliseconds since 1970, or never for 0. */
  public void put(Keyspace keyspace, byte[] key, byte[] value, long expiresMs) {
    Stage stage = Stage.of((long) key.length + value.length);
    long space = keyspace.enter();
    long transaction = enter();
    try {
      stage.check(
          Library.call(
              Library.TRANSACTION_PUT,
              transaction,
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
  }

  /** Deletes a key. */
  public void delete(Keyspace keyspace, byte[] key) {
    delete(keyspace, key, 0);
  }

  /** Deletes a key at a time in milliseconds since 1970, or now for 0. */
  public void delete(Keyspace keyspace, byte[] key, long atMs) {
    Stage stage = Stage.of(key.length);
    long space = keyspace.enter();
    long transaction = enter();
    try {
      stage.check(
          Library.call(
              Library.TRANSACTION_DELETE, transaction, space, stage.bytes(key), key.length, atMs));
    } finally {
      leave();
      keyspace.leave();
    }
  }

  /** Deletes all keys from {@code start} to before {@code end}; null is the end of the keyspace. */
  public void deleteRange(Keyspace keyspace, byte[] start, byte[] end) {
    Stage stage = Stage.of(start.length + Stage.length(end));
    long space = keyspace.enter();
    long transaction = enter();
    try {
      stage.check(
          Library.call(
              Library.TRANSACTION_DELETE_RANGE,
              transaction,
              space,
              stage.bytes(start),
              start.length,
              stage.optional(end),
              Stage.length(end)));
    } finally {
      leave();
      keyspace.leave();
    }
  }

  /** Merges an operand into the value of a key. */
  public void merge(Keyspace keyspace, byte[] key, byte[] operand) {
    Stage stage = Stage.of((long) key.length + operand.length);
    long space = keyspace.enter();
    long transaction = enter();
    try {
      stage.check(
          Library.call(
              Library.TRANSACTION_MERGE,
              transaction,
              space,
              stage.bytes(key),
              key.length,
              stage.bytes(operand),
              operand.length));
    } finally {
      leave();
      keyspace.leave();
    }
  }

  /** Makes the commit conflict if another changes any key of a range, at any isolation. */
  public void dependOnRange(Keyspace keyspace, Range range) {
    Stage stage = Stage.of(range.size());
    long space = keyspace.enter();
    long transaction = enter();
    try {
      stage.check(
          Library.call(
              Library.TRANSACTION_DEPEND_ON_RANGE, transaction, space, range.write(stage)));
    } finally {
      leave();
      keyspace.leave();
    }
  }

  /** Returns a cursor over a range as the transaction sees it. It ends with the transaction. */
  public Cursor iterate(Keyspace keyspace, Range range) {
    Stage stage = Stage.of(range.size());
    long space = keyspace.enter();
    long transaction = enter();
    try {
      stage.check(
          Library.call(
              Library.TRANSACTION_ITERATOR,
              transaction,
              space,
              range.write(stage),
              stage.result()));
      return new Cursor(stage.first(), range.isReversed());
    } finally {
      leave();
      keyspace.leave();
    }
  }

  /** Marks a place to which {@link #rollbackTo} returns. Returns its number. */
  public long savepoint() {
    Stage stage = Stage.of(0);
    long transaction = enter();
    try {
      stage.check(Library.call(Library.TRANSACTION_SAVEPOINT, transaction, stage.result()));
      return stage.first();
    } finally {
      leave();
    }
  }

  /** Takes back all writes after a savepoint, which remains. */
  public void rollbackTo(long savepoint) {
    long transaction = enter();
    try {
      Library.check(Library.call(Library.TRANSACTION_ROLLBACK_TO, transaction, savepoint));
    } finally {
      leave();
    }
  }

  /** Removes a savepoint and those after it. Their writes remain. */
  public void release(long savepoint) {
    long transaction = enter();
    try {
      Library.check(Library.call(Library.TRANSACTION_RELEASE, transaction, savepoint));
    } finally {
      leave();
    }
  }

  /** Commits the transaction. It has ended afterwards, also after an error. */
  public void commit() {
    commit(null);
  }

  /** Commits the transaction with the durability "memory", "process" or "disk". */
  public void commit(String durability) {
    byte[] text = Stage.text(durability);
    Stage stage = Stage.of(Stage.length(text));
    long transaction = enter();
    try {
      stage.check(
          Library.call(Library.TRANSACTION_COMMIT, transaction, stage.optional(text)));
    } finally {
      leave();
    }
  }

  /** Rolls the transaction back. */
  public void rollback() {
    long transaction = enter();
    try {
      Library.check(Library.call(Library.TRANSACTION_ROLLBACK, transaction));
    } finally {
      leave();
    }
  }

  /** Frees the transaction. One that is open is rolled back. */
  @Override
  public void close() {
    free();
  }
}
